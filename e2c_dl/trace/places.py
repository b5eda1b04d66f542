"""Where an archive keeps what each host recorded: as it was recorded, and as tables, those of all hosts side by side.

::

    ARCHIVE/hosts/HOST/spans.bin          as recorded                            hosts/HOST/connections.bin
    ARCHIVE/traces/HOST.parquet           the same as a table                    connections/HOST.parquet
    ARCHIVE/hosts/HOST/spans.parquet      where that stood in former archives    hosts/HOST/connections.parquet

``traces`` and ``connections`` hold nothing else, so that a program which takes a folder for a table reads a run's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2c_dl.beneath import Place

HOSTS, TRACES, CONNECTIONS = "hosts", "traces", "connections"
RAW, CONNECTIONS_RAW = "spans.bin", "connections.bin"
TABLE = ".parquet"
CLOCK, OUTCOME = "clock.json", "outcome.json"


@dataclass(frozen=True)
class Recorded:
    """The files of ``host`` in ``archive`` that its trace is read from; none need exist."""

    archive: Place
    host: str

    @property
    def folder(self) -> Place:
        return self.archive / HOSTS / self.host

    @property
    def raw(self) -> Place:
        return self.folder / RAW

    @property
    def connections_raw(self) -> Place:
        return self.folder / CONNECTIONS_RAW

    @property
    def table(self) -> Place:
        """Of its spans: where it is, or will be."""
        return self._table(TRACES, "spans")

    @property
    def connections(self) -> Place:
        """The table of what its sockets told: where it is, or will be."""
        return self._table(CONNECTIONS, "connections")

    @property
    def exists(self) -> bool:
        """Whether it left a trace, as recorded or as a table. Raises: ArchiveError for a link on the way."""
        return self.raw.exists() or self.table.exists()

    def _table(self, folder: str, former: str) -> Place:
        place, before = self.archive / folder / f"{self.host}{TABLE}", self.folder / f"{former}{TABLE}"
        return before if before.exists() and not place.exists() else place


def recorded(archive: Path | Place, host: str) -> Recorded:
    """The files of ``host`` in ``archive``."""
    return Recorded(archive if isinstance(archive, Place) else Place(archive), host)


def all_recorded(archive: Path | Place) -> tuple[Recorded, ...]:
    """Those of every host that left anything, by name. Raises: ArchiveError for a link."""
    place = archive if isinstance(archive, Place) else Place(archive)
    return tuple(Recorded(place, name) for name in (place / HOSTS).folders())
