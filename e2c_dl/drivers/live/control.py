"""Control of all ranks together, outside of training: rank 0 coordinates, JSON lines over the management addresses.

::

    rank r <-> (both prove that they hold the run's key, and are ranks r and 0: see worlds.live.handshake)
            -> {"op": "gather", "name": N, "value": V, "within_s": S, "to": null}
            <- {"op": "gathered", "name": N, "values": [...]}     when all ranks have given theirs, by rank; to all of
                                                                  them, or with "to": 0 to rank 0 (others: none)
            -> {"op": "fail", "reason": ..., "cause": ..., "exit_code": ..., "lost": r}
            <- {"op": "abort", "rank": r, "reason": ..., "cause": ..., "exit_code": ...}   nobody goes on
            -> {"op": "budget", "said": {...}}   <- {"op": "budget", "said": {...}}   see e2c_dl.drivers.live.budget
            -> {"op": "news", "said": {...}}   <- {"op": "verdict", "said": {...}}   see e2c_dl.drivers.live.verdicts
            -> {"op": "leave"}                                    the orderly end

A connection that ends without leaving is a lost rank. The first cause that reaches the coordinator is the one all are
told, so that a chain of losses names its beginning. This is a rank's end; the other is the coordinator's.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from e2c_dl.archive.records import Cause
from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.worlds.live import handshake
from e2c_dl.worlds.live.handshake import Introduction, Refused
from e2c_dl.worlds.live.sockets import SocketOptions, tune

T = TypeVar("T")

WITHIN_S = 60.0
WHILE_ALIVE = None
"""Limit of a gathering that some ranks come to after work of any length: as long as all show signs of life. A process
that ends closes its connection, a host that vanishes is found gone by TCP (worlds.giving_up), and who waits for the run
from outside ends one whose worker, or whose host, is stopped (drivers.live.detached, campaign.hosts.life)."""
_LEAST_LINE_BYTES, _LINK_BYTES = 1 << 22, 512  # of any line; of what is said of one link
_VERDICT_WITHIN_S = 5.0  # a coordinator that is itself gone never answers
_RETRY_S = 0.2  # rank 0 may not listen yet: all workers start at the same time


class Aborted(TrainingError):
    """The run has ended for all ranks. ``rank`` is where it began, ``cause`` why."""

    def __init__(self, rank: int, reason: str, *, cause: Cause, exit_code: int) -> None:
        self.rank, self.cause = rank, cause
        self.exit_code = exit_code
        super().__init__(reason)


def largest_line_bytes(size: int) -> int:
    """Of a line between ``size`` ranks, which may tell of all links. asyncio's own limit is 64 KiB."""
    return max(_LEAST_LINE_BYTES, size * size * _LINK_BYTES)


