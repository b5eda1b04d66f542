"""Published scenarios run to their end on hosts of this machine, small applications in place of theirs.

Migrated by hand as ``e2c-dl migrate`` does; what else is changed, or left undone, stands in each test: all other tasks
are the published ones.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shutil
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
import tiny_image
from planted_secrets import GIVEN, command_lines, exported, held, of_this_test
from published import STANDINS, edited, scenario
from whole_runs import Started, facts, nothing_left

from e2c_dl.archive.verify import verify
from e2c_dl.testbeds.own_programs import KEY
from e2c_dl.testbeds.this_machine import private_root

pytestmark = [pytest.mark.local, pytest.mark.alone, pytest.mark.slow]

NESTED = (
    "  name: g5k\n  cluster: chetemi\n  env_name: ",
    "  g5k:\n    cluster: chetemi\n    job_type: [deploy]\n    env_name: ",
)
RULE = "networks:\n- {src: cloud.*, dst: cloud.*, delay: 2ms, rate: 10gbit, loss: 0.1%}\n"
LIMIT_S = 900  # eight ranks import torch on however few processors there are
WEIGHTS = re.compile(r"rank (\d+) of (\d+), local (\d+): weights ([0-9a-f]{8})")

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed here: make setup-horovod"
)


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    """What the published workflows copy: the application, a checkpoint."""
    folder = tmp_path / "artifacts"
    shutil.copytree(STANDINS / "distributed-continual-learning", folder / "app/distributed-continual-learning")
    (folder / "checkpoint_initial_resnet50_imagenet_1.pth.tar").write_bytes(b"no checkpoint was published")
    return folder


def trained(archive: Path, ranks: int) -> None:
    """Checks that ``ranks`` ranks ended with the same weights, and that their loss fell."""
    said = [match for path in archive.glob("fetched/**/stdout") for match in WEIGHTS.findall(path.read_text())]
    assert sorted({int(rank) for rank, *_ in said}) == list(range(ranks))
    assert {int(size) for _, size, *_ in said} == {ranks}
    assert len({weights for *_, weights in said}) == 1
    (metrics,) = archive.glob("fetched/**/metrics.csv")
    losses = [float(loss) for _, loss in csv.reader(metrics.read_text().splitlines())]
    assert losses[-1] < 0.7 * losses[0]


def reported(archive: Path, *ranks: str) -> None:
    """Checks that the report says of each rank where its time went, and that Horovod's timeline is there."""
    hosts = json.loads((archive / "report.json").read_text())["hosts"]
    assert {each["host"] for each in hosts} == set(ranks)
    for each in hosts:
        states = each["states_s"]
        assert sum(states.values()) == pytest.approx(each["wall_s"]) and states["compute"] > 0
        assert states["other"] < 0.2 * each["wall_s"]
    timeline = (archive / "hosts" / ranks[0] / "timeline.json").read_text()
    assert "NEGOTIATE_ALLREDUCE" in timeline


def no_key_in(archive: Path) -> None:
    for path in (each for each in archive.rglob("*") if each.is_file()):
        assert path.name != KEY
        assert b"OPENSSH PRIVATE KEY" not in path.read_bytes(), path


def deployed(*words: object, archive: Path, planted: Mapping[str, str], kinds: Collection[str]) -> None:
    """A run to its end, that tells none of ``kinds`` in its archive, its output or on any command line meanwhile."""
    with command_lines() as lines:
        started = Started("deploy", *words, "--archive", archive, log=archive.with_suffix(".log"))
        assert started.process.wait(LIMIT_S) == 0, started.said
    assert any(b"main.py" in line or b"client.py" in line for line in lines)
    assert held(archive, started.said.encode(), *lines, kinds=kinds, values=planted) == set()


