"""Series of hosts: how long each computing phase took in every iteration, the designed factor taken off gradients.

::

    COMPUTE      FORWARD + BACKWARD, as on a host of factor 1: the factor's work per second adds up, a factor does not
    DATA         drawing the batch
    COPY                        between a host's memory and its device's
    STEP, REDUCE, EVALUATION,   per span: some ranks do more of them by their role
    CHECKPOINT
    REDUCE                      also of iterations with as many of them as is usual: others do other work in one

Of COMPUTE and DATA, where batches change while a run trains, it is known of how many samples each iteration is, if the
trace tells; what larger ones take longer is taken off later, with what peers tell (:mod:`.batches`).

What a phase waited for a processor that others had is taken off it, where that is known (:mod:`.processors`).

Warm-up is left out, and iterations in which the process stalled (:mod:`e2c_dl.diagnosis.detection.stalls`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.batches import PerSample, Sized, samples_of
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.series import Levelled, Series
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.program import OWN
from e2c_dl.diagnosis.resimulation.changes import PACED
from e2c_dl.trace.model import GRADIENT, Phase, RankTrace, Spans
from e2c_dl.trace.warm_up import warm_up

PHASES = {
    Part.COMPUTE: GRADIENT,
    Part.DATA: frozenset({Phase.DATA}),
    Part.STEP: frozenset({Phase.STEP}),
    Part.REDUCE: frozenset({Phase.REDUCE}),
    Part.EVALUATION: frozenset({Phase.EVALUATE}),
    Part.CHECKPOINT: frozenset({Phase.CHECKPOINT}),
    Part.COPY: frozenset({Phase.COPY}),
    Part.OTHER: frozenset({Phase.OTHER}),
    Part.PROCESSOR: OWN,
}
BY_BATCH = frozenset({Part.COMPUTE, Part.DATA})
"""What takes longer of larger batches."""
OFTEN = 0.5  # of the iterations
AT_ONCE_S = 1e-4  # of loading data: who takes no time for it counts as that, for no scheduler is more even
PER_SPAN = frozenset({Part.STEP, Part.REDUCE, Part.EVALUATION, Part.CHECKPOINT})


@dataclass(frozen=True, kw_only=True, eq=False)
class HostSeries:
    """One part of one host: its series, and what peers of it have in common."""

    host: str
    part: Part
    series: Series
    factors: Doubles  # (windows,) times slower than a host of factor 1 by design, in this part
    spans: int  # per iteration, median of those that have any
    samples: Doubles | None = None  # (windows,) where batches change, and this part goes by them

    @property
    def factor(self) -> float:
        """Mean over the time that it took."""
        return float(self.series.spent_s.sum() / (self.series.spent_s / self.factors).sum())

    @property
    def sized(self) -> Sized | None:
        """Its windows with their samples, if batches change."""
        if self.samples is None:
            return None
        return Sized(self.series.iterations.astype(np.float64), self.series.values, self.samples)

    def of_pivot(self, per_sample: PerSample) -> HostSeries:
        """This, as if all batches were of the pivot of ``per_sample``."""
        if self.samples is None:
            return self
        return replace(self, series=replace(self.series, values=self.series.values - per_sample.log(self.samples)))

    def lenient(self, least: float) -> Series:
        """The series, less what a factor above ``least`` may have made of it."""
        return replace(self.series, values=self.series.values - np.log(np.maximum(1.0, self.factors / least)))

    def at_least(self, unlike: Levelled) -> Series:
        """The series, less beyond its fastest by what its factor may have made of it, whether it follows that or not.

        ``unlike``: as it is if it does not. What departs, does so either way.
        """
        lenient = self.lenient(float(self.factors.min()))
        (like,) = levelled([lenient], turns=True)
        beyond = np.minimum(self.series.values - unlike.base, lenient.values - like.base)
        return replace(self.series, values=unlike.base + beyond)


def compute_s(rank: RankTrace, iterations: int) -> Doubles:
    """Seconds of FORWARD + BACKWARD in iterations 0 .. iterations - 1, shape (iterations,)."""
    return seconds_in(rank, GRADIENT, iterations)


def usual_s(took_s: Doubles) -> float:
    """The median of ``took_s``, shape (iterations,), where anything was done: ranks may skip some; 0.0 if nowhere."""
    done_s = took_s[took_s > 0]
    return float(np.median(done_s)) if len(done_s) else 0.0


def seconds_in(rank: RankTrace, phases: Collection[Phase], iterations: int, design: Design | None = None) -> Doubles:
    """Seconds of ``phases`` in iterations 0 .. iterations - 1, shape (iterations,).

    With ``design``, as on a host of factor 1.
    """
    spans = _spans(rank, phases, iterations)
    if design is None:
        return _per_iteration(spans, (spans["end_ns"] - spans["start_ns"]) / 1e9, iterations)
    begin_s, end_s = ((spans[end] - design.began_ns) / 1e9 for end in ("start_ns", "end_ns"))
    return _per_iteration(spans, design.speed(rank.host).between(begin_s, end_s), iterations)


def begins_s(own: Spans, design: Design, iterations: int) -> Doubles:
    """When iterations 0 .. iterations - 1 began, by ``own``, their spans; infinite of one that is lost."""
    found = np.full(iterations, np.inf)
    inside = own[own["iteration"] < iterations]
    found[inside["iteration"]] = (inside["start_ns"] - design.began_ns) / 1e9
    return found


def series_of(
    own: Spans, design: Design, begun_s: Doubles, took_s: Doubles, spent_s: Doubles, chosen: npt.NDArray[np.bool_]
) -> Series:
    """What a host whose ITERATION spans are ``own`` took in iterations that are ``chosen``; arrays: (iterations,)."""
    return Series(
        values=np.log(took_s[chosen]), iterations=np.flatnonzero(chosen), begins_s=begun_s[chosen],
        until_s=float((own["end_ns"].max() - design.began_ns) / 1e9), spent_s=spent_s[chosen],
    )  # fmt: skip


def host_series(
    rank: RankTrace, part: Part, design: Design, stalled: Collection[int] = (), ran: Doubles | float = 1.0
) -> HostSeries | None:
    """The series of ``part`` of one rank's host without its iterations ``stalled``; None if it never did that.

    ``ran``: share of it in each iteration for which it had a processor.
    """
    own = rank.of(Phase.ITERATION)
    iterations = int(own["iteration"].max()) + 1
    spans = _spans(rank, PHASES[part], iterations)
    begin_s, end_s = ((spans[end] - design.began_ns) / 1e9 for end in ("start_ns", "end_ns"))
    counts = _per_iteration(spans, np.ones(len(spans)), iterations)
    spent_s = _per_iteration(spans, end_s - begin_s, iterations)
    slowed = not design.reference.paced or PHASES[part] <= PACED
    speed = design.speed(rank.host) if slowed else Piecewise.constant(1.0)
    normal_s = _per_iteration(spans, speed.between(begin_s, end_s), iterations)
    if part is Part.DATA and not design.reference.modelled and spent_s.any():  # later, or at times
        at_once = (counts > 0) & (spent_s == 0)
        spent_s, normal_s = np.where(at_once, AT_ONCE_S, spent_s), np.where(at_once, AT_ONCE_S, normal_s)
    spent_s, normal_s = spent_s * ran, normal_s * ran
    chosen = (spent_s > 0) & (np.arange(iterations) >= warm_up(iterations))
    if part is Part.REDUCE and chosen.any():
        chosen &= counts == _usual(counts[chosen])
    chosen[[each for each in stalled if each < iterations]] = False
    samples = samples_of(rank, iterations) if design.reference.batches_change and part in BY_BATCH else None
    if samples is not None:
        chosen &= samples > 0
    begun_s = begins_s(own, design, iterations)
    chosen &= np.isfinite(begun_s)  # of a damaged trace, an iteration's own span may be lost
    if not chosen.any():
        return None
    took_s = normal_s if part is Part.COMPUTE else spent_s / np.maximum(1, counts) if part in PER_SPAN else spent_s
    series = series_of(own, design, begun_s, took_s, spent_s, chosen)
    return HostSeries(
        host=rank.host, part=part, series=series, factors=spent_s[chosen] / normal_s[chosen],
        spans=int(np.median(counts[chosen])), samples=None if samples is None else samples[chosen],
    )  # fmt: skip


def is_at_once(rank: RankTrace, part: Part) -> bool:
    """Whether its host loads data, if that is ``part``, in most iterations after warm-up, and takes no time for it."""
    if part is not Part.DATA:
        return False
    iterations = int(rank.of(Phase.ITERATION)["iteration"].max()) + 1
    spans = _spans(rank, PHASES[part], iterations)
    spans = spans[spans["iteration"] >= warm_up(iterations)]
    often = len(np.unique(spans["iteration"])) >= OFTEN * (iterations - warm_up(iterations))
    return bool(len(spans) and often and (spans["end_ns"] == spans["start_ns"]).all())


def _usual(counts: Doubles) -> float:
    """The value that occurs most often, the least of several."""
    values, times = np.unique(counts, return_counts=True)
    return float(values[np.argmax(times)])


def _spans(rank: RankTrace, phases: Collection[Phase], iterations: int) -> Spans:
    spans = rank.of(*phases)
    inside = (spans["iteration"] >= 0) & (spans["iteration"] < iterations)  # -1: of no iteration
    return spans if inside.all() else spans[inside]


def _per_iteration(spans: Spans, weights: Doubles, iterations: int) -> Doubles:
    return np.bincount(spans["iteration"], weights=weights, minlength=iterations).astype(np.float64)
