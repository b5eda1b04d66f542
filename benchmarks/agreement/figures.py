"""From two traces of one scenario to how far they agree."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from e2c_dl.trace.model import Phase, Trace

MOST_BUSY = 0.6
"""With more of the machine's processors in use, the live run measures the machine and is void."""


def iteration_s(trace: Trace, warm_up: int) -> float:
    """Seconds per iteration, the mean over iterations after the first ``warm_up``, and over ranks.

    A mean, for what an iteration takes may depend on what is due in it, and on whom it meets: of times that come in two
    kinds, a median says what neither takes.
    """
    iterations = [rank.spans[rank.spans["phase"] == Phase.ITERATION] for rank in trace.ranks]
    return statistics.mean(
        float(own["end_ns"][-1] - own["start_ns"][warm_up]) / 1e9 / (len(own) - warm_up) for own in iterations
    )


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

    kind: str
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
