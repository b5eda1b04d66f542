"""Each report of nsys stands beside one rank, that whose events it has, with what is read of its export."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from e2c_dl.archive import nsys as exports
from e2c_dl.archive.lock import held
from e2c_dl.campaign.traced import collected
from e2c_dl.errors import ArchiveBusy
from e2c_dl.tracing.left import keep_written
from e2c_dl.tracing.rendezvous import boot
from e2c_dl.tracing.settings import Settings

NSYS = """#!/bin/sh
# as NVIDIA's is called: nsys export --type sqlite --force-overwrite true --output TO REPORT
test "$1 $2 $3 $4 $5 $6" = "export --type sqlite --force-overwrite true --output" && cat "$8" > "$7"
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Where the script works."""
    path = tmp_path / "made"
    path.mkdir()
    return path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """nsys, whose reports are exports already."""
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(NSYS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program


def ranks(made: Path, *pids: int, **more: object) -> Path:
    """A folder of so many ranks, all at work in one directory."""
    traces = made.parent / "traces"
    for rank, pid in enumerate(pids or (os.getpid(),)):
        own = traces / "hosts" / f"h{rank}"
        own.mkdir(parents=True, exist_ok=True)
        told = {"format": 1, "rank": rank, "world_size": len(pids) or 1, "pid": pid, "boot": boot()}
        told |= {"begun_s": time.time(), "directory": str(made), **more}
        (own / "tracing.json").write_text(json.dumps(told))
    return traces


def report(path: Path, *pids: int, called: str = "", age_s: float = 0.0) -> None:
    """One, or an export, with a call of each process; it tells of process 1, too, as nsys's do."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as made, made:
        made.executescript(
            "CREATE TABLE OSRT_API (start INT, end INT, nameId INT, globalTid INT);"
            "CREATE TABLE StringIds (id INT, value TEXT);"
            "CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT)"
        )
        made.execute("INSERT INTO StringIds VALUES (1, ?), (2, ?)", (called, "HOME=/home\0MY_TOKEN="))
        for pid in (1, *pids):
            made.execute("INSERT INTO PROCESSES VALUES (?, ?, 'python')", (1 << 48 | pid << 24, pid))
        made.executemany("INSERT INTO OSRT_API VALUES (1, 2, 1, ?)", [(1 << 48 | pid << 24 | pid,) for pid in pids])
    os.utime(path, (time.time() - age_s, time.time() - age_s))


def kept(traces: Path) -> dict[str, set[str]]:
    return {own.name: {path.name for path in own.iterdir()} - {"tracing.json"} for own in (traces / "hosts").iterdir()}


def call(path: Path) -> str:
    """How the call that an export has is called."""
    with exports.opened(path) as export:
        return next(str(each["name"]) for each in exports.events(export) if each["ph"] == "X")


def test_what_nsys_has_exported_is_kept_beside_its_report(made: Path, program: Path) -> None:
    traces = ranks(made)
    (made / "report1.nsys-rep").write_text("a report")
    report(made / "report1.sqlite", os.getpid(), called="of its own")
    (made / "cache.sqlite").write_text("the script's, and no trace")
    assert keep_written(traces) == ()
    assert kept(traces) == {"h0": {"report1.nsys-rep", "report1.sqlite"}}
    assert call(traces / "hosts/h0/report1.sqlite") == "of its own"


def test_a_report_that_was_not_exported_is_where_nsys_is(made: Path, program: Path) -> None:
    traces = ranks(made)
    report(made / "report1.nsys-rep", os.getpid(), called="new", age_s=1)
    report(made / "report1.sqlite", os.getpid(), called="of a report before", age_s=1.5)
    assert keep_written(traces) == ()
    assert call(traces / "hosts/h0/report1.sqlite") == "new"
    program.write_text("#!/bin/sh\nexit 1")  # what is there is not made again
    assert keep_written(traces) == ()


