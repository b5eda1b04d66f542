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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles
from e2c_dl.diagnosis.detection.series import CERTAINTY, FLOOR, Judged
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.trace.model import GRADIENT, RankTrace

LEAST_NORMAL = 6  # iterations as designed, which tell how even pieces are


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A part of one iteration, beside a stretch, in which its host was slow."""

    iteration: int
    begin_s: float  # of its first slow piece, seconds of training
    end_s: float  # of its last
    scale: float  # what its pieces are to be multiplied by to be as the others of their gradient have them
    excess_s: float  # what they took longer
    opens: bool  # it is at the beginning of its stretch; else at its end


def edges(rank: RankTrace, judged: Judged, design: Design) -> list[Edge]:
    """Those of the stretches in which the gradients of ``rank`` depart as ``judged`` has it."""
    series, pieces = judged.levelled.series, _Pieces.of(rank, judged, design)
    if pieces is None:
        return []
    found = []
    for first, beyond in judged.shown:
        for window, opens in ((first - 1, True), (beyond, False)):
            inside = 0 <= window < len(series)
            if inside and abs(series.iterations[window] - series.iterations[first if opens else beyond - 1]) == 1:
                found.append(pieces.edge(window, judged.slowdown, opens=opens))
    return [each for each in found if each is not None]


def with_edges(scale: Piecewise, found: list[Edge]) -> Piecewise:
    """``scale``, and during each of the edges ``found`` its own."""
    moments = [[each.begin_s, np.nextafter(each.end_s, np.inf)] for each in found]
    starts_s = np.unique(np.concatenate([scale.starts_s, *moments]))
    values = scale.at(starts_s)
    for each in found:
        values[(starts_s >= each.begin_s) & (starts_s <= each.end_s)] = each.scale
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
        """None: gradients have one piece, or unlike numbers of them, or too few are as designed."""
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
        begins_s, ends_s = (((spans[end] - design.began_ns) / 1e9).reshape(-1, count) for end in ("start_ns", "end_ns"))
        took_s = design.speed(rank.host).between(begins_s, ends_s)
        if (took_s <= 0).any():  # a clock that stepped
            return None
        usual = np.median(np.log(took_s[normal]), axis=0)
        return cls(
            iterations=iterations, begins_s=begins_s, ends_s=ends_s, slower=np.log(took_s) - usual, normal=normal
        )

    def edge(self, window: int, slowdown: float, *, opens: bool) -> Edge | None:
        """The part of ``window`` in which it was slow: its last pieces, if that ``opens`` a stretch, else its first."""
        pieces = self.slower.shape[1]
        best, found = 0.0, None
        for at in range(1, pieces):
            slow, others = (slice(at, None), slice(None, at)) if opens else (slice(None, at), slice(at, None))
            beyond = self.slower[:, slow].mean(axis=1) - self.slower[:, others].mean(axis=1)
            noise = float(np.median(np.abs(beyond[self.normal]))) / MAD_OF_NORMAL
            most = np.log(slowdown) + max(FLOOR, CERTAINTY * noise)
            if max(FLOOR, CERTAINTY * noise, best) < beyond[window] <= most:
                best, scale = float(beyond[window]), float(np.exp(-beyond[window]))
                begins_s, ends_s = self.begins_s[window, slow], self.ends_s[window, slow]
                found = Edge(
                    iteration=int(self.iterations[window]), begin_s=float(begins_s[0]), end_s=float(ends_s[-1]),
                    scale=scale, excess_s=float((ends_s - begins_s).sum()) * (1 - scale), opens=opens,
                )  # fmt: skip
        return found
