"""The coordinator's end of the control connections: gathers values, and ends the run for all when one rank is lost.

What is said on the connections is drawn in :mod:`e2c_dl.drivers.live.control`. Who does not hold the run's key is
turned away, before a byte of what it says is looked at.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2c_dl.archive.records import Cause, Doing
from e2c_dl.drivers.live.budget.account import Account, Answers
from e2c_dl.drivers.live.control import largest_line_bytes
from e2c_dl.errors import TrainingError
from e2c_dl.worlds.deadlines import Deadline
from e2c_dl.worlds.live import handshake
from e2c_dl.worlds.live.handshake import Door
from e2c_dl.worlds.live.sockets import SocketOptions, listener

SAID = {  # gathering, whose end all wait for -> what they do until then
    "joined": "workers joining",
    "imported": "importing torch, building the model",
    "clocks": "aligning clocks",
    "start": "connecting workers",
}
LEAST_WITHIN_S = 10.0  # however close together ranks came so far


@dataclass
class _Gathering:
    """Values under one name, by rank, and the timer that ends the run if they do not become complete."""

    begun_s: float
    values: dict[int, Any] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None


class Coordinator:
    """Serves the ranks called ``names`` (hosts, by rank) from the running event loop, until closed.

    ``tell`` hears who has joined, and who has come to each gathering that is in ``SAID``. ``account`` is that of a
    budget that ranks share.
    """

    def __init__(
        self, names: Sequence[str], key: bytes, tell: Callable[[Doing], None] = lambda _: None,
        account: Account | None = None,
    ) -> None:  # fmt: skip
        self._names = names
        self._key = key
        self._say = tell
        self._account = account
        self._time: asyncio.TimerHandle | None = None  # the budget's, from the first iteration on
        self._joined: set[int] = set()  # ranks
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._gatherings: dict[str, _Gathering] = {}
        self._aborted: bytes | None = None  # the line that ended the run
        self._door: Door | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._deadlines: dict[str, Deadline] = {}  # by the first word of gatherings' names

    @property
    def turned_away(self) -> int:
        """How many connections did not show that they belong to this run."""
        return self._door.turned_away if self._door else 0

    async def listen(self, address: str, port: int) -> None:
        """Serve at ``address``. Raises: TrainingError if that is not possible."""
        try:
            listening = listener(address, port)
        except OSError as error:
            raise TrainingError(
                f"{address}:{port}: rank 0 cannot listen there: {error.strerror}; end what uses the port, "
                "or give rank 0 another control_port"
            ) from error
        self._door = Door(
            listening, channel=handshake.CONTROL, dst=0, size=len(self._names), key=self._key, options=SocketOptions(),
            due=lambda rank: rank not in self._joined, admit=self._admit,
        )  # fmt: skip

    async def close(self) -> None:
        """Stop serving; what was said last is still delivered."""
        if self._door is not None:
            self._door.close()
        for gathering in self._gatherings.values():
            if gathering.timer is not None:
                gathering.timer.cancel()  # else it would end a run that is over
        if self._time is not None:
            self._time.cancel()
        for writer in self._writers.values():
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers.values()), return_exceptions=True)

    def _admit(self, connection: socket.socket, rank: int) -> None:
        self._joined.add(rank)  # for good: a rank that was lost ends the run, and does not come again
        self._progressed("joined", self._joined)
        serving = asyncio.get_running_loop().create_task(self._serve(connection, rank))
        self._serving.add(serving)  # the event loop itself holds tasks weakly
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket, rank: int) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=largest_line_bytes(len(self._names)))
        self._writers[rank] = writer
        if self._aborted is not None:  # whoever joins late hears of it, too
            writer.write(self._aborted)
        left, why = False, "its control connection closed"
        try:
            while not left and (line := await reader.readline()):
                left = self._heard(rank, json.loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:  # it broke, or no line of this protocol
            why = f"its control connection broke: {error}"
        if not left:  # it neither left nor failed: a crash, or a lost network
            self._abort(rank, f"lost rank {rank} ({self._names[rank]}): {why}", Cause.LOST_PEER)

    def _heard(self, rank: int, line: dict[str, Any]) -> bool:
        """Act on ``line`` of ``rank``; True if it leaves."""
        if line["op"] == "gather":
            self._gather(rank, line["name"], line["value"], line["within_s"], line["to"])
        elif line["op"] == "budget" and self._account is not None:
            self._answer(self._account.hear(rank, line["said"]))
            if self._time is None and self._account.seconds is not None:
                loop = asyncio.get_running_loop()
                self._time = loop.call_later(self._account.seconds, self._time_is_over, self._account)
        elif line["op"] == "news" and 0 in self._writers:
            self._writers[0].write(_line(op="news", rank=rank, said=line["said"]))
        elif line["op"] == "verdict" and rank == 0:
            self._tell(_line(op="verdict", said=line["said"]))
        elif line["op"] == "fail":
            self._failed(rank, line)
        return bool(line["op"] in {"leave", "fail"})

    def _time_is_over(self, account: Account) -> None:
        self._answer(account.time_is_over())

    def _answer(self, answers: Answers) -> None:
        for ranks, said in answers:
            for rank in ranks:
                if rank in self._writers:
                    self._writers[rank].write(_line(op="budget", said=said))

    def _failed(self, rank: int, line: dict[str, Any]) -> None:
        """``rank`` cannot go on, because of itself, or because it lost another."""
        lost = line["lost"]
        at_fault, what = (rank, "") if lost is None else (lost, "lost ")
        reason = f"{what}rank {at_fault} ({self._names[at_fault]}): {line['reason']}"
        self._abort(at_fault, reason, Cause(line["cause"]), line["exit_code"])

    def _gather(self, rank: int, name: str, value: Any, within_s: float | None, to: int | None) -> None:
        loop = asyncio.get_running_loop()
        gathering = self._gatherings.setdefault(name, _Gathering(begun_s=loop.time()))
        gathering.values[rank] = value
        self._progressed(name, gathering.values)
        deadline = self._deadlines.setdefault(name.partition(" ")[0], Deadline())
        if len(gathering.values) == len(self._names):
            deadline.came(loop.time() - gathering.begun_s)  # from first to last: how far apart they come
            if gathering.timer is not None:
                gathering.timer.cancel()
            del self._gatherings[name]
            values = [gathering.values[each] for each in range(len(self._names))]
            whole, none = _line(op="gathered", name=name, values=values), _line(op="gathered", name=name, values=[])
            for each, writer in self._writers.items():
                writer.write(whole if to in (None, each) else none)
        elif gathering.timer is None and within_s is not None:  # from the first: it waits longest
            wait_s = min(within_s, max(deadline.seconds or within_s, LEAST_WITHIN_S))
            gathering.timer = loop.call_later(wait_s, self._late, name, gathering, wait_s)

    def _progressed(self, name: str, came: Collection[int]) -> None:
        if (what := SAID.get(name)) is not None:
            waiting = tuple(each for rank, each in enumerate(self._names) if rank not in came)
            self._say(Doing(what=what, done=len(came), of=len(self._names), waiting=waiting))

    def _late(self, name: str, gathering: _Gathering, within_s: float) -> None:
        rank = min(set(range(len(self._names))) - gathering.values.keys())
        reason = f"rank {rank} ({self._names[rank]}) did not come to {name!r} within {within_s:.0f} s of the first"
        self._abort(rank, f"{reason}; look into its worker.log", Cause.LOST_PEER)

    def _abort(self, rank: int, reason: str, cause: Cause, exit_code: int = 1) -> None:
        if self._aborted is None:
            self._aborted = _line(op="abort", rank=rank, reason=reason, cause=cause.value, exit_code=exit_code)
            self._tell(self._aborted)

    def _tell(self, line: bytes) -> None:
        for writer in self._writers.values():
            writer.write(line)


def _line(**content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"
