"""Traces that a script itself has written stand beside its rank's, each under its own name; or it is said why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.script_traces import kept_as
from e2c_dl.campaign.traced import collected
from e2c_dl.tracing.left import keep_written
from e2c_dl.tracing.rendezvous import boot

Pairs = tuple[tuple[int, int], ...]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Where the script works."""
    path = tmp_path / "made"
    path.mkdir()
    return path


def left(made: Path, *wrote: str, **more: Any) -> Path:
    """A folder of one rank that says so of itself."""
    own = made.parent / "traces" / "hosts" / "h0"
    own.mkdir(parents=True, exist_ok=True)
    told = {"format": 1, "rank": 0, "world_size": 1, "pid": os.getpid(), "boot": boot(), "begun_s": time.time()}
    paths = [str(made / each) for each in wrote]
    (own / "tracing.json").write_text(json.dumps({**told, "directory": str(made), "wrote": paths, **more}))
    return own


def write(path: Path, content: str, age_s: float = 0.0) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    os.utime(path, (time.time() - age_s, time.time() - age_s))


def test_files_of_one_name_are_numbered_and_none_takes_the_place_of_a_record(made: Path) -> None:
    wrote = ["a/trace.json", "b/trace.json", "tracing.json", "outcome.json", "_0.pt.trace.json", "c/_0.pt.trace.json"]
    own = left(made, *wrote)
    for each in wrote:
        write(made / each, each)
    write(made / "report1.nsys-rep", "nsys")
    before = (own / "tracing.json").read_text()
    assert keep_written(own.parents[1]) == ()
    found = {path.name: path.read_text() for path in own.iterdir()}
    assert found == {
        "tracing.json": before, "trace.json": "a/trace.json", "trace-2.json": "b/trace.json",
        "tracing-2.json": "tracing.json", "outcome-2.json": "outcome.json", "trace_0.pt.trace.json": wrote[4],
        "trace_0-2.pt.trace.json": wrote[5], "report1.nsys-rep": "nsys",
    }  # fmt: skip


def test_what_has_grown_since_it_was_copied_is_copied_again(made: Path) -> None:
    own = left(made, "timeline")
    write(made / "timeline", "[", age_s=1)
    assert keep_written(own.parents[1]) == ()
    write(own / "timeline", "[", age_s=0.5)
    write(made / "timeline", "[{}]")
    assert keep_written(own.parents[1]) == ()
    assert (own / "timeline").read_text() == "[{}]"


def test_what_is_not_there_is_said_by_name(made: Path) -> None:
    own = left(made, "gone.json", "old.json", ".")
    write(made / "old.json", "of a run before", age_s=3600)
    write(made / "old.nsys-rep", "of a run before, and nobody's that this one names", age_s=3600)
    gone, old, directory = keep_written(own.parents[1])
    assert gone == f"{made}/gone.json: is not in the archive: No such file or directory"
    assert old == f"{made}/old.json: is not in the archive: it is older than this training"
    assert directory.startswith(f"{made}: is not in the archive: ")
    assert [path.name for path in own.iterdir()] == ["tracing.json"]


def test_what_a_later_run_writes_there_is_none_of_this_ones(made: Path) -> None:
    now_s = time.time()
    own = left(made, "trace.json", "late.json", "after.json", begun_s=now_s - 3600, clocks={"unix_ns": 0})
    outcome = {
        "format": 2,
        "status": "finished",
        "rank": 0,
        "iterations_done": 1,
        "seconds": 1,
        "ended_s": now_s - 3000,
    }
    (own / "outcome.json").write_text(json.dumps(outcome))
    write(made / "trace.json", "of this run", age_s=3100)
    write(made / "late.json", "as it exits", age_s=2995)
    write(made / "report1.nsys-rep", "of this run", age_s=2900)
    assert keep_written(own.parents[1])[0] == f"{made}/after.json: is not in the archive: No such file or directory"
    for name in ("trace.json", "after.json", "report2.nsys-rep"):
        write(made / name, "of a run after")
    os.utime(own / "trace.json", (now_s - 2990, now_s - 2990))
    assert keep_written(own.parents[1]) == (
        f"{made}/after.json: is not in the archive: it was written after this training",
        f"{made}/report2.nsys-rep: is not in the archive: it was written after this training",
    )
    kept = {path.name for path in own.iterdir()} - {"tracing.json", "outcome.json"}
    assert kept == {"trace.json", "late.json", "report1.nsys-rep"}
    assert (own / "trace.json").read_text() == "of this run"


