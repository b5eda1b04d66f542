"""Loss model of a link: which segments are marked (lost, and by the same draw reordered); how delays spread.

Marks are drawn as runs, not segment by segment: one draw for the gap to the next mark, one for the stay in a state::

    independent     ----x---------x--x-----      gap: geometric, (1 - p)^n p
    in bursts       good: p -> bad: xxx  r -> good        the stay in a state is geometric, its gaps are as above

Random generators are passed in. Which segments are marked does not depend on how they are grouped.
"""

from __future__ import annotations

import math
import random

from e2c_dl.topology import BurstLoss, Distribution

FOREVER = 2**62

PARETO_SHAPE = 3.0
PARETO_MOST = 4.5
"""Of a Pareto variable that is at least 1: the 1.1 % above it become it, as in netem's table."""

MOST_SPREAD = {Distribution.UNIFORM: 1.0, Distribution.NORMAL: 6.0, Distribution.PARETO: 3.5}
"""What :func:`spread` gives at most; of a normal one, one draw in a billion is more."""


class LossModel:
    """A stream of segments, some of them marked with ``probability``, or as ``burst`` says: lost or not.

    Source: Gilbert (1960), Elliott (1963); as in netem's gemodel, a segment is lost by the state in which it finds the
    chain, and then the chain moves. It begins in the state in which it would be found after a long time.
    """

    def __init__(self, probability: float, burst: BurstLoss | None, rng: random.Random) -> None:
        self._rng, self._burst = rng, burst
        self._probability, self._stay = probability, FOREVER
        self._clear = self._marked = 0  # so many segments that are not, then so many that are
        if burst is not None:
            bad = burst.good_to_bad / (burst.good_to_bad + burst.bad_to_good)
            self._enter(bad=rng.random() < bad)  # as if it had run for ever: no warm-up

    def take(self, segments: int) -> list[tuple[int, int, bool]]:
        """(first, count, marked) of the runs of the next ``segments`` segments, in order."""
        if self._clear >= segments:
            self._clear -= segments
            return [(0, segments, False)]
        runs: list[tuple[int, int, bool]] = []
        first = 0
        while first < segments:
            if not self._clear and not self._marked:
                self._draw()
            marked = not self._clear
            count = min(self._marked if marked else self._clear, segments - first)
            if marked:
                self._marked -= count
            else:
                self._clear -= count
            begin = runs.pop()[0] if runs and runs[-1][2] == marked else first  # callers cut frames at runs: join them
            first += count
            runs.append((begin, first - begin, marked))
        return runs

    def _draw(self) -> None:
        """What comes next in this state, or the next state if this one is over."""
        while self._stay == 0:
            self._enter(bad=not self._bad)
        if self._probability >= 1:
            self._clear, self._marked = 0, self._stay
        else:
            gap = _gap(self._probability, self._rng)
            self._clear, self._marked = (gap, 1) if gap < self._stay else (self._stay, 0)
        if self._burst is not None:
            self._stay -= self._clear + self._marked

    def _enter(self, *, bad: bool) -> None:
        burst = self._burst
        if burst is None:
            return
        self._bad = bad
        self._probability = burst.loss_in_bad if bad else burst.loss_in_good
        leave = burst.bad_to_good if bad else burst.good_to_bad
        self._stay = min(FOREVER, _gap(leave, self._rng) + 1)  # the state holds for one segment at least


def spread(distribution: Distribution, rng: random.Random) -> float:
    """One draw of how far a delay lies from its middle, in units of the jitter.

    Uniform: from -1 to 1. Normal: standard deviation 1. Pareto: shape 3, shifted and scaled to mean 0 and standard
    deviation 1 before its tail is cut at PARETO_MOST, as in netem's table; that leaves mean -0.03, deviation 0.71.
    """
    if distribution is Distribution.UNIFORM:
        return rng.uniform(-1.0, 1.0)
    if distribution is Distribution.NORMAL:
        return rng.gauss(0.0, 1.0)
    at_least_one = min(PARETO_MOST, math.pow(1.0 - rng.random(), -1.0 / PARETO_SHAPE))
    mean = PARETO_SHAPE / (PARETO_SHAPE - 1)
    return (at_least_one - mean) / math.sqrt(PARETO_SHAPE / ((PARETO_SHAPE - 1) ** 2 * (PARETO_SHAPE - 2)))


def _gap(probability: float, rng: random.Random) -> int:
    """Segments before the next to which what has this ``probability`` happens."""
    if probability <= 0:
        return FOREVER
    if probability >= 1:
        return 0
    return int(min(FOREVER, math.log(1 - rng.random()) / math.log1p(-probability)))  # random() may be 0, but never 1
