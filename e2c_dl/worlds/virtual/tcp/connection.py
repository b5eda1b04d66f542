"""One TCP connection in virtual time: what of a stream of segments is sent when, and again when it was lost.

::

    stream  0 1 2 3 4 5 6 7 8 9 ...        sender: sends what the window lets, as trains of consecutive segments
            |===|x==|===|  .  .            receiver: acknowledges every train that arrives; hands over what is complete
                 ^ lost: seen when a later train is acknowledged, or by a probe, or by a time-out

Nothing overtakes on the way, so that what was sent before an acknowledged train, and is not acknowledged, is lost: at
once if three segments came after it, else after a quarter of the shortest round trip (RFC 8985, 6.2). Lost segments go
first, as many as PRR lets (RFC 6937, 3). At the end of a stream nothing comes after: two round trips later a probe is
sent (TLP, RFC 8985, 7), and if that is lost, too, or nothing comes for a retransmission time-out (RFC 6298, 5),
everything that is missing goes again, from a window of one segment on. A time-out that finds nothing missing changes
nothing (F-RTO, RFC 5682). A lone segment in the middle of a message is acknowledged with the next, or after 40 ms
(RFC 5681, 4.2; Linux, TCP_ATO_MIN, and at once for the first 16). ACKs all come, after the delay of the way back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from e2c_dl.dynamics.loss_model import LossModel
from e2c_dl.ranges import union
from e2c_dl.worlds.giving_up import GIVE_UP_S
from e2c_dl.worlds.virtual.kernel import FOREVER, Kernel
from e2c_dl.worlds.virtual.tcp.reassembly import Range, Reassembly
from e2c_dl.worlds.virtual.tcp.reduction import Reduction
from e2c_dl.worlds.virtual.tcp.round_trips import RoundTrips
from e2c_dl.worlds.virtual.tcp.window import Window

_QUICKLY = 16  # segments at the begin of a connection: Linux, TCP_MAX_QUICKACKS
_DELAYED_NS = 40_000_000
_DUPLICATES = 3  # segments that come after a lost one until it counts as lost at once: RFC 5681, 3.2


class Train:
    """Segments ``first`` to before ``end``, sent together, of which those before ``kept`` arrive, as far as is known.

    ``fresh``: sent for the first time. ``last``: the end of a message. ``complete``: what the receiver has in order
    when it has these.
    """

    __slots__ = ("complete", "end", "first", "fresh", "kept", "last", "sent_ns")

    def __init__(self, first: int, end: int, sent_ns: int, *, fresh: bool, lost: bool = False) -> None:
        self.first, self.end, self.sent_ns, self.fresh = first, end, sent_ns, fresh
        self.kept = first if lost else end
        self.last = False
        self.complete = 0


class Connection:
    """Sends a stream that grows by :meth:`extend`: ``carry`` puts a train on its way, and may shorten it.

    Whoever carries it calls :meth:`arrives`. ``look`` is called before anything is sent: it may change ``losses``, by
    which segments are lost (None: none is), and ``down``, while which all are. A train has at most ``most`` segments,
    but for a message that the window lets go as a ``whole``. After GIVE_UP_S of silence, ``give_up`` is told how
    long it was, and nothing is sent any more (RFC 5482).
    """

    def __init__(
        self, kernel: Kernel, window: Window, round_trip_s: float, *, most: int, whole: bool,
        carry: Callable[[Train], None], look: Callable[[], None], give_up: Callable[[float], None],
    ) -> None:  # fmt: skip
        self.window, self.trips, self.received = window, RoundTrips(round_trip_s), Reassembly()
        self.losses: LossModel | None = None
        self.down = False
        self.closed = False  # nothing is sent any more, and nothing that is on its way is acknowledged
        self.next = self.end = self.limit = 0  # sent until, known until, and let to be sent until
        self.acked = 0
        self.elsewhere = 0  # segments that are on their way apart from the stream, and count for the window
        self._kernel, self._carry, self._look, self._most, self._whole = kernel, carry, look, most, whole
        self._give_up = give_up
        self._ends: deque[int] = deque()  # of messages: a train is of one
        self._acknowledged_ns = 0  # when the last ACK that is known of arrives
        self._outstanding: deque[Train] = deque()  # in order of sending
        self.out = 0  # segments that are on their way, as far as the sender knows
        self._again: list[Range] = []  # lost, and not sent again
        self._suspected: list[Range] = []
        self._after_suspected = self._sure_ns = 0  # segments that came since; when it is sure anyway
        self._recover = -1  # until this is acknowledged, further losses are of the same event
        self._reduction: Reduction | None = None
        self._limited, self._most_out, self._usage_end = False, 0, 0  # how the window was used in the last round trip
        self._deadline_ns = self._timer_ns = FOREVER
        self._probed = False
        self._held: tuple[int, Train] | None = None  # whose ACK waits for another, and until when
        self._last_sent_ns = self._progress_ns = 0

    def extend(self, segments: int, *, restart: bool) -> None:
        """The stream is longer by a message. ``restart``: a pause before it has cost window (slow start after idle)."""
        if not self._outstanding:
            self._progress_ns = self._kernel.now_ns
            quiet_s = (self._kernel.now_ns - self._last_sent_ns) / 1e9
            self.window.quiet(quiet_s)
            if restart:
                self.window.restart(quiet_s, self.trips.timeout_s)
        self.end += segments
        self.limit = self.end
        self._ends.append(self.end)
        self.push()

    def push(self) -> None:
        """Send what the window lets."""
        room, sent = 1, False
        while not self.closed and (self._again or self.next < self.limit) and (room := self._room()) > 0:
            sent = True
            if self._again:
                self._send_again(room)
            else:
                self._send_new(room)
        limited = room < 1 or self.out >= int(self.window.segments)
        if not sent and not limited:
            return
        if self.acked >= self._usage_end or limited or (not self._limited and self.out > self._most_out):
            self._limited, self._most_out, self._usage_end = limited, self.out, self.next

    def arrives(self, train: Train, acknowledged_ns: int) -> None:
        """``train`` will arrive, and its ACK be at the sender at ``acknowledged_ns``. Called in order of arrival."""
        # The way back is first in, first out, too: where a delay falls, no ACK overtakes another.
        acknowledged_ns = self._acknowledged_ns = max(acknowledged_ns, self._acknowledged_ns)
        received = self.received
        lone = train.kept - train.first == 1 and train.first == received.complete >= _QUICKLY and not train.last
        received.add(train.first, train.kept)
        train.complete = received.complete
        held, self._held = self._held, None
        if held is not None:
            self._kernel.at(min(held[0], acknowledged_ns), self._acknowledged, held[1])
        if lone and held is None and received.complete == train.kept:  # it fills no hole
            self._held = acknowledged_ns + _DELAYED_NS, train
            self._kernel.at(self._held[0], self._delayed, train)
        else:
            self._kernel.at(acknowledged_ns, self._acknowledged, train)

    def _room(self) -> int:
        if self._reduction is not None:
            return self._reduction.room(self.out)
        return int(self.window.segments) - self.out - self.elsewhere

    def _send_again(self, room: int) -> None:
        first, end = self._again.pop(0)
        last = min(end, first + min(room, self._most))
        if last < end:
            self._again.insert(0, (last, end))
        self._send(first, last, fresh=False)

    def _send_new(self, room: int) -> None:
        while self._ends[0] <= self.next:
            self._ends.popleft()
        first, left = self.next, min(self._ends[0], self.limit) - self.next
        self.next += left if self._whole and left <= room else min(left, room, self._most)
        self._send(first, self.next, fresh=True)

    def _send(self, first: int, end: int, *, fresh: bool) -> None:
        self._look()
        now_ns = self._last_sent_ns = self._kernel.now_ns
        self.out += end - first
        if self._reduction is not None:
            self._reduction.sent += end - first
        if self.down or self.losses is None:
            runs = [(0, end - first, self.down)]
        else:
            runs = self.losses.take(end - first)
        for begin, count, lost in runs:
            train = Train(first + begin, first + begin + count, now_ns, fresh=fresh, lost=lost)
            train.last = fresh and train.end == self._ends[0]
            self._outstanding.append(train)
            self._carry(train)
        # Linux: a probe is put off by whatever is sent; a time-out by what is sent again from the beginning
        if self._probing or self._deadline_ns == FOREVER or (not fresh and first <= self.acked):
            self._arm()

    def _acknowledged(self, train: Train) -> None:
        if self.closed:
            return
        lost: list[Range] = []
        gap_ns = 0
        while (head := self._outstanding.popleft()) is not train:
            self.out -= head.end - head.first
            lost += self.received.missing(head.first, head.end)
            gap_ns = train.sent_ns - head.sent_ns
        if train.kept < train.end:  # the rest of it was dropped, and is seen when something else is acknowledged
            self._outstanding.appendleft(Train(train.kept, train.end, train.sent_ns, fresh=False, lost=True))
        count = train.kept - train.first
        self.out -= count
        self._learn(train, count)
        if lost or self._suspected:
            self._suspect(lost, count, gap_ns)
        if train.complete > self.acked:
            self._progress(train.complete)
        self.push()

    def _delayed(self, train: Train) -> None:
        if self._held is not None and self._held[1] is train:
            self._held = None
            self._acknowledged(train)

    def _learn(self, train: Train, count: int) -> None:
        """What ``count`` acknowledged segments say of round trip and window."""
        now_s, trip_s = self._kernel.now_ns / 1e9, (self._kernel.now_ns - train.sent_ns) / 1e9
        if train.fresh:
            self.trips.seen(trip_s)
            self.window.observe(count, train.complete, self.next, now_s, trip_s)
        if self._reduction is not None:
            self._reduction.delivered += count
        elif train.complete > self.acked:  # Linux, tcp_may_raise_cwnd: what came out of order lets nothing grow
            self.window.acked(count, now_s, self.trips.smoothed_s, self._most_out, limited=self._limited)

    def _progress(self, acked: int) -> None:
        self.acked, self.trips.backoff, self._probed = acked, 0, False
        self._progress_ns = self._kernel.now_ns
        if 0 <= self._recover <= acked:
            self._recover, self._reduction = -1, None
        self._arm()

    def _suspect(self, lost: list[Range], came: int, gap_ns: int) -> None:
        """Count ``lost`` as lost as soon as that is sure; ``came`` segments, sent ``gap_ns`` later, have come."""
        waits_ns = round(self.trips.reordering_s * 1e9)
        if not self._suspected:
            self._after_suspected, self._sure_ns = 0, self._kernel.now_ns + waits_ns
            self._kernel.at(self._sure_ns, self._surely, None)
        self._suspected += lost
        self._after_suspected += came
        if self._recover >= 0 or self._after_suspected >= _DUPLICATES or gap_ns >= waits_ns:
            self._retransmit()

    def _surely(self, _: object) -> None:
        if self._suspected and self._kernel.now_ns >= self._sure_ns:
            self._retransmit()
            self.push()

    def _retransmit(self) -> None:
        lost = sum(end - first for first, end in self._suspected)
        self._again = union([*self._again, *self._suspected])
        self._suspected = []
        if self._recover < 0:
            self.window.lost()
            self._reduction = Reduction(self.out + lost, self.window.threshold)
            self._recover = self.next

    def _arm(self) -> None:
        """Wait for an ACK, from now on: until a probe is due, or until everything counts as lost."""
        if not self._outstanding:
            self._deadline_ns = FOREVER
            return
        wait_s = self.trips.probe_s(self.out) if self._probing else self.trips.timeout_s
        given_up_ns = self._progress_ns + round(GIVE_UP_S * 1e9)
        self._deadline_ns = max(self._kernel.now_ns, min(self._kernel.now_ns + round(wait_s * 1e9), given_up_ns))
        if self._deadline_ns < self._timer_ns:
            self._timer_ns = self._deadline_ns
            self._kernel.at(self._deadline_ns, self._due, None)

    @property
    def _probing(self) -> bool:
        return not self._probed and self._recover < 0 and not self.trips.backoff

    def _due(self, _: object) -> None:
        now_ns = self._kernel.now_ns
        if self.closed or now_ns != self._timer_ns:  # or an earlier one has taken its place
            return
        self._timer_ns = FOREVER
        if now_ns < self._deadline_ns < FOREVER:  # it was put off meanwhile
            self._timer_ns = self._deadline_ns
            self._kernel.at(self._deadline_ns, self._due, None)
        elif self._outstanding and now_ns >= self._deadline_ns:
            self._deadline_ns = FOREVER  # what is sent now is waited for anew
            if self._probing:
                self._probe()
            else:
                self._time_out()

    def _probe(self) -> None:
        """Send one segment more, new or the last again, whatever the window (RFC 8985, 7.3)."""
        self._probed = True
        if self.next < self.limit:
            self._send_new(1)
        else:
            last = self._outstanding[-1].end
            self._send(last - 1, last, fresh=False)

    def _time_out(self) -> None:
        """Send everything again that has not come; what is still on its way will (RFC 6298, 5.4 to 5.6)."""
        silent_s = (self._kernel.now_ns - self._progress_ns) / 1e9
        if silent_s >= GIVE_UP_S:
            self._give_up(silent_s)
            return
        lost = [*self._suspected, *((train.kept, train.end) for train in self._outstanding if train.kept < train.end)]
        for train in self._outstanding:
            train.end = train.kept
        self._outstanding = deque(train for train in self._outstanding if train.kept > train.first)
        self.out = sum(train.end - train.first for train in self._outstanding)
        self._suspected = []
        again = self.trips.backoff > 0
        self.trips.backoff += 1
        if missing := [part for first, end in union(lost) for part in self.received.missing(first, end)]:
            self.window.timed_out(again=again)
            self._again = union([*self._again, *missing])
            self._recover, self._reduction = self.next, None
        self._arm()
        self.push()
