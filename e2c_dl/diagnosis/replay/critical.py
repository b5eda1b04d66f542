"""Critical path of a run as observed, walked back once: what bounds every saving, and what it leaves unexplained.

::

    rank 0   |==FORWARD==|==BACKWARD==|.                          the longest chain of what waited for what; its
    link                               |--delay--|===service===|  parts sum to the run's time
    rank 1                                                      |~wake-up~|==STEP==|

A run is a maximum over all paths of sums along each. So after any what-if it lasts at least as long as *this* path does
then, and saves at most what this path loses: a bound that costs one sum, where the replay costs a pass over the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import Element
from e2c_dl.diagnosis.replay.columns import Bools, Doubles, Ints, Longs, Moments, Queue, order_of, values_ns
from e2c_dl.diagnosis.replay.compiled import compiled
from e2c_dl.diagnosis.replay.services import Services, carried_ns, computed_ns, delayed_ns
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf
from e2c_dl.trace.model import Phase

# Edges of a path, by what they follow; the first two are of moments, the others of messages.
BY_PROGRAM, BY_CAUSE, BY_START, BY_ARRIVAL, SENT_BY_START, SENT_BY_ARRIVAL, STARTED = range(7)

LARGE = 0.5  # of a link's largest message: of small ones, the delay may be all
CLEARLY = 1.25  # times as long as usual: less is jitter, or noise


@dataclass(frozen=True, kw_only=True, eq=False)
class CriticalSteps:
    """The path as times in which it lies on one host or link, in order; gaps are nobody's: tasks that wake up, or wait.

    ``element[i]``, a place in ``elements``, from ``begin_s[i]`` to ``end_s[i]``, seconds since the run's first moment.
    """

    elements: tuple[Element, ...]
    element: Ints
    begin_s: Doubles
    end_s: Doubles


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """The path's edges that carry a service or a delay, sorted by element; and how much of it nothing explains."""

    services: Services
    element: Ints  # of each edge
    unit: Longs
    is_host: Bools
    service_ns: Doubles  # 0.0 where the edge carries none
    delay_ns: Doubles
    delays: Longs  # how often the edge carries it: 1, 0; -1: from a message's arrival back to when it was sent
    ahead_ns: Doubles  # of the latter, taken off; else 0.0
    begin_ns: Doubles  # of each edge, since the origin
    end_ns: Doubles
    unexplained_ns: float  # gaps between a task's events, OTHER, waking up, residuals: all without their signs

    def steps(self) -> CriticalSteps:
        """The path in order of time: edges of one element that touch are one step."""
        lasts = (self.element >= 0) & (self.end_ns > self.begin_ns)
        order = np.flatnonzero(lasts)[np.argsort(self.begin_ns[lasts], kind="stable")]
        element, begin_ns, end_ns = self.element[order], self.begin_ns[order], self.end_ns[order]
        new = np.ones(len(element), dtype=bool)
        new[1:] = (element[1:] != element[:-1]) | (begin_ns[1:] > end_ns[:-1])
        first = np.flatnonzero(new)
        return CriticalSteps(
            elements=tuple(self.services.elements), element=element[first], begin_s=begin_ns[first] / 1e9,
            end_s=(np.maximum.reduceat(end_ns, first) if len(first) else end_ns) / 1e9,
        )  # fmt: skip

    def most_saved_ns(self, whatif: WhatIf) -> float:
        """What ``whatif`` takes off the path: it saves no more. Raises: KeyError, if an element is not in the run."""
        off_ns = self.services.off_ns(self.unit, whatif)
        touched = self.services.touched(whatif).items()
        return sum(self._less_ns(element, changes, off_ns) for element, changes in touched)

    def _less_ns(self, element: int, changes: Sequence[Change], off_ns: Doubles) -> float:
        """By how much the edges of ``element`` are shorter in sum after ``changes``."""
        own = slice(*np.searchsorted(self.element, [element, element + 1]).tolist())
        service_ns, delay_ns, ahead_ns = self.service_ns[own], self.delay_ns[own], self.ahead_ns[own]
        scale, less_ns = self.services.effect(changes, self.unit[own])
        then_ns = computed_ns(service_ns, off_ns[own], scale, np.where(self.is_host[own], less_ns, 0.0))
        delay_then_ns = delayed_ns(delay_ns, less_ns)
        ahead_then_ns = carried_ns(ahead_ns, off_ns[own], scale)
        saved_ns = service_ns - then_ns + self.delays[own] * (delay_ns - delay_then_ns) - (ahead_ns - ahead_then_ns)
        return float(saved_ns.sum())


