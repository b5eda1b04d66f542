"""The worker's end of its agent: started before training, told what began, ended after; its death ends training.

The agent itself is :mod:`e2c_dl.emulation.agent.main`, a process of its own, so that it acts in time while this one
computes, and can stop this one.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from e2c_dl.drivers.live.beside.serving import READY_WITHIN_S, Serving
from e2c_dl.emulation.agent.config import AgentConfig, WorkerSignal
from e2c_dl.errors import EmulationError


class AgentProcess:
    """A running agent; made by :meth:`start`. ``facts`` are what it said of itself: scheduler, links."""

    def __init__(self, process: Serving, host: str, facts: dict[str, Any]) -> None:
        self._process, self._host, self.facts = process, host, facts

    @classmethod
    async def start(cls, config: AgentConfig) -> AgentProcess:
        """An agent that waits for training to begin. Raises: EmulationError if it cannot do what it has to."""
        process = await Serving.start("e2c_dl.emulation.agent.main")
        agent = cls(process, config.host, {})
        process.write(config.to_line().encode())
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
        self._process.write(signal.to_line().encode())

    async def lost(self) -> None:
        """Never returns. Raises: EmulationError when the agent has ended, which it does not do by itself."""
        status = await self._process.status()  # it serves until its input ends, so any end before is a failure
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        raise EmulationError(
            f"emulation lost: the agent of {self._host} {how}, so that links and faults no longer follow the scenario; "
            "see its worker.log"
        )

    async def end(self) -> None:
        """Nothing is to change any more; the agent has ended when this returns."""
        await self._process.end()  # one that did not end would go on changing links

    async def _answer(self) -> dict[str, Any]:
        line = await self._process.line()
        if not line:  # it closed its output: whatever it has to say stands in the log
            raise EmulationError(f"{self._host}: its agent ended before it was ready; see its worker.log")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EmulationError(answer["error"])
        answer.pop("ready")
        return answer
