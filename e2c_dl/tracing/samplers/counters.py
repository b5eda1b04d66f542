"""What a sampler of counters is: they are looked at when ranks have met, every minute, and at the end.

A minute is what a kill costs. Each look is an errand of the thread that writes, and amends facts.json.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import ArchiveError
from e2c_dl.tracing.rendezvous import Ranks
from e2c_dl.tracing.samplers.sampler import Recording, Sampler

EVERY_S = 60.0


class Counters(Sampler):
    """A sampler of what something else counts all the time; ``what`` it tells, for a sentence that it ends."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._recording: Recording | None = None

    @abstractmethod
    def begin(self) -> bool:
        """A first look; whether there is anything that counts."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Another look: what is counted since the first, by its names in facts.json."""

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """Counts from now on."""
        if self.begin():
            self._recording = recording
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
            self._recording.limited(f"{self._what} ends here: {error}")
            return None
        return EVERY_S

    def _write(self, recording: Recording) -> None:
        found = self.facts()
        if found:
            HostRecords(recording.folder).amend_facts(**found)
