"""The judge as rank 0's worker holds it: started before training, given all ranks' news, ended after."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from e2c_dl import codec
from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.verdicts import Told, append
from e2c_dl.diagnosis.references import PACED
from e2c_dl.drivers.live.beside.serving import READY_WITHIN_S, Serving
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.drivers.live.verdicts.lines import JudgeConfig, line
from e2c_dl.errors import TrainingError

_REMEDY = "see worker.log"


class JudgeProcess:
    """A judge that runs; made by :meth:`start`."""

    def __init__(self, process: Serving, records: HostRecords, control: Control) -> None:
        self._process, self._records, self._control = process, records, control

    @classmethod
    async def start(cls, assignment: Assignment, control: Control) -> JudgeProcess:
        """A judge that waits for news. Raises: TrainingError if it cannot begin."""
        process = await Serving.start("e2c_dl.drivers.live.verdicts.judge")
        judge = cls(process, assignment.records, control)
        try:
            process.write(line(_config(assignment)))
            answer = await asyncio.wait_for(judge._answer(), READY_WITHIN_S)
            if not answer.get("ready"):
                raise TrainingError(f"the judge cannot begin: {answer.get('error')}; {_REMEDY}")
        except asyncio.TimeoutError as error:
            await judge.end()
            raise TrainingError(f"the judge was not ready within {READY_WITHIN_S:g} s; {_REMEDY}") from error
        except BaseException:  # also when cancelled: none may outlive its worker
            await judge.end()
            raise
        return judge

    def hear(self, rank: int, said: dict[str, Any]) -> None:
        """News of ``rank``, as it said it."""
        self._process.write(msgspec.json.encode({"rank": rank, "said": said}) + b"\n")

    async def tell(self) -> None:
        """Send its verdicts to all ranks, and keep them. Raises: TrainingError when it has ended."""
        while said := await self._process.line():
            told = codec.decode(said, Told, "the judge", error=TrainingError, remedy=_REMEDY)
            append(self._records.verdicts_file, told)
            self._control.say_verdict(msgspec.to_builtins(told))
        raise TrainingError(f"the judge has ended, so that ranks hear no verdict any more; {_REMEDY}")

    async def end(self) -> None:
        """Nothing is judged any more; the judge has ended when this returns."""
        await self._process.end()

    async def _answer(self) -> dict[str, Any]:
        said = await self._process.line()
        return codec.decode(said or b"{}", dict[str, Any], "the judge", error=TrainingError, remedy=_REMEDY)


def _config(assignment: Assignment) -> JudgeConfig:
    own = assignment.own
    paced = all(member.speed is not None for member in assignment.members)
    compute = {"method": PACED[0] if paced else "none", "oversubscribed": own.oversubscribed}
    return JudgeConfig(
        scenario=str(assignment.run_dir / layout.SCENARIO), worker_pid=os.getpid(),
        emulation={"backend": own.backend.value, "compute": compute},
    )  # fmt: skip
