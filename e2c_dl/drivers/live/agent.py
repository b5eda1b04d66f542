"""The worker's end of its agent: started before training, told what began, ended after; its death ends training.

The agent itself is :mod:`e2c_dl.emulation.agent.main`, a process of its own, so that it acts in time while this one
computes, and can stop this one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import e2c_dl
from e2c_dl.emulation.agent.config import AgentConfig, WorkerSignal
from e2c_dl.errors import EmulationError

READY_WITHIN_S = 60.0  # importing on slow, busy hosts
ENDS_WITHIN_S = 10.0


class AgentProcess:
    """A running agent; made by :meth:`start`. ``facts`` are what it said of itself: scheduler, links."""

    def __init__(self, process: Process, host: str, facts: dict[str, Any]) -> None:
        self._process, self._host, self.facts = process, host, facts

    @classmethod
    async def start(cls, config: AgentConfig) -> AgentProcess:
        """An agent that waits for training to begin. Raises: EmulationError if it cannot do what it has to."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "e2c_dl.emulation.agent.main",
            stdin=PIPE, stdout=PIPE, cwd=Path(e2c_dl.__file__).parents[1],  # its standard error is this worker's log
        )  # fmt: skip
        agent = cls(process, config.host, {})
        agent._write(config.to_line())
        try:
            agent.facts = await asyncio.wait_for(agent._answer(), READY_WITHIN_S)
        except asyncio.TimeoutError as error:
            await agent.end()
            raise EmulationError(f"{config.host}: its agent was not ready within {READY_WITHIN_S:g} s") from error
        except BaseException:  # also when cancelled: no agent may outlive its worker
            await agent.end()
            raise
        return agent

    def tell(self, signal: WorkerSignal) -> None:
        self._write(signal.to_line())

    async def lost(self) -> None:
        """Never returns. Raises: EmulationError when the agent has ended, which it does not do by itself."""
        status = await self._process.wait()  # it serves until its input ends, so any end before is a failure
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        raise EmulationError(
            f"emulation lost: the agent of {self._host} {how}, so that links and faults no longer follow the scenario; "
            "see its worker.log"
        )

    async def end(self) -> None:
        """Nothing is to change any more; the agent has ended when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.close()  # the end of its input is what tells it to end
        try:
            await asyncio.wait_for(self._process.wait(), ENDS_WITHIN_S)
        except asyncio.TimeoutError:
            self._process.kill()  # one that does not end would go on changing links
            await self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:  # it closed its output: whatever it has to say stands in the log
            raise EmulationError(f"{self._host}: its agent ended before it was ready; see its worker.log")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EmulationError(answer["error"])
        answer.pop("ready")
        return answer
