"""Changes on one host while it trains: its worker carries out clock, speed and lateness, its agent all else.

::

    start()             the agent is ready, if there is anything for it to do
    began()             clock, speed and agent count from now on
    iteration(n)        what an iteration begins, begins
    end()               nothing changes any more; the logs are whole
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.drivers.live.beside.agent import AgentProcess
from e2c_dl.drivers.live.beside.watched import watched
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.dynamics.faults import CLOCK_FAULTS, BegunFaults, faults_of_kind, own_faults, skews
from e2c_dl.dynamics.heat import Heat
from e2c_dl.dynamics.lateness import Lateness
from e2c_dl.dynamics.speed import ChangingSpeed, ConstantSpeed, HostSpeed, Speed
from e2c_dl.emulation.agent.config import AgentConfig, WorkerSignal
from e2c_dl.emulation.agent.duties import Duties
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import EmulationError
from e2c_dl.scenario.model import SHAPES, FaultKind
from e2c_dl.trace.changes import Change, ChangeLog
from e2c_dl.trace.clocks.skew import TraceClock

HEAT_COLUMNS = ("time_ns", "training_s", "temperature_c", "throttled")  # time_ns of the host's own clock
_NOT_PACED = "not carried out: this host is not paced, so that its speed cannot change"


class HostChanges:
    """Everything but :meth:`began` and :meth:`iteration` may take a while. ``clock`` is this host's own."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment, self._host = assignment, assignment.own.name
        scenario = assignment.scenario
        self.clock = TraceClock(time.monotonic_ns)  # monotonic: nobody sets it while training runs
        self._clock_faults = faults_of_kind(scenario, *CLOCK_FAULTS, host=self._host)
        self._duties = Duties.of(scenario, self._host, relay=assignment.own.backend is Backend.RELAY)
        self._agent: AgentProcess | None = None
        self._log: ChangeLog | None = None
        self._heat: HeatLog | None = None
        self._own, self._begun = own_faults(scenario, self._host), BegunFaults()
        self._began_ns = 0
        # Who computes nothing has no speed of its own that could hold.
        unpaced = 1.0 if scenario.training.mathematics == SHAPES else None
        self.paced_at = unpaced if assignment.own.speed is None else assignment.own.speed
        self.lateness = Lateness.of(scenario, self._host)
        self._of_host = HostSpeed.of(scenario, self._host, self.paced_at or 1.0)
        self.speed = self._speed()

    @property
    def facts(self) -> dict[str, Any]:
        """What became of it, for facts.json."""
        facts: dict[str, Any] = {"agent": None if self._agent is None else self._agent.facts}
        if self._of_host.changes:
            facts["speed"] = _NOT_PACED if self.speed is None else "changes, by pacing"
        return facts

    async def start(self) -> None:
        """Raises: EmulationError if the agent cannot do what the scenario asks for."""
        if isinstance(self.speed, ChangingSpeed) or self._clock_faults or self.lateness.faults:
            self._log = ChangeLog(self._assignment.records.worker_changes, self._host, self.clock.own_ns)
        if self._of_host.device is not None and self.speed is not None:
            self._heat = HeatLog(self._assignment.records.heat_file, self.clock.own_ns)
        if self._duties.any:
            self._agent = await AgentProcess.start(self._config())

    def began(self) -> None:
        self._began_ns = time.monotonic_ns()
        if self._agent is not None:
            self._agent.tell(WorkerSignal(at_ns=self._began_ns))  # the moment, not "now": the pipe takes time
        self._skew()
        for log in (self._log, self._heat):  # before the speed, which logs its first factor at once
            if log is not None:
                log.began_ns = self._began_ns
        if isinstance(self.speed, ChangingSpeed):
            self.speed.began(self._began_ns)

    def iteration(self, number: int) -> None:
        now_ns = time.monotonic_ns()
        time_s = (now_ns - self._began_ns) / 1e9
        numbers = self._begun.begin(self._own, number, time_s)
        if not numbers:  # nearly always
            return
        if self._agent is not None and self._duties.concerns(numbers):
            self._agent.tell(WorkerSignal(iteration=number, at_ns=now_ns))  # first: it acts while this goes on
        self._skew()
        if isinstance(self.speed, ChangingSpeed) and not {each for each, _ in self._of_host.slow}.isdisjoint(numbers):
            self.speed.slowed(number, time_s)

    def later_s(self, kind: FaultKind) -> float:
        """How much later a batch (LATE_DATA) or a step (LATE_STEP) ends that begins now. Called by any thread."""
        if not self._began_ns:
            return 0.0
        return self.lateness.later_s(kind, (time.monotonic_ns() - self._began_ns) / 1e9, self._begun)

    async def watched(self, training: Coroutine[Any, Any, None]) -> None:
        """``training``, ended if the agent is lost. Raises: EmulationError, or what it does."""
        if self._agent is None:
            await training
        else:
            await watched(training, self._agent.lost())

    async def end(self) -> None:
        """Raises: EmulationError if something could not be logged."""
        if self._agent is not None:
            await self._agent.end()
        if isinstance(self.speed, ChangingSpeed):
            self.speed.idle(time.monotonic_ns())  # it may have cooled enough to recover since its last gradient
        if self._log is not None:
            self._log_clock(self._log)  # now that all begins are known
            self._log_lateness(self._log)
            self._log.close()
        if self._heat is not None:
            self._heat.close()

    def _speed(self) -> Speed | None:
        if self.paced_at is None:
            return None
        if self._of_host.changes:
            return ChangingSpeed(self._of_host, self._on_change, self._on_heat, self._begun)
        return ConstantSpeed(self.paced_at)

    def _skew(self) -> None:
        self.clock.reset(skews(self._clock_faults, self._began_ns, self._begun))

    def _log_clock(self, log: ChangeLog) -> None:
        """What the clock did, told at the end: it needs no doing, and so is never late."""
        now_ns = time.monotonic_ns()
        for skew in skews(self._clock_faults, self._began_ns, self._begun):
            if self._began_ns and skew.begin_ns <= now_ns:  # only what has happened
                asked_s = (skew.begin_ns - self._began_ns) / 1e9
                log.add(
                    Change.CLOCK, self._host, skew.begin_ns, asked_s=asked_s,
                    step_s=skew.step_ns / 1e9, drift=skew.drift,
                )  # fmt: skip

    def _log_lateness(self, log: ChangeLog) -> None:
        """When batches and steps became later, told at the end, as of the clock."""
        if not self._began_ns:
            return
        trained_s = (time.monotonic_ns() - self._began_ns) / 1e9
        for what, asked_s, later_s, iteration in self.lateness.changes(self._begun, trained_s):
            at_ns = self._began_ns + round(asked_s * 1e9)
            log.add(what, self._host, at_ns, asked_s=asked_s, asked_iteration=iteration, later_s=later_s)

    def _on_change(self, what: Change, time_s: float, value: float, iteration: int | None) -> None:
        if self._log is not None:
            name = "factor" if what is Change.COMPUTE else "temperature_c"
            at_ns = self._began_ns + round(time_s * 1e9)
            self._log.add(what, self._host, at_ns, asked_s=time_s, asked_iteration=iteration, **{name: value})

    def _on_heat(self, heat: Heat) -> None:
        if self._heat is not None:
            self._heat.add(heat)

    def _config(self) -> AgentConfig:
        own, run_dir = self._assignment.own, self._assignment.run_dir.resolve()
        return AgentConfig(
            host=self._host, scenario=str(run_dir / layout.SCENARIO), log=str(HostRecords(run_dir).agent_changes),
            worker_pid=os.getpid(), backend=own.backend.value, relay_socket=own.relay_socket, device=own.data_device,
            addresses={member.name: member.data_address for member in self._assignment.members},
        )  # fmt: skip


class HeatLog:
    """Appends emulated temperatures to ``path`` as CSV: once a second of training, and at every switch.

    Written when what was computed has ended, so that a killed worker loses what its last gradient did.

    Raises: EmulationError if it cannot be written.
    """

    def __init__(self, path: Path, own_ns: Callable[[int], int]) -> None:
        self._path, self._own_ns = path, own_ns
        self.began_ns = 0  # of the machine's clock: training
        try:
            self._file = path.open("w", buffering=1)  # by lines: a worker that is killed leaves whole rows
            self._file.write(",".join(HEAT_COLUMNS) + "\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def add(self, heat: Heat) -> None:
        """One row. Raises: EmulationError."""
        time_ns = self._own_ns(self.began_ns + round(heat.time_s * 1e9))
        try:
            self._file.write(f"{time_ns},{heat.time_s:.6f},{heat.temperature_c:.4f},{int(heat.throttled)}\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        self._file.close()

    def _unwritable(self, error: OSError) -> EmulationError:
        return EmulationError(f"{self._path}: cannot be written: {error.strerror}; make room there")
