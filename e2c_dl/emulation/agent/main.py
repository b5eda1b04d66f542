"""Agent of one host: carries out what a scenario changes while training runs, in time and without any ssh.

::

    worker --"began NS", "iteration N NS"--> agent --links, bottlenecks--> relay or tc      changes.jsonl:
      ^                                        |                                            what, when asked,
      '---------- SIGSTOP, SIGCONT, SIGKILL ---'                                            when in force

``python -m e2c_dl.emulation.agent.main``: see :mod:`e2c_dl.emulation.agent.config` for what it reads. It ends with its
input, or with its parent, the worker; with 1 if a change could not be put in force. Several moments that passed while
it could not act are caught up with at once: the last one counts. It needs little of a core but needs it at once, and so
asks for real-time scheduling, as the relay does.
"""

from __future__ import annotations

import gc
import json
import math
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from e2c_dl.dynamics.faults import CLOCK_FAULTS, BegunFaults, faults_of_kind, own_faults, skews
from e2c_dl.dynamics.links import LinksInForce
from e2c_dl.emulation.agent.config import AgentConfig, WorkerSignal
from e2c_dl.emulation.agent.duties import Duties
from e2c_dl.emulation.agent.links import Links, links_of
from e2c_dl.emulation.agent.worker_process import WorkerProcess, die_with_parent
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.link_values import link_to_json
from e2c_dl.emulation.priority import raise_priority
from e2c_dl.errors import E2cDlError
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.trace.changes import Change, ChangeLog
from e2c_dl.trace.clocks.skew import TraceClock

_STDIN = 0


class Agent:
    """Acts when its time has come: :meth:`due_s` says when, :meth:`act` does everything until a moment.

    Seconds count from the beginning of training, ``iteration`` is what an action was asked for by, if by one; ``begun``
    is this process's account of what has begun with iterations.
    """

    def __init__(self, scenario: Scenario, host: str, duties: Duties, links: Links, worker: WorkerProcess) -> None:
        self._over_time, self._host, self._duties = LinksInForce(scenario), host, duties
        self._links, self._worker = links, worker
        emulated = scenario.emulated_topology()
        self._in_force = {pair: emulated.link(*pair) for pair in duties.links}
        self._rates = {each.name: each.rate_bps for each in emulated.bottlenecks if each.name in duties.bottlenecks}
        self.begun = BegunFaults()
        self._acted_s = -math.inf
        self._killed = False

    def due_s(self, after_s: float | None = None) -> float:
        """When, after that or else after the last action, something may change next, as far as it is known now."""
        duties, after_s = self._duties, self._acted_s if after_s is None else after_s
        changes_s = self._over_time.next_change_s(duties.links, duties.bottlenecks, after_s, self.begun)
        own = self.begun.windows((*duties.pauses, *duties.kills))
        return min([changes_s, *(window.next_edge_s(after_s) for window in own)])

    def iteration(self, number: int, began: Sequence[int], at_s: float, log: ChangeLog) -> None:
        """The worker began iteration ``number``, and the faults of the numbers ``began`` with it."""
        if self._duties.concerns(began):
            self.act(at_s, log, iteration=number)

    def catch_up(self, now_s: float, log: ChangeLog) -> None:
        """Put in force what is due by ``now_s``."""
        due_s = self.due_s()
        if due_s > now_s:
            return
        while (next_s := self.due_s(due_s)) <= now_s:  # the last moment that passed counts, not each on the way
            due_s = next_s
        self.act(due_s, log)

    def act(self, moment_s: float, log: ChangeLog, iteration: int | None = None) -> None:
        """Everything is as it is to be at ``moment_s``, or at the last action if that was later; logged."""
        self._acted_s = max(self._acted_s, moment_s)
        links = {pair: self._over_time.link(pair, self._acted_s, self.begun) for pair in self._duties.links}
        changed = {pair: link for pair, link in links.items() if link != self._in_force[pair]}
        if changed and (at_ns := self._links.apply(changed, {})) is not None:
            for (src, dst), link in changed.items():
                log.add(
                    Change.LINK, f"{src} -> {dst}", at_ns,
                    asked_s=moment_s, asked_iteration=iteration, **link_to_json(link),
                )  # fmt: skip
        self._in_force |= changed
        self._bottlenecks(moment_s, log)
        self._process(moment_s, log, iteration)

    def resume(self) -> None:
        """Leave no worker stopped behind."""
        if self._worker.stopped:
            self._worker.resume()

    def _bottlenecks(self, moment_s: float, log: ChangeLog) -> None:
        for name in self._duties.bottlenecks:
            rate_bps = self._over_time.rate_bps(name, self._acted_s)
            if rate_bps == self._rates[name]:
                continue
            self._rates[name] = rate_bps
            if (at_ns := self._links.apply({}, {name: rate_bps})) is not None:
                log.add(Change.BOTTLENECK, name, at_ns, asked_s=moment_s, rate_bps=rate_bps)

    def _process(self, moment_s: float, log: ChangeLog, iteration: int | None) -> None:
        pause = any(window.covers(self._acted_s) for window in self.begun.windows(self._duties.pauses))
        if pause is not self._worker.stopped:
            what, do = (Change.PAUSE, self._worker.stop) if pause else (Change.RESUME, self._worker.resume)
            log.add(what, self._host, do(), asked_s=moment_s, asked_iteration=iteration)
        due = [window for window in self.begun.windows(self._duties.kills) if window.covers(self._acted_s)]
        if due and not self._killed:
            self._killed = True
            log.add(Change.KILL, self._host, time.monotonic_ns(), asked_s=moment_s, asked_iteration=iteration)
            self._worker.kill()


