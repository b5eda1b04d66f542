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
from collections.abc import Callable, Sequence
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

    def __init__(self, bottlenecks: tuple[int, ...]) -> None:
        self.bottlenecks = bottlenecks
        self.capacity: Capacity
        self.position = self.end = self.rate = 0.0  # bits, bits, bits per ns
        self.taken = math.inf  # the position where what the kernel has ends, while the sender is stopped
        self.marks: list[tuple[float, int, Callable[[Any], None], Any]] = []

    @property
    def busy(self) -> bool:
        return bool(self.marks)

    @property
    def sending(self) -> bool:
        return self.busy and self.position < self.taken - _TOLERANCE_BITS


class Fluid:
    """Links that share ``bottlenecks``, or one ``alone``, whose conditions or sender change in ways not known before.

    Wires call :meth:`mark` and then :meth:`changed`.
    """

    def __init__(self, kernel: Kernel, bottlenecks: Sequence[SharedRate], *alone: RankPair) -> None:
        self.kernel = kernel
        self._rates = [Capacity(rates(bottleneck)) for bottleneck in bottlenecks]
        self.flows: dict[RankPair, BitStream] = {}
        for pair in sorted({*alone, *(pair for bottleneck in bottlenecks for pair in bottleneck.links)}):
            through = tuple(index for index, bottleneck in enumerate(bottlenecks) if pair in bottleneck.links)
            self.flows[pair] = BitStream(through)
        self._at_ns = 0
        self._version = 0
        self._number = 0
        self._changing = False

    def mark(self, flow: BitStream, position: float, action: Callable[[Any], None], argument: Any) -> None:
        """Call ``action(argument)`` when ``flow`` has come to ``position``."""
        self._number += 1
        heappush(flow.marks, (position, self._number, action, argument))

    def changed(self, version: int | None = None) -> None:
        """Bring all flows up to now, do what is due, share anew, and come back when the next thing is due."""
        # an action calls again: the call under way looks once more; older wake-ups are void
        if self._changing or (version is not None and version != self._version):
            return
        self._changing = True
        self._advance()
        while sum(self._fire(flow) for flow in self.flows.values()):  # what is due may make more due
            pass
        sending = [flow for flow in self.flows.values() if flow.sending]
        self._share(sending)
        self._changing = False
        self._version += 1  # makes wake-ups under older rates void
        self.kernel.at(min(map(self._next_ns, sending), default=FOREVER), self.changed, self._version)

    def _advance(self) -> None:
        passed_ns = self.kernel.now_ns - self._at_ns
        self._at_ns = self.kernel.now_ns
        for flow in self.flows.values():
            if flow.rate:
                flow.position = min(flow.end, flow.taken, flow.position + flow.rate * passed_ns)

    def _fire(self, flow: BitStream) -> bool:
        """Whether ``flow`` had come to a mark."""
        fired = False
        while flow.marks and flow.marks[0][0] <= flow.position + _TOLERANCE_BITS:
            _, _, action, argument = heappop(flow.marks)
            action(argument)
            fired = True
        return fired

    def _share(self, sending: Sequence[BitStream]) -> None:
        """Max-min fair rates: fill all alike, and freeze whoever meets a limit first."""
        for flow in self.flows.values():
            flow.rate = 0.0
        left = [rates.rate_at(self.kernel.now_ns) for rates in self._rates]
        own = {id(flow): flow.capacity.rate_at(self.kernel.now_ns) for flow in sending}  # once per flow, not per round
        unfrozen = list(sending)
        while unfrozen:
            users = [sum(index in flow.bottlenecks for flow in unfrozen) for index in range(len(left))]
            fair = [left[index] / users[index] if users[index] else math.inf for index in range(len(left))]
            limits = [min([own[id(flow)], *(fair[index] for index in flow.bottlenecks)]) for flow in unfrozen]
            lowest = min(limits)
            frozen = [flow for flow, limit in zip(unfrozen, limits, strict=True) if limit <= lowest * (1 + 1e-12)]
            for flow in frozen:
                flow.rate = lowest
                for index in flow.bottlenecks:
                    left[index] = max(0.0, left[index] - lowest)  # floats may go a little below
            unfrozen = [flow for flow in unfrozen if flow not in frozen]

    def _next_ns(self, flow: BitStream) -> int:
        change_ns = flow.capacity.next_change_ns(self._at_ns)
        if change_ns >= FOREVER and not flow.capacity.rate_at(self._at_ns):
            return FOREVER  # down for good, whatever becomes of the bottlenecks
        change_ns = min([change_ns, *(self._rates[index].next_change_ns(self._at_ns) for index in flow.bottlenecks)])
        if not flow.rate:
            return change_ns
        missing = max(0.0, min(flow.marks[0][0], flow.taken) - flow.position)
        # at least 1 ns later: a rest below a bit must not stop time
        return min(change_ns, self._at_ns + max(1, math.ceil(missing / flow.rate - 1e-9)))


class SharedWire(Wire):
    """A link whose rate depends on others'. Times of a message are known only as they come."""

    def share(self, fluid: Fluid) -> None:
        """Send as a flow of ``fluid``; once, before anything is posted."""
        self._fluid, self._flow = fluid, fluid.flows[self.src, self.dst]
        self._flow.capacity = self.capacity

    def recondition(self) -> None:
        """The model's conditions are others from now on."""
        super().recondition()
        self._flow.capacity = self.capacity
        self._fluid.changed()

    def stop(self) -> None:
        """The sender is stopped: its kernel goes on with what it has taken, and is given no more."""
        self._fluid.changed()  # first: positions are as of the last change
        self._flow.taken = self._flow.position + self.buffer_bits  # its buffer is full when it is stopped
        self._fluid.changed()

    def go_on(self) -> None:
        """The sender is there again, or will never be."""
        self._flow.taken = math.inf
        self._fluid.changed()

    def begin(self, transfer: Transfer) -> None:
        """Hand ``transfer`` to the kernel, which is free."""
        flow, fluid = self._flow, self._fluid
        fluid.changed()  # positions as of now, before marks are put behind them
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
