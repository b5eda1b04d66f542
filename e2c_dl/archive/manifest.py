"""Checksums of an archive's files, in the format that ``sha256sum --check manifest-sha256.txt`` reads.

One line a file: 64 hexadecimal digits, two spaces, the path from the archive's root. As in GNU coreutils, a path with a
backslash or a line break is escaped, and its line then begins with a backslash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from e2c_dl import codec
from e2c_dl.archive import layout
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))  # the backslash first, else it would escape the others'
CHUNK_BYTES = 1 << 20  # traces need not fit into memory


def files(root: Path) -> Iterator[str]:
    """Every file below ``root`` but the manifest, as paths with ``/`` from ``root``, sorted; links are not followed."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [Path(folder, name).relative_to(root).as_posix() for name in [*names, *linked]]
    return iter(sorted(name for name in found if name != layout.MANIFEST))


def checksum(place: Place) -> str:
    """SHA-256 of a file's content, in hexadecimal. Raises: ArchiveError."""
    digest = hashlib.sha256()
    with place.opened() as file:
        try:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
        except OSError as error:
            raise ArchiveError(f"{place}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def render(checksums: Mapping[str, str]) -> str:
    """The manifest's text, lines sorted by path."""
    return "".join(_line(path, checksums[path]) for path in sorted(checksums))


def parse(text: str) -> dict[str, str]:
    """Path -> checksum. Raises: ArchiveError for a line that is none of sha256sum's."""
    checksums: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would cut paths at other breaks
        if not line:
            continue
        escaped = line.startswith("\\")
        digest, gap, path = line[escaped:].partition("  ")
        if not gap or len(digest) != 64 or not path:
            raise ArchiveError(f"{layout.MANIFEST}: line {number} is not 'checksum  path'; the archive is damaged")
        checksums[_unescape(path) if escaped else path] = digest
    return checksums


def read(root: Path) -> dict[str, str]:
    """The manifest of the archive at ``root``. Raises: ArchiveError if there is none or it is damaged."""
    place = Place(root) / layout.MANIFEST
    if not place.exists():
        raise ArchiveError(
            f"{place}: missing; the run was not sealed, so nothing vouches for its files: "
            "`e2c-dl verify --seal` closes it"
        )
    return parse(place.read().decode("utf-8", "surrogateescape"))  # names need not be UTF-8


def write(root: Path, checksums: Mapping[str, str]) -> None:
    """The manifest of ``root`` holds ``checksums``, replaced in one step. Raises: ArchiveError."""
    codec.put(Place(root) / layout.MANIFEST, render(checksums).encode("utf-8", "surrogateescape"))


def checksums(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Path -> checksum of the files ``names`` below ``root``. Raises: ArchiveError for one that cannot be read."""
    return {name: checksum(Place(root) / name) for name in names}


def _line(path: str, digest: str) -> str:
    escaped = path
    for plain, code in ESCAPES:
        escaped = escaped.replace(plain, code)
    return f"{chr(92) if escaped != path else ''}{digest}  {escaped}\n"


def _unescape(path: str) -> str:
    """Read left to right, so that an escaped backslash before an ``n`` stays a backslash and an ``n``."""
    plain = {code[1]: char for char, code in ESCAPES}
    pieces = iter(path)
    return "".join(plain.get(following := next(pieces, ""), following) if c == "\\" else c for c in pieces)