@needs_horovod
def test_bare_metal(tmp_path: Path, repository: Path, artifacts: Path) -> None:
    """xps/chifflot/8: eight ranks on four hosts.

    Left undone as there is nothing to do it with: the storage behind /my-spack, the C++ loader (the workflow goes on).
    The script that every login reads, as published for a key of Weights & Biases, has secrets of twenty kinds in it.
    Repaired: ``cp`` of folders without ``-r``, with which its finalize fails everywhere. Added: traces, and Horovod's
    timeline, as other scenarios of theirs have it.
    """
    folder = scenario(repository, "dcl-experiments-scripts/xps/chifflot/8", tmp_path / "s")
    edited(
        folder / "layers_services.yaml", ("    cluster: chetemi\n", "    cluster: chetemi\n    job_type: [deploy]\n"),
        ("    docker: False\n", "    docker: False\n    trace: true\n"),
    )  # fmt: skip
    edited(
        folder / "workflow.yaml", ('shell: "cp /', 'shell: "cp -r /'),
        ("--output-filename /tmp", "--timeline-filename timeline.json --output-filename /tmp"),
    )  # fmt: skip
    (folder / "network.yaml").write_text(RULE)
    before = set(Path("/etc/profile.d").iterdir())

    planted = of_this_test()
    with (folder / "z20_wandb_environment.sh").open("a") as script:
        script.write(f"\n{exported(planted)}")

    deployed(folder, artifacts, "--app_conf", "base", archive=tmp_path / "a", planted=planted, kinds=planted)

    trained(tmp_path / "a", ranks=8)
    reported(tmp_path / "a", *(f"cloud-{host}_{slot}" for host in range(1, 5) for slot in range(2)))
    no_key_in(tmp_path / "a")
    assert verify(tmp_path / "a") == ()
    run = facts(tmp_path / "a")
    assert (run["facts"]["program"], run["facts"]["app_conf"], run["facts"]["current_repeat"]) == ("Horovod", "base", 1)
    nothing_left(run["run_id"])
    assert set(Path("/etc/profile.d").iterdir()) == before


FLOWER = Path(__file__).resolve().parents[2] / ".venv-flower"


WAITS = """\
    - name: The server has ended
      shell: "until docker exec {{ container_name }} test -e /app/fl_logs/history.json; do sleep 1; done"
      timeout: 200
"""


def mounts(*more: Path) -> list[str]:
    """What containers of an image that is empty see of their host: its programs, and the interpreter's own folders."""
    return [f"{path}:{path}:ro" for path in (Path("/usr"), Path("/etc"), *more)]


@pytest.mark.skipif(not (FLOWER / "bin/python").exists(), reason="Flower is not installed here: make setup-flower")
@pytest.mark.skipif(shutil.which("dockerd") is None, reason="there is no dockerd on this machine: make setup-docker")
def test_flower(tmp_path: Path, repository: Path) -> None:
    """scenarios/gpu/img/mnist: a server, and two hosts of clients, in containers that the workflow starts.

    Replaced: GPUs by none; their image by an empty one that sees the host's programs; sudo, which root needs not;
    their home by a folder that is fetched. Fewer clients and rounds, that a small machine may end them.
    Added: finalize waits for the server, in place of a duration that a busy machine may exceed.
    """
    folder = scenario(repository, "efficient-fl-clustering/scenarios/gpu/img/mnist", tmp_path / "s")
    planted = of_this_test()
    secret = "".join(f"\n    {kind}_token: '{value}'" for kind, value in planted.items())
    (folder / "workflow_env.yaml").write_text(f"planted:{secret}\n")
    secret = (
        f"\n    registry_password: '{planted['registry_password']}'\n    wandb_api_key: '{planted['wandb_api_key']}'\n"
    )
    for service in ("FLServer", "FLClient"):
        edited(folder / "layers_services.yaml", (f"name: {service}\n", f"name: {service}\n    docker: true{secret}"))
    base = Path(os.path.realpath(FLOWER / "bin/python3")).parents[1]  # the interpreter that the environment is of
    volumes = " ".join(f"-v {each}" for each in mounts(FLOWER, base))
    fetched = (
        "    - fetch: {src: '{{ save_dir }}/history.json', dest: '{{ working_dir }}/'}\n"
        '    - debug:\n        msg: "Stop and remove container"\n'
    )
    edited(
        folder / "workflow.yaml",
        ("  finalize:\n    - name: Retreiving", f"  finalize:\n{WAITS}    - name: Retreiving"),
        ("  depends_on:\n    service_selector", "  depends_on:\n  - service_selector"),
        ("--network=host --gpus all", f"--network=host -e PATH={FLOWER}/bin:/usr/bin:/bin {volumes}"),
        ("sudo docker", "docker"),
        ("cprigent/runs/last/", "fl_logs"),
    )
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(
        text.replace('    - debug:\n        msg: "Stop and remove container"\n', fetched, 1)
    )
    (folder / "network.yaml").write_text(
        "networks:\n- {src: '*.*', dst: '*.*', delay: 2ms, rate: 10gbit, loss: 0.1%}\n"
    )
    edited(
        folder / "vars/vars.yaml",
        ("num_rounds: 10", "num_rounds: 3"), ("available_clients: 50", "available_clients: 4"),
        ("fit_clients: 50", "fit_clients: 4"), ("n_client_per_node: 25", "n_client_per_node: 2"),
    )  # fmt: skip
    artifacts = Path(shutil.copytree(STANDINS / "flower", tmp_path / "artifacts"))
    tiny_image.write(artifacts / "gpu-docker.tar")

    deployed(folder, artifacts, "--duration", "1", archive=tmp_path / "a", planted=planted, kinds=planted)

    (history,) = (tmp_path / "a/fetched").rglob("history.json")
    losses = [loss for _, loss in json.loads(history.read_text())["losses"]]
    assert len(losses) == 3 and losses[-1] < losses[0] < 1.3  # of four classes by chance: 1.39
    no_key_in(tmp_path / "a")
    nothing_left(facts(tmp_path / "a")["run_id"])


