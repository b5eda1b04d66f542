"""A directed link that TCP sends over: slow start, losses, and a bottleneck that connections share segment by segment.

::

    message -> Connection -> trains of segments -> own queue, own rate -> [bottleneck] -> delay, jitter -> received
                    ^------------------------ ACK, the delay of the way back later ---------------------------'

Where nothing is left to chance, shared, or changes, a connection whose window has come to fill the link keeps it filled
from then on: it is an ideal :class:`Wire`, and costs what one costs; so is one whose window lets a whole message go.
A message has left when all but
``send_buffer_bytes`` of it has left its own link for the first time.
"""

from __future__ import annotations

import random
from collections import deque
from itertools import takewhile

from e2c_dl.dynamics.loss_model import LossModel
from e2c_dl.errors import PeerLost
from e2c_dl.ethernet import FULL_FRAME_BITS, SEGMENT_BYTES, wire_bits
from e2c_dl.scenario.model import Tcp
from e2c_dl.worlds.virtual.kernel import FOREVER
from e2c_dl.worlds.virtual.links import LEAST_ROUND_TRIP_S, MESSAGE_HEADER_BYTES, LinkModel
from e2c_dl.worlds.virtual.tcp.bottleneck import SharedQueue
from e2c_dl.worlds.virtual.tcp.connection import Connection, Train
from e2c_dl.worlds.virtual.tcp.window import Window
from e2c_dl.worlds.virtual.transfer import Transfer
from e2c_dl.worlds.virtual.wire import ConditionsInForce, Receiver, Wire, late_ns

_MOST = 44  # segments of a train: what Linux hands to a network card at once, 64 KiB
_TRAIN_S = 0.005  # what a train takes at most,
_TRAINS = 16  # and how many of them a round trip has at least


