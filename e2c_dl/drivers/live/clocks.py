"""The clock exchange of all ranks with rank 0: before, while and after they train; writes ``clock.json``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from e2c_dl.drivers.live.abandoned import abandonable
from e2c_dl.drivers.live.control import WHILE_ALIVE, Control
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.errors import TrainingError
from e2c_dl.trace.clocks.clock import EVERY_S, ClockServer, ReferenceClock
from e2c_dl.trace.clocks.questions import Clock
from e2c_dl.trace.clocks.timekeeping import timekeeping
from e2c_dl.trace.model import ClockAlignment


class Clocks:
    """Made by :meth:`start`; :meth:`followed` while training, then :meth:`finish`. ``own`` is this host's clock."""

    def __init__(self, assignment: Assignment, control: Control, port: int, token: int, own: Clock) -> None:
        self._assignment, self._control = assignment, control
        self._reference = ReferenceClock(assignment.members[0].address, port, token, own)

    @classmethod
    async def start(cls, assignment: Assignment, control: Control, resources: AsyncExitStack, own: Clock) -> Clocks:
        """All ranks exchange with rank 0, which serves until ``resources`` are released. Raises: TrainingError."""
        served = None
        if assignment.rank == 0:
            server = resources.enter_context(ClockServer(assignment.own.address, own))
            served = [server.port, server.token]
        port, token = await control.broadcast("clock", served)
        clocks = cls(assignment, control, port, token, own)
        await clocks._exchange(clocks._reference.exchange)  # before training, as drift shows only between two
        assignment.records.amend_facts(timekeeping=await abandonable(timekeeping))
        await control.barrier("clocks")  # nothing else shall use the network during an exchange
        return clocks

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """While in it, exchange again and again: what the clock does meanwhile cannot be told afterwards."""
        following = asyncio.ensure_future(self._follow())
        try:
            yield
        finally:
            following.cancel()  # the thread that exchanges just now ends by its own time-out
            await asyncio.wait({following})

    async def finish(self) -> None:
        """All ranks exchange a last time. Raises: TrainingError."""
        await self._control.barrier("clocks again", WHILE_ALIVE)  # ranks that still train would delay the answers
        await self._exchange(self._reference.exchange)
        self._assignment.records.amend_facts(timekeeping_at_end=await abandonable(timekeeping))

    async def _follow(self) -> None:
        while self._assignment.rank:
            await asyncio.sleep(EVERY_S)
            try:
                await self._exchange(self._reference.exchange_few)
            except TrainingError:
                continue  # the exchanges before and after tell what this one would have

    async def _exchange(self, ask: Callable[[], ClockAlignment]) -> None:
        """One more; rank 0's clock is the reference, and needs none."""
        # It blocks: in the loop, it would hold up messages.
        alignment = await abandonable(ask) if self._assignment.rank else ClockAlignment()
        self._assignment.records.write_clock(alignment)  # each time: a run that ends early has the last