def uneven_ns(path: CriticalPath, queue: Queue, service_ns: Doubles, moments: int) -> float:
    """How much longer messages on ``path`` take in all than is usual for as many bits on their links.

    ``service_ns``: what each message of ``queue`` takes. ``moments``: how many there are, after which messages are
    numbered. Small ones are left out.
    """
    if not len(queue.link):
        return 0.0
    most_bits = np.zeros(int(queue.link.max()) + 1)
    np.maximum.at(most_bits, queue.link, queue.bits)
    per_bit_ns, is_large = service_ns / queue.bits, queue.bits >= LARGE * most_bits[queue.link]
    messages = path.unit[~path.is_host & (path.service_ns > 0)] - moments
    messages = messages[is_large[messages]]
    large = np.flatnonzero(is_large)
    large = large[np.lexsort((per_bit_ns[large], queue.link[large]))]
    links, first, count = np.unique(queue.link[large], return_index=True, return_counts=True)
    usual_ns = np.zeros(len(most_bits))
    usual_ns[links] = per_bit_ns[large[first + count // 2]]
    took_ns, as_usual_ns = service_ns[messages], queue.bits[messages] * usual_ns[queue.link[messages]]
    return float((took_ns - as_usual_ns)[took_ns >= CLEARLY * as_usual_ns].sum())


def critical_path(moments: Moments, queue: Queue, end: int, services: Services) -> CriticalPath:
    """The path that ends at moment ``end`` of a run as it was observed."""
    count = len(moments.first)
    at_ns = values_ns(moments, queue)
    value, edge = _walked_back(moments, queue, at_ns, end)
    begin_ns, end_ns = at_ns[np.append(value[1:], 0)], at_ns[value]  # the last follows the origin
    by_program, of_moment = edge == BY_PROGRAM, edge <= BY_CAUSE
    moment, message = value[of_moment], (value[~of_moment] - count) % len(queue.link) if len(queue.link) else value[:0]
    kind = edge[~of_moment]
    unexplained_ns = (
        np.abs(moments.lag_ns[value[by_program]]).sum() + np.abs(moments.residual_ns[moment]).sum()
        + moments.service_ns[moment[moments.phase[moment] == Phase.OTHER]].sum()
        + np.abs(queue.start_residual_ns[message[kind == STARTED]]).sum()
        + np.abs(queue.sent_residual_ns[message[(kind == SENT_BY_START) | (kind == SENT_BY_ARRIVAL)]]).sum()
    )  # fmt: skip
    arrives, back = np.isin(kind, (BY_START, BY_ARRIVAL)), kind == SENT_BY_ARRIVAL
    blank = np.zeros(len(moment))
    unit = np.append(moment, message + count)
    columns: tuple[npt.NDArray[Any], ...] = (
        unit, np.append(moments.service_ns[moment], np.where(arrives, queue.service_ns[message], 0.0)),
        np.append(blank, queue.delay_ns[message]),
        np.append(blank, (kind == BY_START) * 1 - back * 1).astype(np.int64),
        np.append(blank, np.where(back, queue.ahead_ns[message], 0.0)),
        np.append(begin_ns[of_moment], begin_ns[~of_moment]), np.append(end_ns[of_moment], end_ns[~of_moment]),
    )  # fmt: skip
    element = services.element[unit]
    order = order_of(element)
    unit, service_ns, delay_ns, delays, ahead_ns, begin_ns, end_ns = (column[order] for column in columns)
    return CriticalPath(
        services=services, element=element[order], unit=unit, is_host=unit < count, service_ns=service_ns,
        delay_ns=delay_ns, delays=delays, ahead_ns=ahead_ns, begin_ns=begin_ns, end_ns=end_ns,
        unexplained_ns=float(unexplained_ns),
    )  # fmt: skip


@compiled(lambda moments, queue, at_ns, end: len(at_ns))
def _walked_back(moments: Moments, queue: Queue, at_ns: Doubles, end: int) -> tuple[Longs, Longs]:
    """From value ``end`` back to the origin: each value, and by which edge it follows the next."""
    count, messages = len(moments.first), len(queue.link)
    values, edges = np.empty(len(at_ns), dtype=np.int64), np.empty(len(at_ns), dtype=np.int64)
    length, value = 0, end
    while value != 0 and length < len(at_ns):  # a trace that contradicts itself may hold a circle
        message = (value - count) % messages if value >= count else 0
        values[length] = value
        if value < count:
            first, second = moments.first[value], moments.second[value]
            by_first = at_ns[first] + moments.lag_ns[value] >= at_ns[second]
            edges[length], value = (0, first) if by_first else (1, second)
        elif value < count + messages:
            after, start = queue.arrived_after[message], value + 2 * messages
            by_start = after < 0 or at_ns[start] + queue.delay_ns[message] >= at_ns[count + after]
            edges[length], value = (2, start) if by_start else (3, count + after)
        elif value < count + 2 * messages:
            left_ns = queue.arrived_ns[message] - queue.delay_ns[message] - queue.ahead_ns[message]
            by_start = not queue.held_back[message] or left_ns <= queue.start_ns[message]
            edges[length], value = (4, value + messages) if by_start else (5, value - messages)
        else:
            after, posted = queue.sent_after[message], queue.posted[message]
            by_posted = after < 0 or at_ns[posted] >= at_ns[count + messages + after]
            edges[length], value = (6, posted if by_posted else count + messages + after)
        length += 1
    return values[:length], edges[:length]
