"""Batches that change while a run trains: how long a gradient of so many samples should take, beside one of others.

A gradient takes some time whatever its batch, and some per sample. Hosts of one hardware class differ in that by a
factor alone, so what a batch of n samples takes beside one of ``pivot`` is the same for all of them::

    took / took of pivot      1 - share + share * n / pivot
                              |--fixed--|--per sample-----|

``share`` is told by what happens when a host's batch changes, from the last iteration before to the first few after:
the host is the same then, be it slow or not, for batches follow its speed two iterations late, and not that of the last
one. ::

    host becomes 2 x slower       |----------|##########################
    samples                       32 32 32 32 32 32 32 32 17 17 17 17      its last change tells the share
    seconds                       1  1  1  1  2  2  2  2  1.1 1.1 ...      3 - 4 of these: slow, and still of 32

Few changes, or small ones beside noise, tell it within ``least`` .. ``most`` only, at worst 0 .. 1. Then hosts whose
batches are of other sizes than their peers' are slower only if they are whatever the share (:meth:`PerSample.unsure`).
Nor need it be a line: of batches that no longer fit a cache, or fill a device only then, it is not. How far the changes
among small batches, or among large ones, clearly leave it (``bent``) is unsure, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles
from e2c_dl.diagnosis.detection.noise import LEAST_NOISE
from e2c_dl.diagnosis.detection.series import CERTAINTY
from e2c_dl.trace.model import Phase, RankTrace

AFTER = 4  # windows after a change that are held against the last one before
NEAR = 3  # iterations that may lie between: stalled ones are left out
MOST_CHANGES = 2000  # the largest
SHARES = np.linspace(0.0, 1.0, 201)
OUTLIER = 1.345  # sigma, from which on a change counts by its distance, not by the square: a host became slow then
LEAST_STEP, LEAST_STEPS, MEDIANS = 0.1, 3, 1.25  # logarithms; changes; standard error of a median over a mean's
MOST = 0.9  # quantile of windows: a single one of another size does not count


class Sized(NamedTuple):
    """What gradients of one host took, in logarithms, and of how many samples each was; all in order of time."""

    iterations: Doubles
    values: Doubles
    samples: Doubles


@dataclass(frozen=True, kw_only=True)
class PerSample:
    """How much of what a batch of ``pivot`` samples takes goes by their number: ``share``, surely within both ends."""

    pivot: float
    share: float = 1.0
    least: float = 0.0
    most: float = 1.0
    bent: float = 0.0  # logarithm of what is unsure, per logarithm of how many times larger a batch is

    @classmethod
    def of(cls, several: Sequence[Sized]) -> PerSample:
        """What the changes of batches of comparable hosts, at least one of a window each, tell."""
        pivot = float(np.exp(np.mean([np.median(np.log(each.samples)) for each in several])))
        changes = np.array([change for each in several for change in _changes(each)]).reshape(-1, 4)
        largest = np.argsort(-np.abs(np.log(changes[:, 2] / changes[:, 1])), kind="stable")[:MOST_CHANGES]
        took, before, after, variance = changes[np.sort(largest)].T
        if not len(took):
            return cls(pivot=pivot)
        should = _beside(after[:, None] / pivot, SHARES) - _beside(before[:, None] / pivot, SHARES)
        left = np.abs(took[:, None] - should) / np.sqrt(variance)[:, None]
        first = left[:, int(np.argmin(left.sum(axis=0)))]
        sigma = max(LEAST_NOISE, float(np.median(first)) / MAD_OF_NORMAL)
        left /= sigma
        costs = np.where(left <= OUTLIER, left**2 / 2, OUTLIER * (left - OUTLIER / 2)).sum(axis=0)
        within = SHARES[costs <= costs.min() + CERTAINTY**2 / 2]
        share = float(SHARES[int(np.argmin(costs))])
        made = cls(pivot=pivot, share=share, least=float(within[0]), most=float(within[-1]))
        return replace(made, bent=made._leaves_line(took, before, after))

    def _leaves_line(self, took: Doubles, before: Doubles, after: Doubles) -> float:
        """How far changes of batches smaller, or larger, than the pivot leave the line, all of shape (changes,)."""
        steps, beyond = np.log(after / before), took - (self.log(after) - self.log(before))
        small, far = np.sqrt(before * after) < self.pivot, np.abs(steps) >= LEAST_STEP
        found = [0.0]
        for half in (small & far, ~small & far):
            if half.sum() >= LEAST_STEPS:
                slopes = beyond[half] / steps[half]
                middle = float(np.median(slopes))
                error = MEDIANS * float(np.median(np.abs(slopes - middle))) / MAD_OF_NORMAL / np.sqrt(len(slopes))
                found += [abs(middle)] if abs(middle) > CERTAINTY * error else []
        return max(found)

    def log(self, samples: Doubles | float) -> Doubles:
        """Logarithm of what batches of ``samples`` take beside one of the pivot."""
        return _beside(np.asarray(samples, dtype=np.float64) / self.pivot, np.array(self.share))

    def unsure(self, samples: Doubles, beside: float) -> float:
        """How far off this may have what batches of ``samples`` take, as a logarithm, beside one of so many others."""
        known = self.log(samples) - self.log(beside)
        ends = (
            _beside(samples / self.pivot, np.array(end)) - _beside(np.array(beside / self.pivot), np.array(end))
            for end in (self.least, self.most)
        )
        off = max(float(np.quantile(np.abs(each - known), MOST)) for each in ends)
        return off + self.bent * float(np.quantile(np.abs(np.log(samples / beside)), MOST))


def samples_of(rank: RankTrace, iterations: int) -> Doubles | None:
    """Samples of iterations 0 .. iterations - 1, 0 where it computed none; None: the trace does not tell."""
    spans = rank.of(Phase.FORWARD)
    spans = spans[(spans["iteration"] >= 0) & (spans["iteration"] < iterations)]
    if not len(spans) or (spans["seq"] < 1).any():
        return None
    return np.bincount(spans["iteration"], weights=spans["seq"], minlength=iterations).astype(np.float64)


def nearest(samples: float, others: Sequence[float]) -> float:
    """The one of ``others`` that is the least times apart from ``samples``."""
    return min(others, key=lambda each: abs(np.log(each / samples)))


def _beside(ratio: Doubles, share: Doubles) -> Doubles:
    """Logarithm of what a batch takes beside one that ``ratio`` is the times of; shares broadcast."""
    return np.asarray(np.log(np.maximum(1e-9, 1 - share + share * ratio)))


def _changes(of: Sized) -> Iterator[tuple[float, float, float, float]]:
    """(logarithm of times longer, samples before, samples after, variance in those of one window) of each change."""
    starts = np.flatnonzero(np.diff(of.samples, prepend=np.nan) != 0)
    for start, stop in pairwise([*starts[1:].tolist(), len(of.samples)]):
        if of.iterations[start] - of.iterations[start - 1] > NEAR:
            continue
        after = of.values[start : min(stop, start + AFTER)]
        took = float(after.mean() - of.values[start - 1])
        yield took, float(of.samples[start - 1]), float(of.samples[start]), 1 + 1 / len(after)
