"""Iterations in which a stretch of slow computing begins or ends: the pieces of their gradients that are slow already.

::

    iteration   |==F==|===B0===|===B1===|   |==F==|~~~~B0~~~~|~~~~B1~~~~|   |~~~F~~~|~~~~B0~~~~|~~~~B1~~~~|
                as designed                 begins behind its forward       slow: the stretch, as levels tell it

Levels (:mod:`.levels`) tell whole iterations: one that is slow for a part of its gradient lies between two levels, and
counts to neither. Of few long iterations that is much of what the stretch cost. Within one gradient, though, pieces are
as slow as each other but for noise; so where its later pieces are slower beside its earlier ones than they are as a
rule, it became slow in between, and where they are faster, it was slow until then. By no more than the stretch itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles
from e2c_dl.diagnosis.detection.series import CERTAINTY, FLOOR, Judged
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.trace.model import GRADIENT, RankTrace

LEAST_NORMAL = 6  # iterations as designed, which tell how even pieces are
ALMOST_ALL = 0.95  # of them: pieces that are as uneven in one of twenty tell nothing by it
HAD_ITS_PROCESSOR = 0.98  # of its time: else its pieces may be slow for what they waited
SHORTEST_S = 1e-9


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A part of one iteration, beside a stretch, in which its host was slow."""

    stretch: int  # that it is at, counted from 0
    opens: bool  # it is at the beginning of its stretch; else at its end
    iteration: int
    begin_s: float  # of its first slow piece, seconds of training
    end_s: float  # of its last
    scale: float  # times what these took that they would have, had they been as slow as the rest of their gradient
    excess_s: float  # what they took longer


def edges(rank: RankTrace, judged: Judged, design: Design, ran: Doubles | float = 1.0) -> list[Edge]:
    """Those of the stretches in which the gradients of ``rank`` depart as ``judged`` has it.

    ``ran``: share of each iteration's gradient for which it had a processor, shape (iterations,).
    """
    series, pieces = judged.levelled.series, _Pieces.of(rank, judged, design)
    if pieces is None:
        return []
    alone = np.broadcast_to(ran, int(series.iterations.max()) + 1)[series.iterations] >= HAD_ITS_PROCESSOR
    found: dict[int, Edge] = {}  # window -> the one of two that took more
    for stretch, (first, beyond) in enumerate(judged.shown):
        for window, beside, opens in ((first - 1, first, True), (beyond, beyond - 1, False)):
            if not 0 <= window < len(series) or not alone[window]:
                continue
            if abs(series.iterations[window] - series.iterations[beside]) == 1:
                edge = pieces.edge(window, judged.slowdown, stretch, opens=opens)
                if edge is not None and (window not in found or edge.excess_s > found[window].excess_s):
                    found[window] = edge
    return [*found.values()]


def with_edges(scale: Piecewise, found: Sequence[Edge]) -> Piecewise:
    """``scale``, and during each of the edges ``found`` its own."""
    starts_s = np.unique(np.concatenate([scale.starts_s, *([each.begin_s, each.end_s] for each in found)]))
    values = scale.at(starts_s)
    for each in found:
        values[(starts_s >= each.begin_s) & (starts_s < each.end_s)] = each.scale
    return Piecewise(starts_s=starts_s, values=values)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pieces:
    """Pieces of the gradients of one host: a row for each window of its series, in order of time."""

    iterations: npt.NDArray[np.int64]  # (windows,)
    begins_s: Doubles  # (windows, pieces), as all that follow
    ends_s: Doubles
    slower: Doubles  # logarithm of how many times longer each took than is usual for it
    normal: npt.NDArray[np.bool_]  # (windows,) neither in a stretch nor beside one

    @classmethod
    def of(cls, rank: RankTrace, judged: Judged, design: Design) -> _Pieces | None:
        """None: gradients have one piece, or are unlike in what they are made of, or too few are as designed."""
        iterations, departs = judged.levelled.series.iterations, judged.windows
        beside = np.append(departs[1:], False) | np.append(False, departs[:-1])
        normal = ~(departs | beside)
        if normal.sum() < LEAST_NORMAL or not (beside & ~departs).any():
            return None
        spans = rank.of(*GRADIENT)
        spans = spans[np.isin(spans["iteration"], iterations)]
        spans = spans[np.lexsort((spans["start_ns"], spans["iteration"]))]
        each, counts = np.unique(spans["iteration"], return_counts=True)
        count = int(counts[0]) if len(counts) else 0
        if count < 2 or len(each) != len(iterations) or (counts != count).any():
            return None
        rows = spans.reshape(-1, count)
        if any((rows[name] != rows[name][0]).any() for name in ("phase", "bucket")):
            return None
        begins_s, ends_s = ((rows[end] - design.began_ns) / 1e9 for end in ("start_ns", "end_ns"))
        took = np.log(np.maximum(SHORTEST_S, design.speed(rank.host).between(begins_s, ends_s)))
        return cls(
            iterations=iterations, begins_s=begins_s, ends_s=ends_s, slower=took - np.median(took[normal], axis=0),
            normal=normal,
        )  # fmt: skip

    def edge(self, window: int, slowdown: float, stretch: int, *, opens: bool) -> Edge | None:
        """The part of ``window`` in which it was slow: its last pieces, if that ``opens`` a stretch, else its first."""
        best, found = 0.0, None
        for at in range(1, self.slower.shape[1]):
            slow, others = (slice(at, None), slice(None, at)) if opens else (slice(None, at), slice(at, None))
            beyond = self.slower[:, slow].mean(axis=1) - self.slower[:, others].mean(axis=1)
            uneven = np.abs(beyond[self.normal])
            unsure = max(FLOOR, CERTAINTY * float(np.median(uneven)) / MAD_OF_NORMAL)
            least = max(unsure, best, float(np.quantile(uneven, ALMOST_ALL)))
            if least < beyond[window] <= np.log(slowdown) + unsure:
                best, scale = float(beyond[window]), float(np.exp(-beyond[window]))
                begins_s, ends_s = self.begins_s[window, slow], self.ends_s[window, slow]
                found = Edge(
                    stretch=stretch, opens=opens, iteration=int(self.iterations[window]), begin_s=float(begins_s[0]),
                    end_s=float(ends_s[-1]), scale=scale, excess_s=float((ends_s - begins_s).sum()) * (1 - scale),
                )  # fmt: skip
        return found
