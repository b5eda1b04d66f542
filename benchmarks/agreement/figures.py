"""From two traces of one scenario to how far they agree."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from e2c_dl.trace.model import Phase, Trace

BLOCK = 4
"""Iterations that are averaged: a strategy may communicate in every second or fourth only."""

MOST_BUSY = 0.6
"""With more of the machine's processors in use, the live run measures the machine and is void."""


def iteration_s(trace: Trace) -> float:
    """Seconds per iteration: the median over ranks and blocks of BLOCK iterations; the first block is left out."""
    blocks: list[float] = []
    for rank in trace.ranks:
        spans = rank.spans[rank.spans["phase"] == Phase.ITERATION]
        lengths = (spans["end_ns"] - spans["start_ns"])[BLOCK:]
        whole = lengths[: len(lengths) // BLOCK * BLOCK].reshape(-1, BLOCK)
        blocks += [float(mean) / 1e9 for mean in np.mean(whole, axis=1)]
    return statistics.median(blocks)


def compute_s(trace: Trace) -> float:
    """Seconds that the quickest rank computes gradients, per iteration."""
    computing = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD)
    return min(
        float(np.sum((own["end_ns"] - own["start_ns"])[np.isin(own["phase"], computing)]))
        / 1e9
        / max(1, int(np.sum(own["phase"] == Phase.ITERATION)))
        for own in (rank.spans for rank in trace.ranks)
    )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One scenario in both worlds."""

    network: str
    strategy: str
    live_s: float
    virtual_s: float
    busy: float  # share of the machine's processors in use during the live run
    compute_s: float  # of the quickest rank, per iteration, live

    @property
    def error(self) -> float:
        """How much longer the virtual iteration is than the live one, as a fraction of the live one."""
        return self.virtual_s / self.live_s - 1

    @property
    def void(self) -> bool:
        return self.busy > MOST_BUSY
