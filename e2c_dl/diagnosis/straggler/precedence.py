"""Which operation begins after which: the end of every one of them, for many sets of durations in one pass.

::

    level 0    level 1    level 2        an operation begins when the last of those that it follows has ended
    a ------>  c ------>  e              end[e] = max(end[c], end[d]) + duration[e]
    b ------>  d ------>  e              one level is one step of NumPy, over all its operations and all sets

An operation of level k follows one of level k - 1 and none of a higher level. What follows nothing begins at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import AnalysisError

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Precedence:
    """Operations by level. Made by :meth:`of`; nothing in it is mutated."""

    order: Longs  # (operations,): level by level
    bounds: Longs  # (levels + 1,): where each level begins in ``order``
    follows: Longs  # (edges,): places in ``order`` of what is followed, by the place of what follows
    first: Longs  # (operations + 1,): where each place's part of ``follows`` begins
    last: Longs  # places of those that nothing follows

    @classmethod
    def of(cls, count: int, earlier: Longs, later: Longs) -> Precedence:
        """``count`` operations of which ``later[i]`` begins after the end of ``earlier[i]``.

        Raises: AnalysisError, if some wait for each other in a circle, which no run can.
        """
        levels = _levels(count, earlier, later)
        order = np.concatenate([np.empty(0, dtype=np.int64), *levels])
        if len(order) < count:
            raise AnalysisError(
                f"trace: {count - len(order)} of {count} operations wait for each other in a circle; "
                "it mixes two runs or is damaged: record it anew"
            )
        place = np.empty(count, dtype=np.int64)
        place[order] = np.arange(count)
        by_later = np.argsort(place[later], kind="stable")
        followed = np.bincount(place[earlier], minlength=count)
        return cls(
            order=order,
            bounds=np.cumsum([0, *map(len, levels)]),
            follows=place[earlier][by_later],
            first=_starts(place[later], count),
            last=np.flatnonzero(followed == 0),
        )

    def ends(self, durations: Floats) -> Floats:
        """When each operation ends: (operations, sets), in the order of ``order``, as ``durations``, overwritten."""
        bounds = self.bounds.tolist()
        for begin, end in pairwise(bounds[1:]):  # what is of level 0 begins at 0
            starts = self.first[begin : end + 1]
            followed = durations[self.follows[starts[0] : starts[-1]]]
            durations[begin:end] += np.maximum.reduceat(followed, starts[:-1] - starts[0], axis=0)
        return durations


def _levels(count: int, earlier: Longs, later: Longs) -> list[Longs]:
    """Operations whose predecessors are all in earlier levels, level by level; those in a circle are in none."""
    by_earlier = np.argsort(earlier, kind="stable")
    following, first = later[by_earlier], _starts(earlier, count)
    awaited = np.bincount(later, minlength=count)
    levels: list[Longs] = []
    level = np.flatnonzero(awaited == 0)
    while len(level):
        levels.append(level)
        begin, lengths = first[level], first[level + 1] - first[level]
        skipped = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        reached, times = np.unique(following[skipped + np.arange(len(skipped))], return_counts=True)
        awaited[reached] -= times
        level = reached[awaited[reached] == 0]
    return levels


def _starts(keys: Longs, count: int) -> Longs:
    """Where the part of each of ``count`` keys begins once ``keys`` are sorted; (count + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])
