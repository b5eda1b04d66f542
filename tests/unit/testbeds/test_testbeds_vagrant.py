"""What EnOSlib's Vagrant provider is given for a run, what is refused beforehand, and what vagrant makes of it.

No machine comes up here: libvirt is named where there is none.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_scenario import writer

from e2c_dl.cli.scenarios import check
from e2c_dl.errors import InputError, TestbedError
from e2c_dl.scenario.load import load
from e2c_dl.testbeds import catalogue, registry
from e2c_dl.testbeds.vagrant import cleanup, machines
from e2c_dl.testbeds.vagrant import testbed as room
from e2c_dl.testbeds.vagrant.planned import Plan
from e2c_dl.testbeds.vagrant.testbed import VagrantTestbed

PLAN = Plan(run_id="0123abcd", slot=7, names=("edge-1", "cloud-1"), box="lab/debian12", memory_bytes=2**30)


def test_each_machine_is_on_the_runs_own_network_under_its_name() -> None:
    assert PLAN.addresses == {"edge-1": "198.18.7.10", "cloud-1": "198.18.7.11"}
    first, second = PLAN.configuration()["resources"]["machines"]
    assert (first["name_prefix"], first["flavour_desc"]) == ("edge-1", {"core": 1, "mem": 1024})
    assert (
        'ip: "198.18.7.11", netmask: "255.255.255.0", libvirt__network_name: "e2cdl-0123abcd"'
        in (second["config_extra_vm"])
    )
    assert PLAN.cost() == "2 virtual machines x (1 core, 1GiB) = 2 cores, 2GiB of memory, box lab/debian12"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"box": "x#{`id`}"}, "no name of a box"),
        ({"box": "a/b/c"}, "no name of a box"),
        ({"box": ""}, "no name of a box"),
        ({"memory": "1MiB"}, "--memory 1MiB: too little for a worker; write 512MiB or more"),
        ({"memory": "much"}, "--memory: "),
        ({"image": "debian"}, "--image: not for --on vagrant"),
    ],
)
def test_what_is_wrong_with_it_is_said(options, said) -> None:
    with pytest.raises(InputError) as caught:
        catalogue.testbed("vagrant", options)
    assert said in str(caught.value)


def test_check_says_what_it_takes_of_this_machine(repository, monkeypatch) -> None:
    monkeypatch.setattr(machines, "_ran", lambda *_: 1 / 0)  # nothing is asked
    told = CliRunner().invoke(check, [str(repository / "experiments/first-light"), "--on", "vagrant"])
    assert told.exit_code == 0, told.output
    assert (
        "vagrant: 6 virtual machines x (1 core, 2GiB) = 6 cores, 12GiB of memory, box generic/debian12" in told.output
    )
    assert "vagrant: this machine has " in told.output


def test_what_is_missing_is_told_beforehand(repository, monkeypatch, tmp_path) -> None:
    """Programs, virtualisation, memory: with what to do, and nothing is started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(room, "_KVM", tmp_path / "kvm")
    monkeypatch.setattr(room, "memory_available_bytes", lambda: 5 * 2**30)
    said = "\n".join(VagrantTestbed.of({}).preflight(load(repository / "experiments/first-light")))
    for part in (
        "6 machines of 2GiB need 12GiB, 5.00 GiB are available; ask for fewer hosts, or less with --memory",
        "vagrant: there is no vagrant; `make setup-vagrant`",
        f"KVM: {tmp_path}/kvm is not there; turn virtualisation on",
        "libvirt: there is no virsh; apt-get install libvirt-daemon-system",
    ):
        assert part in said
    blocking = VagrantTestbed.of({}).blocking(VagrantTestbed.of({}).probes())
    assert {"vagrant", "KVM", "libvirt"} <= set(blocking)


@pytest.fixture(scope="module")
def installed() -> None:
    pytest.importorskip("vagrant", reason="python-vagrant is not installed; make setup")
    if why := machines.vagrant_problem():
        pytest.skip(f"{why}; make setup-vagrant")


@pytest.fixture
def run(installed, tmp_path, monkeypatch):
    """A run of two machines, by Debian's vagrant and its plugin: boxes of nobody, a libvirt that is not there."""
    monkeypatch.setenv("VAGRANT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(machines.URI_VARIABLE, f"qemu+unix:///system?socket={tmp_path}/nobody")
    monkeypatch.setenv(registry.STATE_VARIABLE, str(tmp_path / "state"))
    layers = "environment: {g5k: {cluster: a}}\nlayers:\n" + "".join(
        f"- {{name: {layer}, services: [{{name: Trainer, env: {{strategy: allreduce, iterations: 1}}}}]}}\n"
        for layer in ("edge", "cloud")
    )
    (tmp_path / "s").mkdir()
    return VagrantTestbed.of({}).claim(load(writer(tmp_path / "s")(layers=layers)))


def vagrant(folder: Path, *words: str) -> str:
    return subprocess.run(["vagrant", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_vagrant_takes_what_the_provider_writes_and_destroys_what_never_came_up(run) -> None:
    folder = run.state_dir / cleanup.FOLDER
    with pytest.raises(TestbedError, match="could not bring the machines up: .*onnect"):
        run.provision()
    assert vagrant(folder, "validate") == "Vagrantfile validated successfully.\n"
    told = [line.split(",") for line in vagrant(folder, "status", "--machine-readable").splitlines()]
    assert [each[1] for each in told if each[2:4] == ["state", "not_created"]] == ["edge-1", "cloud-1"]
    run.release()
    assert registry.runs() == () and not folder.exists()


def test_machines_that_cannot_be_destroyed_keep_the_run_known(run) -> None:
    folder = run.state_dir / cleanup.FOLDER
    made = folder / ".vagrant/machines/edge-1/libvirt"
    made.mkdir(parents=True)
    (made / "id").write_text("8f2c1a4e")
    (folder / machines.VAGRANTFILE).write_text("Vagrant.configure(2) { |config| }\n")
    with pytest.raises(TestbedError, match="edge-1: .*onnect.*tries again"):
        run.release()
    assert [each.id for each in registry.runs()] == [run.run_id]
    shutil.rmtree(folder)  # by hand
    run.release()
    assert registry.runs() == ()


def test_ctrl_c_while_machines_come_up_ends_vagrant(run, tmp_path, monkeypatch) -> None:
    """A vagrant that takes for ever: it, and all that it started, is gone with the run."""
    slow = tmp_path / "bin/vagrant"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\n[ "$1" = up ] || exit 0\necho $$ >{tmp_path}/pid\necho "==> edge-1: Creating"\nexec sleep 1000\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")

    def interrupted(line: str) -> None:
        if "Creating" in line:
            raise KeyboardInterrupt

    run.tell = interrupted
    with pytest.raises(KeyboardInterrupt):
        run.provision()
    run.release()
    assert registry.runs() == ()
    ended = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/cmdline")
    assert not ended.exists() or ended.read_bytes() == b""  # who inherits it need not have waited for it yet
