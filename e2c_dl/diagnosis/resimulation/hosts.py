"""Times that one rank's host took, from its trace, and a pace that takes them again.

::

    measured    gradient 0 | data | forward | b0 | b1 |   gradient 1 | ...     as they were, gaps between them included
    taken       in order; once all were taken, drawn from those that are not outliers, again and again

``lap`` 0 is the order of the run. In any other lap each is drawn from its neighbours, as often as it comes, so that the
ranks' slow moments are others, and meet others: what comes of it says how far a prediction hangs on chance. What a stop
of the host lasted in is none of that: it stays in its place, for so do the stalls of links that come of that stop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change
from e2c_dl.diagnosis.resimulation.stopped import Interval
from e2c_dl.trace.model import GRADIENT, Phase, RankTrace, Spans
from e2c_dl.worlds.virtual.kernel import Pauses
from e2c_dl.worlds.virtual.pace import Segment

T = TypeVar("T")

NEIGHBOURS = 8
"""Gradients that are drawn from together: enough for chance, near enough for what changed during the run."""
OUTLIER = 3.0
"""Beyond a quartile by so many distances between both: one stop of seconds is not drawn again and again."""

_NOT_MEASURED = (0,)  # ns
_DRAWN = sorted(GRADIENT | {Phase.DATA})

Gradient = tuple[Segment, ...]
SecondsOf = Callable[[int], float]
"""Samples of a batch -> what a gradient takes, in any unit: batches of other sizes take that much more or less."""


@dataclass(frozen=True, kw_only=True)
class MeasuredHost:
    """What computing took on one rank's host, in ns, in the order of the run. It has at least one gradient."""

    name: str
    layer: str
    samples: int  # per iteration, to begin with
    gradients: tuple[tuple[int, Gradient], ...]  # of how many samples, and its pieces
    steps_ns: tuple[int, ...]
    evaluations_ns: tuple[int, ...]
    begun_ns: tuple[int, ...] = ()  # of training, each gradient; none: whenever it is taken
    steps_begun_ns: tuple[int, ...] = ()
    vector_ns_per_byte: float = 0.0  # of copies, sums and scalings alike
    vectors_ns: int = 0  # all of them
    seconds_of: SecondsOf = float  # in proportion to its samples, unless a profile says better
    again: float = 1.0  # what gradients take in other laps, as part of what they took: see :mod:`.alike`
    factor: Piecewise | None = None  # times slower by design, over seconds of training; None: it never changes
    stops: tuple[Interval, ...] = ()  # in which it did nothing

    @classmethod
    def of(cls, rank: RankTrace, samples: int, origin_ns: int) -> MeasuredHost:
        """What the trace of ``rank`` shows, its vectors aside, of a training that began at ``origin_ns``."""
        gradients = _gradients(rank.spans)
        steps_begun_ns, steps_ns = _lengths_ns(rank.spans, Phase.STEP)
        return cls(
            name=rank.host, layer=rank.layer, samples=samples,
            gradients=tuple((samples, each) for _, each in gradients),
            begun_ns=tuple(begun_ns - origin_ns for begun_ns, _ in gradients),
            steps_ns=steps_ns, steps_begun_ns=tuple(each - origin_ns for each in steps_begun_ns),
            evaluations_ns=_lengths_ns(rank.spans, Phase.EVALUATE)[1],
        )  # fmt: skip

    def busy_ns(self, phases: Collection[Phase]) -> int:
        """How long it was in ``phases``."""
        pieces = (piece for _, gradient in self.gradients for piece in gradient if piece.phase in phases)
        steps_ns = sum(self.steps_ns) if Phase.STEP in phases else 0
        evaluations_ns = sum(self.evaluations_ns) if Phase.EVALUATE in phases else 0
        vectors_ns = self.vectors_ns if Phase.REDUCE in phases else 0
        return sum(piece.end_ns - piece.start_ns for piece in pieces) + steps_ns + evaluations_ns + vectors_ns

    def evaluating_as(self, other: MeasuredHost) -> MeasuredHost:
        """This host, in whose run ``other`` evaluated: it takes as much longer for that as for a gradient."""
        if self.evaluations_ns:
            return self
        slower = self._gradient_ns_per_second() / other._gradient_ns_per_second()
        return replace(self, evaluations_ns=tuple(round(each * slower) for each in other.evaluations_ns))

    def moving(self) -> MeasuredHost:
        """This host without the gradients that are outliers: those in which it stalled among them."""
        usual = _usual(_begun(self.gradients, self.begun_ns), _gradient_ns)
        typical, _ = sorted(usual, key=_gradient_ns)[len(usual) // 2]
        kept = {id(gradient) for gradient, _ in usual}
        return replace(self, gradients=tuple(each if id(each) in kept else typical for each in self.gradients))

    def _gradient_ns_per_second(self) -> float:
        """What a gradient takes, by what its samples should."""
        return float(np.median([pieces[-1].end_ns / self.seconds_of(samples) for samples, pieces in self.gradients]))


class MeasuredPace:
    """The times of ``host`` taken again in one run, as ``changes`` (all of this host) have it.

    A change holds for what was begun while it does, in the run that was measured: when that is taken again is another
    time, for a run that is restored is ahead. What the host's design has change goes by that other time, and so do
    vectors, of which only the sum was measured.
    """

    def __init__(self, host: MeasuredHost, changes: Sequence[Change] = (), *, seed: int, lap: int = 0) -> None:
        self._host, self._changes, self._again = host, changes, host.again if lap else 1.0
        draw = random.Random(f"{seed} lap {lap} {host.name}")
        stopped = partial(_stopped, host.stops)
        self._gradients = _taken(_begun(host.gradients, host.begun_ns), _gradient_ns, draw, lap, stopped)
        steps = _begun(host.steps_ns or _NOT_MEASURED, host.steps_begun_ns)
        self._steps = _taken(steps, _length_ns, draw, lap, stopped)
        self._evaluations = _taken(_begun(host.evaluations_ns or _NOT_MEASURED, ()), _length_ns, draw, lap, stopped)
        self.pauses = Pauses()

    def gradient(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        """The next gradient, for a batch of ``samples`` samples, begun at ``begin_ns``."""
        (of_samples, measured), begun_ns = next(self._gradients)
        scale = self._again
        if samples != of_samples:
            scale *= self._host.seconds_of(samples) / self._host.seconds_of(of_samples)
        if scale == 1.0 and not self._changes and self._host.factor is None:
            return measured
        found, shift_ns = [], 0
        for phase, bucket, start_ns, end_ns in measured:
            now_ns = begin_ns + shift_ns + start_ns
            at_ns = now_ns if begun_ns is None else begun_ns + start_ns
            length_ns = self._changed_ns(phase, (end_ns - start_ns) * scale * self._moved(at_ns, now_ns), at_ns)
            found.append(Segment(phase, bucket, start_ns + shift_ns, start_ns + shift_ns + length_ns))
            shift_ns += length_ns - (end_ns - start_ns)
        return found

    def copied_ns(self, nbytes: int, begin_ns: int) -> int:
        return round(nbytes * self._host.vector_ns_per_byte * self._scale(Phase.REDUCE, begin_ns))

    accumulated_ns = scaled_ns = copied_ns

    def stepped_ns(self, begin_ns: int) -> int:
        length_ns, begun_ns = next(self._steps)
        at_ns = begin_ns if begun_ns is None else begun_ns
        return self._changed_ns(Phase.STEP, length_ns * self._moved(at_ns, begin_ns), at_ns)

    def evaluated_ns(self, begin_ns: int) -> int:
        return begin_ns + self._changed_ns(Phase.EVALUATE, next(self._evaluations)[0], begin_ns)

    def _changed_ns(self, phase: Phase, length_ns: float, begin_ns: int) -> int:
        less_s = sum(float(each.less_s.at(np.array(begin_ns / 1e9))) for each in self._changes if phase in each.phases)
        return max(0, round(length_ns * self._scale(phase, begin_ns) - less_s * 1e9))

    def _moved(self, measured_ns: int, now_ns: int) -> float:
        """How many times longer by design what took as long as measured at one moment takes at another."""
        if self._host.factor is None:
            return 1.0
        before, now = self._host.factor.at(np.array([measured_ns, now_ns]) / 1e9).tolist()
        return float(now / before)

    def _scale(self, phase: Phase, begin_ns: int) -> float:
        scale = 1.0
        for each in self._changes:
            if phase in each.phases:
                scale *= float(each.scale.at(np.array(begin_ns / 1e9)))
        return scale


def buckets_of(rank: RankTrace) -> int | None:
    """Buckets of each of its gradients; None if it has no gradient, or they do not count their buckets from 0 on."""
    gradients = _gradients(rank.spans)
    buckets = {tuple(each.bucket for each in pieces if each.phase == Phase.BACKWARD) for _, pieces in gradients}
    counted = buckets.pop() if len(buckets) == 1 else ()
    return len(counted) if counted and counted == tuple(range(len(counted))) else None


def _gradients(spans: Spans) -> tuple[tuple[int, Gradient], ...]:
    """When each whole gradient began, and its pieces from then on: data, forward, then its buckets."""
    chosen = spans[np.isin(spans["phase"], _DRAWN)]
    chosen = chosen[np.argsort(chosen["start_ns"], kind="stable")]
    phases = chosen["phase"]
    before = np.concatenate([[Phase.BACKWARD], phases[:-1]])
    begins = np.flatnonzero((phases != Phase.BACKWARD) & (before == Phase.BACKWARD))
    found = []
    for first, after in zip(begins, np.append(begins[1:], len(chosen)), strict=True):
        rows = chosen[first:after]
        starts_ns, ends_ns = rows["start_ns"] - rows["start_ns"][0], rows["end_ns"] - rows["start_ns"][0]
        columns = (rows["phase"].tolist(), rows["bucket"].tolist(), starts_ns.tolist(), ends_ns.tolist())
        pieces = tuple(Segment(Phase(phase), *rest) for phase, *rest in zip(*columns, strict=True))
        found.append((int(rows["start_ns"][0]), pieces))
    buckets = max((len(pieces) for _, pieces in found), default=0)
    return tuple(each for each in found if len(each[1]) == buckets)  # the last of a killed rank may lack some


def _lengths_ns(spans: Spans, phase: Phase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """When each began, and how long it took."""
    chosen = spans[spans["phase"] == phase]
    chosen = chosen[np.argsort(chosen["start_ns"], kind="stable")]
    return tuple(chosen["start_ns"].tolist()), tuple(np.maximum(0, chosen["end_ns"] - chosen["start_ns"]).tolist())


def _begun(measured: Sequence[T], begun_ns: Sequence[int]) -> list[tuple[T, int | None]]:
    """Each of ``measured`` with when it began, if that is known."""
    known: Sequence[int | None] = begun_ns or [None] * len(measured)
    return list(zip(measured, known, strict=True))


def _gradient_ns(measured: tuple[tuple[int, Gradient], int | None]) -> float:
    (_, gradient), _ = measured
    return float(gradient[-1].end_ns)


def _length_ns(measured: tuple[int, int | None]) -> float:
    return float(measured[0])


def _stopped(stops: Sequence[Interval], begun_ns: int | None, length_ns: float) -> bool:
    """Whether the middle of one of ``stops`` is in what began at ``begun_ns``."""
    if begun_ns is None:
        return False
    return any(begun_ns <= (begin_s + end_s) / 2 * 1e9 < begun_ns + length_ns for begin_s, end_s in stops)


def _taken(
    measured: Sequence[tuple[T, int | None]], length: Callable[[tuple[T, int | None]], float], draw: random.Random,
    lap: int, stopped: Callable[[int | None, float], bool],
) -> Iterator[tuple[T, int | None]]:  # fmt: skip
    """``measured`` in order, or each drawn from its neighbours, but for those ``stopped``; then from no outliers."""
    ordered = list(measured)
    if lap:
        for first in range(0, len(ordered), NEIGHBOURS):
            places = [
                at for at in range(first, min(first + NEIGHBOURS, len(ordered)))
                if not stopped(ordered[at][1], length(ordered[at]))
            ]  # fmt: skip
            near = [ordered[at] for at in places]
            for at, each in zip(places, draw.choices(near, k=len(near)) if near else (), strict=True):
                ordered[at] = each
    yield from ordered
    usual = _usual(ordered, length)
    while True:
        yield draw.choice(usual)


def _usual(measured: Sequence[T], length: Callable[[T], float]) -> list[T]:
    """Those within OUTLIER interquartile distances of the quartiles."""
    lengths = np.array([length(each) for each in measured])
    low, high = np.quantile(lengths, [0.25, 0.75])
    reach = OUTLIER * (high - low)
    return [each for each, ns in zip(measured, lengths, strict=True) if low - reach <= ns <= high + reach]
