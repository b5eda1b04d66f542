"""A connections.bin that is still being written, read piece by piece; what is no longer wanted is forgotten.

::

    add(b"...")           header, connections, samples, perhaps a part of one
    forget_before(40)     samples before those of iteration 40 are gone, but for the last of each connection
    since(40)             Samples, iteration 40 as number 0
"""

from __future__ import annotations

from e2c_dl import codec
from e2c_dl.trace.propagation.samples import Connection, Row, Samples, SamplesFacts, samples_of, told_in
from e2c_dl.trace.recording.frames import Scanner


class GrowingSamples:
    """What the sockets of one rank tell, on its own clock. ``where`` is for messages."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._scanner = Scanner()
        self._rows: list[Row] = []
        self._connections: dict[int, Connection] = {}

    def add(self, content: bytes) -> None:
        """What was appended to the file; damage costs what it hits."""
        rows, connections, _ = told_in(self._scanner.feed(content))
        self._rows += rows
        self._connections |= connections

    def forget_before(self, iteration: int) -> None:
        """Earlier samples are not kept, but for the last of each connection: its counters rise from there."""
        begins_ns = min((row[0] for row in self._rows if row[2] >= iteration), default=None)
        if begins_ns is not None:
            before = {row[1]: row for row in self._rows if row[0] < begins_ns}
            self._rows = [*before.values(), *(row for row in self._rows if row[0] >= begins_ns)]

    def since(self, iteration: int) -> Samples | None:
        """What is kept, iterations numbered from ``iteration``, earlier ones as none; None: nothing was told yet.

        Raises: ArchiveError, if its header is none.
        """
        if self._scanner.header is None or not self._rows:
            return None
        where = f"{self._where}: header of what its sockets told"
        facts = codec.convert(self._scanner.header, SamplesFacts, where, remedy=codec.DAMAGED)
        rows = [(row[0], row[1], max(-1, row[2] - iteration), row[3], row[4]) for row in self._rows]
        return samples_of(facts, rows, self._connections, self._scanner.lost_frames)
