"""A spans.bin that is still being written, read piece by piece; what is no longer wanted is forgotten.

::

    add(b"...")           header, frames, perhaps a part of one
    add(b"...")           the rest of it, more frames
    forget_before(40)     spans of iterations 0 .. 39 are gone
"""

from __future__ import annotations

import numpy as np

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.check import SpansFacts, check
from e2c_dl.trace.model import SPAN, Phase, Spans
from e2c_dl.trace.recording import span_log
from e2c_dl.trace.recording.frames import SYNC, Scanner


class GrowingSpans:
    """Spans of one rank, on its own clock, in the order of recording. ``where`` is for messages."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._scanner = Scanner()
        self._begin = b""  # of the file, as long as it is no SYNC
        self.facts: SpansFacts | None = None  # None: the header is not all there
        self.spans: Spans = np.empty(0, dtype=SPAN)
        self.began_ns: int | None = None  # its first iteration, also when that is forgotten
        self.finished = 0  # iterations
        self.over = False  # it recorded the end of its training

    def add(self, content: bytes) -> None:
        """What was appended to the file. Raises: ArchiveError, if it is no trace of this version."""
        self._refuse_others(content)
        found = span_log.spans_of(self._scanner.feed(content))
        if self.facts is None:
            if self._scanner.header is None:
                return
            self.facts = span_log.facts(self._scanner.header, self._where)
        check(found, self.facts, self._where)
        self.spans = np.concatenate([self.spans, found])
        self.over = self.over or bool((found["phase"] == Phase.TRAINING).any())
        iterations = found[found["phase"] == Phase.ITERATION]
        if len(iterations):
            self.finished = max(self.finished, int(iterations["iteration"].max()) + 1)
            if self.began_ns is None:
                self.began_ns = int(iterations["start_ns"].min())

    def forget_before(self, iteration: int, *, by_time: bool = False) -> None:
        """Spans of earlier iterations, and of none that ended before it began, are not kept.

        ``by_time``: none that ended before it began, whatever they are of. Where ranks go at their own pace,
        messages are of their senders' iterations, which may be any.
        """
        own = self.spans[(self.spans["phase"] == Phase.ITERATION) & (self.spans["iteration"] >= iteration)]
        if len(own):
            late = self.spans["end_ns"] >= own["start_ns"].min()
            known = (self.spans["iteration"] >= iteration) | ((self.spans["iteration"] == -1) & late)
            self.spans = self.spans[late if by_time else known]

    def _refuse_others(self, content: bytes) -> None:
        """Raises: ArchiveError, if the file does not begin as a log does."""
        if len(self._begin) < len(SYNC):
            self._begin += content[: len(SYNC) - len(self._begin)]
            if not SYNC.startswith(self._begin):
                raise ArchiveError(f"{self._where}: not a trace: it is no log of spans; name a spans.bin of a run")
