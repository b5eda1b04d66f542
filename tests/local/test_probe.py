"""A probe of a small scenario: the slow host, the slow link and one that is nearly dead are named before training."""

import json
import subprocess

import pytest
from whole_runs import COMMAND, EMULATION, nothing_left, scenario

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify

pytestmark = [pytest.mark.local, pytest.mark.alone, pytest.mark.slow]  # alone: rates and times are checked

SLOWED = """\
injected:
  seed: 1
  compute: [{host: cloud-1, factor: 3}]
  links:
  - {src: edge-1, dst: fog-1, rate_factor: 0.3}
  - {src: fog-1, dst: cloud-1, rate_factor: 0.0001}  # next to nothing comes through
"""


def test_what_is_slowed_is_named_and_nothing_is_trained(tmp_path, repository) -> None:
    workflow = repository / "experiments/first-light/workflow.yaml"
    source = scenario(tmp_path / "s", workflow, emulation=EMULATION + SLOWED)
    (tmp_path / "artifacts").mkdir()
    arguments = ("probe", source, tmp_path / "artifacts", "--archive", tmp_path / "a", "--json", "--strict")
    done = subprocess.run([*COMMAND, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=200)
    assert done.returncode == 3, done.stderr
    assert "slower than designed: host cloud-1" in done.stderr
    found = json.loads(done.stdout)
    assert found["leave_out"] == ["cloud-1"]
    slow = {host["name"]: host["slowdown"] for host in found["hosts"] if host["slowdown"]}
    assert slow == {"cloud-1": pytest.approx(3.0, rel=0.1)}
    slower = {(link["src"], link["dst"]): link["measured"] for link in found["links"] if link["departures"]}
    assert slower.keys() == {("edge-1", "fog-1"), ("fog-1", "cloud-1")}
    assert slower["edge-1", "fog-1"]["rate_bps"] == pytest.approx(15e6, rel=0.05)
    assert slower["fog-1", "cloud-1"]["rate_bps"] == pytest.approx(5e3, rel=0.05)
    archive = open_archive(tmp_path / "a")
    assert verify(tmp_path / "a") == ()
    assert archive.run.facts["only_probe"]
    assert {outcome.iterations_done for outcome in archive.outcomes(archive.hosts).values()} == {0}
    nothing_left(archive.run.run_id)
