"""Secrets taken out of an archive's files, before it is reported and sealed.

Text that others' programs left (logs, what workers told and the workflow fetched) and the scenario are written anew,
with REDACTED in place of what is known to be secret, and, but for the scenario, of what looks like it. Of this
program's own records the texts are, never the keys: of what ranks say of themselves, exceptions of the user's program
among it, also what looks like a secret. A file that was fetched, or that a traced script has written, is left out if it
is no text and holds a secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from e2c_dl.archive import layout, manifest
from e2c_dl.beneath import LARGE_BYTES, SMALL_BYTES, Place
from e2c_dl.redaction import Redactor, in_texts, without_found

LOGS = (f"{layout.LOGS}/", f"{layout.FETCHED}/")
"""Where others' programs tell what they like."""

_SAID = (f"/{layout.TRACING}", f"/{layout.OUTCOME}")  # with what others' programs raised

CONSOLE = f"{layout.LOGS}/{layout.CONSOLE_LOG}"
_HEAD_BYTES = 8192


def redact(root: Path, redactor: Redactor) -> tuple[str, ...]:
    """Sentences about files that had to be left out; all others in ``root`` hold no secret. Raises: ArchiveError."""
    return tuple(
        f"{name} held a secret and is no text, or too large a one to be rewritten: it was left out of the archive"
        for name in _names(root)
        if not _redacted(root, name, redactor)
    )


def redacted(data: bytes, redactor: Redactor, *, log: bool) -> bytes | None:
    """``data`` of a file without secrets; None if it is no text and holds one."""
    if b"\0" in data[:_HEAD_BYTES]:
        return None if redactor.holds(data) else data
    known = redactor.text(data.decode("utf-8", "surrogateescape"))  # first: of what looks like one, a part may be seen
    return (without_found(known) if log else known).encode("utf-8", "surrogateescape")


def _names(root: Path) -> Sequence[str]:
    return [name for name in manifest.files(root) if (Place(root) / name).is_plain()]


def _redacted(root: Path, name: str, redactor: Redactor) -> bool:
    """Whether the file ``name`` may stay; it holds no secret then."""
    place = Place(root) / name
    # the console's log is written still, and was told nothing secret
    log = name.endswith(f"/{layout.WORKER_LOG}") or (name.startswith(LOGS) and name != CONSOLE)
    text = log or (bool(redactor) and name.startswith(f"{layout.SCENARIO}/"))
    said = name.endswith(_SAID)
    if not (text or said or (redactor and (name.endswith(".json") or _is_of_script(name)))):
        return True
    if place.path.stat().st_size > (LARGE_BYTES if text else SMALL_BYTES):  # a script's own trace is no record
        return _kept_whole(place, redactor)
    data = place.read(LARGE_BYTES)
    if text:
        clean = redacted(data, redactor, log=log)
    elif said:
        clean = _of_record(data, lambda text: without_found(redactor.text(text)))
    else:
        clean = _of_record(data, redactor.text) if redactor.holds(data) else data
        if _is_of_script(name) and redactor.holds(clean):  # it is no JSON, or breaks off
            clean = redacted(clean, redactor, log=False)
    if clean is None:
        place.path.unlink()
        return False
    if clean != data:
        with place.replaced() as file:
            file.write(clean)
    return True


def _is_of_script(name: str) -> bool:
    """Whether a traced script itself has written it."""
    folder, _, file = name.rpartition("/")
    return folder.startswith((f"{layout.HOSTS}/", f"{layout.ATTEMPTS}/")) and file not in layout.HOST_RECORDS


def _of_record(data: bytes, without: Callable[[str], str]) -> bytes:
    """``data`` of a record ``without`` secrets; as it is, if it holds none, or cannot be read: its reader says so."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return data
    clean = in_texts(said, without)
    return data if clean == said else json.dumps(clean, indent=1).encode()


def _kept_whole(place: Place, redactor: Redactor) -> bool:
    """Whether what is too large to be rewritten holds no secret; else it is removed."""
    tail = b""
    with place.opened() as file:
        while chunk := file.read(manifest.CHUNK_BYTES):
            if redactor.holds(tail + chunk):
                place.path.unlink()
                return False
            tail = chunk[-_HEAD_BYTES:]  # a secret may lie across two chunks
    return True
