"""A directed link in virtual time: a queue by priority, a kernel's buffer, a rate, a delay; first in, first out.

::

    post -> queue -> pump: one message at a time, until the kernel has taken it -> wire -> delay -> mailbox
            lower priority value first              FIFO: nothing overtakes from here on

A message that is posted while nothing waits begins at once, and then all of its times are known: one event, its
arrival. A higher priority overtakes what is queued, not what the kernel has taken (``send_buffer_bytes``), as in the
live world. With jitter each segment has its own delay, and a message is there when the latest of its segments is: what
TCP hands over, it hands over in order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Protocol

from e2c_dl.dynamics.loss_model import MOST_SPREAD, spread
from e2c_dl.errors import PeerLost
from e2c_dl.ethernet import FULL_FRAME_BITS, SEGMENT_BYTES, wire_bits
from e2c_dl.strategies.base import LinkEstimate
from e2c_dl.trace.model import RECORD, Phase
from e2c_dl.worlds.virtual.capacity import UNLIMITED_BPS, Capacity, Step
from e2c_dl.worlds.virtual.estimate import Delivered
from e2c_dl.worlds.virtual.kernel import FOREVER, Kernel, Pauses
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES, LinkModel
from e2c_dl.worlds.virtual.transfer import Transfer

_SEND, _RECEIVE = int(Phase.SEND), int(Phase.RECEIVE)
_NO_TASK = -2
_pack = RECORD.pack


class Receiver(Protocol):
    """The worker at a wire's end."""

    deaf: bool  # it is stopped, or dead
    resumed_ns: int  # when it last went on; 0: it was never stopped
    pauses: Pauses
    record: Callable[[bytes], None]
    put: Callable[[Transfer], None]

    def lose(self, why: PeerLost, orderly: bool) -> None:
        """Nothing more comes from ``why.rank``."""