class Control:
    """One rank's connection to the coordinator; made by :meth:`join`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rank: int, coordinator: str) -> None:
        self.rank = rank
        self._reader, self._writer, self._coordinator = reader, writer, coordinator
        self._gathering: dict[str, asyncio.Future[list[Any]]] = {}
        self.on_budget: Callable[[dict[str, Any]], None] = lambda _: None
        self.on_news: Callable[[int, dict[str, Any]], None] = lambda *_: None  # of a rank; at rank 0
        self.on_verdict: Callable[[dict[str, Any]], None] = lambda _: None
        self._ended: asyncio.Future[Aborted] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def join(cls, address: str, port: int, *, rank: int, names: Sequence[str], key: bytes) -> Control:
        """The joined connection to the coordinator at ``address``; ``names`` are the hosts by rank, ``key`` the run's.

        Raises: PeerLost if it cannot be reached within a minute; TrainingError if it is reached, and refuses.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WITHIN_S
        own = Introduction(channel=handshake.CONTROL, src=rank, dst=0, size=len(names))
        while True:
            try:
                connection = await _introduced(address, port, own, key)
                break
            except (OSError, EOFError, Refused, asyncio.TimeoutError) as error:
                if loop.time() > deadline:
                    why = (
                        f"{names[0]}: {address}:{port} was not reached within {WITHIN_S:.0f} s: "
                        f"{str(error) or 'it does not answer'}; look into its worker.log"
                    )
                    # What it refuses is nothing that follows from its own end.
                    raise (TrainingError(why) if isinstance(error, Refused) else PeerLost(0, why)) from error
                await asyncio.sleep(_RETRY_S)
        reader, writer = await asyncio.open_connection(sock=connection, limit=largest_line_bytes(len(names)))
        return cls(reader, writer, rank, names[0])

    async def gather(self, name: str, value: Any, within_s: float | None = WITHIN_S) -> list[Any]:
        """What each rank gave under ``name``, by rank, once all have; each ``name`` is used once.

        From the first rank's arrival the others have ``within_s`` (None: for ever), or less, once the coordinator has
        seen how far apart ranks come to gatherings whose names begin with the same word. Raises: Aborted.
        """
        return await self._gathered(name, value, within_s, None)

    async def collect(self, name: str, value: Any, within_s: float | None = WITHIN_S) -> list[Any]:
        """As ``gather``, for what rank 0 alone needs: elsewhere nothing comes. Raises: Aborted."""
        return await self._gathered(name, value, within_s, 0)

    async def _gathered(self, name: str, value: Any, within_s: float | None, to: int | None) -> list[Any]:
        gathered: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._gathering[name] = gathered
        self._say(op="gather", name=name, value=value, within_s=within_s, to=to)
        await _first(gathered, self._ended)
        if not gathered.done():  # both may have come: what was gathered counts
            raise self._ended.result()
        return gathered.result()

    async def barrier(self, name: str, within_s: float | None = WITHIN_S) -> None:
        """Return when all ranks are here. Raises: Aborted."""
        await self.gather(name, None, within_s)

    async def broadcast(self, name: str, value: Any) -> Any:
        """Rank 0's ``value``. Raises: Aborted."""
        return (await self.gather(name, value))[0]

    async def guard(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of ``coroutine``, cancelled when the run ends for all. Raises: Aborted, or what it does."""
        work = asyncio.get_running_loop().create_task(coroutine)
        try:
            await _first(work, self._ended)
            if work.done():
                return work.result()
            raise self._ended.result()  # Aborted, of whoever began it
        finally:
            work.cancel()
            await asyncio.wait({work})  # cancelled is not ended: what it holds is released first

    async def fail(
        self, reason: str, *, cause: Cause = Cause.FAILED, exit_code: int = 1, lost: int | None = None
    ) -> Aborted | None:
        """Tell that this rank cannot go on, because of itself, or because rank ``lost`` is gone.

        Returns the first cause, as the coordinator sees it; None if it does not answer.
        """
        self._say(op="fail", reason=reason, cause=cause.value, exit_code=exit_code, lost=lost)
        await asyncio.wait({self._ended}, timeout=_VERDICT_WITHIN_S)
        return self._ended.result() if self._ended.done() else None

    def say_budget(self, said: dict[str, Any]) -> None:
        """Tell the budget's account, whose answers ``on_budget`` hears."""
        self._say(op="budget", said=said)

    async def say_news(self, said: dict[str, Any]) -> None:
        """Tell what this rank has traced, which rank 0 hears by ``on_news``; returns when it is on its way."""
        self._say(op="news", said=said)
        await self._writer.drain()  # it may be much

    def say_verdict(self, said: dict[str, Any]) -> None:
        """Tell all ranks, which hear it by ``on_verdict``; rank 0's to say."""
        self._say(op="verdict", said=said)

    async def leave(self) -> None:
        self._say(op="leave")
        await self._writer.drain()  # so that the end of the connection does not overtake it

    def close(self) -> None:
        """Close the connection; without :meth:`leave` or :meth:`fail` before, the others see this rank lost."""
        self._listening.cancel()
        self._writer.close()

    def _say(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def _listen(self) -> None:
        why = "its control connection closed"
        try:
            while line := await self._reader.readline():
                heard = json.loads(line)
                if heard["op"] == "abort":
                    cause = Cause(heard["cause"])
                    self._end(Aborted(heard["rank"], heard["reason"], cause=cause, exit_code=heard["exit_code"]))
                elif heard["op"] == "budget":
                    self.on_budget(heard["said"])
                elif heard["op"] == "news":
                    self.on_news(heard["rank"], heard["said"])
                elif heard["op"] == "verdict":
                    self.on_verdict(heard["said"])
                else:
                    self._gathering.pop(heard["name"]).set_result(heard["values"])
        except (OSError, ValueError, KeyError) as error:
            why = f"its control connection broke: {error}"
        self._end(Aborted(0, f"lost rank 0 ({self._coordinator}): {why}", cause=Cause.LOST_PEER, exit_code=1))

    def _end(self, aborted: Aborted) -> None:
        if not self._ended.done():  # the first cause holds
            self._ended.set_result(aborted)


async def _introduced(address: str, port: int, own: Introduction, key: bytes) -> socket.socket:
    """A connection to the coordinator, both ends proven. Raises: as :func:`handshake.introduce`."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        tune(connection, SocketOptions())  # a coordinator whose host vanished is noticed in seconds
        attempt = asyncio.get_running_loop().sock_connect(connection, (address, port))
        await asyncio.wait_for(attempt, handshake.WITHIN_S)
        await handshake.introduce(connection, own, key)
    except BaseException:  # a cancelled join must leave no open connection
        connection.close()
        raise
    return connection


async def _first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
