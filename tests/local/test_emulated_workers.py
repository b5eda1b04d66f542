"""Workers over loopback whose speed, clock and links change while they train: what is in force, and when, is logged."""

import os
import signal

import loopback
import numpy as np
import pytest
from fake_relay import FakeRelay

from e2c_dl.archive import layout
from e2c_dl.errors import EmulationError
from e2c_dl.trace.changes import Change, read_changes
from e2c_dl.trace.clocks.clock import read_alignment
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import read_spans
from e2c_dl.trace.store import read_trace

pytestmark = [pytest.mark.local, pytest.mark.alone]  # alone: paces are checked

EMULATION = """\
schedules:
  links: [{src: edge-1, dst: edge-2, rate: {steps: {0s: 40mbit, 500ms: 20mbit}}}]
  compute: [{host: edge-2, factor: {steps: {0s: 1, 1s: 3}}}]
  thermal: [{host: edge-2, ambient: 25, rise: 60, throttled_rise: 30, tau: 1s, limit: 40, hysteresis: 5, factor: 2}]
injected:
  seed: 1
  faults:
  - {slow_host: edge-1, factor: 4, at: iteration 20, for: 2s}
  - {pause: edge-1, at: 800ms, for: 400ms}
  - {clock_step: edge-2, by: 500ms, at: 700ms}
"""
NETWORKS = [{"src": "*.*", "dst": "*.*", "delay": "1ms", "rate": "50mbit"}]
ITERATIONS = 80


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two ranks that have trained, and the requests that the relay had of them."""
    path = tmp_path_factory.mktemp("emulated")
    members = {"speed": 0.1, "backend": "relay", "relay_socket": str(path / "relay.sock")}
    with FakeRelay(path / "relay.sock") as relay:
        run = loopback.prepare(
            path / "run", [8, 8], members=members, networks=NETWORKS, emulation=EMULATION, iterations=ITERATIONS,
        )  # fmt: skip
        run.start()
        assert run.wait() == [0, 0], [run.read(rank, "outcome.json") for rank in (0, 1)]
    return run, relay


def changes(run, rank, name):
    directory = run.directory(rank)
    return read_changes(directory / name, read_alignment(directory / layout.CLOCK))


def test_the_agent_changes_links_and_pauses_its_worker(run):
    run, relay = run
    made = changes(run, 0, layout.CHANGES)
    assert [change.what for change in made] == [Change.LINK, Change.LINK, Change.PAUSE, Change.RESUME]
    assert [change.asked_s for change in made] == [0.0, 0.5, 0.8, 1.2]
    assert [ns for ns, _ in relay.changes] == [change.in_force_ns for change in made[:2]]
    assert not (run.directory(1) / layout.CHANGES).exists()  # nothing for an agent to do there
    assert run.read(1, layout.FACTS)["emulation"] == {"agent": None, "speed": "changes, by pacing"}
    pause, resume = made[2:]
    spans = read_spans(run.directory(0) / layout.SPANS_RAW)[1]
    ends_ns, margin_ns = spans["end_ns"], 50_000_000  # signals are sent, then delivered
    assert not ((ends_ns > pause.in_force_ns + margin_ns) & (ends_ns < resume.in_force_ns - margin_ns)).any()


def test_pacing_follows_schedules_windows_and_heat(run):
    run, _ = run
    slow = [change for change in changes(run, 0, layout.WORKER_CHANGES) if change.what is Change.COMPUTE]
    assert [(change.value["factor"], change.asked_iteration) for change in slow] == [
        (1.0, None),
        (4.0, 20),
        (1.0, None),
    ]
    assert slow[2].in_force_s == pytest.approx(slow[1].in_force_s + 2.0, abs=1e-3)
    other = changes(run, 1, layout.WORKER_CHANGES)
    compute = [change for change in other if change.what is Change.COMPUTE]
    assert [(change.value["factor"], change.asked_s) for change in compute] == [(1.0, 0.0), (3.0, 1.0)]
    assert {Change.THROTTLE, Change.RECOVER} & {change.what for change in other}
    rows = (run.directory(1) / layout.HEAT).read_text().splitlines()
    assert rows[0] == "time_ns,training_s,temperature_c,throttled" and len(rows) > 2
    assert all(25 <= float(row.split(",")[2]) <= 85 for row in rows[1:])


def test_no_gradient_is_faster_than_asked(run):
    run, _ = run
    spans = read_spans(run.directory(0) / layout.SPANS_RAW)[1]
    slow = [change for change in changes(run, 0, layout.WORKER_CHANGES) if change.what is Change.COMPUTE]
    compute = spans[np.isin(spans["phase"], [Phase.DATA, Phase.FORWARD, Phase.BACKWARD])]
    paced_s = sum(run.read(0, layout.FACTS)["compute"]["agreed_s"]) / 0.1

    def gradients_s(begin_ns, end_ns):
        within = compute[(compute["start_ns"] > begin_ns) & (compute["end_ns"] < end_ns)]
        whole = [within[within["iteration"] == iteration] for iteration in np.unique(within["iteration"])]
        return [(own["end_ns"].max() - own["start_ns"].min()) / 1e9 for own in whole[1:-1]]

    assert min(gradients_s(slow[0].in_force_ns, slow[1].in_force_ns)) >= 0.99 * paced_s
    slowed_s = gradients_s(slow[1].in_force_ns, slow[2].in_force_ns)
    assert all(each >= 0.99 * 4 * paced_s for each in slowed_s)


def test_a_clock_that_steps_is_straightened_out(run):
    run, _ = run
    (step,) = [change for change in changes(run, 1, layout.WORKER_CHANGES) if change.what is Change.CLOCK]
    assert (step.asked_s, step.value) == (0.7, {"step_s": 0.5, "drift": 0.0})
    clock = read_alignment(run.directory(1) / layout.CLOCK)
    assert clock.uncertainty_ns >= 5e8 or not clock.knots  # what the step hides
    trace = read_trace(run.path)
    rows = join(trace).joined
    assert len(rows) > ITERATIONS
    backwards_ns = (rows["send_start_ns"] - rows["recv_end_ns"]).max()
    assert backwards_ns <= 2 * clock.uncertainty_ns


def test_a_lost_agent_ends_training_with_the_reason(tmp_path):
    emulation = "injected: {seed: 1, faults: [{pause: edge-1, at: 1h, for: 1s}]}\n"
    run = loopback.prepare(
        tmp_path / "run", [8, 8], members={"speed": 0.05}, networks=NETWORKS, emulation=emulation, iterations=2000
    )
    run.start()
    run.until_training(iterations=3)
    os.kill(agent_of(run.processes[0].pid), signal.SIGKILL)
    status = run.wait()
    reasons = [run.read(rank, "outcome.json")["reason"] for rank in (0, 1)]
    assert all("emulation lost: the agent of edge-1 was killed by signal 9" in reason for reason in reasons), reasons
    assert status == [EmulationError.exit_code] * 2


def agent_of(worker):
    children = [
        int(child) for task in os.listdir(f"/proc/{worker}/task") for child in _text(worker, task).split()
    ]  # fmt: skip
    (agent,) = [child for child in children if b"e2c_dl.emulation.agent.main" in _command(child)]
    return agent


def _text(worker, task):
    with open(f"/proc/{worker}/task/{task}/children") as file:
        return file.read()


def _command(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def test_members_that_name_no_back_end_are_refused(tmp_path):
    run = loopback.prepare(tmp_path / "run", [8, 8], members={"backend": "magic"}, iterations=5)
    run.start()
    assert run.wait() == [2, 2]
    reason = run.read(0, "outcome.json")["reason"]
    assert "backend 'magic' must be one of none, htb, tc, relay" in reason
