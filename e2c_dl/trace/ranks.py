"""One rank of a trace: its spans, with what its host left beside them, clock.json and outcome.json.

What of these two is damaged costs no more than what it says: a clock that cannot be read is that which the table was
written with, else not known; a worker whose outcome cannot be read is not said to have finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from e2c_dl import codec
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError
from e2c_dl.trace import columns, places
from e2c_dl.trace.check import ParquetFacts, SpansFacts
from e2c_dl.trace.clocks.clock import read_alignment
from e2c_dl.trace.model import ClockAlignment, Phase, RankTrace, Spans
from e2c_dl.trace.places import Recorded

FINISHED = "finished"


class _Outcome(msgspec.Struct):
    """Of a worker's outcome, what is asked here."""

    status: str


@dataclass(frozen=True, kw_only=True)
class OwnTrace:
    """``rank``, whether its clock is known, and why files of it cannot be read."""

    rank: RankTrace
    aligned: bool
    problems: tuple[str, ...]


def rank_of(own: Recorded, facts: SpansFacts, spans: Spans, complete: bool) -> OwnTrace:
    """The rank that recorded ``spans`` (own clock, which are changed), on the reference clock."""
    problems = []
    try:
        clock = read_clock(own.folder)
    except ArchiveError as error:
        clock = _clock_of_table(facts)
        problems.append(str(error))
    aligned = clock or ClockAlignment()
    for name in columns.TIMES:
        spans[name] = aligned.align(spans[name])
    try:
        finished = _finished(own.folder / places.OUTCOME)
    except ArchiveError as error:
        finished = False
        problems.append(str(error))
    ended = complete and bool(np.any(spans["phase"] == Phase.TRAINING))  # somebody may have cut the table
    rank = RankTrace(
        rank=facts.rank, host=facts.host, layer=facts.layer, spans=spans, clock=aligned, complete=ended and finished,
        lost=facts.lost,
    )  # fmt: skip
    return OwnTrace(rank=rank, aligned=clock is not None, problems=tuple(problems))


def read_clock(folder: Path | Place) -> ClockAlignment | None:
    """The alignment that the host of ``folder`` left, None if there is no file. Raises: ArchiveError."""
    place = (folder if isinstance(folder, Place) else Place(folder)) / places.CLOCK
    return read_alignment(place) if place.exists() else None


def _clock_of_table(facts: SpansFacts) -> ClockAlignment | None:
    clock = facts.clock if isinstance(facts, ParquetFacts) else None
    return clock if clock is not None and clock.problem() is None else None


def _finished(place: Place) -> bool:
    """Whether the worker said that it finished; one that died says nothing. Raises: ArchiveError."""
    if not place.exists():
        return False
    return codec.decode(codec.finite(codec.read_text(place)), _Outcome, str(place)).status == FINISHED
