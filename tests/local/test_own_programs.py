"""Programs of the user's on machines that are there, started by torchrun and horovodrun, traced by the service."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from static_hosts import directories, inventory, machines, seen
from whole_runs import Started, facts, nothing_left

from e2c_dl.archive.verify import verify

pytestmark = [pytest.mark.local, pytest.mark.slow]

LAYERS = """\
environment:
  job_name: own
  g5k: {cluster: paradoxe}
layers:
- name: edge
  services:
  - {name: %(service)s, quantity: 1, trace: true%(more)s}
- name: cloud
  services:
  - {name: %(service)s, quantity: 1, trace: true%(more)s}
"""
NETWORK = "networks:\n- {src: 'edge.*', dst: 'cloud.*', delay: 2ms, rate: 100mbit, symmetric: true}\n"
EVERYWHERE = """\
- hosts: "*.*"
  prepare:
    - copy: {src: "{{ artifacts_dir }}/main.py", dest: "{{ _self.run_dir }}/"}
"""
TORCHRUN = EVERYWHERE + """\
  launch:
    - shell: "cd {{ _self.run_dir }} && {{ _self.bin }}/torchrun main.py"
"""  # fmt: skip
# The folder that horovodrun is started in is another on each host, as is the path of its interpreter.
HOROVODRUN = EVERYWHERE + """\
- hosts: edge.horovod.*
  launch:
    - shell: >-
        cd {{ _self.run_dir }} && {{ _self.bin }}/horovodrun -np 4 -H {{ _self.horovod2 }}:2,{{ _self.horovod1 }}:2
        --timeline-filename timeline.json python main.py > out
  finalize:
    - fetch: {src: "{{ _self.run_dir }}/out", dest: "{{ working_dir }}/", flat: true}
"""  # fmt: skip
PROGRAMS = {
    "TorchTraining": (", slots: 2", TORCHRUN, "ddp_cnn.py"),
    "Horovod": ("", HOROVODRUN, "horovod_mlp.py"),
}
needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed here: make setup-horovod"
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with machines(2, tmp_path_factory.mktemp("state")) as up:
        yield up


@pytest.mark.parametrize("service", ["TorchTraining", pytest.param("Horovod", marks=needs_horovod)])
def test_its_ranks_leave_traces_and_a_report(nodes, tmp_path: Path, repository: Path, service: str) -> None:
    more, workflow, script = PROGRAMS[service]
    folder, artifacts = tmp_path / "s", tmp_path / "artifacts"
    folder.mkdir()
    artifacts.mkdir()
    (folder / "layers_services.yaml").write_text(LAYERS % {"service": service, "more": more})
    (folder / "network.yaml").write_text(NETWORK)
    (folder / "workflow.yaml").write_text(workflow)
    shutil.copy(repository / "tests/scripts" / script, artifacts / "main.py")
    before = {node.name: seen(node) for node in nodes}
    archive = tmp_path / "a"

    run = Started(
        "deploy", folder, artifacts, "--on", "static", "--inventory", inventory(nodes, tmp_path / "hosts.yaml"),
        "--archive", archive, log=tmp_path / "log",
    )  # fmt: skip
    assert run.ended() == 0, run.said

    ranks = {f"{layer}-1_{slot}": layer for layer in ("edge", "cloud") for slot in range(2)}
    assert {path.name for path in (archive / "hosts").iterdir()} == ranks.keys()
    report = json.loads((archive / "report.json").read_text())
    assert {each["host"]: each["layer"] for each in report["hosts"]} == ranks
    assert all(each["states_s"]["compute"] > 0 and each["iterations"] == 4 for each in report["hosts"])
    assert [each["sent_bytes"] > 1e5 for each in report["links"]].count(True) >= 4  # the ring's
    timelines = [path.parent.name for path in archive.glob("hosts/*/timeline.json")]
    assert timelines == (["cloud-1_0"] if service == "Horovod" else [])  # of rank 0
    assert verify(archive) == ()
    told = facts(archive)
    assert told["facts"]["traced"] == {"world_size": 4} and told["what_happened"] == []
    assert not any("Clocks" in sentence for sentence in told["limitations"])
    nothing_left(told["run_id"])
    assert directories(nodes, told["run_id"]) == []
    assert {node.name: seen(node) for node in nodes} == before
