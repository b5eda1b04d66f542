"""Shares that a bottleneck leaves for each of its links: equal parts of it, but for links that need less.

::

    busy   link 1  |=========|   |====|         a link is busy while a message occupies it
           link 2      |=======|                a capacity of 20, both links faster:
    level          |20 |..10 |20 |.20.|         what a link that is busy gets

A link that is not busy would get what were left if it began to send. Source: max-min fairness, Bertsekas and Gallager,
"Data Networks", 6.5.2; the relay and HTB share by it, and so do TCP flows of one round trip time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.piecewise import Doubles, Piecewise
from e2c_dl.topology import Pair

Busy = tuple[Doubles, Doubles]
"""Beginnings and ends of the times, in seconds, in which a link was busy; both rising."""

Longs = npt.NDArray[np.int64]

AT_ONCE = 200_000  # links times moments: of a line of many links, all of them together would fill the memory


def left_for(own: Mapping[Pair, Piecewise], busy: Mapping[Pair, Busy], capacity: Piecewise) -> dict[Pair, Piecewise]:
    """Link of ``busy`` -> bits per second that ``capacity`` leaves it over time; ``own``: what each can do alone.

    A link that is not in ``own`` has no limit of its own; at least one is in ``busy``.
    """
    edges = [capacity.starts_s, *(moments for pair in busy for moments in busy[pair])]
    edges += [own[pair].starts_s for pair in busy if pair in own]
    moments_s = np.unique(np.concatenate(edges))
    found: dict[Pair, list[Piecewise]] = {pair: [] for pair in busy}
    before = np.full(len(busy), np.nan)  # the values that hold so far
    step = 1 + AT_ONCE // len(busy)
    for starts_s in (moments_s[place : place + step] for place in range(0, len(moments_s), step)):
        left = _left(own, busy, capacity.at(starts_s), starts_s)
        changes = np.diff(left, axis=0, prepend=before[None]) != 0  # a link's own moments: not all are
        for values, new, pieces in zip(left.T, changes.T, found.values(), strict=True):
            pieces.append(Piecewise(starts_s=starts_s[new], values=values[new]))
        before = left[-1]
    return {pair: _joined(found.pop(pair)) for pair in busy}  # held twice one by one


def _joined(pieces: Sequence[Piecewise]) -> Piecewise:
    return Piecewise(
        starts_s=np.concatenate([each.starts_s for each in pieces]),
        values=np.concatenate([each.values for each in pieces]),
    )


def _left(own: Mapping[Pair, Piecewise], busy: Mapping[Pair, Busy], whole: Doubles, starts_s: Doubles) -> Doubles:
    """What is left for each link at each of ``starts_s``, where there is ``whole``; shape (moments, links)."""
    unlimited = np.full(len(starts_s), np.inf)
    rates = np.stack([own[pair].at(starts_s) if pair in own else unlimited for pair in busy], axis=1)
    active = np.stack([_is_busy(busy[pair], starts_s) for pair in busy], axis=1)
    sharers = active.sum(axis=1)
    needs = np.sort(np.where(active, rates, np.inf), axis=1)  # of those that share first
    given = np.cumsum(np.insert(needs, 0, 0.0, axis=1), axis=1)  # to those that need less
    among = _level(needs, given, sharers, whole, sharers)
    beside = _level(needs, given, sharers, whole, sharers + 1)  # with one more that takes all it gets
    enough = np.isinf(among)  # all together need less than there is
    unneeded = np.where(enough, whole - given[np.arange(len(whole)), sharers], 0.0)
    beside = np.where(np.isinf(beside), unneeded, beside)
    left = np.where(enough[:, None], unneeded[:, None] + rates, among[:, None])
    return np.where(active, left, beside[:, None])


def _is_busy(busy: Busy, starts_s: Doubles) -> npt.NDArray[np.bool_]:
    begins_s, ends_s = busy
    begun = np.searchsorted(begins_s, starts_s, side="right")
    return np.asarray(begun > np.searchsorted(ends_s, starts_s, side="right"))


def _level(needs: Doubles, given: Doubles, sharers: Longs, whole: Doubles, among: Longs) -> Doubles:
    """The most that any of ``sharers`` gets of ``whole`` when it is shared ``among`` so many, all shape (moments,).

    Infinite where none of them needs more than that. ``needs``, rising, and what is ``given`` to those before each:
    shape (moments, links).
    """
    place = np.arange(needs.shape[1])
    share = (whole[:, None] - given[:, :-1]) / np.maximum(among[:, None] - place, 1)  # 1: not used where none is left
    binds = (place < sharers[:, None]) & (share < needs)
    first = binds.argmax(axis=1)
    moments = np.arange(len(whole))
    return np.where(binds[moments, first], share[moments, first], np.inf)
