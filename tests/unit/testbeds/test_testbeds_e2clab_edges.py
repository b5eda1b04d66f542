"""E2Clab's sharp edges, as far as nothing else shows that this project is not cut by them: see docs/e2clab.md."""

import importlib
import importlib.util
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import enoslib as en
import pytest
from small_scenario import LAYERS, only, writer

from e2c_dl.campaign.request import Request
from e2c_dl.cli.deploy import several
from e2c_dl.errors import InputError, TestbedError
from e2c_dl.scenario.load import load
from e2c_dl.testbeds.base import Access, Told
from e2c_dl.testbeds.e2clab import hosts, own_programs, reservation, trainer, upstream
from e2c_dl.testbeds.e2clab.experiment import Session

ON_FIRE = """
from e2clab.services import Service


class Trainer(Service):
    def deploy(self):
        raise OSError("the disk is on fire")
"""


def session(folder: Path, **more: object) -> Session:
    """Of a scenario of four hosts, none of which anybody goes to, with a service that fails."""
    for name in ("s", "artifacts", "services"):
        (folder / name).mkdir()
    (folder / "services/Trainer.py").write_text(ON_FIRE)
    source = writer(folder / "s")()

    def bring_up() -> tuple[en.Roles, en.Networks]:
        roles = {name: [en.Host(f"198.18.0.{number}")] for number, name in enumerate(("1_1", "2_1", "2_2"), 1)}
        return en.Roles(roles), en.Networks()

    return Session(
        scenario_dir=source, artifacts_dir=folder / "artifacts", fetch_dir=folder / "fetched", state_dir=folder,
        hosts=4, provider=upstream.make_provider(bring_up, lambda: None), service_dirs=[folder / "services"], **more,
    )  # fmt: skip


def test_a_service_that_fails_is_told_with_its_cause_and_its_traceback_is_kept(tmp_path) -> None:
    """Edge 4: E2Clab says "Failed deploying Trainer"."""
    with session(tmp_path) as started:
        with pytest.raises(TestbedError, match="deploying the services failed: OSError: the disk is on fire; see e2cl"):
            started.infrastructure()
        log = (started.log_dir / "e2clab.log").read_text()
    assert "Traceback" in log and "in deploy" in log


def test_hosts_of_a_service_stand_in_the_order_of_their_numbers() -> None:
    """Edge 6: E2Clab hands out a set."""
    addresses = ["198.18.0.2", "198.18.0.10", "chifflot-9.lille", "chifflot-10.lille"]
    for some in itertools.permutations(addresses):
        assert [host.address for host in trainer.in_order(map(en.Host, some))] == addresses


@pytest.mark.parametrize("name", ["Trainer", "Horovod", "TorchTraining", "FLServer", "FLClient"])
def test_our_services_register_their_hosts_in_that_order(monkeypatch, repository, name) -> None:
    """Edge 6: `machine_id`, and so a host's rank, counts in the order in which they are registered."""
    monkeypatch.setattr(trainer, "install", lambda _: None)
    monkeypatch.setattr(trainer, "published", lambda host: {"address": host.address})
    monkeypatch.setattr(own_programs, "prepare", lambda hosts, *_, **__: [{"address": host.address} for host in hosts])
    spec = importlib.util.spec_from_file_location(name, repository / f"layers_services/{name}.py")
    module = importlib.util.module_from_spec(spec)
    loaded = importlib.import_module("e2clab.services").Service.get_loaded_subservices()
    monkeypatch.setitem(loaded, name, None)  # afterwards it is as it was: E2Clab keeps every service that is imported
    spec.loader.exec_module(module)
    told: list[dict] = []
    service = SimpleNamespace(
        hosts={en.Host(f"paradoxe-{number}.rennes.grid5000.fr") for number in range(1, 13)}, service_metadata={},
        register_service=lambda **given: told.append(given),
    )  # fmt: skip
    getattr(module, name).deploy(service)
    addresses = [f"paradoxe-{number}.rennes.grid5000.fr" for number in range(1, 13)]
    assert [host.address for host in told[0]["hosts"]] == addresses
    assert [extra["address"] for extra in told[0]["extra"]] == addresses


def test_on_grid5000_hosts_are_given_nodes_in_that_order(monkeypatch, tmp_path) -> None:
    """Edge 6, of `--on g5k`."""
    monkeypatch.setattr(reservation, "_node", lambda _, host: host.address)
    layers = LAYERS.replace("quantity: 2", "quantity: 12").replace("  - {name: Default}\n", "")
    topology = load(writer(tmp_path)(layers=layers)).topology
    nodes = {en.Host(f"paradoxe-{number}.rennes.grid5000.fr") for number in range(1, 13)}
    given = reservation._nodes(topology, {"1_1": nodes, "2_1": {en.Host("chifflot-1.lille.grid5000.fr")}})
    expected = {f"edge-{number}": f"paradoxe-{number}.rennes.grid5000.fr" for number in range(1, 13)}
    assert given == {**expected, "cloud-1": "chifflot-1.lille.grid5000.fr"}


REQUEST = Request(scenario=Path("s"), artifacts=None, testbed="local", archive=Path("/a"))