def test_of_a_rank_that_was_killed_its_last_record_tells_when(made: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    own = left(made, "trace.json", pid=ended.pid, begun_s=time.time() - 3600)
    (own / "spans.bin").touch()
    for path in own.iterdir():
        os.utime(path, (time.time() - 3000, time.time() - 3000))
    write(made / "trace.json", "of a run after")
    assert "it was written after this training" in keep_written(own.parents[1])[0]
    os.utime(own / "spans.bin")
    assert keep_written(own.parents[1]) == ()


def test_another_machines_files_are_not_looked_for_on_this_one(made: Path) -> None:
    own = left(made, "trace.json", boot="of another")
    write(made / "trace.json", "something else of the same name")
    (problem,) = keep_written(own.parents[1])
    assert f"another machine than this one, or before it was booted; copy it to {own}/trace.json before" in problem
    (own / "trace.json").write_text("brought along")
    assert keep_written(own.parents[1]) == ()


def test_a_host_is_asked_by_one_command(made: Path) -> None:
    own = left(made, "trace.json")
    command = [sys.executable, "-m", "e2c_dl.tracing.left", str(own.parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [f"{made}/trace.json: is not in the archive: No such file or directory"]


def test_collecting_what_three_lines_left_brings_the_scripts_own_traces(made: Path) -> None:
    own = left(made, "trace.json", "gone.json", limitations=["a graph is compiled"])
    write(made / "trace.json", "{}")
    archive = open_archive(collected([own.parents[1]], made.parent / "archive"))
    assert (archive.path / "hosts/h0/trace.json").read_text() == "{}"
    assert not (own / "trace.json").exists(), "folders are read alone"
    said = archive.run.limitations
    assert f"{made}/gone.json: is not in the archive: No such file or directory" in said
    assert "a graph is compiled" in said


@pytest.mark.parametrize("damaged", [(), ((0, 1 << 63),)])
def test_a_run_was_when_its_ranks_saw_it_and_not_when_it_is_collected(made: Path, damaged: Pairs) -> None:
    own = left(made)
    begun, over = (datetime(2026, 1, 2, hour, tzinfo=timezone.utc) for hour in (3, 4))
    pairs = tuple((number, int(at.timestamp()) * 10**9) for number, at in enumerate((begun, over)))
    HostRecords(own).amend_facts(wall_clock=(*damaged, *pairs))
    run = open_archive(collected([own.parents[1]], made.parent / "archive")).run
    assert [datetime.fromisoformat(each) for each in (run.started, run.ended)] == [begun, over]


def test_ranks_that_do_not_agree_how_many_they_are_are_told(made: Path) -> None:
    own = left(made, world_size=2)
    other = own.parents[2] / "more" / "hosts" / "h1"
    other.mkdir(parents=True)
    one = json.loads((own / "tracing.json").read_text())
    (other / "tracing.json").write_text(json.dumps({**one, "rank": 1, "world_size": 3}))
    run = open_archive(collected([own.parents[1], other.parents[1]], made.parent / "archive")).run
    assert "ranks do not agree how many they are (h0: 2; h1: 3): not all may have trained together" in run.limitations


def test_names_are_the_same_whenever_they_are_asked_for() -> None:
    paths = ["/a/x.json", "/b/x.json", "/c/x-2.json", "/d/x.json"]
    assert kept_as(paths) == ["x.json", "x-2.json", "x-2-2.json", "x-3.json"]
    assert [kept_as(paths[:count]) for count in range(4)] == [kept_as(paths)[:count] for count in range(4)]
