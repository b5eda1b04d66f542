"""The queue of a bottleneck that is shared fairly: one queue for each link, served in turns; then the way to the host.

::

    LinkQueue of a --.
    LinkQueue of b ---+--> FairSharedQueue: a FairQueue, one piece at a time at the rate --> Travel: the link's delay

Unlike a first-come queue it cannot plan when a piece departs as it enters: who comes later may go first. So one piece
is planned at a time, and the next when that is handed on.
"""

from __future__ import annotations

import heapq

from e2c_dl.dynamics.fair_queue import FairQueue
from e2c_dl.emulation.relay.link_queue import FramePiece, NextQueue


class Travel(NextQueue):
    """What has passed the bottleneck, until it arrives."""

    def __init__(self) -> None:
        super().__init__(None, 0)

    def admit(self, now_s: float, piece: FramePiece) -> None:
        self.enter(now_s, piece)


class FairSharedQueue(NextQueue):
    """Counters: ``segments`` (``wire_bytes`` in all) were carried, ``dropped_queue`` segments were dropped.

    They were dropped because the queue was full, by the link that had most in it, or had waited too long in theirs.
    """

    shared: Travel

    def __init__(self, rate_bps: float, limit_bytes: int) -> None:
        super().__init__(rate_bps, limit_bytes, Travel())
        self.segments = self.wire_bytes = self.dropped_queue = 0
        self._waiting: FairQueue[FramePiece] = FairQueue(limit_bytes)
        self._served: FramePiece | None = None

    def admit(self, now_s: float, piece: FramePiece) -> None:
        """Takes ``piece`` from its link, or drops it, or others for it."""
        self._drop(self._waiting.put(now_s, piece.link, piece, piece.wire_bytes))
        if self._served is None:
            self.handed_on(now_s)

    def handed_on(self, due_s: float) -> None:
        """The piece that was served has departed at ``due_s``: begin with the next."""
        self._served, dropped = self._waiting.take(due_s)
        self._drop(dropped)
        if (piece := self._served) is not None:
            self.segments += piece.segments
            self.wire_bytes += piece.wire_bytes
            piece.link.carry(piece.segments, piece.wire_bytes)
            self._free_s = due_s
            self.enter(due_s, piece)

    def change(self, now_s: float, rate_bps: float | None, limit_bytes: int) -> None:
        """From now on this rate and this limit: also for what is left of the piece that is being served."""
        before_bps, self.rate_bps = self.rate_bps, rate_bps
        self.limit_bytes = self._waiting.limit_bytes = limit_bytes
        if self._served is None or before_bps is None or rate_bps is None:
            return
        left_s = max(0.0, self._served.departure_s - now_s)
        self._served.departure_s = self._free_s = now_s + left_s * before_bps / rate_bps
        self.flight = [(self._served.departure_s, self._served.entry, self._served)]
        heapq.heapify(self.flight)

    def _drop(self, pieces: list[FramePiece]) -> None:
        for piece in pieces:
            self.dropped_queue += piece.segments
            piece.link.lose_in_bottleneck(len(piece.buffer), piece.segments)
