"""What a change brings where ranks go at their own pace and are looked at for a while: more iterations in that time.

::

    rank 0   |--|--|--|--|--|--|        6 iterations in 1.2 s: 5 a second
    rank 1   |------|------|-----|      3 in 1.2 s: 2.5 a second     together 7.5: 9 take 1.2 s
    rank 1   |--|--|--|                 were it twice as fast: 5     together 10:  9 take 0.9 s

All of them end when one stops looking, whoever is slow, so that the last one's end says nothing. Nor does a replay
tell how long each would take for its own iterations: it keeps the order in which a server took what came, where a
faster rank would have been served earlier. So each rank's own longest path tells, of which is taken off what a change
takes off it. All ranks together would have had as many iterations as they did in the harmonic mean of what each takes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from e2c_dl.diagnosis.model import Element
from e2c_dl.diagnosis.replay.columns import Longs
from e2c_dl.diagnosis.replay.critical import CriticalPath, critical_path
from e2c_dl.diagnosis.replay.replay import Replay
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, OneLuck, WhatIf
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.trace.model import Phase, Trace

LEAST = 0.01
"""Of what a rank took: what it takes at least. What a path has before the rank began is another's."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Throughput(OneLuck):
    """A Predictor: how long all ranks together take for as many iterations as they did. Arrays are (ranks,)."""

    replay: Replay
    paths: Sequence[CriticalPath]  # to each one's end
    iterations: Longs  # that each did
    took_ns: Longs  # and how long that took it
    measured_ns: int  # from where the first began to where the last ended

    @property
    def elements(self) -> tuple[Element, ...]:
        return self.replay.elements

    @property
    def cheap(self) -> int:
        return self.replay.cheap

    @cached_property
    def replayed_ns(self) -> int:
        return self._together_ns(UNCHANGED)

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        return [self._together_ns(each) for each in whatifs]

    def most_saved_ns(self, whatif: WhatIf) -> float:
        return float("inf")  # the longest path is of one rank

    def _together_ns(self, whatif: WhatIf) -> int:
        saved_ns = np.array([path.most_saved_ns(whatif) for path in self.paths])
        took_ns = np.maximum(self.took_ns - saved_ns, LEAST * self.took_ns)
        return round(float(self.iterations.sum() / (self.iterations / took_ns).sum()))


def throughput(replay: Replay, trace: Trace, trains: Collection[int] | None = None) -> Throughput:
    """That of the run of ``trace``, which ``replay`` replays; ``trains``: of these ranks alone, of those that train."""
    places = [place for place, rank in enumerate(trace.ranks) if trains is None or rank.rank in trains]
    ranks = [trace.ranks[place] for place in places]
    intervals_ns = np.array([training_ns(rank) for rank in ranks], dtype=np.int64)
    graph = replay.graph
    ends = replay.ends[places].tolist()
    return Throughput(
        replay=replay,
        paths=[critical_path(graph.moments, graph.queue, end, replay.services) for end in ends],
        iterations=np.array([len(rank.rows(Phase.ITERATION)) for rank in ranks], dtype=np.int64),
        took_ns=intervals_ns[:, 1] - intervals_ns[:, 0],
        measured_ns=int(intervals_ns[:, 1].max() - intervals_ns[:, 0].min()),
    )
