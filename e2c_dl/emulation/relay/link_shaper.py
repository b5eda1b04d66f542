"""One directed link: what becomes of a frame that a host sends over it.

::

    frame --> cut? --> lost? --> LinkQueue: rate --> queue and rate of the bottleneck --> travels --> host
         dropped_down  dropped_loss  dropped_queue     dropped_bottleneck                          dropped_host

Order per segment: lost or not, then room in the queue or not, then the link. A lost segment takes no time of the link,
as under netem. A frame that would hold the link for more than HOLD_S is sent in pieces, each arriving when its own last
byte does. Nothing here reads a clock: ``now`` is given.

Segments arrive in the order in which they were sent, also when a delay shrinks while they travel (later ones wait for
those before them; netem would let them overtake), unless the link has jitter or reordering: with jitter every segment
draws its own delay, never below 0, and overtakes whom it may; a reordered one skips the delay.
"""

from __future__ import annotations

import random

from e2c_dl.dynamics.loss_model import LossModel, spread
from e2c_dl.emulation.relay.frames import FrameShape, cut, shape
from e2c_dl.emulation.relay.link_queue import FramePiece, LinkQueue, NextQueue, fitting, hold_segments
from e2c_dl.topology import Link, default_queue_bytes


class LinkShaper:
    """The state and the counters of one directed link.

    Counters: ``frames`` came in; of their segments, ``segments`` (``wire_bytes`` in all) were carried,
    ``dropped_loss`` were lost on purpose, ``dropped_down`` found the link cut, ``dropped_queue`` its queue full,
    ``dropped_bottleneck`` that of its bottleneck. ``dropped_host`` of those carried could not be handed over: the
    receiver is gone or its interface is down. Lateness: how long after its due time a piece was handed over; ``late``
    counts those later than LATE_S. ``seed`` fixes everything that is left to chance.
    """

    LATE_S = 0.001

    def __init__(self, link: Link, *, seed: str, shared: NextQueue | None = None) -> None:
        self.link = link
        self._loss_rng, self._skip_rng, self._spread_rng = (
            random.Random(f"{seed}{what}") for what in ("", " reorder", " jitter")
        )
        self._losses = LossModel(link.loss, link.burst, self._loss_rng)
        self._skips = LossModel(link.reorder, None, self._skip_rng)
        self.queue = LinkQueue(link.rate_bps, self._limit_bytes(), shared)
        self.in_flight_bytes = 0
        self.last_due_s = 0.0
        self.immediate = self._is_plain()
        self.frames = self.segments = self.wire_bytes = 0
        self.dropped_loss = self.dropped_down = self.dropped_queue = self.dropped_bottleneck = self.dropped_host = 0
        self.timed = self.late = 0
        self.lateness_sum_s = self.lateness_max_s = 0.0

    def pass_on(self, buffer: bytes) -> int:
        """Counts a frame that goes straight on, the link being ``immediate``; its segments. Raises: ValueError."""
        form = shape(buffer)
        self.frames += 1
        self.carry(form.segments, form.wire_bytes(0, form.segments))
        return form.segments

    def admit(self, now_s: float, buffer: bytes, dst: int) -> None:
        """Takes a frame for the host of index ``dst``: what of it is not dropped is in ``queue`` then.

        Raises: ValueError if ``buffer`` is no frame; nothing is counted then.
        """
        form = shape(buffer)
        self.frames += 1
        if self.link.down:
            self.dropped_down += form.segments
            return
        for first, count, lost in self._losses.take(form.segments):
            if lost:
                self.dropped_loss += count
            else:
                self._admit_run(now_s, buffer, form, first, count, dst)

    def change(self, now_s: float, link: Link) -> None:
        """From now on ``link``. What waits is neither dropped nor overtaken; what has departed travels as before."""
        before, self.link = self.link, link
        if (before.loss, before.burst) != (link.loss, link.burst):  # else a change of rate would begin a burst anew
            self._losses = LossModel(link.loss, link.burst, self._loss_rng)
        if before.reorder != link.reorder:
            self._skips = LossModel(link.reorder, None, self._skip_rng)
        self.immediate = self._is_plain() and not self.in_flight_bytes  # not past what is still on its way
        self.queue.change(now_s, link.rate_bps, self._limit_bytes())

    def due_s(self, departure_s: float, away: float | None) -> float:
        """When what departs then arrives; ``away``: how far from the middle of the delay, None: without any delay."""
        link = self.link
        if away is None:
            return departure_s
        if link.jitter_s:
            return departure_s + max(0.0, link.delay_s + link.jitter_s * away)
        self.last_due_s = max(self.last_due_s, departure_s + link.delay_s)
        return self.last_due_s

    @property
    def least_rate_bps(self) -> float | None:
        """The rate of this link or of its bottleneck, whichever is less."""
        own_bps, shared = self.link.rate_bps, self.queue.shared
        if shared is None or shared.rate_bps is None:
            return own_bps
        return shared.rate_bps if own_bps is None else min(own_bps, shared.rate_bps)

    def handed_over(self, piece: FramePiece, lateness_s: float, *, taken: bool) -> None:
        """To be called for every piece that was admitted and carried, when its receiver has or refuses it."""
        self._leave(len(piece.buffer))
        self.timed += 1
        self.lateness_sum_s += lateness_s
        self.lateness_max_s = max(self.lateness_max_s, lateness_s)
        if lateness_s > self.LATE_S:
            self.late += 1
        if not taken:
            self.dropped_host += piece.segments

    def lose_in_bottleneck(self, buffer_bytes: int, segments: int) -> None:
        """So many segments, and bytes in memory, of a piece found the bottleneck's queue full."""
        self.dropped_bottleneck += segments
        self._leave(buffer_bytes)

    def carry(self, segments: int, wire_bytes: int) -> None:
        self.segments += segments
        self.wire_bytes += wire_bytes

    def _admit_run(self, now_s: float, buffer: bytes, form: FrameShape, first: int, count: int, dst: int) -> None:
        """The pieces of a run of segments, as far as the queue has room."""
        queue, link = self.queue, self.link
        hold = 1 if link.jitter_s else hold_segments(form, self.least_rate_bps)  # each segment draws its own delay
        for run_first, run_count, skips in self._skips.take(count):
            at, end = first + run_first, first + run_first + run_count
            while at < end:
                segments = fitting(form, at, min(hold, end - at), self._room_bytes(now_s))
                if segments == 0:
                    self.dropped_queue += end - at
                    break
                wire_bytes, part = form.wire_bytes(at, segments), cut(buffer, form, at, segments)
                if queue.shared is None:  # else the shared queue counts what it carries
                    self.carry(segments, wire_bytes)
                self.in_flight_bytes += len(part)
                queue.enter(now_s, FramePiece(self, dst, part, segments, wire_bytes, None if skips else self._away_s()))
                at += segments

    def _away_s(self) -> float:
        return spread(self.link.distribution, self._spread_rng) if self.link.jitter_s else 0.0

    def _room_bytes(self, now_s: float) -> float:
        if self.link.rate_bps is None:
            return self.queue.limit_bytes - self.in_flight_bytes
        return self.queue.room_bytes(now_s)

    def _limit_bytes(self) -> int:
        link = self.link
        return default_queue_bytes(link.rate_bps, link.delay_s) if link.queue_bytes is None else link.queue_bytes

    def _is_plain(self) -> bool:
        link = self.link
        shaped = link.rate_bps is not None or link.delay_s or link.jitter_s or link.mean_loss
        return not shaped and self.queue.shared is None

    def _leave(self, buffer_bytes: int) -> None:
        self.in_flight_bytes -= buffer_bytes
        if not self.in_flight_bytes:  # a link that became plain passes on directly once it is empty
            self.immediate = self._is_plain()
