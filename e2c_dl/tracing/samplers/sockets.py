"""What a traced rank's sockets tell while its script trains: connections.bin, whatever library opened them.

Propagation per link is made of it when the archive is read: see :mod:`e2c_dl.trace.propagation.flows`. What a library
sends past TCP (shared memory, RDMA, NVLink) no socket tells; the reader notices when collectives moved more than
sockets did.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import TrainingError
from e2c_dl.trace.propagation.samples import Connection
from e2c_dl.trace.propagation.sockets import OwnSockets, ProcessSockets, SocketSampler, Source
from e2c_dl.trace.propagation.sockets.own import Told
from e2c_dl.trace.propagation.sockets.source import RankOf
from e2c_dl.tracing.rendezvous import Ranks
from e2c_dl.tracing.samplers.sampler import FLUSH_EVERY_S, Recording, Sampler

SOCKETS_OF = "E2CDL_SOCKETS_OF"
"""Process ids, with commas between: others of this host that carry the rank's messages, such as a launcher's."""


class Sockets(Sampler):
    """A sampler: a round at each iteration's end, and some between, by a thread of its own."""

    def __init__(self) -> None:
        self._sampler: SocketSampler | None = None
        self._recording: Recording | None = None

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """Looks at this process's connections from now on. Raises: TrainingError, if the folder cannot be written."""
        self._recording = recording
        self._sampler = SocketSampler(
            recording.folder / layout.CONNECTIONS_RAW, rank=ranks.own.rank, host=recording.folder.name,
            more={"machine": ranks.own.host}, source=_source(recording), iteration=recording.iteration,
            rank_of=_ranks_by_address(ranks), flush_every_s=FLUSH_EVERY_S, errands=recording.errands,
            cap_bytes=recording.cap_bytes,
            on_failure=lambda error: recording.limited(f"what sockets tell ends here: {error}"),
        )  # fmt: skip

    def at_ends(self) -> Callable[[int, int], object] | None:
        """A round."""
        return None if self._sampler is None else self._sampler.iteration

    def on_rest(self, resting: bool) -> None:
        """No rounds meanwhile."""
        if self._sampler is not None:
            self._sampler.rest(resting)

    def on_end(self) -> None:
        """A last round; what all of them cost is told in facts.json."""
        if self._sampler is None or self._recording is None:
            return
        self._sampler.close()
        HostRecords(self._recording.folder).amend_facts(sockets=self._sampler.facts)


class _Together:
    """A source that is several."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources

    def rescan(self) -> list[Connection]:
        return [connection for source in self._sources for connection in source.rescan()]

    def read(self, *, ends: bool = False) -> list[Told]:
        return [told for source in self._sources for told in source.read(ends=ends)]

    def small(self, cookies: Collection[int]) -> None:
        for source in self._sources:
            source.small(cookies)


def _source(recording: Recording) -> Source:
    """This process's connections, and those of the processes that SOCKETS_OF names."""
    named = os.environ.get(SOCKETS_OF, "")
    if not named:
        return OwnSockets()
    try:
        return _Together(OwnSockets(), ProcessSockets([int(pid) for pid in named.split(",")]))
    except ValueError:
        recording.limited(f"{SOCKETS_OF}={named}: is no list of process ids; write them as 71,72")
    except TrainingError as error:
        recording.limited(f"{SOCKETS_OF}={named}: {error}")
    return OwnSockets()


def _ranks_by_address(ranks: Ranks) -> RankOf:
    """Who is at an address: told where only one rank has it."""
    known: dict[str, list[tuple[int, str]]] = {}
    for peer in ranks.peers:
        for address in peer.addresses:
            known.setdefault(address, []).append((peer.rank, peer.host))

    def rank_of(remote: tuple[str, int]) -> tuple[int | None, str | None]:
        there = known.get(remote[0], [])
        return there[0] if len(there) == 1 else (None, None)

    return rank_of
