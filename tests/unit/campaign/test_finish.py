"""Runs that were cut off are finished later, also when that was tried before, and half of them is gone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from host_access import access
from simulated_scenario import Quiet, scenario, simulated

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.campaign import finish
from e2c_dl.errors import ArchiveError, E2cDlError, Interrupted
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.testbeds.this_machine import kept

HOSTS = ("edge-1", "edge-2", "cloud-1")
NOBODY = 2**22 + 1  # no pid: the kernel gives none as high


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """As a controller leaves it that is killed while it trains: all that hosts traced is still with them."""
    path = simulated(scenario(tmp_path / "s"), shapes_only=True).path
    for name in (layout.MANIFEST, layout.CRATE, layout.REPORT_JSON, layout.REPORT_HTML):
        (path / name).unlink()
    written = json.loads((path / layout.RUN).read_text())
    (path / layout.RUN).write_text(json.dumps(written | {"outcome": "running", "ended": ""}))
    return path


@pytest.fixture
def run(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> RegisteredRun:
    """The run of ``archive``, its controller dead, its hosts' directories here."""
    monkeypatch.setenv(registry.STATE_VARIABLE, str(tmp_path / "state"))
    found = registry.begin(open_archive(archive).run.run_id, scenario="s", archive=str(archive))
    for host in HOSTS:
        work = found.directory / "hosts" / host / "work"
        work.mkdir(parents=True)
        for path in (archive / layout.HOSTS / host).iterdir():
            path.rename(work / path.name)
    hosts = tuple(access(host, found.directory / "hosts" / host / "work") for host in HOSTS)
    return registry.changed(found, controller_pid=NOBODY, hosts=hosts)


def outcomes(archive: Path) -> set[str]:
    return {path.parent.name for path in (archive / layout.HOSTS).glob(f"*/{layout.OUTCOME}")}


def test_what_hosts_hold_is_taken_over(run: RegisteredRun, archive: Path) -> None:
    assert finish.finish(run.id, Quiet()) == archive
    assert outcomes(archive) == set(HOSTS)
    assert verify(archive) == ()
    assert not run.directory.exists()


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every address is this machine's: what an ssh would run there runs here."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def moved(run: RegisteredRun, to: Path, **details: object) -> RegisteredRun:
    """``run``, its hosts being other machines."""
    (run.directory / "hosts").rename(to)
    hosts = tuple(access(host, to / host / "work") for host in HOSTS)
    return registry.changed(run, hosts=hosts, details=details)


def test_of_what_was_collected_before_nothing_is_asked_again(
    run: RegisteredRun, archive: Path, tmp_path: Path, ssh: None
) -> None:
    run = moved(run, tmp_path / "machines", **{registry.UNCOLLECTED: {"edge-2": "somewhere"}})
    (tmp_path / "machines/edge-1").rename(tmp_path / "released")
    finish.finish(run.id, Quiet())
    assert outcomes(archive) == {"edge-2"}
    assert "what edge-2 left was collected later" in open_archive(archive).run.what_happened
    assert verify(archive) == ()
    assert not run.directory.exists()


def test_a_machine_that_was_not_begun_on_holds_nothing(
    run: RegisteredRun, archive: Path, tmp_path: Path, ssh: None
) -> None:
    run = moved(run, tmp_path / "machines")
    (tmp_path / "machines/edge-1").rename(tmp_path / "never")
    finish.finish(run.id, Quiet())
    assert outcomes(archive) == {"edge-2", "cloud-1"}
    assert not list((archive / layout.HOSTS).glob("*/.*"))
    assert not run.directory.exists()


def test_hosts_that_are_no_more_are_read_where_their_files_are(run: RegisteredRun, archive: Path) -> None:
    gone = tuple(replace(each, through_pid=NOBODY) for each in run.hosts)  # after a reboot, its state elsewhere
    registry.changed(run, hosts=gone)
    finish.finish(run.id, Quiet())
    assert outcomes(archive) == set(HOSTS)