@needs_horovod
@pytest.mark.skipif(shutil.which("dockerd") is None, reason="there is no dockerd on this machine: make setup-docker")
def test_docker(tmp_path: Path, repository: Path, artifacts: Path) -> None:
    """xps/chifflot-docker/2: two ranks on one host, in the container that the service starts.

    Replaced: GPUs by none; their image by an empty one that sees the host's programs and this interpreter; their data
    set and their C++ loader by files of the same names that hold nothing. The rule from all to all on one host is gone.
    Left out: ``pip install``, which needs the internet, and which Debian's pip refuses. Added: traces, the timeline.
    """
    folder = scenario(repository, "dcl-experiments-scripts/xps/chifflot-docker/2", tmp_path / "s")
    planted = of_this_test()
    seen = json.dumps(mounts(Path("/usr/local"), *private_root.interpreter()))
    edited(
        folder / "layers_services.yaml",
        NESTED,
        ("    gpu: True\n", f"    gpu: False\n    trace: true\n    volumes: {seen}\n"),
        ('registry_password: ""', f'registry_password: "{planted["registry_password"]}"'),
        ('wandb_api_key: ""', f'wandb_api_key: "{planted["wandb_api_key"]}"'),
    )
    edited(
        folder / "workflow.yaml", ("pip install -r requirements.txt", "test -e requirements.txt"),
        ("--output-filename /tmp", "--timeline-filename {{ _self.run_dir }}/timeline.json --output-filename /tmp"),
    )  # fmt: skip
    (folder / "network.yaml").write_text("networks:\n")
    application = artifacts / "app/distributed-continual-learning"
    (application / "requirements.txt").write_text("")
    (application / "agents").mkdir()
    (application / "distributed-rehearsal-buffer").mkdir()
    (application / "distributed-rehearsal-buffer/Makefile").write_text("all:\n\tmkdir -p rehearsal\n")
    sets = artifacts / "datasets/ImageNet_blurred"
    sets.mkdir(parents=True)
    for part, image in (("train", "n15075141_999.jpg"), ("val", "ILSVRC2012_val_00049174.jpg")):
        with tarfile.open(sets / f"{part}_blurred.tar.gz", "w:gz") as archive:
            archive.addfile(tarfile.TarInfo(f"{part}_blurred/n15075141/{image}"))
    image = tiny_image.write(tmp_path / "tiny.tar")

    words = (folder, artifacts, "--app_conf", "base", "--image", image)
    deployed(*words, archive=tmp_path / "a", planted=planted, kinds=GIVEN)

    trained(tmp_path / "a", ranks=2)
    reported(tmp_path / "a", "cloud-1_0", "cloud-1_1")
    no_key_in(tmp_path / "a")
    nothing_left(facts(tmp_path / "a")["run_id"])
