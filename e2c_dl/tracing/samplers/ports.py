"""What the ports of a traced rank's host count while its script trains: ``ports`` of facts.json.

Sockets tell what TCP carried; ports tell what went past it (RDMA), though not to whom. Looked at when ranks have met,
every minute, which is what a kill costs (each look takes a millisecond), and at the end: see
:mod:`e2c_dl.trace.propagation.ports`.
"""

from __future__ import annotations

import time
from pathlib import Path

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.propagation.ports import PortTally
from e2c_dl.tracing.rendezvous import Ranks
from e2c_dl.tracing.samplers.sampler import Recording, Sampler

EVERY_S = 60.0


class Ports(Sampler):
    """A sampler, as an errand of the thread that writes. ``root``: below which /proc and /sys are."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._tally = PortTally(time.monotonic_ns, root)
        self._recording: Recording | None = None

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """Counts from now on."""
        self._recording = recording
        self._tally.look()
        recording.errands.add(self._look_again, EVERY_S)

    def on_end(self) -> None:
        """A last look. Raises: ArchiveError, if it cannot be written."""
        if self._recording is not None:
            self._recording.errands.remove(self._look_again)
            self._write(self._recording)

    def _look_again(self) -> float | None:
        """Seconds until the next look; None: it could not be written, as is said."""
        if self._recording is None:
            return None
        try:
            self._write(self._recording)
        except ArchiveError as error:
            self._recording.limited(f"what its ports count ends here: {error}")
            return None
        return EVERY_S

    def _write(self, recording: Recording) -> None:
        HostRecords(recording.folder).amend_facts(ports=self._tally.look())
