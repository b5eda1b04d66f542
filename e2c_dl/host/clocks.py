"""The clock exchange of all ranks with rank 0, at the start and at the end of training; writes ``clock.json``."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from e2c_dl.archive import layout
from e2c_dl.host.control import Control
from e2c_dl.host.members import Assignment
from e2c_dl.trace.clock import ClockServer, Exchange, align, exchange, write_alignment
from e2c_dl.trace.model import ClockAlignment


class Clocks:
    """Made by :meth:`start`; :meth:`finish` adds the drift."""

    def __init__(self, assignment: Assignment, control: Control, port: int) -> None:
        self._assignment, self._control, self._port = assignment, control, port
        self._first: Exchange | None = None

    @classmethod
    async def start(cls, assignment: Assignment, control: Control, resources: AsyncExitStack) -> Clocks:
        """All ranks exchange with rank 0, which serves until ``resources`` are released. Raises: TrainingError."""
        port = None
        if assignment.rank == 0:
            port = resources.enter_context(ClockServer(assignment.own.address)).port
        clocks = cls(assignment, control, await control.broadcast("clock", port))
        clocks._first = await clocks._exchange()
        clocks._write(align(clocks._first) if clocks._first else ClockAlignment())
        await control.barrier("clocks")
        return clocks

    async def finish(self) -> None:
        """All ranks exchange again. Raises: TrainingError."""
        await self._control.barrier("clocks again")
        last = await self._exchange()
        if self._first is not None and last is not None:
            self._write(align(self._first, last))

    async def _exchange(self) -> Exchange | None:
        """None on rank 0, whose clock is the reference."""
        if self._assignment.rank == 0:
            return None
        return await asyncio.to_thread(exchange, self._assignment.members[0].address, self._port)

    def _write(self, alignment: ClockAlignment) -> None:
        write_alignment(self._assignment.run_dir / layout.CLOCK, alignment)
