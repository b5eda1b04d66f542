"""The coordinator's end of the control connections: gathers values, and ends the run for all when one rank is lost.

What is said on the connections is drawn in :mod:`e2c_dl.host.control`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from e2c_dl.errors import TrainingError
from e2c_dl.host.control import LARGEST_LINE_BYTES
from e2c_dl.worlds.live.sockets import SocketOptions, tune


@dataclass
class _Gathering:
    """Values under one name, by rank, and the timer that ends the run if they do not become complete."""

    values: dict[int, Any] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None


class Coordinator:
    """Serves the ranks called ``names`` (hosts, by rank) from the running event loop, until closed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._gatherings: dict[str, _Gathering] = {}
        self._aborted: bytes | None = None  # the line that ended the run
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int) -> None:
        """Serve at ``address``. Raises: TrainingError if that is not possible."""
        try:
            self._server = await asyncio.start_server(self._serve, address, port, limit=LARGEST_LINE_BYTES)
        except OSError as error:
            raise TrainingError(
                f"{address}:{port}: rank 0 cannot listen there: {error.strerror}; end what uses the port, "
                "or give rank 0 another control_port"
            ) from error

    async def close(self) -> None:
        """Stop serving; what was said last is still delivered."""
        if self._server is not None:
            self._server.close()
        for gathering in self._gatherings.values():
            if gathering.timer is not None:
                gathering.timer.cancel()
        for writer in self._writers.values():
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers.values()), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tune(writer.get_extra_info("socket"), SocketOptions())
        try:
            rank = self._joined(json.loads(await reader.readline()), writer)
        except (OSError, ValueError, KeyError, TypeError):
            writer.close()  # nobody of this run: a port scanner, or a leftover
            return
        left, why = False, "its control connection closed"
        try:
            while not left and (line := await reader.readline()):
                left = self._heard(rank, json.loads(line))
        except (OSError, ValueError, KeyError) as error:
            why = f"its control connection broke: {error}"
        if not left:
            self._abort(rank, f"lost rank {rank} ({self._names[rank]}): {why}")

    def _joined(self, line: dict[str, Any], writer: asyncio.StreamWriter) -> int:
        """The rank that joins. Raises: ValueError, KeyError: it is none of this run."""
        rank = int(line["rank"])
        if line["op"] != "join" or rank in self._writers or not 0 <= rank < len(self._names):
            raise ValueError(f"no rank {rank} is due")
        self._writers[rank] = writer
        if self._aborted is not None:
            writer.write(self._aborted)
        return rank

    def _heard(self, rank: int, line: dict[str, Any]) -> bool:
        """Act on ``line`` of ``rank``; True if it leaves."""
        if line["op"] == "gather":
            self._gather(rank, line["name"], line["value"], line["within_s"])
        elif line["op"] == "fail":
            self._failed(rank, line)
        return bool(line["op"] in {"leave", "fail"})

    def _failed(self, rank: int, line: dict[str, Any]) -> None:
        """``rank`` cannot go on, because of itself, or because it lost another."""
        lost = line["lost"]
        at_fault, what = (rank, "") if lost is None else (lost, "lost ")
        reason = f"{what}rank {at_fault} ({self._names[at_fault]}): {line['reason']}"
        self._abort(at_fault, reason, line["status"], line["exit_code"])

    def _gather(self, rank: int, name: str, value: Any, within_s: float | None) -> None:
        gathering = self._gatherings.setdefault(name, _Gathering())
        gathering.values[rank] = value
        if len(gathering.values) == len(self._names):
            if gathering.timer is not None:
                gathering.timer.cancel()
            del self._gatherings[name]
            values = [gathering.values[each] for each in range(len(self._names))]
            self._tell(_line(op="gathered", name=name, values=values))
        elif gathering.timer is None and within_s is not None:
            loop = asyncio.get_running_loop()
            gathering.timer = loop.call_later(within_s, self._late, name, gathering, within_s)

    def _late(self, name: str, gathering: _Gathering, within_s: float) -> None:
        rank = min(set(range(len(self._names))) - gathering.values.keys())
        reason = f"rank {rank} ({self._names[rank]}) did not come to {name!r} within {within_s:.0f} s of the first"
        self._abort(rank, f"{reason}; look into its worker.log")

    def _abort(self, rank: int, reason: str, status: str = "failed", exit_code: int = 1) -> None:
        if self._aborted is None:
            self._aborted = _line(op="abort", rank=rank, reason=reason, status=status, exit_code=exit_code)
            self._tell(self._aborted)

    def _tell(self, line: bytes) -> None:
        for writer in self._writers.values():
            writer.write(line)


def _line(**content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"
