"""What an ordinary user gets in place of root, as values, and where: nothing is started."""

import os
import pwd
from pathlib import Path

import pytest
import whole_runs

import e2c_dl
from e2c_dl.emulation import compute
from e2c_dl.errors import TestbedError
from e2c_dl.scenario.load import load
from e2c_dl.testbeds import catalogue, programs, registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.e2clab import trainer
from e2c_dl.testbeds.this_machine import cpu, files, preflight, rootless

_USER = pwd.struct_passwd(("ada", "x", 1000, 1000, "Ada", "/home/ada", "/bin/bash"))


def reached(through_pid: int | None) -> Access:
    return Access(
        name="edge-1",
        address="198.18.1.10",
        data_address="198.19.0.10",
        data_device="eth1",
        user="ada",
        keyfile="/key",
        port=22,
        python="python3",
        run_dir="/dir",
        netns_pid=7,
        through_pid=through_pid,
    )


@pytest.mark.parametrize(("effective", "enough"), [("000001ffffffffff", True), ("1000", False), ("0", False)])
def test_what_must_be_had_is_network_and_mounts(effective: str, enough: bool, tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapEff:\t{effective}\n")
    assert rootless.has_capabilities(status) is enough


def test_the_switch_that_forbids_is_named(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/unprivileged_userns_clone").write_text("0\n")
    (tmp_path / "kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    said = rootless.remedy(tmp_path)
    assert "kernel.unprivileged_userns_clone=1" in said
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in said
    (tmp_path / "kernel/unprivileged_userns_clone").write_text("1\n")
    (tmp_path / "kernel/apparmor_restrict_unprivileged_userns").write_text("0\n")
    assert "sysctl" not in rootless.remedy(tmp_path)


def test_where_nothing_is_in_the_way_nothing_is_entered() -> None:
    here = os.getpid()
    assert not rootless.outside(here)
    assert rootless.way_in(here) == rootless.way_in(None) == ()
    assert programs.ssh_argv(reached(here)) == programs.ssh_argv(reached(None))
    assert programs.enter_network(reached(here), ["id"])[0] == "nsenter"


def test_from_outside_ssh_goes_through_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless, "outside", lambda pid: True)
    argv = programs.ssh_argv(reached(11), "id")
    assert argv[:7] == ["nsenter", "--target", "11", "--user", "--preserve-credentials", "--net", "--"]
    assert argv[7] == "ssh"
    assert programs.enter(reached(11), ["id"]) == programs.enter_network(reached(11), ["id"]) == argv


def test_a_keeper_that_is_gone() -> None:
    with pytest.raises(TestbedError, match="is gone; `e2c-dl destroy`"):
        rootless.outside(2**22 + 1)  # no pid is larger than 2^22


def test_nobody_enters_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless, "rights", lambda: False)
    monkeypatch.setattr(rootless, "problem", lambda: None)
    monkeypatch.setenv("E2CDL_ENTERED", "1")
    with pytest.raises(TestbedError, match="has no capabilities inside"):
        catalogue.enter("local")


def test_only_hosts_of_this_machine_are_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless, "enter", lambda: pytest.fail("there is nothing to enter"))
    catalogue.enter("static")


def test_terminals_are_the_users_own() -> None:
    groups = files.group("root:x:0:\ntty:x:5:\nada:x:1000:\n", with_tty=False)
    assert groups == "root:x:0:\nada:x:1000:\n"
    of = {root: host_files(root).fstab() for root in (True, False)}
    assert "gid=5" in of[True] and "gid=" not in of[False]


def host_files(root: bool) -> files.HostFiles:
    return files.HostFiles(
        name="edge-1",
        run=Path("/run/user/1000/e2c-dl/0123abcd"),
        management="198.18.1.10/24",
        data=None,
        neighbours={"edge-1": "198.19.0.10"},
        sysctl={},
        root=root,
    )


def test_runs_are_registered_where_the_user_may_write(tmp_path: Path) -> None:
    assert registry.default_base({"XDG_RUNTIME_DIR": str(tmp_path)}, 0) == "/run/e2c-dl"
    assert registry.default_base({"XDG_RUNTIME_DIR": str(tmp_path)}, 1000) == f"{tmp_path}/e2c-dl"
    assert registry.default_base({"XDG_RUNTIME_DIR": str(tmp_path / "none")}, 1000) == "/tmp/e2c-dl-1000"


def test_a_registry_is_closed_to_others_and_somebody_elses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(TestbedError, match="belongs to another user"):
        registry.begin("0123abcd", scenario="s", base=tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "new").iterdir()) == []


def test_quota_only_where_cgroups_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "controller", lambda: None)
    assert not cpu.can_limit()
    monkeypatch.setattr(cpu, "controller", lambda: cpu.Controller(version=2, root=tmp_path))
    assert cpu.can_limit()
    monkeypatch.setattr(cpu, "controller", lambda: cpu.Controller(version=2, root=tmp_path / "none"))
    assert not cpu.can_limit()


@pytest.mark.parametrize(("asked", "missed"), [("quota", 1), ("auto", 0), ("sleep", 0)])
def test_without_quota_it_is_sleep_and_a_wish_for_quota_is_not_forgotten(
    asked: str, missed: int, tmp_path: Path, repository: Path
) -> None:
    folder = whole_runs.scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml")
    (folder / "emulation.yaml").write_text(f"compute: {{method: {asked}, cores: 0.1}}\n")
    asking = load(folder)
    assert compute.of_scenario(2, asking, quota=False).method is compute.Method.SLEEP
    assert len(compute.quota_missed(asking, quota=False)) == missed
    assert compute.quota_missed(asking, quota=True) == ()


def test_what_hosts_cannot_see_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight.unseen() == []
    monkeypatch.setattr(e2c_dl, "__file__", "/run/somewhere/e2c_dl/__init__.py")
    assert preflight.unseen() == [
        "/run/somewhere/e2c_dl: hosts do not see it, their /run is their own; install e2c_dl elsewhere"
    ]


def test_this_interpreter_has_this_version() -> None:
    trainer.check_installed()
