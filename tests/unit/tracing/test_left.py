"""Traces that a script itself has written stand beside its rank's, each under its own name; or it is said why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.script_traces import kept_as
from e2c_dl.campaign.traced import collected
from e2c_dl.tracing.left import keep_written
from e2c_dl.tracing.rendezvous import boot


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


def test_names_are_the_same_whenever_they_are_asked_for() -> None:
    paths = ["/a/x.json", "/b/x.json", "/c/x-2.json", "/d/x.json"]
    assert kept_as(paths) == ["x.json", "x-2.json", "x-2-2.json", "x-3.json"]
    assert [kept_as(paths[:count]) for count in range(4)] == [kept_as(paths)[:count] for count in range(4)]


NSYS = """#!/bin/sh
# as NVIDIA's is called: nsys export --type sqlite --force-overwrite true --output TO REPORT
test "$1 $2 $3 $4 $5 $6" = "export --type sqlite --force-overwrite true --output" && cat "$8" > "$7"
"""


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which exports a report by copying it."""
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(NSYS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program


def test_what_nsys_has_exported_is_kept_beside_its_report(made: Path, nsys: Path) -> None:
    own = left(made)
    write(made / "report1.nsys-rep", "a report")
    write(made / "report1.sqlite", "of its own")
    write(made / "cache.sqlite", "the script's, and no trace")
    assert keep_written(own.parents[1]) == ()
    assert {path.name for path in own.iterdir()} == {"tracing.json", "report1.nsys-rep", "report1.sqlite"}
    assert (own / "report1.sqlite").read_text() == "of its own"


def test_a_report_that_was_not_exported_is_where_nsys_is(made: Path, nsys: Path) -> None:
    own = left(made)
    write(made / "report1.nsys-rep", "a report", age_s=1)
    assert keep_written(own.parents[1]) == ()
    assert (own / "report1.sqlite").read_text() == "a report"
    nsys.write_text("#!/bin/sh\nexit 1")  # what is there is not made again
    assert keep_written(own.parents[1]) == ()


def test_why_nsys_could_not_export_is_said(made: Path, nsys: Path) -> None:
    own = left(made)
    write(made / "report1.nsys-rep", "a report")
    nsys.write_text("#!/bin/sh\necho 'unknown   version' >&2; echo half > \"$7\"; exit 1")
    assert keep_written(own.parents[1]) == (
        f"{made}/report1.nsys-rep: its events are not in the archive: `nsys export` failed: unknown version",
    )
    assert {path.name for path in own.iterdir()} == {"tracing.json", "report1.nsys-rep"}
    nsys.unlink()
    assert keep_written(own.parents[1]) == (), "`e2c-dl export` tells what is to be done"
