"""Ideal links that share a bottleneck: each gets its max-min fair share while it has something to send.

::

    rank 0 --10--\\                      shares of 0->2 and 1->2 through a bottleneck of 8: 4 and 4;
                   ==8==> rank 2         with 0->2 limited to 3: 3 and 5; alone: each what its link and
    rank 1 --10--/                      the bottleneck let through

A fluid model: between two events every link sends at a constant rate, and positions in its stream of bits have
moments: where a message's header, its last byte, and the last byte that the kernel had to take are. Rates change when
a link becomes busy or idle, and when a schedule says so. Source: max-min fairness by progressive filling: Bertsekas and
Gallager, Data Networks, 1992, 6.5.2. TCP connections of unlike round trips share less evenly than that.

A sender that is stopped hands over no more: its stream comes as far as its kernel has taken it, and ends there for now.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from e2c_dl.ethernet import wire_bits
from e2c_dl.worlds.virtual.capacity import Capacity
from e2c_dl.worlds.virtual.kernel import FOREVER, Kernel
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES, RankPair, SharedRate
from e2c_dl.worlds.virtual.tcp.bottleneck import rates
from e2c_dl.worlds.virtual.transfer import Transfer
from e2c_dl.worlds.virtual.wire import Wire

_TOLERANCE_BITS = 1e-3  # what rounding to nanoseconds and floats may leave


class BitStream:
    """One link's stream of bits. ``marks`` are actions at positions in it, the lowest first."""

    def __init__(self, number: int, bottlenecks: tuple[int, ...]) -> None:
        self.number, self.bottlenecks = number, bottlenecks
        self.listed = False  # among those that are busy
        self.capacity: Capacity
        self.position = self.end = self.rate = 0.0  # bits, bits, bits per ns
        self.taken = math.inf  # the position where what the kernel has ends, while the sender is stopped
        self.marks: list[tuple[float, int, Callable[[Any], None], Any]] = []

    @property
    def busy(self) -> bool:
        return bool(self.marks)

    @property
    def is_due(self) -> bool:
        """Of one that is busy: whether it has come to a mark."""
        return self.marks[0][0] <= self.position + _TOLERANCE_BITS

    @property
    def sending(self) -> bool:
        """Of one that is busy: whether its kernel has more."""
        return self.position < self.taken - _TOLERANCE_BITS


class Fluid:
    """Links that share ``bottlenecks``, or one ``alone``, whose conditions or sender change in ways not known before.

    Wires call :meth:`settle`, :meth:`mark` and then :meth:`changed`. What an event costs grows with the links that are
    busy; of those that are not, none is looked at.
    """

    def __init__(self, kernel: Kernel, bottlenecks: Sequence[SharedRate], *alone: RankPair) -> None:
        self.kernel = kernel
        self._rates = [Capacity(rates(bottleneck)) for bottleneck in bottlenecks]
        self.flows: dict[RankPair, BitStream] = {}
        through: dict[RankPair, list[int]] = {pair: [] for pair in alone}
        for index, bottleneck in enumerate(bottlenecks):
            for pair in dict.fromkeys(bottleneck.links):
                through.setdefault(pair, []).append(index)
        for number, pair in enumerate(sorted(through)):
            self.flows[pair] = BitStream(number, tuple(through[pair]))
        self._busy: list[BitStream] = []  # by number, as the next
        self._sending: list[BitStream] = []  # as of the last time that rates were shared
        self._shared_until_ns = 0  # then a rate is another
        self._at_ns = 0
        self._version = 0
        self._number = 0
        self._changing = False

    def mark(self, flow: BitStream, position: float, action: Callable[[Any], None], argument: Any) -> None:
        """Call ``action(argument)`` when ``flow`` has come to ``position``."""
        self._number += 1
        if not flow.listed:
            flow.listed = True
            insort(self._busy, flow, key=lambda each: each.number)
        heappush(flow.marks, (position, self._number, action, argument))

    def recondition(self, flow: BitStream, capacity: Capacity) -> None:
        """The rate of ``flow`` alone is that of ``capacity`` from now on."""
        flow.capacity = capacity
        self._shared_until_ns = 0
        self.changed()

    def changed(self, version: int | None = None) -> None:
        """Bring all flows up to now, do what is due, share anew, and come back when the next thing is due."""
        # an action calls again: the call under way looks once more; older wake-ups are void
        if self._changing or (version is not None and version != self._version):
            return
        self.settle()
        sending = [flow for flow in self._busy if flow.sending]
        if sending != self._sending or self._at_ns >= self._shared_until_ns:
            self._share(sending)
        self._version += 1  # makes wake-ups under older rates void
        self.kernel.at(min(self._shared_until_ns, self._next_mark_ns()), self.changed, self._version)

    def settle(self) -> None:
        """Bring all flows up to now, and do what is due: whoever calls it then says that something has changed."""
        if self._changing:
            return
        self._changing = True
        self._advance()
        while due := [flow for flow in self._busy if flow.is_due]:  # what is due may make more due
            for flow in due:
                while flow.busy and flow.is_due:
                    _, _, action, argument = heappop(flow.marks)
                    action(argument)
                flow.listed = flow.busy
            self._busy = [flow for flow in self._busy if flow.listed]
        self._changing = False

    def _advance(self) -> None:
        passed_ns = self.kernel.now_ns - self._at_ns
        self._at_ns = self.kernel.now_ns
        if passed_ns:
            for flow in self._sending:
                flow.position = min(flow.end, flow.taken, flow.position + flow.rate * passed_ns)

    def _share(self, sending: list[BitStream]) -> None:
        """Give each of ``sending`` its rate, all others none, until one's limit is another."""
        now_ns = self._at_ns
        for flow in self._sending:
            flow.rate = 0.0
        self._sending = sending
        own = {flow: flow.capacity.rate_at(now_ns) for flow in sending}
        _fill(own, [capacity.rate_at(now_ns) for capacity in self._rates])
        change_ns = [capacity.next_change_ns(now_ns) for capacity in self._rates]
        self._shared_until_ns = FOREVER
        for flow, limit in own.items():
            own_ns = flow.capacity.next_change_ns(now_ns)
            if limit or own_ns < FOREVER:  # not down for good, whatever becomes of the bottlenecks
                self._shared_until_ns = min([self._shared_until_ns, own_ns, *(change_ns[i] for i in flow.bottlenecks)])

    def _next_mark_ns(self) -> int:
        """When the first of those that send comes to a mark, or to what its kernel has taken."""
        missing_ns = [
            (min(flow.marks[0][0], flow.taken) - flow.position) / flow.rate for flow in self._sending if flow.rate
        ]
        # at least 1 ns later: a rest below a bit must not stop time
        return self._at_ns + max(1, math.ceil(min(missing_ns) - 1e-9)) if missing_ns else FOREVER


