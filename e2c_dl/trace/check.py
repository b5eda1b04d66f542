"""Spans that anybody may have written, checked: what comes out can be computed with, whatever went in."""

from __future__ import annotations

import msgspec
import numpy as np

from e2c_dl import codec
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.model import MOST_NS, MOST_S, NOTHING_LOST, ClockAlignment, Lost, Phase, Spans

MOST_BYTES = 1 << 40  # of one message
MOST_MESSAGES = 1 << 32  # of one link
MOST_WAITED_US = int(MOST_S * 1e6)  # for a processor, in one iteration

_PHASES = np.array(sorted(Phase))
_TIMES = ("posted_ns", "start_ns", "end_ns")


class SpansFacts(msgspec.Struct, frozen=True):
    """Whose spans they are."""

    rank: int
    host: str
    layer: str
    lost: Lost = NOTHING_LOST


class RawFacts(SpansFacts, frozen=True, kw_only=True):
    """The header of a spans.bin of version 1."""

    dtype: list[tuple[str, str]]


class ParquetFacts(SpansFacts, frozen=True, kw_only=True):
    """The metadata of a table of spans."""

    complete: bool
    version: int = 1
    clock: ClockAlignment | None = None
    origin_ns: int | None = None  # when training began, on the reference clock


def check(spans: Spans, facts: SpansFacts, where: str) -> None:
    """Nothing, if all ``spans`` may be of a run. Raises: ArchiveError, one line that names the first that is not."""
    if not 0 <= facts.rank <= np.iinfo(np.int16).max:
        raise ArchiveError(f"{where}: rank {facts.rank} is none; {codec.DAMAGED}")
    wrong = {
        "phase": ~np.isin(spans["phase"], _PHASES),
        "nbytes": (spans["nbytes"] < 0) | (spans["nbytes"] > MOST_BYTES),
    }
    wrong |= {name: (spans[name] > MOST_NS) | (spans[name] < -MOST_NS) for name in _TIMES}
    wrong |= {name: spans[name] < -1 for name in ("seq", "iteration", "src", "dst")}
    wrong["seq"] |= spans["seq"] > np.where(spans["phase"] == Phase.ITERATION, MOST_WAITED_US, MOST_MESSAGES - 1)
    for name, each in wrong.items():
        if each.any():
            row = int(each.argmax())
            raise ArchiveError(f"{where}: span {row}: {name} {spans[name][row]} is none; {codec.DAMAGED}")