def test_a_run_that_left_no_trace_is_finished_all_the_same(run: RegisteredRun, archive: Path) -> None:
    shutil.rmtree(archive / layout.TRACES)
    finish.finish(run.id, Quiet())
    assert verify(archive) == ()
    assert not (archive / layout.REPORT_JSON).exists()


def test_where_the_archive_is_by_now_is_told_once(run: RegisteredRun, archive: Path, tmp_path: Path) -> None:
    archive.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/hosts/edge-1").rename(tmp_path / "aside")
    (tmp_path / "elsewhere/hosts/edge-1").write_text("in the way")
    with pytest.raises(E2cDlError, match="edge-1"):
        finish.finish(run.id, Quiet(), tmp_path / "elsewhere")
    (tmp_path / "elsewhere/hosts/edge-1").unlink()
    assert finish.finish(run.id, Quiet()) == tmp_path / "elsewhere"
    assert outcomes(tmp_path / "elsewhere") == set(HOSTS)


def test_who_stops_destroy_does_not_say_that_traces_may_go(
    run: RegisteredRun, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish.Archive, "resume", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted):
        finish.end(run.id, Quiet(), asked=True)
    assert all((run.directory / "hosts" / host / "work" / layout.OUTCOME).is_file() for host in HOSTS)


def test_what_breaks_off_is_not_sealed(run: RegisteredRun, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (archive / layout.MANIFEST).write_text("of before")
    registry.changed(run, details={registry.UNCOLLECTED: {"edge-1": "here"}})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(finish.Leftover, "conclude", full)
    with pytest.raises(E2cDlError, match="disk is full"):
        finish.finish(run.id, Quiet())
    assert not (archive / layout.MANIFEST).exists()


def test_of_two_that_end_a_run_the_second_says_so(run: RegisteredRun) -> None:
    shutil.rmtree(run.directory)
    assert finish.end(run.id, Quiet(), asked=True) == ("somebody else did, meanwhile",)


def test_a_run_that_was_killed_before_it_wrote_what_it_is_goes_unasked(run: RegisteredRun) -> None:
    shutil.rmtree(run.directory / "hosts")
    (run.directory / registry.STATE).unlink()
    assert registry.dead_runs() == (run.id,)
    assert finish.end(run.id, Quiet(), asked=False) == (f"directory {run.directory}",)
    assert not run.directory.exists()


def test_of_a_run_that_is_released_its_state_goes_last(run: RegisteredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[list[str]] = []

    def removed(path: Path) -> None:
        left.append(sorted(each.name for each in run.directory.iterdir()))
        rmtree(path)

    rmtree = shutil.rmtree
    monkeypatch.setattr(kept.shutil, "rmtree", removed)
    kept.strip(run.directory, ())
    assert left[-1] == ["hosts", registry.STATE] and not run.directory.exists()
    assert all(registry.STATE in each for each in left)


def test_a_host_s_link_in_place_of_its_scenario_is_not_followed(
    run: RegisteredRun, archive: Path, tmp_path: Path
) -> None:
    (archive / layout.SCENARIO).rename(tmp_path / "private")
    shutil.rmtree(archive)
    (run.directory / "hosts/edge-1/work" / layout.SCENARIO).symlink_to(tmp_path / "private")
    with pytest.raises(E2cDlError, match="nothing on this machine holds its scenario"):
        finish.finish(run.id, Quiet(), tmp_path / "new")
    assert run.directory.exists()


def test_an_archive_that_another_process_writes_is_not_sealed(archive: Path) -> None:
    descriptor = os.open(archive, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as every run has it while it lives, a simulated one and another user's too
    with pytest.raises(ArchiveError, match="another process is writing it"):
        finish.seal(archive, Quiet())
    os.close(descriptor)
    finish.seal(archive, Quiet())
    assert verify(archive) == ()
