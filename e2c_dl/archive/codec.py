"""JSON to frozen records and back: the one decoder of what stands in a run directory; errors name file and key.

Types are checked strictly (a number is no text); keys that a record does not know are left to later versions.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from e2c_dl.atomic_write import replacing, written
from e2c_dl.errors import ArchiveError, E2cDlError

T = TypeVar("T")

DAMAGED = "the archive is damaged"
_NO_MEMBER = re.compile(r"Invalid enum value (.+) - at `\$\.(\w+)`")


def decode(
    text: str | bytes, kind: type[T], where: str, *, error: type[E2cDlError] = ArchiveError, remedy: str = DAMAGED
) -> T:
    """The record of ``kind`` that ``text`` holds. Raises: ``error``, one line with ``where``, key and ``remedy``.

    >>> decode('[1, "2"]', list[int], "a.json")
    Traceback (most recent call last):
    e2c_dl.errors.ArchiveError: a.json: Expected `int`, got `str` - at `$[1]`; the archive is damaged
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as wrong:
        raise error(f"{where}: {_said(wrong, kind)}; {remedy}") from wrong
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:  # JSON nested too deeply recurses
        raise error(f"{where}: is not valid JSON ({wrong}); {remedy}") from wrong


def convert(value: Any, kind: type[T], where: str, *, error: type[E2cDlError] = ArchiveError, remedy: str) -> T:
    """The record of ``kind`` that ``value`` (parsed JSON) holds. Raises: ``error``, one line."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as wrong:
        raise error(f"{where}: {_said(wrong, kind)}; {remedy}") from wrong
    except UnicodeEncodeError as wrong:  # half a character, which JSON can spell
        raise error(f"{where}: holds text that is none ({wrong.reason}); {remedy}") from wrong


def _said(wrong: msgspec.ValidationError, kind: type[Any]) -> str:
    """``wrong`` in words, with what may stand there where that is a closed set, which msgspec leaves out."""
    found = _NO_MEMBER.fullmatch(str(wrong))
    closed = get_type_hints(kind).get(found[2]) if found else None
    if found is None or not (isinstance(closed, type) and issubclass(closed, Enum)):
        return str(wrong)
    return f"{found[2]} {found[1]} must be one of {', '.join(str(each.value) for each in closed)}"


def encode(record: Any) -> bytes:
    """``record`` as indented JSON with a line break at its end."""
    return msgspec.json.format(LINES.encode(record), indent=1) + b"\n"


def _plain(value: Any) -> Any:
    """``value`` for msgspec, which takes the types themselves only: not torch's version, nor NumPy's floats."""
    for kind in (str, float, int):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} cannot stand in a record")


LINES = msgspec.json.Encoder(enc_hook=_plain)
"""Encodes a record in one line."""


def read_text(file: Path) -> str:
    """The text of ``file``. Raises: ArchiveError."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ArchiveError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{file}: is not text; {DAMAGED}") from error


def read(file: Path, kind: type[T]) -> T:
    """The record in ``file``. Raises: ArchiveError if it cannot be read or is damaged."""
    return decode(read_text(file), kind, str(file))


def write(file: Path, record: Any) -> None:
    """``file`` holds ``record``, replaced in one step. Raises: ArchiveError."""
    put(file, encode(record))


def put(file: Path, content: bytes) -> None:
    """``file`` holds ``content``, replaced in one step, never written through a link. Raises: ArchiveError."""
    with written(file, how=replacing) as place:
        place.write_bytes(content)
