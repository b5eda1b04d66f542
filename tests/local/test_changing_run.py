"""A whole run whose links, processors and clocks change while it trains: what the archive says of it."""

import pytest
import whole_runs

from e2c_dl.archive.read import open_archive
from e2c_dl.trace.changes import Change

pytestmark = [pytest.mark.local, pytest.mark.alone, pytest.mark.slow]  # alone: lateness is checked

LATE_S = 0.5  # other tests may run beside this one; 0.1 is what is promised of a machine that is not oversubscribed
EMULATION = """\
compute: {method: sleep, cores: 0.1}
bottlenecks:
- {name: uplink, rate: 40mbit, links: [{src: edge-1, dst: '*.*'}]}
schedules:
  links: [{src: edge-1, dst: fog-1, rate: {steps: {0s: 40mbit, 1s: 10mbit}}}]
  bottlenecks: [{name: uplink, rate: {steps: {0s: 40mbit, 2s: 20mbit}}}]
injected:
  seed: 1
  faults:
  - {slow_host: fog-1, factor: 3, at: 500ms, for: 1s}
  - {pause: cloud-1, at: 1s, for: 500ms}
  - {clock_step: cloud-1, by: 50ms, at: 1200ms}
  - {cut: [{src: fog-1, dst: cloud-1}], at: iteration 5, for: 300ms}
  - {late_link: {src: cloud-1, dst: edge-1}, delay: 20ms, at: 800ms, for: 1s}
  - {late_data: edge-1, delay: 100ms, at: 1s, for: 500ms}
  - {late_step: edge-1, delay: 50ms, at: iteration 3, for: 500ms}
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory, repository):
    path = tmp_path_factory.mktemp("changing")
    scenario = whole_runs.scenario(path / "scenario", repository / "experiments/first-light/workflow.yaml", 40)
    (scenario / "emulation.yaml").write_text(EMULATION)
    (path / "artifacts").mkdir()
    started = whole_runs.Started(
        "deploy", scenario, path / "artifacts", "--archive", path / "run", log=path / "said"
    )  # fmt: skip
    assert started.ended() == 0, started.said
    whole_runs.nothing_left(started.run_id)
    return open_archive(path / "run")


def test_every_change_was_in_force_when_asked(archive):
    changes = archive.changes()
    found = {(change.what, change.whom, change.asked_s, change.asked_iteration) for change in changes}
    assert found >= {
        (Change.LINK, "edge-1 -> fog-1", 0.0, None), (Change.LINK, "edge-1 -> fog-1", 1.0, None),
        (Change.BOTTLENECK, "uplink", 2.0, None), (Change.COMPUTE, "fog-1", 0.5, None),
        (Change.COMPUTE, "fog-1", 1.5, None), (Change.PAUSE, "cloud-1", 1.0, None),
        (Change.RESUME, "cloud-1", 1.5, None), (Change.CLOCK, "cloud-1", 1.2, None),
        (Change.LINK, "fog-1 -> cloud-1", None, 5), (Change.LINK, "cloud-1 -> edge-1", 1.8, None),
        (Change.DATA, "edge-1", 1.0, None), (Change.DATA, "edge-1", 1.5, None),
    }  # fmt: skip
    assert all(-1e-6 <= change.lateness_s < LATE_S for change in changes)
    cut, uncut = [change.value["down"] for change in changes if change.whom == "fog-1 -> cloud-1"]
    assert cut and not uncut
    late, again = [change.value["delay_s"] for change in changes if change.whom == "cloud-1 -> edge-1"][-2:]
    assert late == pytest.approx(again + 0.02)
    assert [change.value["later_s"] for change in changes if change.what is Change.STEP] == [0.05, 0.0]


def test_training_went_through_all_of_it(archive):
    assert archive.run.outcome.value == "finished"
    trace = archive.trace()
    assert all(rank.complete for rank in trace.ranks)
    (stepped,) = [rank for rank in trace.ranks if rank.host == "cloud-1"]
    assert stepped.clock.uncertainty_ns < 60_000_000
