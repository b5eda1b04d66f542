"""Which rank is at the other end of a connection: both ends told their addresses, and the pairs are looked up.

::

    rank 2:  local 198.19.0.3:40112   remote 198.19.0.2:51324
    rank 1:  local 198.19.0.2:51324   remote 198.19.0.3:40112     -> rank 2's peer is rank 1, and the other way round

So any number of ranks may share a host, and nothing needs to be exchanged while they train. A rank that left nothing is
known by what the others recorded of it while it was there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from e2c_dl.trace.propagation.samples import Connection, Samples

_End = tuple[tuple[str, int], tuple[str, int]]


def peer_ranks(of_all: Sequence[Samples]) -> dict[tuple[int, int], int]:
    """(rank, cookie) -> the rank that its other end belongs to; connections to other programs are left out.

    Where two ranks tell of the same ends, as on the loopback devices of two hosts, the one of the same host is meant.
    """
    ends: dict[_End, set[int]] = defaultdict(set)
    machines = {samples.rank: samples.machine or samples.host for samples in of_all}
    incomplete = {samples.rank for samples in of_all if samples.lost or samples.dropped}
    for samples in of_all:
        for connection in samples.connections.values():
            ends[connection.local, connection.remote].add(samples.rank)
    found = {}
    for samples in of_all:
        for cookie, connection in samples.connections.items():
            candidates = ends.get((connection.remote, connection.local), set())
            peer = _one(samples.rank, connection, candidates, machines)
            if peer is None and (connection.rank not in machines or connection.rank in incomplete):
                peer = connection.rank  # its own word is missing
            if peer is not None and peer != samples.rank:
                found[samples.rank, cookie] = peer
    return found


def _one(rank: int, connection: Connection, candidates: set[int], machines: Mapping[int, str]) -> int | None:
    if len(candidates) > 1 and connection.rank in candidates:
        return connection.rank
    if len(candidates) > 1:
        candidates = {other for other in candidates if machines[other] == machines[rank]}
    return next(iter(candidates)) if len(candidates) == 1 else None
