"""Rendezvous of ranks: what each knows of all, told through the store that the script itself has made.

::

    torch.distributed   its default store, keys below e2cdl/ATTEMPT/: torchrun may keep it when it begins anew
    Horovod             the launcher's key-value server, scope e2cdl
    neither             the environment: E2CDL_RANK, E2CDL_WORLD_SIZE; nobody is told anything

Nothing here waits for long, nor takes part in the script's own collectives: a rank that is not traced is missing in the
table, and no rank waits for it longer than :data:`WITHIN_S`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from e2c_dl.tracing.addresses import own_addresses, placed_at

WITHIN_S = 10.0
TORCHRUN, MOST_ATTEMPTS = "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"
OTHERS_COUNT_S = 2.0  # until who was not told of by this one's count may be by another's
_LOOK_AGAIN_S, _RARELY_S = 0.002, 0.2  # at first, and at last: a launcher's server may have hundreds of ranks


class Exchange(Protocol):
    """A place where ranks leave values for each other."""

    def put(self, key: str, value: bytes) -> None:
        """``value`` is there for all."""
        ...

    def get(self, key: str) -> bytes | None:
        """What was put; None if nothing is there by now. Does not wait."""
        ...


def attempt() -> int:
    """How often torchrun has begun this training anew; 0 where no torchrun says so."""
    return _counted(TORCHRUN)


def _counted(name: str) -> int:
    said = os.environ.get(name, "")
    return int(said) if said.isascii() and said.isdecimal() else 0


def local_rank() -> int | None:
    """Among the ranks that the launcher began on this host; None where it began one, or does not say."""
    for rank, size in (("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")):
        found, of = os.environ.get(rank, ""), os.environ.get(size, "")
        if found.isdecimal() and of.isdecimal() and int(of) > 1:
            return int(found)
    return None


class StoreExchange:
    """The store of torch.distributed.

    Each agent of torchrun's counts the failures that it has seen: one that came later has another count than others.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._begun_s = time.monotonic()

    def put(self, key: str, value: bytes) -> None:
        self._store.set(f"e2cdl/{attempt()}/{key}", value)

    def get(self, key: str) -> bytes | None:
        late = time.monotonic() - self._begun_s >= OTHERS_COUNT_S
        for number in (attempt(), *(range(_counted(MOST_ATTEMPTS), -1, -1) if late else ())):
            name = f"e2cdl/{number}/{key}"
            if self._store.check([name]):
                return bytes(self._store.get(name))
        return None


class Alone:
    """Nobody to tell: what was put can be read by whoever put it."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One rank, as it says itself."""

    rank: int
    host: str
    pid: int
    boot: str  # equal where the monotonic clock is the same
    addresses: tuple[str, ...]  # of all its interfaces
    offers: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # of its samplers


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """All ranks of a run as far as they are traced, in order, and which of them this one is."""

    own: Peer
    world_size: int
    peers: tuple[Peer, ...]  # with this one

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that nobody traces, or that came too late."""
        known = {peer.rank for peer in self.peers}
        return tuple(rank for rank in range(self.world_size) if rank not in known)

    @property
    def slot(self) -> int:
        """Number of this rank among those of its host."""
        return [peer.rank for peer in self.peers if peer.host == self.own.host].index(self.own.rank)

    @property
    def folder(self) -> str:
        """Name of this rank's folder: its host's, with the slot where that has several ranks."""
        alone = sum(peer.host == self.own.host for peer in self.peers) == 1
        slot = local_rank() if self.missing else None  # those that are missing may come, and be of this host
        if slot is None:
            slot = None if alone else self.slot
        return self.own.host if slot is None else f"{self.own.host}_{slot}"


def own_peer(rank: int, offers: Mapping[str, Any]) -> Peer:
    """This process, as it tells the others."""
    addresses = own_addresses()
    placed = placed_at(addresses)
    name = os.environ.get("E2CDL_HOST") or (socket.gethostname() if placed is None else placed.name)
    return Peer(
        rank=rank, host=name.replace("/", "-") or "host", pid=os.getpid(), boot=boot(), addresses=addresses,
        offers=offers,
    )  # fmt: skip


def tell(own: Peer, exchange: Exchange) -> None:
    """Those who come learn of ``own``."""
    exchange.put(f"rank/{own.rank}", json.dumps(asdict(own)).encode())


def meet(own: Peer, world_size: int, exchange: Exchange, within_s: float = WITHIN_S) -> Ranks:
    """Tell the others, and learn from each that comes within ``within_s``."""
    tell(own, exchange)
    peers = {own.rank: own}
    give_up_s, pause_s = time.monotonic() + within_s, _LOOK_AGAIN_S
    while True:
        for rank in range(world_size):
            told = None if rank in peers else exchange.get(f"rank/{rank}")
            if told is not None:
                peers[rank] = _peer(told)
        if len(peers) == world_size or time.monotonic() > give_up_s:
            break
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _RARELY_S)
    ordered = tuple(peers[rank] for rank in sorted(peers))
    return Ranks(own=own, world_size=world_size, peers=ordered)


def _peer(told: bytes) -> Peer:
    said = json.loads(told)
    return Peer(**{**said, "addresses": tuple(said["addresses"])})


def boot() -> str:
    """Of the machine since it booted, and of the time namespace, in which the monotonic clock may be another."""
    booted = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        return f"{booted} {os.readlink('/proc/self/ns/time')}"
    except OSError:  # a kernel without time namespaces
        return booted
