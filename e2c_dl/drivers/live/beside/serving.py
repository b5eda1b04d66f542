"""A process of this host that serves this worker: lines go to its standard input, whose end tells it to end."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import e2c_dl

READY_WITHIN_S = 60.0  # importing on slow, busy hosts
ENDS_WITHIN_S = 10.0


class Serving:
    """The process of a module of this package; made by :meth:`start`. Its standard error is this worker's log."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str) -> Serving:
        """``python -m module``, with the package that runs here."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=PIPE, stdout=PIPE, cwd=Path(e2c_dl.__file__).parents[1]
        )
        return cls(process)

    def write(self, content: bytes) -> None:
        """Send ``content``, as soon as it takes it."""
        assert self._process.stdin is not None
        self._process.stdin.write(content)

    async def line(self) -> bytes:
        """The next line of its standard output; empty when it has closed it."""
        assert self._process.stdout is not None
        return await self._process.stdout.readline()

    async def status(self) -> int:
        """How it ended, when it has."""
        return await self._process.wait()

    async def end(self) -> None:
        """It has ended when this returns; one that does not by itself is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), ENDS_WITHIN_S)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.wait()
