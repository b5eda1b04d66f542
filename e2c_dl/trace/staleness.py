"""Staleness of updates: how many others were applied between the reading of parameters and what came of them.

::

    server   |apply 0|apply 2|pull of 1|apply 0|apply 2|apply 0|apply 1: 3 updates stale

Strategies tell it of each update that they apply at ranks' own pace (``Worker.apply``): a REDUCE span whose ``src`` is
the rank that computed the update.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from e2c_dl.trace.model import Phase, Spans, Trace


@dataclass(frozen=True, kw_only=True)
class Staleness:
    """Of the updates that ``host`` computed, wherever they were applied."""

    host: str
    updates: int
    median: float
    most: int


def applied(trace: Trace) -> Spans:
    """The spans that apply an update of which it is known whose it is, of all ranks."""
    reducing = [(rank.spans, rank.rows(Phase.REDUCE)) for rank in trace.ranks]
    parts = [np.take(spans, rows[spans["src"][rows] >= 0]) for spans, rows in reducing]
    return np.concatenate(parts) if parts else np.empty(0)


def staleness(trace: Trace) -> tuple[Staleness, ...]:
    """One per rank that has computed such an update, in rank order; none of a synchronous strategy."""
    updates, found = applied(trace), []
    for rank in trace.ranks:
        own = updates["staleness"][updates["src"] == rank.rank]
        if len(own):
            found.append(Staleness(host=rank.host, updates=len(own), median=float(np.median(own)), most=int(own.max())))
    return tuple(found)
