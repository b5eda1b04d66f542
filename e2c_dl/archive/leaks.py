"""Search of an archive's files for the run's secrets (keys, tokens), the last thing before it is closed.

A secret of several lines (a private key) counts as found when any of its long lines is, so that one that was indented,
or whose line ends were changed, is found too. What is compressed or encoded cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from e2c_dl.errors import ArchiveError

SHORTEST_BYTES = 8  # fewer stand in many a file by accident
LONG_LINE_BYTES = 40
CHUNK_BYTES = 1 << 20  # traces need not fit into memory


def refuse(root: Path, names: Iterable[str], secrets: Sequence[bytes]) -> None:
    """Nothing, if no file of ``names`` below ``root`` holds a secret. Raises: ArchiveError naming the first that does.

    Also raised for a secret of fewer than 8 bytes, which would be found by accident.
    """
    needles = [needle for secret in secrets for needle in _needles(secret)]
    if not needles:
        return
    for name in names:
        if _holds(root / name, needles):
            raise ArchiveError(f"{root / name}: holds a secret of the run (a key or token); remove it, then seal again")


def _needles(secret: bytes) -> tuple[bytes, ...]:
    stripped = secret.strip()
    if len(stripped) < SHORTEST_BYTES:
        raise ArchiveError(f"a secret of {len(stripped)} bytes cannot be searched for; use at least {SHORTEST_BYTES}")
    lines = [line.strip() for line in stripped.splitlines()]
    # "-----BEGIN ..." is the same in every key, and so no secret.
    long = tuple(line for line in lines if len(line) >= LONG_LINE_BYTES and not line.startswith(b"-----"))
    return long if len(lines) > 1 and long else (stripped,)


def _holds(path: Path, needles: Sequence[bytes]) -> bool:
    overlap = max(len(needle) for needle in needles) - 1
    tail = b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                window = tail + chunk
                if any(needle in window for needle in needles):
                    return True
                tail = window[-overlap:]  # a secret may lie across two chunks
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be searched for secrets: {error.strerror}") from error
    return False
