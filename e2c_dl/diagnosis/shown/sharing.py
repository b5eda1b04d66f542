"""Shares that a bottleneck leaves for each of its links: equal parts of it, but for links that need less.

::

    busy   link 1  |=========|   |====|         a link is busy while a message occupies it
           link 2      |=======|                a capacity of 20, both links faster:
    level          |20 |..10 |20 |.20.|         what a link that is busy gets

A link that is not busy would get what were left if it began to send. Source: max-min fairness, Bertsekas and Gallager,
"Data Networks", 6.5.2; the relay and HTB share by it, and so do TCP flows of one round trip time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from e2c_dl.diagnosis.piecewise import Doubles, Piecewise
from e2c_dl.topology import Pair

Busy = tuple[Doubles, Doubles]
"""Beginnings and ends of the times, in seconds, in which a link was busy; both rising."""


def left_for(own: Mapping[Pair, Piecewise], busy: Mapping[Pair, Busy], capacity: Piecewise) -> dict[Pair, Piecewise]:
    """Link of ``busy`` -> bits per second that ``capacity`` leaves it over time; ``own``: what each can do alone.

    A link that is not in ``own`` has no limit of its own.
    """
    edges = [capacity.starts_s, *(moments for pair in busy for moments in busy[pair])]
    edges += [own[pair].starts_s for pair in busy if pair in own]
    starts_s = np.unique(np.concatenate(edges))
    unlimited = np.full(len(starts_s), np.inf)
    rates = np.array([own[pair].at(starts_s) if pair in own else unlimited for pair in busy])  # (links, moments)
    active = np.array([_is_busy(busy[pair], starts_s) for pair in busy])
    whole = capacity.at(starts_s)
    needs = np.where(active, rates, np.nan)
    among = _level(needs, whole)
    beside = _level(np.vstack([needs, np.full(len(starts_s), np.inf)]), whole)  # with one more that takes all it gets
    enough = np.isinf(among)  # all together need less than there is
    unneeded = whole - np.nansum(np.where(enough, needs, 0.0), axis=0)
    found = {}
    for pair, is_active, need in zip(busy, active, needs, strict=True):
        left = np.where(enough, unneeded + np.where(enough & is_active, need, 0.0), among)
        found[pair] = _without_repeats(starts_s, np.where(is_active, left, beside))
    return found


def _without_repeats(starts_s: Doubles, values: Doubles) -> Piecewise:
    """A link's own moments: not all at which another begins or ends are also its."""
    kept = np.concatenate([[True], np.diff(values) != 0])
    return Piecewise(starts_s=starts_s[kept], values=values[kept])


def _is_busy(busy: Busy, starts_s: Doubles) -> Doubles:
    begins_s, ends_s = busy
    begun = np.searchsorted(begins_s, starts_s, side="right")
    return np.asarray(begun > np.searchsorted(ends_s, starts_s, side="right"))


def _level(rates: Doubles, whole: Doubles) -> Doubles:
    """The most that any link gets when ``whole``, shape (moments,), is shared; NaN in ``rates``: takes no part.

    Infinite where all together need no more than there is.
    """
    needs = np.sort(rates, axis=0)  # NaN last
    sharers = np.sum(~np.isnan(needs), axis=0)
    level, given = np.full(len(whole), np.inf), np.zeros(len(whole))
    for place, need in enumerate(needs):
        there = np.isinf(level) & (place < sharers)
        share = (whole - given) / np.maximum(sharers - place, 1)  # 1: not used where none is left
        binds = there & (share < need)
        level[binds] = share[binds]
        given += np.where(there & ~binds, need, 0.0)
    return level