def test_repeats_count_from_one_and_each_has_a_folder_of_its_own() -> None:
    """Edge 7: E2Clab counts 1, 1, 2 ..., and two runs of one second share their folder."""
    runs = several(REQUEST, None, 3)
    assert [run.current_repeat for run in runs] == [1, 2, 3]
    assert [str(run.archive) for run in runs] == ["/a/repeat-1", "/a/repeat-2", "/a/repeat-3"]


def test_the_workflow_is_told_which_repeat_it_is(tmp_path) -> None:
    """Edge 7: what E2Clab's workflow makes of it."""
    with session(tmp_path, current_repeat=2) as started:
        assert started._experiment.repeat == 2
    workflow = importlib.import_module("e2clab.workflow").Workflow
    bare = type("Bare", (), {"scenario_dir": Path(), "artifacts_dir": Path(), "app_conf": None,
                             "optimization_config": None})()  # fmt: skip
    assert [workflow._get_ansible_vars(bare, n, Path())["current_repeat"] for n in (0, 1, 2)] == [1, 1, 2]


def test_each_configuration_is_a_run_of_its_own() -> None:
    """Edge 8: E2Clab takes monitoring down after the first."""
    runs = several(REQUEST, "small, large", 2)
    assert [(run.app_conf, run.current_repeat) for run in runs] == [
        ("small", 1), ("large", 1), ("small", 2), ("large", 2),
    ]  # fmt: skip
    assert len({run.archive for run in runs}) == 4
    for wrong in ("small,small", "small,,large", ""):
        with pytest.raises(click.UsageError, match="name each configuration once"):
            several(REQUEST, wrong, 1)


@pytest.mark.parametrize("key", ["gpu: 2", "gpus: 1"])
def test_gpus_are_had_by_picking_the_cluster(tmp_path, key) -> None:
    """Edge 15: E2Clab passes such a key over."""
    error = only(writer(tmp_path)(layers=LAYERS.replace("cluster: paradoxe", f"cluster: paradoxe, {key}")))
    assert "Grid'5000 reserves whole nodes, and E2Clab passes this over; remove it, and name a cluster" in error


@pytest.mark.parametrize("name", ["E2C_WALLTIME", "E2C_G5K_CLUSER", "E2C_WORKFLOW_VALIDATE_FILE"])
def test_variables_by_which_e2clab_changes_its_defaults_are_refused(monkeypatch, name) -> None:
    """Edge 16: it says nothing of them, and no file of the scenario does."""
    monkeypatch.setenv(name, "1")
    with pytest.raises(InputError, match=f"^{name} is set: E2Clab takes its defaults from such variables"):
        upstream.check()


def test_no_variable_of_ours_is_one_of_e2clabs(repository) -> None:
    """Edge 16: its command line takes any E2C_ for an option."""
    own = [path for folder in ("e2c_dl", "layers_services", "playbooks", "experiments", "scripts")
           for path in (repository / folder).rglob("*.*") if path.suffix in (".py", ".yaml", ".sh")]  # fmt: skip
    named = {path.name for path in own if re.search(r"[\"'$ ]E2C_(?!\W|$)\w", path.read_text())}
    assert named <= {"upstream.py"}


def test_hosts_are_reached_by_ssh_and_say_which_python_to_run(monkeypatch, tmp_path) -> None:
    """Edge 17: where nothing says so, discovery picks a shim, and a local connection writes into the user's home."""
    monkeypatch.setattr(en, "wait_for", lambda *_, **__: None)
    topology = load(writer(tmp_path)()).topology
    accesses = [
        Access(name=host.name, address=f"198.18.0.{n}", data_address=f"198.19.0.{n}", data_device="eth1", user="root",
               keyfile="/k", port=22, python="/opt/e2c_dl/bin/python", run_dir="/tmp/x")
        for n, host in enumerate(topology.hosts, 1)
    ]  # fmt: skip
    roles, _ = hosts.roles_and_networks(topology, accesses, {each.name: Told() for each in accesses}, {})
    extras = [host.extra for host in roles.all()]
    assert {extra["ansible_python_interpreter"] for extra in extras} == {"/opt/e2c_dl/bin/python"}
    assert not any("ansible_connection" in extra for extra in extras)


@pytest.mark.parametrize(("module", "name"), upstream._PRIVATE)
def test_a_name_that_has_moved_is_told(monkeypatch, module, name) -> None:
    """Edge 18."""
    monkeypatch.delattr(importlib.import_module(module), name)
    with pytest.raises(TestbedError, match=rf"has no {re.escape(module)}\.{name}; pip install 'e2clab==3\.7\.0'"):
        upstream.check()


@pytest.mark.parametrize("version", ["3.6.1", "3.8.0", "4.0"])
def test_another_e2clab_is_refused(monkeypatch, version) -> None:
    """Edge 18."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    with pytest.raises(TestbedError, match=f"E2Clab {version} is installed, but 3.7.x is needed"):
        upstream.check()


BUILT = """
import os
from e2c_dl.testbeds.e2clab.trainer import wheel_of_this_tree
wheel = wheel_of_this_tree()
assert wheel.is_file()
if os.fork() == 0:
    raise SystemExit
os.wait()
assert wheel.is_file(), "a process that was forked has taken it along"
print(wheel.parent)
"""


def test_a_wheel_that_was_built_is_gone_with_the_process_that_built_it() -> None:
    done = subprocess.run([sys.executable, "-c", BUILT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()
