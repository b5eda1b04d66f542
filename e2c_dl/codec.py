"""JSON to frozen records and back: the one decoder of what stands in a run directory; errors name file and key.

Types are checked strictly (a number is no text); keys that a record does not know are left to later versions.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from e2c_dl import typed
from e2c_dl.beneath import SMALL_BYTES, Place, placed
from e2c_dl.errors import ArchiveError, E2cDlError

T = TypeVar("T")

DAMAGED = "the archive is damaged"
ALTERED = "`e2c-dl verify` names a file that was altered since the run: take it from a copy"
"""What to do where a part of an archive cannot be read."""
_NOT_JSON = re.compile(r": (?:NaN|-?Infinity)(?=[,}\n])")
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
        return typed.decode(text, kind)
    except msgspec.ValidationError as wrong:
        raise error(f"{where}: {_said(wrong, kind)}; {remedy}") from wrong
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:  # JSON nested too deeply recurses
        raise error(f"{where}: is not valid JSON ({wrong}); {remedy}") from wrong


def convert(value: Any, kind: type[T], where: str, *, error: type[E2cDlError] = ArchiveError, remedy: str) -> T:
    """The record of ``kind`` that ``value`` (parsed JSON) holds. Raises: ``error``, one line."""
    try:
        return typed.convert(value, kind)
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


def finite(text: str) -> str:
    """``text`` of format 1, in which a training that diverged has NaN where JSON knows no number, as today's has it."""
    return _NOT_JSON.sub(": null", text)


def text_of(content: bytes, where: object) -> str:
    """The text that ``content`` is. Raises: ArchiveError."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{where}: is not text; {DAMAGED}") from error


def read_text(file: Path | Place, most_bytes: int = SMALL_BYTES) -> str:
    """The text of ``file``. Raises: ArchiveError."""
    return text_of(placed(file).read(most_bytes), file)


def read(file: Path | Place, kind: type[T], newest: int | None = None, most_bytes: int = SMALL_BYTES) -> T:
    """The record in ``file``, whose format is at most ``newest``. Raises: ArchiveError, one line."""
    content = placed(file).read(most_bytes)
    if newest is not None:
        check_format(content, newest, str(file))
    return decode(content, kind, str(file))


class _Formatted(msgspec.Struct):
    format: Any = None


def check_format(content: str | bytes, newest: int, where: str) -> None:
    """Nothing, unless ``content`` says that it is of a format after ``newest``. Raises: ArchiveError.

    Asked before it is decoded: a record of another format would only be called damaged.
    """
    try:
        found = typed.decode(content, _Formatted).format
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return  # whoever decodes it says what is wrong
    if isinstance(found, int) and found > newest:
        raise ArchiveError(f"{where}: format {found!r:.20}, this program reads {newest}; use its version")


def write(file: Path | Place, record: Any) -> None:
    """``file`` holds ``record``, replaced in one step. Raises: ArchiveError."""
    put(file, encode(record))


def put(file: Path | Place, content: bytes) -> None:
    """``file`` holds ``content``, replaced in one step, never written through a link. Raises: ArchiveError."""
    try:
        with placed(file).replaced() as place:
            place.write(content)
    except OSError as error:
        raise ArchiveError(f"{file}: cannot be written: {error.strerror}; make room there") from error