def test_why_nsys_could_not_export_is_said(made: Path, program: Path) -> None:
    traces = ranks(made)
    report(made / "report1.nsys-rep", os.getpid())
    program.write_text("#!/bin/sh\necho 'unknown   version' >&2; echo half > \"$7\"; exit 1")
    assert keep_written(traces) == (
        f"{made}/report1.nsys-rep: its events are not in the archive: `nsys export` failed: unknown version",
    )
    assert kept(traces) == {"h0": {"report1.nsys-rep"}}
    program.write_text('#!/bin/sh\necho half > "$7"')
    (said,) = keep_written(traces)
    assert "its events are not in the archive: it cannot be read as an export of nsys: " in said
    program.unlink()
    assert keep_written(traces) == (), "`e2c-dl export` tells what is to be done"


def test_of_four_ranks_in_one_directory_each_has_its_own_report(made: Path, program: Path) -> None:
    pids = [70_000 + rank for rank in range(4)]
    traces = ranks(made, *pids)
    for rank, pid in enumerate(pids):
        report(made / f"rep{3 - rank}.nsys-rep", pid)
    report(made / "launcher.nsys-rep", *pids[::-1])
    assert keep_written(traces) == ()
    names = {f"h{rank}": {f"rep{3 - rank}.nsys-rep", f"rep{3 - rank}.sqlite"} for rank in range(4)}
    names["h0"] |= {"launcher.nsys-rep", "launcher.sqlite"}
    assert kept(traces) == names
    assert {path.name for path in traces.iterdir()} == {"hosts"}


def test_a_report_of_no_rank_is_left_out_and_that_is_said(made: Path, program: Path) -> None:
    traces = ranks(made, 70_000, 70_001)
    report(made / "other.nsys-rep", 70_002)
    (said,) = keep_written(traces)
    assert said == (
        f"{made}/other.nsys-rep: is not in the archive: none of the processes that it has events of is a rank of this "
        "training"
    )
    elsewhere = json.loads((traces / "hosts/h1/tracing.json").read_text()) | {"boot": "of another", "pid": 70_002}
    (traces / "hosts/h1/tracing.json").write_text(json.dumps(elsewhere))
    assert keep_written(traces) == (), "its own machine keeps it"
    assert kept(traces) == {"h0": set(), "h1": set()}