class Underway:
    """A message from its begin to its arrival: segments ``first`` to before ``end`` of the stream."""

    __slots__ = ("end", "first", "header_ns", "short_bits", "start_ns", "transfer")

    def __init__(self, transfer: Transfer, start_ns: int, first: int) -> None:
        self.transfer, self.start_ns, self.first = transfer, start_ns, first
        self.end = first + max(1, -(-transfer.nbytes // SEGMENT_BYTES))
        self.short_bits = (self.end - first) * FULL_FRAME_BITS - wire_bits(transfer.nbytes)  # what its last one lacks
        self.header_ns = 0  # when its header had left its own link


class TcpWire(Wire):
    """A Wire whose model has a ``tcp``; :meth:`connect` comes first."""

    def connect(self, tcp: Tcp, sender: Receiver, shared: SharedQueue | None, *, steady: bool, seed: int) -> None:
        """Open the connection. ``steady``: the link changes, and its ends stop, only as its model says."""
        model, kernel = self.model, self.kernel
        round_trip_s = max(self.round_trip_s, LEAST_ROUND_TRIP_S)
        fixed = steady and shared is None and model.conditions is None and not model.mean_loss and not model.down
        self._sender, self._shared, self._restarts = sender, shared, tcp.slow_start_after_idle
        self._open, self._opens = False, fixed and model.rate_bps is not None and not tcp.slow_start_after_idle
        self._past: deque[tuple[int, int]] = deque()  # (when acknowledged, how many) past the connection
        self._fills = round_trip_s * (model.rate_bps or 0.0) / FULL_FRAME_BITS + 2  # segments of window
        rates_bps = [rate for rate in (model.rate_bps, shared and shared.rate_bps) if rate]
        train_s = min(_TRAIN_S, round_trip_s / _TRAINS)
        most = int(min(rates_bps) * train_s / FULL_FRAME_BITS) if rates_bps else _MOST
        self._back_ns = round((round_trip_s - model.delay_s) * 1e9)
        self._kept = model.send_buffer_bytes // SEGMENT_BYTES
        self._beginning: deque[Underway] = deque()  # whose first segment was not sent
        self._leaving: deque[Underway] = deque()
        self._arriving: deque[Underway] = deque()
        self._chance = random.Random(f"{seed} {self.src} {self.dst} loss")
        self._connection = Connection(
            kernel, Window(tcp.congestion_control), round_trip_s, most=max(2, min(_MOST, most)), whole=fixed,
            carry=self._carry, look=self._look, give_up=self._give_up,
        )  # fmt: skip
        self._entering = ConditionsInForce(model.over_time())  # apart: _in_force knows when segments will have departed
        self._now = LinkModel()
        self._look()

    def begin(self, transfer: Transfer) -> None:
        """Hand ``transfer`` to the kernel, which is free."""
        connection = self._connection
        if self._open or (self._opens and not self._leaving and self._passes(transfer)):
            super().begin(transfer)
            return
        for answered_ns, segments in self._past:
            connection.elsewhere += segments
            self.kernel.at(answered_ns, self._answered, segments)
        self._past.clear()
        self.number(transfer)
        self.pump_free_ns = FOREVER  # not known before it happens
        self.taking = transfer
        underway = Underway(transfer, self.kernel.now_ns, connection.end)
        self._beginning.append(underway)
        self._leaving.append(underway)
        self._arriving.append(underway)
        connection.extend(underway.end - underway.first, restart=self._restarts)
        self._let_go()

    def _passes(self, transfer: Transfer) -> bool:
        """Whether the window lets all of ``transfer`` go at once: then it goes as over an ideal link."""
        connection, window, now_ns = self._connection, self._connection.window, self.kernel.now_ns
        if connection.received.complete < connection.end:
            return False
        if window.segments >= self._fills:
            self._open = True  # from now on the window is no limit, whatever is sent
            return True
        while self._past and self._past[0][0] <= now_ns:
            self._grow(self._past.popleft()[1])
        segments = max(1, -(-transfer.nbytes // SEGMENT_BYTES))
        if connection.out + connection.elsewhere + self._past_segments + segments > window.segments:
            return False
        departs_ns = max(now_ns, self._wire_free_ns) + int(segments * FULL_FRAME_BITS / self.capacity.rate_at(now_ns))
        self._past.append((departs_ns + self._delay_ns + self._back_ns, segments))
        return True

    @property
    def _past_segments(self) -> int:
        return sum(segments for _, segments in self._past)

    def _grow(self, segments: int) -> None:
        """These segments, which went past the connection, are acknowledged."""
        connection, now_s = self._connection, self.kernel.now_ns / 1e9
        out = connection.out + connection.elsewhere + self._past_segments + segments
        connection.window.acked(segments, now_s, self.round_trip_s, out, limited=False)

    def _answered(self, segments: int) -> None:
        self._connection.elsewhere -= segments
        self._grow(segments)
        self._connection.push()

    def recondition(self) -> None:
        """The model's conditions are others from now on."""
        super().recondition()
        self._entering = ConditionsInForce(self.model.over_time())

    def stop(self) -> None:
        """The sender is stopped: its kernel goes on with what it has taken."""
        self._connection.limit = min(self._connection.end, self._connection.next + self._kept)

    def go_on(self) -> None:
        """The sender is there again, or will never be."""
        self._connection.limit = self._connection.end
        self._connection.push()
        self._let_go()

    def lose(self, why: PeerLost) -> None:
        """The receiver is lost: nothing leaves any more, nor arrives."""
        super().lose(why)
        self._connection.closed = True
        for underway in self._leaving:
            underway.transfer.fail(why)
        for each in (self._beginning, self._leaving, self._arriving):
            each.clear()

    def pump(self, argument: object) -> None:
        if self.pump_free_ns <= self.kernel.now_ns and not self.kernel.held(self.src, self.pump, argument):
            super().pump(argument)

    def say_goodbye(self) -> None:
        """Tell the receiver after everything that is under way."""
        if not self._arriving:
            super().say_goodbye()

    def bits(self, train: Train) -> int:
        """On the wire, of what is kept of ``train``."""
        bits = (train.kept - train.first) * FULL_FRAME_BITS
        for underway in takewhile(lambda one: one.first < train.kept, self._arriving):
            if train.first < underway.end <= train.kept:
                bits -= underway.short_bits
        return bits

    def passed(self, train: Train, departed_ns: int, header_ns: int = 0) -> None:
        """``train`` leaves for the receiver at ``departed_ns``. ``header_ns``: when what it begins with has left a line
        that others share.
        """
        now = self._in_force.at(departed_ns)  # a change while it is on its way does not touch it
        self._delay_ns = round(now.delay_s * 1e9)
        arrived_ns = expected_ns = departed_ns + self._delay_ns
        if now.jitter_s and self._random is not None:
            rate = self.capacity.rate_at(departed_ns)
            arrived_ns += late_ns(now, train.kept - train.first, rate, self._random)
        before_ns = self.arrived_ns
        self.arrived_ns = arrived_ns = max(arrived_ns, before_ns)
        # segments that overtake are acknowledged as they come: in the mean, as if there were no jitter
        self._connection.arrives(train, expected_ns + self._back_ns)
        self._hand_over(before_ns, header_ns)

    def _hand_over(self, before_ns: int, header_ns: int) -> None:
        """What is complete with what has come now, and left a line from ``header_ns`` on; the last came at
        ``before_ns``.
        """
        complete, arriving = self._connection.received.complete, self._arriving
        for underway in takewhile(lambda one: one.first < complete, tuple(arriving)):
            transfer = underway.transfer
            if transfer.begun_ns == FOREVER:
                left_ns = max(underway.header_ns, header_ns)
                transfer.begun_ns = min(self.arrived_ns, max(before_ns, left_ns + self._delay_ns))
            if underway.end <= complete:
                arriving.popleft()
                self.kernel.at(self.arrived_ns, self._on_arrival, transfer)
        if not arriving and not self.queue:
            self.say_goodbye()

    def _look(self) -> None:
        """See what the link is like now, before anything is sent."""
        now, before, connection = self._entering.at(self.kernel.now_ns), self._now, self._connection
        if now is not before:
            if (now.loss, now.burst) != (before.loss, before.burst):
                connection.losses = LossModel(now.loss, now.burst, self._chance) if now.mean_loss else None
            connection.down, self._now = now.down, now

    def _carry(self, train: Train) -> None:
        """Put what is kept of ``train`` on its own link, as far as the queue has room."""
        now_ns, capacity, now = self.kernel.now_ns, self.capacity, self._now
        start_ns = max(now_ns, self._wire_free_ns)
        if now.rate_bps is not None:
            waiting_bits = (start_ns - now_ns) * now.rate_bps / 1e9
            room = int((8 * now.queue_limit_bytes - waiting_bits) // FULL_FRAME_BITS)
            train.kept = max(train.first, min(train.kept, train.first + room))
        if self._beginning and self._beginning[0].first == train.first:
            header_bits = min(wire_bits(MESSAGE_HEADER_BYTES), self.bits(train))
            self._beginning.popleft().header_ns = capacity.finish_ns(start_ns, header_bits)
        if train.kept > train.first:
            self._wire_free_ns = departed_ns = capacity.finish_ns(start_ns, self.bits(train))
            if self._shared is None:
                self.passed(train, departed_ns)
            else:
                self.kernel.at(departed_ns, self._shared.enter, (self, train))
        if self._leaving:
            self._let_go()

    def _give_up(self, silent_s: float) -> None:
        """Both ends lose each other: the one hears no ACK, the other no answer to its keep-alive."""
        why = f"nothing that was sent was acknowledged for {silent_s:.0f} s"
        self._sender.lose(PeerLost(self.dst, why), orderly=False)
        self.receiver.lose(PeerLost(self.src, why), orderly=False)

    def _let_go(self) -> None:
        """Tell of messages of which no more waits than the kernel takes."""
        sent = self._connection.next
        while self._leaving and self._leaving[0].end - 1 - self._kept < sent:
            underway = self._leaving.popleft()
            behind_bits = (sent - underway.end + self._kept) * FULL_FRAME_BITS
            gone_ns = max(self.kernel.now_ns, self.capacity.begin_ns(self._wire_free_ns, behind_bits))
            self.pump_free_ns = gone_ns
            underway.transfer.gone(gone_ns)
            self.sent(underway.transfer, underway.start_ns)
            if self.queue or self.goodbye is not None:
                self.kernel.at(gone_ns, self.pump, None)
