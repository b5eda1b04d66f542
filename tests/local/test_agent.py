"""The agent as a process: links through a real socket, pauses and kills of a real process, what it logs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import loopback
import pytest
from fake_relay import FakeRelay

from e2c_dl.trace.changes import Change, ChangeInForce, read_changes
from e2c_dl.trace.model import ClockAlignment

pytestmark = pytest.mark.local

WORKER = Path(__file__).parents[1] / "agents_worker.py"
LATE_S = 0.5  # on a machine that does other things too; 0.1 is what is promised of one that is not
NETWORKS = [{"src": "*.*", "dst": "*.*", "delay": "1ms", "rate": "50mbit"}]
EMULATION = """\
schedules:
  links: [{src: edge-1, dst: edge-2, rate: {steps: {0s: 40mbit, 300ms: 5mbit}}}]
injected:
  seed: 1
  links: [{src: edge-1, dst: edge-2, rate_factor: 0.5}]
  faults:
  - {cut: [{src: edge-1, dst: edge-2}], at: iteration 3, for: 100ms}
  - {pause: edge-1, at: 500ms, for: 300ms}
  - {clock_step: edge-1, by: 2s, at: 400ms}
"""


class Served:
    """One worker with its agent; ended when left."""

    def __init__(self, path: Path, emulation: str = EMULATION, host: str = "edge-1", **config: object) -> None:
        loopback.write_scenario(path / "scenario", [1, 1], NETWORKS, iterations=5)
        (path / "scenario" / "emulation.yaml").write_text(emulation)
        self.log, self.ticks = path / "changes.jsonl", path / "ticks"
        self.config = {
            "host": host, "scenario": str(path / "scenario"), "log": str(self.log), "backend": "relay",
            "relay_socket": str(path / "relay.sock"), "device": None, "addresses": {}, **config,
        }  # fmt: skip

    def __enter__(self) -> "Served":
        command = [sys.executable, str(WORKER), json.dumps(self.config), str(self.ticks)]
        self.worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=loopback.environ(),
        )  # fmt: skip
        self.answer = json.loads(self.worker.stdout.readline())
        self.agent = int(self.worker.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.kill()
        self.worker.wait()
        for stream in (self.worker.stdin, self.worker.stdout, self.worker.stderr):
            stream.close()
        until(lambda: not alive(self.agent))

    def says(self, line: str) -> None:
        self.worker.stdin.write(f"{line}\n")
        self.worker.stdin.flush()

    def logged(self, count: int) -> tuple[ChangeInForce, ...]:
        """The log, once it has ``count`` lines."""
        until(lambda: self.log.exists() and self.log.read_bytes().count(b"\n") >= count)
        return read_changes(self.log, ClockAlignment())

    def gaps_s(self) -> list[float]:
        ticks = [int(line) for line in self.ticks.read_text().split("\n")[:-1]]
        return [(b - a) / 1e9 for a, b in pairwise(ticks)]


def until(holds, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # polling what another process does


def alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_everything_is_put_in_force_and_logged(tmp_path):
    with FakeRelay(tmp_path / "relay.sock") as relay, Served(tmp_path) as served:
        assert served.answer["ready"] and served.answer["links"] == "by the relay"
        served.says("began")
        began = served.logged(1)
        served.says("iteration 2")
        served.logged(4)  # rate twice, pause, resume
        served.says("iteration 3")
        changes = served.logged(6)
        assert served.gaps_s() and max(served.gaps_s()) > 0.2  # it was paused for 0.3 s
        served.worker.stdin.close()
        assert served.worker.wait(30) == 0
    assert [change.what for change in changes] == [
        Change.LINK, Change.LINK, Change.PAUSE, Change.RESUME, Change.LINK, Change.LINK
    ]  # fmt: skip
    assert changes[0] == began[0]
    links = [change for change in changes if change.what is Change.LINK]
    assert {change.whom for change in links} == {"edge-1 -> edge-2"}
    rates = [(change.value["rate_bps"], change.value["down"]) for change in links]
    assert rates == [(20e6, False), (2.5e6, False), (2.5e6, True), (2.5e6, False)]
    assert [change.asked_iteration for change in links] == [None, None, 3, None]
    assert [change.asked_s for change in changes[:4]] == [0.0, 0.3, 0.5, 0.8]
    assert all(0 <= change.lateness_s < LATE_S for change in changes)
    assert len(relay.changes) == 4
    for (served_ns, _), change in zip(relay.changes, links, strict=True):
        step_ns = 2 * 10**9 if change.in_force_s > 0.4 else 0
        assert change.in_force_ns == served_ns + step_ns  # by its own clock, which has stepped


def test_a_worker_is_killed_when_asked_and_nothing_stays(tmp_path):
    emulation = "injected: {seed: 1, faults: [{kill: edge-1, at: 100ms}]}\n"
    with Served(tmp_path, emulation, backend="none", relay_socket=None) as served:
        served.says("began")
        assert served.worker.wait(30) == -signal.SIGKILL
        until(lambda: not alive(served.agent))
        (change,) = served.logged(1)
    assert (change.what, change.whom, change.asked_s) == (Change.KILL, "edge-1", 0.1)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_does_not_stay_stopped_when_its_agent_dies(tmp_path, end):
    emulation = "injected: {seed: 1, faults: [{pause: edge-1, at: 0s, for: 1h}]}\n"
    with Served(tmp_path, emulation, backend="none", relay_socket=None) as served:
        served.says("began")
        served.logged(1)
        status = Path(f"/proc/{served.worker.pid}/stat")
        until(lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        os.kill(served.agent, end)
        until(lambda: status.read_text().rpartition(")")[2].split()[0] != "T")


def test_a_change_that_the_relay_refuses_ends_the_agent(tmp_path):
    with FakeRelay(tmp_path / "relay.sock") as relay, Served(tmp_path) as served:
        relay.refuses = "relay: it does not like this"
        served.says("began")
        until(lambda: not alive(served.agent))
        served.worker.stdin.close()
        assert served.worker.wait(30) == 1
        assert "does not like this" in served.worker.stderr.read()


def test_an_agent_says_beforehand_what_it_cannot_do(tmp_path):
    with Served(tmp_path, relay_socket=None) as served:
        assert "relay_socket None" in served.answer["error"]
    other = tmp_path / "other"
    with Served(other, backend="none") as served:
        assert "cannot be changed" in served.answer["links"]