class Input:
    """Lines from a file descriptor, waited for until a moment."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._rest, self.ended = descriptor, b"", False

    def lines(self, until_ns: float) -> list[str]:
        """What came: at once what there is, else whatever comes first, or nothing by ``until_ns``."""
        wait_s = None if math.isinf(until_ns) else max(0.0, (until_ns - time.monotonic_ns()) / 1e9)
        readable, _, _ = select.select([self._descriptor], [], [], wait_s)
        if not readable:
            return []
        content = os.read(self._descriptor, 1 << 16)
        self.ended = not content
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [line.decode() for line in lines]


def serve(agent: Agent, scenario: Scenario, host: str, told: Input, log: ChangeLog, clock: TraceClock) -> None:
    """Act until the input ends. Raises: EmulationError."""
    faults, began = faults_of_kind(scenario, *CLOCK_FAULTS, host=host), False
    own = own_faults(scenario, host)
    while not told.ended:
        due_s = agent.due_s() if began else math.inf
        for line in told.lines(log.began_ns + due_s * 1e9):
            heard = WorkerSignal.from_line(line)
            at_s = (heard.at_ns - log.began_ns) / 1e9
            if heard.iteration is None:
                began, log.began_ns = True, heard.at_ns
                clock.reset(skews(faults, heard.at_ns, agent.begun))
                agent.act(0.0, log)  # what is scheduled for the first moment of training
                continue
            if numbers := agent.begun.begin(own, heard.iteration, at_s):
                clock.reset(skews(faults, log.began_ns, agent.begun))  # first: what is logged is of the clock as it is
                agent.iteration(heard.iteration, numbers, at_s, log)
        if began:
            agent.catch_up((time.monotonic_ns() - log.began_ns) / 1e9, log)


def main() -> int:
    """The process. Returns its exit status."""
    told = Input(_STDIN)
    lines = told.lines(math.inf)
    try:
        config = AgentConfig.from_line(lines[0] if lines else "")
        if not die_with_parent(config.worker_pid):
            return 0
        scenario = load(Path(config.scenario))
        links, how = links_of(config, scenario.emulated_topology())
        clock = TraceClock(time.monotonic_ns)
        log = ChangeLog(Path(config.log), config.host, clock.own_ns)
    except E2cDlError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return error.exit_code
    duties = Duties.of(scenario, config.host, relay=config.backend == Backend.RELAY.value)
    agent = Agent(scenario, config.host, duties, links, WorkerProcess(config.worker_pid))
    scheduler = raise_priority()
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection takes milliseconds
    print(json.dumps({"ready": True, "scheduler": scheduler, "links": how}), flush=True)  # the worker waits for it
    try:
        serve(agent, scenario, config.host, told, log, clock)
    except (E2cDlError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    finally:
        agent.resume()
    return 0


if __name__ == "__main__":
    sys.exit(main())
