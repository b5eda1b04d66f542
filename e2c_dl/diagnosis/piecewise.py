"""A value over the seconds of a run that holds from one moment to the next, and its sum over time.

::

    value   a |----.                      total(t)   = the area from the first moment to t
            b |    '--------.             when(area) = the moment at which so much has come together
              '----t1-------t2---> s      before the first moment and after the last the value holds
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl.scenario.schedule import Schedule

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)  # arrays do not compare to one bool
class Piecewise:
    """``values[i]`` from ``starts_s[i]`` on, both of shape (moments,); moments rise."""

    starts_s: Doubles
    values: Doubles

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Piecewise) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    @classmethod
    def constant(cls, value: float) -> Piecewise:
        return cls(starts_s=np.zeros(1), values=np.array([value], dtype=np.float64))

    @classmethod
    def of(cls, schedule: Schedule, until_s: float) -> Piecewise:
        """``schedule`` as it is until ``until_s``."""
        steps = np.array([*schedule.steps(until_s)] or [(0.0, schedule.at(0.0))], dtype=np.float64)
        return cls(starts_s=steps[:, 0], values=steps[:, 1])

    def at(self, time_s: Doubles) -> Doubles:
        """The value that holds at each moment, shape as ``time_s``."""
        return np.asarray(self.values[_place(self.starts_s, time_s)])

    def total(self, time_s: Doubles) -> Doubles:
        """Value times seconds from the first moment to each of ``time_s``, negative before; shape as ``time_s``."""
        place = _place(self.starts_s, time_s)
        return np.asarray(self._sums[place] + self.values[place] * (time_s - self.starts_s[place]))

    def between(self, begin_s: Doubles, end_s: Doubles) -> Doubles:
        """Value times seconds from each of ``begin_s`` to each of ``end_s``; shape as both."""
        return self.total(end_s) - self.total(begin_s)

    def when(self, total: Doubles) -> Doubles:
        """The moment before which ``total`` came together: the inverse of :meth:`total`, where values are positive."""
        place = _place(self._sums, total)
        return np.asarray(self.starts_s[place] + (total - self._sums[place]) / self.values[place])

    def mapped(self, change: Callable[[Doubles], Doubles]) -> Piecewise:
        """The same moments with other values."""
        return Piecewise(starts_s=self.starts_s, values=change(self.values))

    def after(self, moment_s: float) -> Piecewise:
        """What follows ``moment_s``, from which moments count then; before the first of them its value holds."""
        later = self.starts_s > moment_s
        values = np.append(self.at(np.array([moment_s])), self.values[later])
        return Piecewise(starts_s=np.append(0.0, self.starts_s[later] - moment_s), values=values)

    def since(self, moment_s: float, before: float) -> Piecewise:
        """``before`` until ``moment_s``, at least 0, and from then on as it is."""
        later = self.starts_s > moment_s
        values = np.concatenate([[before], self.at(np.array([moment_s])), self.values[later]])
        return Piecewise(starts_s=np.concatenate([[0.0, moment_s], self.starts_s[later]]), values=values)

    @property
    def _bytes(self) -> tuple[bytes, bytes]:
        return self.starts_s.tobytes(), self.values.tobytes()

    @cached_property
    def _sums(self) -> Doubles:
        """What has come together at each of the moments."""
        return np.concatenate([[0.0], np.cumsum(np.diff(self.starts_s) * self.values[:-1])])


def least(some: Piecewise, *others: Piecewise) -> Piecewise:
    """At every moment the least of them."""
    return _joined(np.min, some, *others)


def added(some: Piecewise, *others: Piecewise) -> Piecewise:
    """At every moment their sum."""
    return _joined(np.sum, some, *others)


def multiplied(some: Piecewise, *others: Piecewise) -> Piecewise:
    """At every moment their product."""
    return _joined(np.prod, some, *others)


def _joined(join: Callable[..., Doubles], some: Piecewise, *others: Piecewise) -> Piecewise:
    if not others:
        return some
    starts_s = np.unique(np.concatenate([each.starts_s for each in (some, *others)]))
    return Piecewise(starts_s=starts_s, values=join([each.at(starts_s) for each in (some, *others)], axis=0))


def _place(moments: Doubles, of: Doubles) -> npt.NDArray[np.intp]:
    """Of each the last of ``moments`` that is not after it; the first, if all are."""
    return np.maximum(np.searchsorted(moments, of, side="right") - 1, 0)
