"""Verification that an archive is what it was when it was sealed: every departure in one sentence.

Checked: every file against its checksum, files that came or went, run.json and the RO-Crate metadata as JSON. It says
nothing of whether a run succeeded: a sealed archive of a failed run verifies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from e2c_dl import formatting
from e2c_dl.archive import layout, manifest
from e2c_dl.archive.run import read_run
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError, NoArchive

SOON_READ_BYTES = 1 << 20  # of a file
MOST_NAMED = 6


def verify(path: Path) -> tuple[str, ...]:
    """What is wrong with the archive at ``path``, one sentence each, sorted by file; empty if nothing.

    Raises: NoArchive if ``path`` is no archive at all.
    """
    if not path.is_dir():
        raise NoArchive(f"{path}: is not a directory; name the directory that a run printed")
    problems = []
    try:
        read_run(path)
    except ArchiveError as error:
        problems.append(str(error))
    problems += _crate_problems(path)
    try:
        expected = manifest.read(path)
    except ArchiveError as error:
        return (*problems, str(error))
    return (*problems, *_file_problems(path, expected))


def altered(path: Path) -> str:
    """What of the sealed archive at ``path`` is gone, and which small files are not as they were; "": all is as it was.

    Large ones, which traces are, take long to read: ``verify`` does. A report that is gone is made anew.
    Raises: ArchiveError for a damaged manifest.
    """
    if not (Place(path) / layout.MANIFEST).exists():
        return ""
    places = {name: (Place(path) / name, digest) for name, digest in manifest.read(path).items()}
    gone = [
        name for name, (place, _) in places.items()
        if not place.exists() and name not in (layout.REPORT_JSON, layout.REPORT_HTML)
    ]  # fmt: skip
    changed = [
        name for name, (place, digest) in places.items()
        if place.is_plain() and place.path.stat().st_size <= SOON_READ_BYTES and _problem(place, name, digest)
    ]  # fmt: skip
    told = {"gone": gone, "altered": changed}
    said = "; ".join(f"{what}: {_some(names)}" for what, names in told.items() if names)
    return f"Since the archive was sealed, {said}. What is left was believed; see `e2c-dl verify`." if said else ""


def _some(names: Sequence[str]) -> str:
    shown = (formatting.visible(name) for name in names[:MOST_NAMED])  # a damaged manifest may name anything
    return ", ".join([*shown, *([f"and {len(names) - MOST_NAMED} more"] if names[MOST_NAMED:] else [])])


def _crate_problems(path: Path) -> list[str]:
    """Sentences about the metadata: missing, not JSON, no graph, or describing files that are not there."""
    file = Place(path) / layout.CRATE
    if not file.exists():
        return [f"{layout.CRATE}: missing"]
    try:
        graph = json.loads(file.read())["@graph"]
        kinds = {str(entity["@id"]): entity.get("@type") for entity in graph}
    except ArchiveError as error:
        return [str(error)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # JSON of any shape
        return [f"{layout.CRATE}: is not RO-Crate metadata ({type(error).__name__}: {error})"]
    problems = [f"{layout.CRATE}: has no {entity!r}" for entity in ("./", layout.CRATE) if entity not in kinds]
    described = [unquote(name) for name, kind in kinds.items() if kind == "File"]  # RO-Crate writes paths as URLs
    present = frozenset((*manifest.files(path), layout.MANIFEST))
    return problems + [f"{layout.CRATE}: describes {name}, missing" for name in described if name not in present]


def _file_problems(path: Path, expected: dict[str, str]) -> list[str]:
    problems: dict[str, str] = {}
    present = frozenset(manifest.files(path))
    for name in present - expected.keys():
        problems[name] = f"{name}: was not there when the archive was sealed"
    for name, digest in expected.items():
        if name not in present:
            problems[name] = f"{name}: missing"
        elif problem := _problem(Place(path) / name, name, digest):
            problems[name] = problem
    return [problems[name] for name in sorted(problems)]


def _problem(place: Place, name: str, digest: str) -> str:
    """Why what stands at ``place`` is not the file ``name`` that was sealed; "": it is."""
    if not place.is_plain():
        return f"{name}: is a link or no plain file any more"
    try:
        return "" if manifest.checksum(place) == digest else f"{name}: was altered since the archive was sealed"
    except ArchiveError as error:
        return str(error)
