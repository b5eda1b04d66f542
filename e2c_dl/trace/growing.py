"""A spans.bin that is still being written, read piece by piece; what is no longer wanted is forgotten.

::

    add(b"E2CSPANS...")   header, records, perhaps a part of one
    add(b"...")           the rest of it, more records
    forget_before(40)     spans of iterations 0 .. 39 are gone
"""

from __future__ import annotations

import numpy as np

from e2c_dl.trace.check import SpansFacts, check
from e2c_dl.trace.model import RECORD_BYTES, SPAN, Phase, Spans
from e2c_dl.trace.recorder import header_facts, header_length


class GrowingSpans:
    """Spans of one rank, on its own clock, in the order of recording. ``where`` is for messages."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._rest = b""  # a header or a record of which not all is there
        self.facts: SpansFacts | None = None  # None: the header is not all there
        self.spans: Spans = np.empty(0, dtype=SPAN)
        self.began_ns: int | None = None  # its first iteration, also when that is forgotten
        self.finished = 0  # iterations
        self.over = False  # it recorded the end of its training

    def add(self, content: bytes) -> None:
        """What was appended to the file. Raises: ArchiveError, if it is no trace of this version."""
        self._rest += content
        if self.facts is None and not self._read_header():
            return
        assert self.facts is not None
        count = len(self._rest) // RECORD_BYTES
        found = np.frombuffer(self._rest, dtype=SPAN, count=count).copy()  # a buffer's view is read-only
        self._rest = self._rest[count * RECORD_BYTES :]
        check(found, self.facts, self._where)
        self.spans = np.concatenate([self.spans, found])
        self.over = self.over or bool((found["phase"] == Phase.TRAINING).any())
        iterations = found[found["phase"] == Phase.ITERATION]
        if len(iterations):
            self.finished = max(self.finished, int(iterations["iteration"].max()) + 1)
            if self.began_ns is None:
                self.began_ns = int(iterations["start_ns"].min())

    def forget_before(self, iteration: int) -> None:
        """Spans of earlier iterations, and of none that ended before it began, are not kept."""
        own = self.spans[(self.spans["phase"] == Phase.ITERATION) & (self.spans["iteration"] >= iteration)]
        if len(own):
            of_none = (self.spans["iteration"] == -1) & (self.spans["end_ns"] >= own["start_ns"].min())
            self.spans = self.spans[(self.spans["iteration"] >= iteration) | of_none]

    def _read_header(self) -> bool:
        """Whether all of it was there."""
        length = header_length(self._rest, self._where)
        if length is None:
            return False
        self.facts = header_facts(self._rest[:length], self._where)
        self._rest = self._rest[length:]
        return True