def test_without_an_export_it_is_beside_the_lowest_rank_there(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    traces = ranks(made, os.getpid(), os.getpid())
    report(made / "report1.nsys-rep", 70_001)
    told = f"{made}/report1.nsys-rep: only its export would tell which rank's it is: it stands beside h0's"
    assert keep_written(traces) == (told,)
    assert kept(traces) == {"h0": {"report1.nsys-rep"}, "h1": set()}


def test_a_script_that_goes_elsewhere_leaves_its_report_where_it_began(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made / "outputs").mkdir()
    traces = ranks(made, directory=str(made / "outputs"), began_in=str(made))
    (made / "report1.nsys-rep").write_text("where nsys was")
    (made / "outputs" / "report1.nsys-rep").write_text("where the script was")
    assert keep_written(traces) == ()
    found = {path.name: path.read_text() for path in (traces / "hosts/h0").glob("report*")}
    assert found == {"report1.nsys-rep": "where the script was", "report1-2.nsys-rep": "where nsys was"}
    monkeypatch.chdir(made)
    assert Settings(archive=traces).environment({})["E2CDL_DIRECTORY"] == str(made)


@pytest.mark.parametrize("exported", [True, False])
def test_no_environment_comes_into_the_archive(
    exported: bool, made: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "planted-planted")
    traces = ranks(made)
    report(made / "report1.nsys-rep", os.getpid())
    with closing(sqlite3.connect(made / "report1.nsys-rep")) as made_, made_:
        made_.execute("UPDATE StringIds SET value = value || 'planted-planted' WHERE id = 2")
    if not exported:
        monkeypatch.setenv("PATH", "/nowhere")
    (said,) = keep_written(traces)
    assert said.startswith(f"{made}/report1.nsys-rep: is not in the archive: it holds what looks like a secret (MY_TOK")
    assert kept(traces) == {"h0": {"report1.sqlite"} if exported else set()}
    files = [path for path in traces.rglob("*") if path.is_file()]
    assert not any(b"planted" in path.read_bytes() or b"HOME" in path.read_bytes() for path in files)


def counting(program: Path, counted: Path) -> None:
    """nsys adds a line to ``counted`` for each export."""
    program.write_text(f'#!/bin/sh\necho "$8" >> {counted}; cat "$8" > "$7"')


@pytest.mark.parametrize("known", [True, False])
def test_a_report_that_is_withheld_is_exported_once(
    known: bool, made: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if known:
        monkeypatch.setenv("MY_TOKEN", "planted-planted")
    traces = ranks(made)
    report(made / "report1.nsys-rep", os.getpid())
    with closing(sqlite3.connect(made / "report1.nsys-rep")) as made_, made_:
        made_.execute("UPDATE StringIds SET value = value || 'planted-planted' WHERE id = 2")
    counting(program, made / "counted")
    for times in range(3):
        told: list[str] = []
        (said,) = keep_written(traces, told.append)
        where = "MY_TOKEN" if known or not times else "in an environment"
        why = f"it holds what looks like a secret ({where}); its events are"
        assert said == f"{made}/report1.nsys-rep: is not in the archive: {why}"
        assert told == ([] if times else [f"nsys exports {made}/report1.nsys-rep"])
        if times == 1:
            program.unlink()
    assert (made / "counted").read_text() == f"{made}/report1.nsys-rep\n"
    assert kept(traces) == {"h0": {"report1.sqlite"}}


def test_what_was_written_after_the_training_is_never_exported(made: Path, program: Path) -> None:
    traces = ranks(made, begun_s=time.time() - 3600)
    outcome = {"format": 2, "status": "finished", "rank": 0, "iterations_done": 1, "seconds": 1}
    (traces / "hosts/h0/outcome.json").write_text(json.dumps(outcome | {"ended_s": time.time() - 3000}))
    report(made / "report1.nsys-rep", os.getpid() + 1)
    counting(program, made / "counted")
    assert keep_written(traces) == (
        f"{made}/report1.nsys-rep: is not in the archive: it was written after this training",
    )
    assert not (made / "counted").exists()


def test_nor_where_it_is_killed_as_nsys_exports(made: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces, exported = ranks(made), made / "exported"
    report(made / "report1.nsys-rep", os.getpid(), called="planted")
    program.write_text(f'#!/bin/sh\ncat "$8" > "$7"; echo > {exported}; exec sleep 60')
    temporary = made.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    asked = subprocess.Popen([sys.executable, "-m", "e2c_dl.tracing.left", str(traces)], start_new_session=True)
    try:
        while not exported.exists():
            assert asked.poll() is None
            time.sleep(0.02)
    finally:
        os.killpg(asked.pid, signal.SIGKILL)
        asked.wait()
    assert {path for path in traces.rglob("*") if path.is_file()} == {traces / "hosts/h0/tracing.json"}


def test_a_report_whose_command_holds_a_secret_is_left_out(made: Path) -> None:
    traces = ranks(made)
    command = "nsys profile -t nvtx python main.py --lr 1 \xc2"
    (made / "report1.nsys-rep").write_text(f"\1\2{command}")
    (made / "report2.nsys-rep").write_text(f"\1\2{command.replace('--lr 1', '--auth planted-1')}")
    (said,) = keep_written(traces)
    assert said.startswith(f"{made}/report2.nsys-rep: is not in the archive")
    assert "(its command)" in said
    assert kept(traces) == {"h0": {"report1.nsys-rep"}}


def test_one_process_at_a_time_makes_an_archive_of_them(made: Path) -> None:
    traces = ranks(made)
    with held(traces), pytest.raises(ArchiveBusy):
        collected([traces], traces)
    with held(traces, shared=True), held(traces, shared=True), pytest.raises(ArchiveBusy):
        collected([traces], traces)
    with held(traces):
        pass