def _fill(own: Mapping[BitStream, float], left: list[float]) -> None:
    """Max-min fair rates: fill all alike, and freeze whoever meets a limit first.

    ``own``: each one's limit; ``left``: what each bottleneck has, in bits per ns, which is used up.
    """
    rising = sorted(own, key=own.__getitem__, reverse=True)  # taken from its end
    through: list[list[BitStream]] = [[] for _ in left]
    for flow in own:
        for index in flow.bottlenecks:
            through[index].append(flow)
    users = [len(flows) for flows in through]
    unfrozen = set(own)
    while unfrozen:
        while rising[-1] not in unfrozen:
            rising.pop()
        fair = [rate / count if count else math.inf for rate, count in zip(left, users, strict=True)]
        lowest = min([own[rising[-1]], *fair])
        met = lowest * (1 + 1e-12)
        frozen = {flow for index, share in enumerate(fair) if share <= met for flow in through[index]} & unfrozen
        while rising and own[rising[-1]] <= met:
            frozen.add(rising.pop())
        frozen &= unfrozen
        unfrozen -= frozen
        for flow in frozen:
            flow.rate = lowest
            for index in flow.bottlenecks:
                left[index] = max(0.0, left[index] - lowest)  # floats may go a little below
                users[index] -= 1


class SharedWire(Wire):
    """A link whose rate depends on others'. Times of a message are known only as they come."""

    def share(self, fluid: Fluid) -> None:
        """Send as a flow of ``fluid``; once, before anything is posted."""
        self._fluid, self._flow = fluid, fluid.flows[self.src, self.dst]
        self._flow.capacity = self.capacity

    def recondition(self) -> None:
        """The model's conditions are others from now on."""
        super().recondition()
        self._fluid.recondition(self._flow, self.capacity)

    def stop(self) -> None:
        """The sender is stopped: its kernel goes on with what it has taken, and is given no more."""
        self._fluid.settle()  # first: positions are as of the last change
        self._flow.taken = self._flow.position + self.buffer_bits  # its buffer is full when it is stopped
        self._fluid.changed()

    def go_on(self) -> None:
        """The sender is there again, or will never be."""
        self._flow.taken = math.inf
        self._fluid.changed()

    def begin(self, transfer: Transfer) -> None:
        """Hand ``transfer`` to the kernel, which is free."""
        flow, fluid = self._flow, self._fluid
        fluid.settle()  # positions as of now, before marks are put behind them
        self.number(transfer)
        self.pump_free_ns = FOREVER  # not known before it happens: others may come and share the rate
        self.taking = transfer
        start, flow.end = flow.end, flow.end + wire_bits(transfer.nbytes)
        leaving = _Leaving(transfer, self.kernel.now_ns)
        header_bits = min(flow.end - start, wire_bits(MESSAGE_HEADER_BYTES))
        fluid.mark(flow, flow.end - self.buffer_bits, self._gone, leaving)
        fluid.mark(flow, start + header_bits, self._first, leaving)
        fluid.mark(flow, flow.end, self._departed, leaving)
        fluid.changed()

    def say_goodbye(self) -> None:
        """Tell the receiver after everything that is under way: at once, or when the last message has departed."""
        if not self._flow.busy:
            super().say_goodbye()

    def _gone(self, leaving: _Leaving) -> None:
        if self.kernel.held(self.src, self._gone, leaving):
            return
        transfer = leaving.transfer
        transfer.gone(self.kernel.now_ns)
        self.sent(transfer, leaving.start_ns)
        self.pump_free_ns = self.kernel.now_ns
        self.pump(None)

    def _first(self, leaving: _Leaving) -> None:
        leaving.first_ns = self.kernel.now_ns

    def _departed(self, leaving: _Leaving) -> None:
        self.deliver(leaving.transfer, leaving.first_ns, self.kernel.now_ns)
        if not self._flow.busy and not self.queue:
            self.say_goodbye()


class _Leaving:
    """A message on a shared link, and when the kernel began to take it, and when its header had left."""

    __slots__ = ("first_ns", "start_ns", "transfer")

    def __init__(self, transfer: Transfer, start_ns: int) -> None:
        self.transfer, self.start_ns = transfer, start_ns
        self.first_ns = start_ns
