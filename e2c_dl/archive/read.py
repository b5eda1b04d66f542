"""Reading an archive: every piece by name, and a clear word about each piece that is missing or damaged.

Archives of runs that failed half-way are archives: whatever is there can be read, and what a killed process was writing
(the last line of progress.jsonl or metrics.csv) is read up to where it breaks off.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords, Row, read_rows, write_rows
from e2c_dl.archive.records import HostFacts, WorkerOutcome
from e2c_dl.archive.run import Run, read_run
from e2c_dl.beneath import Place
from e2c_dl.codec import DAMAGED
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.changes import ChangeInForce
from e2c_dl.trace.model import RankTrace, Trace
from e2c_dl.trace.propagation.ports import past_tcp
from e2c_dl.trace.store import read_trace


@dataclass(frozen=True, kw_only=True)
class ReadArchive:
    """An archive to read; files are opened when asked for. Every method raises ArchiveError for a damaged file."""

    path: Path
    run: Run

    @property
    def scenario(self) -> Path:
        """The directory of the scenario's files, which may be read by path.

        Raises: ArchiveError if the archive has none, or it holds a link or another file that is no plain one.
        """
        folder = self._there(layout.SCENARIO, "the run stopped before its scenario was stored")
        folder.refuse_odd()
        return folder.path

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts that left anything, sorted."""
        return (Place(self.path) / layout.HOSTS).folders()

    def host(self, name: str) -> HostRecords:
        """What the host ``name`` left, file by file."""
        return host_records(self.path, name)

    def outcomes(self, hosts: Iterable[str]) -> Mapping[str, WorkerOutcome | None]:
        """Host -> how its worker ended; None of one that left no outcome."""
        return {host: self.host(host).outcome() for host in hosts}

    @property
    def host_facts(self) -> Mapping[str, HostFacts | None]:
        """Host -> what it is; None of one that left no facts."""
        return {host: self.host(host).facts() for host in self.hosts}

    def links(self) -> tuple[Row, ...]:
        """The rows of links.json, one per directed link; none if the run stopped before links were measured."""
        return read_rows(Place(self.path) / layout.LINKS)

    def bottlenecks(self) -> tuple[Row, ...]:
        """The rows of bottlenecks.json, one per bottleneck that was measured full; none if none was."""
        return read_rows(Place(self.path) / layout.BOTTLENECKS)

    def write_links(self, rows: Sequence[Row]) -> None:
        write_rows(Place(self.path) / layout.LINKS, rows)

    def write_bottlenecks(self, rows: Sequence[Row]) -> None:
        write_rows(Place(self.path) / layout.BOTTLENECKS, rows)

    def changes(self) -> tuple[ChangeInForce, ...]:
        """What all hosts changed while training ran, on the reference clock, in order of being in force."""
        found = (change for host in self.hosts for change in self.host(host).changes())
        return tuple(sorted(found, key=lambda change: change.in_force_ns))

    def trace(self) -> Trace:
        """Every rank's spans on one clock. Raises: ArchiveError if no rank left any."""
        run = {"run_id": self.run.run_id, "scenario": self.run.scenario, "started": self.run.started}
        self._there(layout.HOSTS, "no worker left a trace")
        trace = read_trace(self.path, {**run, **self.run.facts})
        trace = replace(trace, alive={rank.host: self._alive(rank) for rank in trace.ranks})
        about_ports = self._about_ports(trace)
        if not about_ports:
            return trace
        limitations = (*trace.connections.limitations, *about_ports)
        return replace(trace, connections=replace(trace.connections, limitations=limitations))

    def _about_ports(self, trace: Trace) -> list[str]:
        """What ports sent beside the sockets; which host's facts cannot be read."""
        found, machines, problems = {}, {}, []
        for rank in trace.ranks:
            try:
                facts = self.host(rank.host).facts() or HostFacts()
            except ArchiveError as error:
                problems.append(f"what left by its ports is unknown: {error}")
                continue
            machines[rank.host] = facts.host_name or rank.host
            if facts.ports is not None:
                found[rank.host] = facts.ports
        return [*past_tcp(trace, machines, found), *problems]

    def _alive(self, rank: RankTrace) -> npt.NDArray[np.int64]:
        """When it was seen to run; empty if that is not known, as of a traced script."""
        seen = self.host(rank.host).seen().get("time_ns")
        if seen is None:
            return np.empty(0, dtype=np.int64)
        return np.sort(rank.clock.align(seen[np.isfinite(seen)].astype(np.int64)))  # a time that is missing tells none

    def _there(self, name: str, meaning: str) -> Place:
        place = Place(self.path) / name
        if not place.exists():
            raise ArchiveError(f"{place}: missing; {meaning}")
        return place


def host_records(archive: Path, name: str) -> HostRecords:
    """The place in ``archive`` of what the host ``name`` leaves."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise ArchiveError(f"{archive / layout.HOSTS}: {name!r:.60} is no host's name; {DAMAGED}")
    return HostRecords(archive / layout.HOSTS / name, archive)


def open_archive(path: str | os.PathLike[str]) -> ReadArchive:
    """The archive at ``path``. Raises: ArchiveError if there is no run.json or it cannot be understood."""
    place = Path(path)
    return ReadArchive(path=place, run=read_run(place))
