"""Lines of a timeline as columns: what holds between bounds, in steps where there is too much; and what is single.

::

    bounds  0    2     5  6      9      ticks, as differences
    codes    A     B    ~    A   |      ~: a step of several kinds, whose shares stand apart; |: the line's end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.shown.activity import Rows, Seconds
from e2c_dl.report.page.packed import Columns, lengths, ticks

MIXED = 254  # code of a step of which several kinds have a share
LAST = 255  # code after a line's end
WHOLE = 255  # of a share
PURE = 1 - 1e-6  # share from which a step is of one kind


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """What holds between ``bounds_s``: codes (k,), MIXED where ``shares`` (as many rows, a column per kind) tell."""

    bounds_s: Seconds  # (k + 1,)
    codes: npt.NDArray[np.uint8]
    shares: npt.NDArray[np.float64]


def unmixed(kinds: int) -> npt.NDArray[np.float64]:
    """The shares of a line without mixed steps."""
    return np.empty((0, kinds))


def stepped(line: Line, kinds: int, edges_s: Seconds, exact: Sequence[tuple[float, float]] = ()) -> Line:
    """``line`` between ``edges_s``, each step with the share that each of its ``kinds`` has; as it is in ``exact``."""
    order = np.arange(kinds)
    so_far = np.zeros((len(line.bounds_s), kinds))
    np.cumsum((line.codes[:, None] == order) * np.diff(line.bounds_s)[:, None], axis=0, out=so_far[1:])
    begin_s, end_s = line.bounds_s[0], line.bounds_s[-1]
    inside = [line.bounds_s[(line.bounds_s >= low) & (line.bounds_s <= high)] for low, high in exact]
    ends = [np.array([begin_s, end_s]), np.array(exact, dtype=np.float64).ravel()]
    knots = np.unique(np.clip(np.concatenate([edges_s, *ends, *inside]), begin_s, end_s))
    spent = np.stack([np.diff(np.interp(knots, line.bounds_s, so_far[:, kind])) for kind in order], axis=1)
    shares = spent / np.diff(knots)[:, None]
    codes = np.where(shares.max(axis=1) >= PURE, shares.argmax(axis=1), MIXED).astype(np.uint8)
    kept = np.flatnonzero((np.diff(codes, prepend=LAST) != 0) | (codes == MIXED))  # equal neighbours are one
    return Line(
        bounds_s=np.append(knots[kept], knots[-1]), codes=codes[kept], shares=shares[kept][codes[kept] == MIXED]
    )


def _first(parts: Sequence[Any]) -> npt.NDArray[np.uint32]:
    """Where each of ``parts`` begins when all stand one after another, and where the last ends."""
    return np.cumsum([0, *map(len, parts)]).astype(np.uint32)


def columns_of_lines(name: str, lines: Sequence[Line], tick: float) -> Columns:
    """``lines``, one after another, as columns whose names begin with ``name``."""
    bounds = [line.bounds_s for line in lines]
    codes = [np.append(line.codes, np.uint8(LAST)) for line in lines]
    shares = [
        np.rint(line.shares[:, :-1] * WHOLE).astype(np.uint8).ravel() for line in lines
    ]  # the last is what is left
    return {
        f"{name}_first": _first(bounds), f"{name}_bounds": ticks(_joined(bounds), tick),
        f"{name}_codes": _joined(codes, np.uint8), f"{name}_shares": _joined(shares, np.uint8),
    }  # fmt: skip


def columns_of_messages(links: Sequence[Rows], tick: float) -> Columns:
    """Messages, link by link."""
    return {
        **columns_of_spans("m", links, tick),
        "m_bucket": _column(links, "bucket", np.int16),
        "m_bytes": _column(links, "nbytes", np.float64),
    }


def columns_of_pieces(name: str, lanes: Sequence[Rows], tick: float) -> Columns:
    """Computations or collectives, worker by worker, as columns whose names begin with ``name``."""
    return {
        **columns_of_spans(name, lanes, tick),
        f"{name}_bucket": _column(lanes, "bucket", np.int16),
        f"{name}_phase": _column(lanes, "phase", np.uint8),
    }


def columns_of_spans(name: str, parts: Sequence[Rows], tick: float) -> Columns:
    """Where each part begins, and of all its rows start, length and iteration, differences where they are small."""
    start_s, end_s = _column(parts, "start_s", np.float64), _column(parts, "end_s", np.float64)
    return {
        f"{name}_first": _first(parts), f"{name}_start": ticks(start_s, tick),
        f"{name}_length": lengths(start_s, end_s, tick),
        f"{name}_iteration": np.diff(_column(parts, "iteration", np.int32), prepend=np.int32(0)),
    }  # fmt: skip


def columns_of_steps(begin_s: Seconds, end_s: Seconds, tick: float) -> Columns:
    """Steps of the critical path, in order of time."""
    return {"c_start": ticks(begin_s, tick), "c_length": lengths(begin_s, end_s, tick)}


def _column(parts: Sequence[Rows], name: str, kind: Any) -> npt.NDArray[Any]:
    return _joined([rows[name] for rows in parts], kind)


def _joined(parts: Sequence[npt.NDArray[Any]], kind: Any = np.float64) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=kind), *parts]).astype(kind)
