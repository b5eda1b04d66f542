"""Rows about links and bottlenecks at rest: ``links.json`` and ``bottlenecks.json``, of the run and of each host.

::

    {"format": 2, "rows": [...]}     a row: emulation.measuring.fidelity
    [...]                            format 1: what a row now calls requested was called asked

Rows stay mappings here: their values judge themselves by what emulation expects of a link, which is above this room,
and the program that measures on a host imports them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from e2c_dl.archive import codec

FORMAT = 2

Row = Mapping[str, Any]


class Rows(Struct, frozen=True):
    """The content of one file."""

    format: int
    rows: list[dict[str, Any]]


def write(file: Path, rows: Sequence[Row]) -> None:
    """``file`` holds ``rows``. Raises: ArchiveError."""
    codec.write(file, Rows(FORMAT, [dict(row) for row in rows]))


def read(file: Path) -> tuple[Row, ...]:
    """The rows in ``file``, none if there is no such file. Raises: ArchiveError for a damaged one."""
    if not file.is_file():
        return ()
    content: object = codec.read(file, Rows | list[dict[str, Any]])  # type: ignore[arg-type]
    if isinstance(content, list):
        return tuple({key.replace("asked", "requested"): value for key, value in row.items()} for row in content)
    assert isinstance(content, Rows)
    return tuple(content.rows)
