"""What `e2c-dl trace` says where it cannot make the archive itself: another rank's command does, or it has no room."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from e2c_dl.archive.lock import held
from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.traced import Ran, collected
from e2c_dl.cli import trace
from e2c_dl.errors import TrainingError
from e2c_dl.tracing import folder, rendezvous
from e2c_dl.tracing.rendezvous import Alone, StoreExchange, meet, own_peer


@pytest.fixture
def place(tmp_path: Path) -> Path:
    ended = subprocess.Popen(["true"])
    ended.wait()
    host = tmp_path / "hosts" / "h0"
    host.mkdir(parents=True)
    told = {"format": 1, "rank": 0, "world_size": 1, "pid": ended.pid, "boot": "b", "machines": 1}
    (host / "tracing.json").write_text(json.dumps(told))
    return tmp_path


@pytest.mark.parametrize(
    ("size", "said"),
    [("2", "the command of another rank makes the archive; if"), ("", "another process is writing it")],
)
def test_two_commands_never_make_one_archive(
    place: Path, size: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", size)
    with held(place):
        trace._conclude(place, None, Ran(), made=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"e2c-dl: {place}: {said}")


SCRIPT = """
from e2c_dl.tracing import api as trace
with trace.run("x"):
    for number in trace.iteration(range(3)):
        with trace.span("forward"):
            sum(range(10000))
"""


def test_of_two_commands_the_one_that_ends_last_makes_the_archive(tmp_path: Path) -> None:
    archive, trained, end = (tmp_path / name for name in ("archive", "trained", "end"))
    (tmp_path / "main.py").write_text(SCRIPT)
    for pipe in (trained, end):
        os.mkfifo(pipe)

    def begun(rank: int, then: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "e2c_dl", "trace", "--archive", str(archive), "--"]
        command += ["sh", "-c", f'"{sys.executable}" main.py && {then}']
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    first, last = begun(0, f"read _ < {trained}"), begun(1, f"echo > {trained} && read _ < {end}")
    try:
        said = first.communicate(timeout=60)[1]
        assert first.returncode == 0, said
        who = "the command of another rank makes the archive"
        assert said == f"e2c-dl: {archive}: {who}; if it does not, `e2c-dl collect {archive}` does\n"
        assert not (archive / "run.json").exists()
        end.write_text("\n")
        said = last.communicate(timeout=60)[1]
    finally:
        for each in (first, last):
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()
    assert last.returncode == 0, said
    assert sorted(each["rank"] for each in open_archive(archive).run.hosts) == [0, 1]
    assert f"e2c-dl: archive {archive}; " in said


def test_the_script_runs_also_where_another_command_makes_the_archive(place: Path) -> None:
    command = [sys.executable, "-m", "e2c_dl", "trace", "--archive", str(place), "--"]
    command += ["sh", "-c", "echo it ran; exit 3"]
    with held(place):
        environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "it ran\n"), done.stderr
    assert "which may not have what this command's ranks leave" in done.stderr
    assert f"{place}: the command of another rank makes the archive" in done.stderr


def test_where_no_archive_could_be_written_it_says_how_to_make_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace._conclude(place, place / "no-scenario", Ran(), made=False)
    assert f"`e2c-dl collect {place} --archive NEW`, where there is room" in capsys.readouterr().err


def test_what_ranks_recorded_before_torchrun_began_them_anew_is_kept_and_told(
    place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    ranks = meet(own_peer(0, {}), 1, Alone())
    (place / "hosts/h0").rename(place / "hosts" / ranks.folder)
    folder.tell(folder.make(place, ranks), ranks, {})
    both = collected([place], tmp_path_factory.mktemp("archives") / "both")
    assert (both / "attempts/0" / ranks.folder / "tracing.json").is_file()
    assert any("began all ranks anew once" in sentence for sentence in open_archive(both).run.limitations)


def test_what_ranks_recorded_before_others_came_stands_aside_whatever_its_folder_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")  # that others come is no failure
    with subprocess.Popen(["true"]) as ended:
        pass
    alone = meet(own_peer(0, {}), 1, Alone())
    several = replace(alone, world_size=2)
    for ranks in (several, alone, several):
        own = folder.make(tmp_path, ranks)
        folder.tell(own, ranks, {"pid": ended.pid})
        if not (tmp_path / "attempts").exists():
            shutil.copytree(own, own.with_name("another"))
    assert list((tmp_path / "hosts").iterdir()) == [own]
    kept = {path.relative_to(tmp_path / "attempts").as_posix() for path in tmp_path.glob("attempts/*/*")}
    assert kept == {f"0/{own.name}", "0/another", f"1/{own.name}"}


def test_who_is_begun_anew_never_hears_of_the_ranks_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    store = pytest.importorskip("torch").distributed.HashStore()
    StoreExchange(store).put("rank", b"of the first")
    assert StoreExchange(store).get("rank") == b"of the first"
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert StoreExchange(store).get("rank") is None


def test_an_agent_that_came_after_a_failure_has_not_counted_it_and_its_ranks_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = pytest.importorskip("torch").distributed.HashStore()
    monkeypatch.setattr(rendezvous, "OTHERS_COUNT_S", 0.05)
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    found = []
    for counted, rank in (("1", 0), ("0", 1), ("1", 0)):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", counted)
        found.append(meet(own_peer(rank, {}), 2, StoreExchange(store), within_s=0.5).missing)
    assert found == [(1,), (), ()]


@pytest.mark.parametrize("attempt", ["1", "", "once"])
def test_a_second_process_of_a_rank_never_takes_the_firsts_folder(
    attempt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
    ranks = meet(own_peer(0, {}), 1, Alone())
    folder.tell(folder.make(tmp_path, ranks), ranks, {})
    with pytest.raises(TrainingError, match="rank 0 was traced there before"):
        folder.make(tmp_path, ranks)


@pytest.mark.parametrize("then", ["rm -r new", "rm -r new; touch new", "rm -r new; mkdir new"])
def test_a_script_that_removes_the_archive_ends_as_it_would_untraced(tmp_path: Path, then: str) -> None:
    command = [sys.executable, "-m", "e2c_dl", "trace", "--archive", "new", "--", "sh", "-c", f"{then}; exit 7"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 7, done.stderr
    (line,) = done.stderr.splitlines()
    assert "the command has removed it" in line or "nothing was traced" in line


def test_a_rank_of_another_machine_is_not_looked_for_among_this_ones_processes(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracing = place / "hosts" / "h0" / "tracing.json"
    tracing.write_text(json.dumps(json.loads(tracing.read_text()) | {"pid": os.getpid()}))
    trace._conclude(place, None, Ran(), made=False)
    assert "still run" not in capsys.readouterr().err
