"""A bottleneck that TCP connections of several links share: trains of segments wait, and leave one by one.

::

    own link of 0 -> 2 --trains--.    wait, at most the limit    served at the rate of the bottleneck
    own link of 1 -> 2 --trains---+-> [= = = = = = = = = =] ---> one train at a time --> delay of its link

*fifo*: first come, first served. When the queue is full, the link that has most in it loses what came last of it, as in
the relay (longest queue drop: Suter et al., Design Considerations for Supporting TCP with Per-flow Queueing, 1998).
*fair*: a queue for each link (:mod:`e2c_dl.dynamics.fair_queue`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from e2c_dl.dynamics.fair_queue import FairQueue
from e2c_dl.ethernet import FULL_FRAME_BITS, wire_bits
from e2c_dl.topology import Discipline
from e2c_dl.worlds.virtual.capacity import Capacity, Step
from e2c_dl.worlds.virtual.kernel import Kernel
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES, SharedRate
from e2c_dl.worlds.virtual.tcp.connection import Train


class Flow(Protocol):
    """A link through a bottleneck."""

    def __hash__(self) -> int: ...

    def bits(self, train: Train, /) -> int: ...

    def passed(self, train: Train, departed_ns: int, header_ns: int, /) -> None: ...


Arrival = tuple[Flow, Train]
_HEADER_BITS = wire_bits(MESSAGE_HEADER_BYTES)


class SharedQueue:
    """The queue before ``shared``."""

    def __init__(self, kernel: Kernel, shared: SharedRate) -> None:
        self.rate_bps = shared.rate_bps
        self._kernel, self._capacity = kernel, Capacity(rates(shared))
        fifo = shared.discipline is Discipline.FIFO
        self._queue: Fifo | Fair = (Fifo if fifo else Fair)(shared.queue_bytes)
        self._busy = False

    def enter(self, arrival: Arrival) -> None:
        """A train comes from its own link; of it, or of others, what the queue has no room for is lost."""
        self._queue.put(self._kernel.now_ns, arrival)
        if not self._busy:
            self._serve()

    def _serve(self) -> None:
        """Begin with the next, if there is one."""
        now_ns = self._kernel.now_ns
        arrival = self._queue.take(now_ns)
        self._busy = arrival is not None
        if arrival is not None:
            flow, train = arrival
            bits = flow.bits(train)
            header_ns = self._capacity.finish_ns(now_ns, min(bits, _HEADER_BITS))
            self._kernel.at(self._capacity.finish_ns(now_ns, bits), self._served, (flow, train, header_ns))

    def _served(self, served: tuple[Flow, Train, int]) -> None:
        flow, train, header_ns = served
        flow.passed(train, self._kernel.now_ns, header_ns)
        self._serve()


class Fifo:
    """One queue for all."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bits = 8 * limit_bytes
        self._waiting: deque[Arrival] = deque()
        self._held_bits: dict[Flow, int] = {}

    def put(self, _: int, arrival: Arrival) -> None:
        flow, train = arrival
        held = self._held_bits
        self._waiting.append(arrival)
        held[flow] = held.get(flow, 0) + flow.bits(train)
        while (excess := sum(held.values()) - self._limit_bits) > 0:
            longest = max(held, key=held.__getitem__)
            if held[longest] <= held[flow]:  # at a tie the newcomer loses
                longest = flow
            self._shorten(longest, -(-excess // FULL_FRAME_BITS))

    def take(self, _: int) -> Arrival | None:
        while self._waiting:
            flow, train = arrival = self._waiting.popleft()
            if train.kept > train.first:
                self._held_bits[flow] -= flow.bits(train)
                return arrival
        return None

    def _shorten(self, flow: Flow, segments: int) -> None:
        """Drop up to ``segments`` segments of the last train of ``flow`` that waits."""
        last = next(train for owner, train in reversed(self._waiting) if owner is flow and train.kept > train.first)
        before = flow.bits(last)
        last.kept = max(last.first, last.kept - segments)
        self._held_bits[flow] += flow.bits(last) - before


class Fair:
    """A queue for each link."""

    def __init__(self, limit_bytes: int) -> None:
        self._queue: FairQueue[Arrival] = FairQueue(limit_bytes)

    def put(self, now_ns: int, arrival: Arrival) -> None:
        flow, train = arrival
        self._drop(self._queue.put(now_ns / 1e9, flow, arrival, -(-flow.bits(train) // 8)))

    def take(self, now_ns: int) -> Arrival | None:
        arrival, dropped = self._queue.take(now_ns / 1e9)
        self._drop(dropped)
        return arrival

    def _drop(self, dropped: list[Arrival]) -> None:
        for _, train in dropped:
            train.kept = train.first


def rates(shared: SharedRate) -> Iterator[Step]:
    """The rate over time, in bits per ns."""
    steps = iter([(0.0, shared.rate_bps)]) if shared.rates is None else shared.rates()
    return ((round(from_s * 1e9), rate_bps / 1e9) for from_s, rate_bps in steps)