class Wire:
    """The link ``src`` -> ``dst``, independent of all others. ``record`` appends to the sender's spans."""

    def __init__(
        self, kernel: Kernel, model: LinkModel, *, src: int, dst: int, round_trip_s: float, seed: int,
        record: Callable[[bytes], None], receiver: Receiver,
    ) -> None:  # fmt: skip
        self.kernel, self.model, self.src, self.dst = kernel, model, src, dst
        self.record, self.receiver = record, receiver
        self.lost: PeerLost | None = None
        self.capacity = Capacity(steps(model))
        self._in_force = ConditionsInForce(model.over_time())
        self.queue: list[tuple[int, int, Transfer]] = []
        self.pump_free_ns = 0
        self.arrived_ns = 0  # of the last message that is under way
        self.goodbye: tuple[PeerLost, bool] | None = None
        self.buffer_bits = float(wire_bits(model.send_buffer_bytes)) if model.send_buffer_bytes else 0.0
        self._buffer_ns = self.capacity.finish_ns(0, self.buffer_bits)  # used at a constant rate alone
        self._header_ns = self.capacity.finish_ns(0, wire_bits(MESSAGE_HEADER_BYTES))
        self.round_trip_s = round_trip_s
        self._delay_ns = round(model.delay_s * 1e9)
        self._back_to_src_ns = round(round_trip_s * 1e9) - self._delay_ns
        self._delivered = Delivered()
        self.taking: Transfer | None = None  # by the kernel, where it is not known how long that goes on
        chance = model.jitter_s or model.conditions
        self._random = random.Random(f"{seed} {src} {dst}") if chance else None
        self._service_ns: dict[int, int] = {}  # nbytes -> how long it takes, where that is always the same
        self._on_arrival = self._arrive  # bound once
        self._posted = 0
        self.begun = 0
        self._wire_free_ns = 0

    def post(self, transfer: Transfer, priority: int = 0) -> None:
        """Send ``transfer``, after what is queued with the same or a lower value of ``priority``."""
        if self.lost is not None:
            transfer.fail(self.lost)
        elif not self.queue and self.pump_free_ns <= self.kernel.now_ns:
            self.begin(transfer)
        else:
            if not self.queue:  # whoever queued first has asked for the pump already
                self.kernel.at(self.pump_free_ns, self.pump, None)
            self._posted += 1
            heappush(self.queue, (priority, self._posted, transfer))

    def estimate(self) -> LinkEstimate | None:
        """What the link has done lately, as far as its sender knows; None: it cannot tell."""
        return self._delivered.estimate(self.kernel.now_ns, self._delay_ns, self._back_to_src_ns)

    def queued_bytes(self) -> int:
        """Bytes that wait for room: those of whole messages, and what is left of the one that the kernel takes."""
        waiting, now_ns = sum(transfer.nbytes for _, _, transfer in self.queue), self.kernel.now_ns
        if self.taking is not None and self.taking.gone_ns > now_ns:
            return waiting + self.taking.nbytes
        if now_ns < self.pump_free_ns < FOREVER:
            return waiting + round((self.pump_free_ns - now_ns) * self.capacity.rate_at(now_ns) / 8)
        return waiting

    def recondition(self) -> None:
        """The model's conditions are others from now on."""
        self.capacity = Capacity(steps(self.model))
        self._in_force = ConditionsInForce(self.model.over_time())

    def pump(self, _: object) -> None:
        """The kernel has taken a message: begin the next, if there is one."""
        if self.queue:
            self.begin(heappop(self.queue)[2])
            if self.queue:
                self.kernel.at(self.pump_free_ns, self.pump, None)
        if self.goodbye is not None and not self.queue:
            self.say_goodbye()

    def farewell(self, why: PeerLost, *, orderly: bool) -> None:
        """The sender has ended: the receiver is told after all that it will still get; a killed one drops its queue."""
        self.goodbye = (why, orderly)
        if not orderly:
            self.queue.clear()
        if not self.queue:
            self.say_goodbye()

    def lose(self, why: PeerLost) -> None:
        """The receiver is dead: nothing that is queued or posted later leaves."""
        self.lost = why
        queue, self.queue = self.queue, []
        for _, _, transfer in queue:
            transfer.fail(why)

    def begin(self, transfer: Transfer) -> None:
        """Hand ``transfer`` to the kernel, which is free: all of its times are known now."""
        service_ns = self._service_ns.get(transfer.nbytes)
        if service_ns is None:  # chance or change, or the first of its size
            self._begin_slowly(transfer)
            return
        kernel, message, delay_ns = self.kernel, transfer.message, self._delay_ns
        now_ns = kernel.now_ns
        start_ns = self._wire_free_ns if self._wire_free_ns > now_ns else now_ns  # noqa: FURB136 - the hot path
        self._wire_free_ns = departed_ns = start_ns + service_ns
        gone_ns = departed_ns - self._buffer_ns
        if gone_ns < now_ns:  # noqa: PLR1730
            gone_ns = now_ns
        self.pump_free_ns = gone_ns
        if transfer.waiting is None and transfer.original is None:
            transfer.gone_ns = gone_ns
        else:
            transfer.gone(gone_ns)
        transfer.seq = seq = self.begun
        self.begun = seq + 1
        self.record(_pack(
            transfer.posted_ns, now_ns, gone_ns, transfer.nbytes, seq, message.iteration, transfer.task, -2,
            message.bucket, self.src, self.dst, 0, _SEND, 0,
        ))  # fmt: skip
        transfer.begun_ns = start_ns + self._header_ns + delay_ns
        self.arrived_ns = arrived_ns = departed_ns + delay_ns
        heappush(kernel.heap, (arrived_ns, next(kernel.numbers), self._on_arrival, transfer))

    def _begin_slowly(self, transfer: Transfer) -> None:
        """As :meth:`begin`, where rates change, segments are lost, or a service time is not known yet."""
        now_ns = self.kernel.now_ns
        capacity = self.capacity
        start_ns = max(self._wire_free_ns, now_ns)
        departed_ns = capacity.finish_ns(start_ns, wire_bits(transfer.nbytes))
        gone_ns = max(now_ns, capacity.begin_ns(departed_ns, self.buffer_bits))
        first_ns = capacity.finish_ns(start_ns, wire_bits(MESSAGE_HEADER_BYTES))
        if capacity.constant is not None and self._random is None:
            self._service_ns[transfer.nbytes] = departed_ns - start_ns
        if departed_ns >= FOREVER:  # it never leaves; time goes on until the link is down for good, which is why
            self.kernel.at(max(now_ns, capacity.last_change_ns), lambda _: None, None)
        self._wire_free_ns, self.pump_free_ns = departed_ns, gone_ns
        transfer.gone(gone_ns)
        self.number(transfer)
        self.sent(transfer, now_ns)
        self.deliver(transfer, first_ns, departed_ns)

    def number(self, transfer: Transfer) -> None:
        """Give ``transfer`` its number in the order on the wire."""
        transfer.seq = self.begun
        self.begun += 1

    def sent(self, transfer: Transfer, start_ns: int) -> None:
        """Leave the span of a message that the kernel began to take at ``start_ns``; of one that never goes, none."""
        if transfer.gone_ns >= FOREVER:
            return
        message = transfer.message
        self.record(_pack(
            transfer.posted_ns, start_ns, transfer.gone_ns, transfer.nbytes, transfer.seq, message.iteration,
            transfer.task, -2, message.bucket, self.src, self.dst, 0, _SEND, 0,
        ))  # fmt: skip

    def deliver(self, transfer: Transfer, first_ns: int, departed_ns: int) -> None:
        """Let ``transfer`` arrive after the delay: its header has left at ``first_ns``, all at ``departed_ns``."""
        arrived_ns = departed_ns + self._delay_ns
        if self._random is not None:  # chance or change
            now = self._in_force.at(departed_ns)  # a change while it is on its way does not touch it
            self._delay_ns = round(now.delay_s * 1e9)
            arrived_ns = departed_ns + self._delay_ns
            if now.jitter_s:
                segments = max(1, -(-transfer.nbytes // SEGMENT_BYTES))
                arrived_ns += late_ns(now, segments, self.capacity.rate_at(departed_ns), self._random)
        arrived_ns = max(arrived_ns, self.arrived_ns)  # TCP delivers in order, whatever the jitter
        begun_ns = max(first_ns + self._delay_ns, self.arrived_ns)  # read after the previous one
        self.arrived_ns = arrived_ns
        transfer.begun_ns = min(arrived_ns, begun_ns)
        self.kernel.at(arrived_ns, self._arrive, transfer)

    def say_goodbye(self) -> None:
        """Tell the receiver what the farewell was, after everything that is under way."""
        if self.goodbye is not None:
            at_ns = max(self.arrived_ns, self.kernel.now_ns + self._delay_ns)
            self.kernel.at(at_ns, self._part, self.goodbye)
            self.goodbye = None

    def _part(self, goodbye: tuple[PeerLost, bool]) -> None:
        if not self.kernel.held(self.dst, self._part, goodbye):
            self.receiver.lose(*goodbye)

    def _arrive(self, transfer: Transfer) -> None:
        receiver = self.receiver
        if self.lost is not None:  # the connection is gone
            return
        if receiver.deaf:  # one that goes on will hear of it
            self.kernel.held(self.dst, self._on_arrival, transfer)
            return
        message, begun_ns = transfer.message, transfer.begun_ns
        if begun_ns < receiver.resumed_ns:  # its header may have waited to be read
            begun_ns = receiver.pauses.runs_ns(begun_ns)
        receiver.record(_pack(
            begun_ns, begun_ns, self.kernel.now_ns, transfer.nbytes, transfer.seq, message.iteration, _NO_TASK, -2,
            message.bucket, self.src, self.dst, 0, _RECEIVE, 0,
        ))  # fmt: skip
        self._delivered.note((self.kernel.now_ns, self.kernel.now_ns - transfer.begun_ns, transfer.nbytes))
        receiver.put(transfer)


class ConditionsInForce:
    """What a link is like over time, asked for in order of time."""

    def __init__(self, source: Iterator[tuple[float, LinkModel]]) -> None:
        self._source = source
        _, self._now = next(source)
        self._next = next(source, None)

    def at(self, time_ns: int) -> LinkModel:
        """The model in force at ``time_ns``, which is not before that of the last call."""
        while self._next is not None and round(self._next[0] * 1e9) <= time_ns:
            self._now = self._next[1]
            self._next = next(self._source, None)
        return self._now


def late_ns(now: LinkModel, segments: int, bits_per_ns: float, generator: random.Random) -> int:
    """How much later than its delay after the departure of the last the latest of ``segments`` is there; maybe below 0.

    Segments leave one after another at this rate; each draws its own delay, from the last on, as long as an earlier one
    could still be later than those.
    """
    gap_ns, jitter_ns, least_ns = FULL_FRAME_BITS / bits_per_ns, now.jitter_s * 1e9, -now.delay_s * 1e9
    most_ns = MOST_SPREAD[now.distribution] * jitter_ns
    latest_ns, before_ns = least_ns, 0.0
    for _ in range(segments):
        if most_ns - before_ns <= latest_ns:
            break
        latest_ns = max(latest_ns, max(least_ns, jitter_ns * spread(now.distribution, generator)) - before_ns)
        before_ns += gap_ns
    return round(latest_ns)


def steps(model: LinkModel) -> Iterator[Step]:
    """The rate over time. What waits before a link that TCP sends over leaves it at its rate, also while it is down."""
    for from_s, now in model.over_time():
        rate_bps = UNLIMITED_BPS if now.rate_bps is None else now.rate_bps
        yield round(from_s * 1e9), 0.0 if now.down and model.tcp is None else rate_bps / 1e9
