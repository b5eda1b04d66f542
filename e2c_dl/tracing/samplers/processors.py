"""How long the thread that trains ran, and waited for a processor that others had: ``processor`` of facts.json.

A rank that shares its processors with other ranks or programs is slow whenever these run, in whichever phase it is:
no span tells that from work of its own. Linux counts both for each thread (schedstat); looked at when ranks have met,
every minute, which is what a kill costs, and at the end.
"""

from __future__ import annotations

import threading
from pathlib import Path

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import ProcessorFacts
from e2c_dl.errors import ArchiveError
from e2c_dl.tracing.rendezvous import Ranks
from e2c_dl.tracing.samplers.sampler import Recording, Sampler

EVERY_S = 60.0


class Processors(Sampler):
    """A sampler, as an errand of the thread that writes. ``root``: below which /proc is."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._counts = root / f"proc/self/task/{threading.get_native_id()}/schedstat"  # of the thread that trains
        self._recording: Recording | None = None
        self._begun = (0, 0)

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """Counts from now on, where the kernel does."""
        counted = self._counted()
        if counted is not None:
            self._begun, self._recording = counted, recording
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
            self._recording.limited(f"how long it waited for a processor ends here: {error}")
            return None
        return EVERY_S

    def _write(self, recording: Recording) -> None:
        counted = self._counted()
        if counted is not None:
            ran_s, waited_s = ((now - then) / 1e9 for now, then in zip(counted, self._begun, strict=True))
            HostRecords(recording.folder).amend_facts(processor=ProcessorFacts(ran_s=ran_s, waited_s=waited_s))

    def _counted(self) -> tuple[int, int] | None:
        """(ns that it ran, ns that it waited for a processor) so far; None: this kernel, or nobody, says."""
        try:
            ran_ns, waited_ns, _ = self._counts.read_text().split()
            return int(ran_ns), int(waited_ns)
        except (OSError, ValueError):
            return None
