"""Runs that did not come to their last steps are finished later: nothing that a host traced is lost."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from whole_runs import COMMAND, facts, nothing_left, starting

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces import cleanup

pytestmark = [pytest.mark.local, pytest.mark.slow]
LONG = 100_000  # iterations: it does not end by itself
HOSTS = {"edge-1", "fog-1"}


@pytest.fixture
def start(tmp_path, repository):
    workflow = repository / "experiments/first-light/workflow.yaml"
    yield from starting(tmp_path, workflow, testbed="local", destroy=cleanup.destroy)


def command(*words):
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, check=False)


def killed(start, text="iteration "):
    run = start(iterations=LONG)
    run.until(text)
    os.kill(run.process.pid, signal.SIGKILL)
    run.ended()
    return run


def traced(archive):
    return {rank.host for rank in open_archive(archive).trace().ranks}


def finished(run, archive):
    """All that hosts traced is in ``archive``, which is sealed, and nothing of ``run`` is left elsewhere."""
    assert traced(archive) == HOSTS
    assert verify(archive) == ()
    nothing_left(run.run_id)


def test_after_kill_9_collect_finishes_the_run(start, tmp_path):
    run = killed(start)
    done = command("collect", run.run_id)
    assert done.returncode == 0, done.stderr
    told = facts(tmp_path / "a")
    assert told["outcome"] == "failed" and told["what_happened"][0].startswith("its controller was killed")
    assert traced(tmp_path / "a") == HOSTS
    assert verify(tmp_path / "a") == ()
    assert not (tmp_path / "a" / layout.E2CLAB).exists()
    nothing_left(run.run_id)


def test_after_kill_9_destroy_collects_first_and_removes_everything(start, tmp_path):
    run = killed(start)
    assert facts(tmp_path / "a")["outcome"] == "running"
    assert cleanup.leftovers(run.run_id) != ()
    done = command("destroy")
    assert done.returncode == 0, done.stderr
    assert run.run_id in done.stdout
    finished(run, tmp_path / "a")


def test_an_archive_that_is_removed_is_made_anew_of_what_the_hosts_held(start, tmp_path):
    run = start(iterations=LONG)
    run.until("iteration ")
    shutil.rmtree(tmp_path / "a")
    run.process.send_signal(signal.SIGTERM)
    assert run.ended() == 130
    assert "the archive was removed, or moved" in run.said and "Traceback" not in run.said
    assert f"`e2c-dl collect {run.run_id}`" in run.said
    assert not (tmp_path / "a").exists()
    assert cleanup.find(run.run_id).processes == frozenset()
    left = command("destroy")  # not by its name: nobody says that its traces may go
    assert left.returncode != 0 and "--archive" in left.stderr
    done = command("collect", run.run_id, "--archive", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    finished(run, tmp_path / "b")


@pytest.mark.thorough
def test_an_archive_that_was_moved_is_gone_on_with(start, tmp_path):
    run = start(iterations=LONG)
    run.until("iteration ")
    (tmp_path / "a").rename(tmp_path / "moved")
    run.interrupt()
    assert run.ended() == 130
    assert "the archive was removed, or moved" in run.said and "Traceback" not in run.said
    done = command("collect", run.run_id, "--archive", tmp_path / "moved")
    assert done.returncode == 0, done.stderr
    assert facts(tmp_path / "moved")["run_id"] == run.run_id
    finished(run, tmp_path / "moved")


def test_where_the_archive_has_no_room_the_traces_are_kept(start, tmp_path):
    (tmp_path / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path / "disk"], check=True)
    try:
        run = start(iterations=LONG, archive=tmp_path / "disk/a")
        run.until("iteration ")
        room = open_archive(tmp_path / "disk/a").path / "filled"
        with room.open("wb") as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        run.interrupt()
        assert run.ended() == 130, run.said
        assert f"`e2c-dl collect {run.run_id}`" in run.said
        assert run.run_id in {each.id for each in registry.runs()}
        room.unlink()
        shutil.copytree(tmp_path / "disk/a", tmp_path / "b")
        done = command("collect", run.run_id, "--archive", tmp_path / "b")
        assert done.returncode == 0, done.stderr
        assert traced(tmp_path / "b") == HOSTS
        assert verify(tmp_path / "b") == ()
        nothing_left(run.run_id)
    finally:
        subprocess.run(["umount", "--lazy", tmp_path / "disk"], check=True)


@pytest.mark.parametrize(
    ("victim", "how"),
    [
        pytest.param("first process", "its first process was killed by SIGKILL", marks=pytest.mark.thorough),
        ("sshd", "its sshd was killed by SIGKILL"),
    ],
)
def test_a_host_that_is_killed_is_named_with_how_it_ended_and_the_machine_then(start, tmp_path, victim, how):
    run = start(iterations=LONG)
    run.until("iteration ")
    (first,) = (each.netns_pid for each in registry.load(run.run_id).hosts if each.name == "fog-1")
    os.kill(first if victim == "first process" else sshd_of(first), signal.SIGKILL)
    assert run.ended() == 1
    told = facts(tmp_path / "a")["what_happened"][0]
    assert told.startswith(f"host fog-1 ended: {how} (the machine then: ") and "memory available" in told
    assert told in run.said.splitlines()[-1]
    finished(run, tmp_path / "a")


def sshd_of(first):
    """The sshd that the host's first process waits for."""
    children = [entry for entry in Path("/proc").glob("[0-9]*") if parent(entry) == first]
    (sshd,) = (int(entry.name) for entry in children if (entry / "comm").read_text().strip() == "sshd")
    return sshd


def parent(entry):
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
