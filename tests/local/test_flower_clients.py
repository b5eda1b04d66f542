"""Flower's clients, in an environment of their own, leave traces where the workflow starts them by ``e2c-dl trace``."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from whole_runs import COMMAND, LIMIT_S, Started, facts, nothing_left

pytestmark = [pytest.mark.local, pytest.mark.slow]

FLOWER = Path(__file__).resolve().parents[2] / ".venv-flower"
ROUNDS, BATCHES = 2, 8

LAYERS = """\
environment:
  job_name: flower
  g5k: {cluster: paradoxe}
layers:
- {name: cloud, services: [{name: FLServer, quantity: 1}]}
- {name: edge, services: [{name: FLClient, quantity: 2}]}
"""
NETWORK = "networks:\n- {src: 'edge.*', dst: 'cloud.*', delay: 5ms, rate: 100mbit, symmetric: true}\n"
WORKFLOW = """\
- hosts: cloud.flserver.*
  launch:
    - shell: "{{ artifacts_dir }}/flower/bin/python {{ artifacts_dir }}/flower_server.py"
      async: 300
      poll: 0
- hosts: edge.flclient.*
  depends_on:
    - {service_selector: "cloud.flserver.*", grouping: round_robin, prefix: server}
  launch:
    - wait_for: {host: "{{ server.url }}", port: 8080}
    - shell: >-
        cd {{ _self.run_dir }} &&
        E2CDL_RANK={{ _self.node_rank | int - 1 }} E2CDL_WORLD_SIZE={{ _self.nodes | int - 1 }}
        {{ _self.python | dirname }}/e2c-dl trace --archive client --layer edge --
        {{ artifacts_dir }}/flower/bin/python {{ artifacts_dir }}/flower_client.py {{ server.url }}:8080
  finalize:
    - synchronize: {mode: pull, src: "{{ _self.run_dir }}/client", dest: "{{ working_dir }}/{{ inventory_hostname }}/"}
"""


def environment(folder: Path) -> None:
    """An environment with Flower's packages and, of this one, torch, numpy and msgspec."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (theirs,) = FLOWER.glob("lib/python3*/site-packages")
    ours = [place for place in sys.path if place.endswith("site-packages")]
    (packages / "of-flower.pth").write_text(f"{theirs.resolve()}\n")
    (packages / "then-ours.pth").write_text(f"import sys; sys.path += {ours}\n")  # behind: their rich is another


@pytest.mark.skipif(not (FLOWER / "bin/python").exists(), reason="Flower is not installed here: make setup-flower")
def test_their_traces_are_one_archive_that_says_where_time_went(tmp_path: Path, repository: Path) -> None:
    artifacts, folder, archive = tmp_path / "artifacts", tmp_path / "s", tmp_path / "a"
    artifacts.mkdir()
    folder.mkdir()
    environment(artifacts / "flower")
    for name in ("flower_server.py", "flower_client.py"):
        shutil.copy(repository / "tests/scripts" / name, artifacts)
    for name, text in (("layers_services", LAYERS), ("network", NETWORK), ("workflow", WORKFLOW)):
        (folder / f"{name}.yaml").write_text(text)

    run = Started("deploy", folder, artifacts, "--archive", archive, log=tmp_path / "log")
    assert run.ended() == 0, run.said
    left = [archive / "fetched" / host / "client" for host in ("edge-1", "edge-2")]
    collect = [*COMMAND, "collect", *map(str, left), "--archive", str(tmp_path / "both"), "--scenario", str(folder)]
    done = subprocess.run(collect, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert done.returncode == 0, done.stderr
    hosts = json.loads((tmp_path / "both/report.json").read_text())["hosts"]
    assert {each["host"]: each["iterations"] for each in hosts} == dict.fromkeys(("edge-1", "edge-2"), ROUNDS * BATCHES)
    for each in hosts:
        assert sum(each["states_s"].values()) == pytest.approx(each["wall_s"]) and each["states_s"]["compute"] > 0
    nothing_left(facts(archive)["run_id"])
