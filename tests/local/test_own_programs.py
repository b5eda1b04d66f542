"""Programs of the user's on machines that are there, started by torchrun and horovodrun, traced by the service."""

import importlib.util
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiny_image
from planted_secrets import GIVEN, KINDS, command_lines, exported, held, of_this_test
from static_hosts import directories, inventory, machines, seen
from whole_runs import Started, facts, nothing_left

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.programs import enter

pytestmark = [pytest.mark.local, pytest.mark.slow]

LAYERS = """\
environment:
  job_name: own
  g5k: {cluster: paradoxe}
layers:
- name: edge
  services:
  - {name: %(service)s, quantity: 1, trace: true, gpu: slot%(more)s, registry_password: "%(registry_password)s"}
- name: cloud
  services:
  - {name: %(service)s, quantity: 1, trace: true, gpu: slot%(more)s, wandb_api_key: "%(wandb_api_key)s"}
"""
NETWORK = "networks:\n- {src: 'edge.*', dst: 'cloud.*', delay: 2ms, rate: 100mbit, symmetric: true}\n"
EVERYWHERE = """\
- hosts: "*.*"
  prepare:
    - copy: {src: "{{ artifacts_dir }}/main.py", dest: "{{ _self.run_dir }}/"}
    - copy: {src: "{{ artifacts_dir }}/secrets.sh", dest: "{{ _self.run_dir }}/", mode: "0600"}
"""
# Secrets are in the environment of the launcher, which tells them, too; two GPUs would be.
BEGIN = "cd {{ _self.run_dir }} && . ./secrets.sh && env > out && export CUDA_VISIBLE_DEVICES=5,7 && {{ _self.bin }}"
SEEN = """
import os
print("sees", os.environ.get("CUDA_VISIBLE_DEVICES"), sum(name.startswith("PLANTED_") for name in os.environ))
"""
TORCHRUN = (
    EVERYWHERE
    + f"""\
  launch:
    - shell: "{BEGIN}/torchrun main.py >> out"
  finalize:
    - fetch: {{src: "{{{{ _self.run_dir }}}}/out", dest: "{{{{ working_dir }}}}/"}}
"""
)
# The folder that horovodrun is started in is another on each host, as is the path of its interpreter.
HOROVODRUN = EVERYWHERE + f"""\
- hosts: edge.horovod.*
  launch:
    - shell: >-
        {BEGIN}/horovodrun -np 4 -H {{{{ _self.horovod2 }}}}:2,{{{{ _self.horovod1 }}}}:2
        --timeline-filename timeline.json python main.py >> out
  finalize:
    - fetch: {{src: "{{{{ _self.run_dir }}}}/out", dest: "{{{{ working_dir }}}}/", flat: true}}
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
    planted = of_this_test()
    (folder / "layers_services.yaml").write_text(LAYERS % {"service": service, "more": more, **planted})
    (folder / "network.yaml").write_text(NETWORK)
    (folder / "workflow.yaml").write_text(workflow)
    (artifacts / "main.py").write_text((repository / "tests/scripts" / script).read_text() + SEEN)
    (artifacts / "secrets.sh").write_text(exported(planted))
    before = {node.name: seen(node) for node in nodes}
    archive = tmp_path / "a"

    with command_lines() as lines:
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
    assert any(b"main.py" in line for line in lines)
    assert held(archive, run.said.encode(), *lines, values=planted) == set()
    said = "".join(path.read_text() for path in archive.glob("fetched/**/out"))
    sees = sorted(line.partition("sees ")[2] for line in said.splitlines() if "sees " in line)
    there = f"{len(KINDS)}"
    if service == "Horovod":  # which hands nobody's GPUs to another host
        assert sees == [f"5 {there}", f"7 {there}", f"None {there}", f"None {there}"]
    else:
        assert sees == [f"5 {there}", f"5 {there}", f"7 {there}", f"7 {there}"]
    assert said.count("_TOKEN=REDACTED") >= len(KINDS)
    told = facts(archive)
    assert told["facts"]["traced"] == {"world_size": 4} and told["what_happened"] == []
    assert not any("Clocks" in sentence for sentence in told["limitations"])
    nothing_left(told["run_id"])
    assert directories(nodes, told["run_id"]) == []
    assert {node.name: seen(node) for node in nodes} == before


IN_A_CONTAINER = """\
- hosts: edge.torchtraining.*
  launch:
    - shell: "docker exec {{ _self.container_name }} sh -c 'hostname; echo $E2CDL_RUN' > {{ _self.run_dir }}/said"
    - shell: >-
        docker exec -e LOCAL_RANK=1 -e CUDA_VISIBLE_DEVICES=3,4 {{ _self.container_name }}
        python3 -c 'import os; print(os.environ["CUDA_VISIBLE_DEVICES"])' >> {{ _self.run_dir }}/said
  finalize:
    - fetch: {src: "{{ _self.run_dir }}/said", dest: "{{ working_dir }}/", flat: true}
