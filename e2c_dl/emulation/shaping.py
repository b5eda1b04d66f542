"""One directed link as arithmetic: when a frame that comes now arrives, or that it does not arrive.

::

    now ---- waits in the queue ----|--- is sent: size * 8 / rate ---|--- travels: delay ---| arrival
                                    free_s (virtual clock)            departure

    departure = max(now, free_s) + wire_bytes * 8 / rate_bps;   free_s = departure;   arrival = departure + delay_s

Order per segment: lost or not, then room in the queue or not, then the link. A lost segment takes no time of the link,
as under netem. A frame that would hold the link for more than HOLD_S is sent in pieces, each arriving when its own last
byte does. Nothing here reads a clock: ``now`` is given.
"""

from __future__ import annotations

import math
import random

from e2c_dl.emulation.frames import FULL_FRAME_BYTES, Shape, cut, shape

HOLD_S = 0.005
"""A piece of a frame holds its link no longer than this, unless it is a single segment."""

QUEUE_FRAMES = 1000
"""Full frames that a queue takes at least, unless the link says otherwise (what pfifo and netem take by default)."""

IN_FLIGHT_BYTES = 64 * 1024 * 1024
"""What a link without a rate may hold in memory, unless it says otherwise: it has no queue, only a delay."""


def queue_bytes(rate_bps: float | None, delay_s: float) -> int:
    """The default limit of a link's queue: 1000 full frames, or twice rate times round trip where that is more."""
    if rate_bps is None:
        return IN_FLIGHT_BYTES
    return max(QUEUE_FRAMES * FULL_FRAME_BYTES, math.ceil(2 * rate_bps * 2 * delay_s / 8))


class LinkShaper:
    """The state and the counters of one directed link.

    Counters: ``frames`` came in; of their segments, ``segments`` (``wire_bytes`` in all) were carried,
    ``dropped_loss`` were lost on purpose, ``dropped_queue`` found the queue full. ``dropped_host`` of those carried
    could not be handed over: the receiver is gone or its interface is down. Lateness: how long after its due time a
    piece was handed over; ``late`` counts those later than LATE_S.
    """

    LATE_S = 0.001

    def __init__(
        self, *, rate_bps: float | None, delay_s: float, loss: float, limit_bytes: int | None, rng: random.Random
    ) -> None:
        self._rate_bps, self._delay_s, self._loss, self._rng = rate_bps, delay_s, loss, rng
        self._limit_bytes = queue_bytes(rate_bps, delay_s) if limit_bytes is None else limit_bytes
        self._hold_bytes = math.inf if rate_bps is None else rate_bps * HOLD_S / 8
        self._survivors = self._draw_survivors()  # segments that pass before the next one that is lost
        self._free_s = 0.0
        self.in_flight_bytes = 0
        self.immediate = rate_bps is None and delay_s == 0 and loss == 0
        self.frames = self.segments = self.wire_bytes = 0
        self.dropped_loss = self.dropped_queue = self.dropped_host = 0
        self.timed = self.late = 0
        self.lateness_sum_s = self.lateness_max_s = 0.0

    def admit(self, now_s: float, buffer: bytes) -> list[tuple[float, int, bytes]]:
        """(arrival time, segments, buffer) of every piece of ``buffer`` that arrives, in order.

        Raises: ValueError if ``buffer`` is no frame; nothing is counted then.
        """
        form = shape(buffer)
        self.frames += 1
        if self.immediate:
            self._carry(form.segments, form.wire_bytes(0, form.segments))
            return [(now_s, form.segments, buffer)]
        arrivals: list[tuple[float, int, bytes]] = []
        for first, count in self._surviving_runs(form.segments):
            arrivals += self._admit_run(now_s, buffer, form, first, count)
        return arrivals

    def handed_over(self, buffer: bytes, segments: int, lateness_s: float, *, taken: bool) -> None:
        """To be called for every piece that was admitted and not immediate, when its receiver has or refuses it."""
        self.in_flight_bytes -= len(buffer)
        self.timed += 1
        self.lateness_sum_s += lateness_s
        self.lateness_max_s = max(self.lateness_max_s, lateness_s)
        if lateness_s > self.LATE_S:
            self.late += 1
        if not taken:
            self.dropped_host += segments

    def _admit_run(
        self, now_s: float, buffer: bytes, form: Shape, first: int, count: int
    ) -> list[tuple[float, int, bytes]]:
        """The pieces of a run of segments, as far as the queue has room."""
        arrivals: list[tuple[float, int, bytes]] = []
        full = form.headers_bytes + form.segment_bytes
        hold = count if self._hold_bytes >= count * full else max(1, int(self._hold_bytes // full))
        end = first + count
        while first < end:
            fitting = self._fitting(now_s, form, first, min(hold, end - first))
            if fitting == 0:
                self.dropped_queue += end - first
                break
            wire_bytes = form.wire_bytes(first, fitting)
            piece = cut(buffer, form, first, fitting)
            self._carry(fitting, wire_bytes)
            self.in_flight_bytes += len(piece)
            arrivals.append((self._depart(now_s, wire_bytes) + self._delay_s, fitting, piece))
            first += fitting
        return arrivals

    def _fitting(self, now_s: float, form: Shape, first: int, count: int) -> int:
        """How many of ``count`` segments from ``first`` on still fit into the queue."""
        if self._rate_bps is None:
            room = float(self._limit_bytes - self.in_flight_bytes)
        else:
            room = self._limit_bytes - max(0.0, self._free_s - now_s) * self._rate_bps / 8
        if form.wire_bytes(first, count) <= room:
            return count
        return max(0, min(count - 1, int(room // (form.headers_bytes + form.segment_bytes))))

    def _depart(self, now_s: float, wire_bytes: int) -> float:
        if self._rate_bps is None:
            return now_s
        self._free_s = max(now_s, self._free_s) + wire_bytes * 8 / self._rate_bps
        return self._free_s

    def _carry(self, segments: int, wire_bytes: int) -> None:
        self.segments += segments
        self.wire_bytes += wire_bytes

    def _surviving_runs(self, segments: int) -> list[tuple[int, int]]:
        """(first, count) of the runs of segments between the lost ones; counts the lost ones."""
        runs: list[tuple[int, int]] = []
        first = 0
        while self._survivors < segments - first:
            if self._survivors:
                runs.append((first, self._survivors))
            first += self._survivors + 1
            self.dropped_loss += 1
            self._survivors = self._draw_survivors()
        if first < segments:
            runs.append((first, segments - first))
            self._survivors -= segments - first
        return runs

    def _draw_survivors(self) -> int:
        """Independent losses, drawn as the geometrically distributed gap to the next: one draw per loss."""
        if self._loss <= 0:
            return 2**62
        if self._loss >= 1:
            return 0
        return int(math.log(1 - self._rng.random()) / math.log1p(-self._loss))
