"""Edits of an archive, drawn at random: see tests/hostile_archives.py for what an edit is."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile_archives import OUTSIDE, Edit

from e2c_dl.trace.model import SPAN

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3,
        250,
        2**31,
        2**63,
        -(2**63),
        2**64,
        10**400,
        0.5,
        -0.0,
        1e-320,
        1e18,
        -1e18,
        1e308,
    ),
    *(
        -1e308,
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        "x",
        "0",
        "edge-1",
        "cloud-1",
        "\x1b]52;c;eA==\x07",
        "\ud800",
    ),
    *("a\nb", "../../x", "/etc/passwd", "[red]x[/]", "x" * 5000, [], {}, [[]], [None], ["a"], [0, 0], {"a": None}),
)
TEXTS = (
    "",
    "\n",
    "{}",
    "[]",
    "null",
    "0",
    '"x"',
    "{",
    "\0",
    "\ufeff{}",
    "a,b\n1\n",
    "x\n" * 3,
    "NaN\n",
    "time_ns\n1e400\n",
)
DEEP = ("[", '{"a":', "- ")


def cases(archive: Path, draw: random.Random) -> Iterator[list[Edit]]:
    """Ever more edits, a few at once, each of one of ``archive``'s files."""
    files = sorted(path.relative_to(archive).as_posix() for path in archive.rglob("*") if path.is_file())
    while True:
        yield [_edit(archive, draw.choice(files), draw) for _ in range(draw.choice((1, 1, 1, 2, 3)))]


def _edit(archive: Path, name: str, draw: random.Random) -> Edit:
    file = archive / name
    kinds = [_bytes, _cut, _odd]
    if file.suffix in (".json", ".jsonl") and file.stat().st_size:
        kinds += [_value] * 12 + [_text]
    elif file.suffix in (".bin", ".parquet"):
        kinds += [_span] * 6
    else:
        kinds += [_text, _text]
    return {"file": name, **draw.choice(kinds)(file, draw)}


def _value(file: Path, draw: random.Random) -> Edit:
    text = file.read_text().rstrip("\n").rpartition("\n")[2] if file.suffix == ".jsonl" else file.read_text()
    at = draw.choice(list(_paths(json.loads(text))))
    return {"at": at, "gone": True} if at and draw.random() < 0.1 else {"at": at, "to": draw.choice(VALUES)}


def _paths(value: Any) -> Iterator[list[str | int]]:
    yield []
    steps = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield from ([step, *rest] for rest in _paths(value[step]))


def _span(file: Path, draw: random.Random) -> Edit:
    column = draw.choice(SPAN.names)
    bits = 8 * SPAN[column].itemsize
    signed = SPAN[column].kind == "i"
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return {
        "row": draw.randrange(40),
        "column": column,
        "to": draw.choice((least, most, 0, 1, 30, 32, draw.randint(least, most))),
    }


def _bytes(file: Path, draw: random.Random) -> Edit:
    given = draw.randbytes(draw.choice((1, 1, 2, 8)))
    return {"offset": draw.randrange(file.stat().st_size + 1), "bytes": given.hex()}


def _cut(file: Path, draw: random.Random) -> Edit:
    return {"cut": draw.randrange(file.stat().st_size + 1)}


def _text(file: Path, draw: random.Random) -> Edit:
    return {"text": draw.choice(DEEP), "times": 100_000} if draw.random() < 0.2 else {"text": draw.choice(TEXTS)}


def _odd(file: Path, draw: random.Random) -> Edit:
    what = draw.choice(("link", "link", "pipe", "folder", "nothing", "named"))
    where = {
        "link": draw.choice((f"{OUTSIDE}/kept", OUTSIDE, "/dev/zero", file.name, "nowhere")),
        "named": f"{file.name}x",
    }
    return {"is": what, **({"to": where[what]} if what in where else {})}