"""


@contextmanager
def daemon(node: Access, place: Path) -> Iterator[None]:
    """While in it, docker answers on ``node``, as its owner would have it."""
    quiet = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false")
    folders = ("--data-root", place / "data", "--exec-root", place / "exec", "--pidfile", place / "pid")
    argv = ["dockerd", "--storage-driver=vfs", "--group=root", *quiet, *map(str, folders)]
    with (place / "log").open("wb") as log:
        started = subprocess.Popen(enter(node, argv), stdout=log, stderr=log)
    try:
        for _ in range(600):
            if subprocess.run(enter(node, ["docker", "version"]), capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)  # polling another program
        yield
    finally:
        subprocess.run(enter(node, ["sh", "-c", f"kill $(cat {place}/pid)"]), check=True)
        started.wait()


@pytest.mark.skipif(shutil.which("dockerd") is None, reason="there is no dockerd on this machine: make setup-docker")
def test_containers_on_machines_that_have_docker_go_with_the_run(nodes, tmp_path: Path, tmp_path_factory) -> None:
    """The daemon is the machine's, and stays; on one that has none, nothing is started."""
    folder = tmp_path / "s"
    folder.mkdir()
    volumes = json.dumps([f"{path}:{path}:ro" for path in ("/usr", "/etc")])
    more = f", quantity: 1, docker: true, volumes: {volumes}"
    layers = LAYERS.partition("- name: cloud")[0].replace(", quantity: 1", more)
    (folder / "layers_services.yaml").write_text(layers % {"service": "TorchTraining", "more": "", **KINDS})
    (folder / "network.yaml").write_text("networks:\n")
    (folder / "workflow.yaml").write_text(IN_A_CONTAINER)
    image = tiny_image.write(tmp_path / "tiny.tar")
    words = ("deploy", folder, "--on", "static", "--inventory", inventory(nodes[:1], tmp_path / "hosts.yaml"))

    run = Started(*words, "--image", image, "--archive", tmp_path / "a", log=tmp_path / "log-a")
    assert run.ended() == 1 and "no docker daemon answers" in run.said
    with daemon(nodes[0], tmp_path_factory.mktemp("docker")):
        run = Started(*words, "--image", image, "--archive", tmp_path / "b", log=tmp_path / "log-b")
        assert run.ended() == 0, run.said
        left = subprocess.run(enter(nodes[0], ["docker", "ps", "--all", "--quiet"]), capture_output=True, check=True)
    assert left.stdout == b""
    told = facts(tmp_path / "b")
    assert (tmp_path / "b/fetched/said").read_text().split() == ["node-1", told["run_id"], "4"]
    assert held(tmp_path / "b", run.said.encode(), kinds=GIVEN) == set()
    assert directories(nodes, told["run_id"]) == []
