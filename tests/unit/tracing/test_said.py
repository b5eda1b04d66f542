"""What a rank says of its tracing is on disk as it comes, however the script ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from full_disks import small_files
from socket_pairs import connected, send

from e2c_dl.tracing.rendezvous import Alone, meet, own_peer
from e2c_dl.tracing.said import Said
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings


@pytest.fixture
def said(tmp_path: Path) -> Said:
    made = Said()
    made.hooked("before the ranks met")
    made.begin(tmp_path, meet(own_peer(0, {}), 1, Alone()), "edge")
    return made


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "tracing.json").read_text())
    return found


def test_what_is_added_is_written_with_the_next_spans_and_a_trace_at_once(said: Said, tmp_path: Path) -> None:
    assert (told(tmp_path)["hooked"], told(tmp_path)["layer"]) == (["before the ranks met"], "edge")
    said.hooked("more")
    said.limited("one thing")
    said.limited("one thing")
    assert told(tmp_path)["limitations"] == []
    said.refresh()
    assert (told(tmp_path)["limitations"], told(tmp_path)["hooked"][1:]) == (["one thing"], ["more"])
    said.wrote(tmp_path / "timeline.json")
    assert told(tmp_path)["wrote"] == [str(tmp_path / "timeline.json")]
    before = (tmp_path / "tracing.json").stat().st_ino
    said.wrote(tmp_path / "timeline.json")
    said.refresh()
    assert (tmp_path / "tracing.json").stat().st_ino == before, "nothing new, nothing is written"


def test_what_no_disk_takes_is_tried_again(said: Said, tmp_path: Path) -> None:
    said.limited("one thing")
    with small_files(10):
        said.refresh()
    assert told(tmp_path)["limitations"] == []
    said.refresh()
    assert told(tmp_path)["limitations"] == ["one thing"]


def test_once_no_spans_are_written_all_is_at_once(said: Said, tmp_path: Path) -> None:
    said.alone()
    said.limited("late")
    assert told(tmp_path)["limitations"] == ["late"]
    said.move_out()
    (tmp_path / "tracing.json").unlink()
    said.limited("later")
    assert not (tmp_path / "tracing.json").exists()


def test_what_is_no_path_is_said_and_harms_nobody(said: Said, tmp_path: Path) -> None:
    said.wrote(7)  # type: ignore[arg-type]
    assert "7: a trace of the script's own is not in the archive" in told(tmp_path)["limitations"][0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_writes_nothing(said: Said, tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        said.wrote("elsewhere.json")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert told(tmp_path)["wrote"] == []


def test_what_sockets_tell_has_the_cap_of_the_settings(tmp_path: Path) -> None:
    session = Session(Settings(archive=tmp_path, cap_bytes=70_000))
    with connected() as pair:
        session.meet(0, 1)
        now_ns = session.clock()
        for _ in range(400):
            send(pair, 100)
            now_ns += 10_000_000
            session.end_iteration(now_ns)
        session.wrote(tmp_path / "trace.json")
        session.end()
    assert 15_000 < (session.folder / "connections.bin").stat().st_size <= 70_000
    assert json.loads((session.folder / "facts.json").read_text())["sockets"]["dropped"] > 0
    assert told(session.folder)["wrote"] == [str(tmp_path / "trace.json")]


EXPORTING = """
import os, sys, torch
from torch.profiler import ProfilerActivity, _KinetoProfile, profile
archive, made = sys.argv[1:]
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
step()
step()
class Own(_KinetoProfile):
    pass
for number, kind in enumerate((profile, _KinetoProfile, Own)):
    os.mkdir(f"{made}/{number}")
    with kind(activities=[ProfilerActivity.CPU]) if kind is profile else torch.autograd.profiler.profile() as profiler:
        step()
    if kind is profile:
        profiler.export_chrome_trace(f"{made}/{number}/trace.json.gz")
        continue
    profiler.export_chrome_trace(f"{made}/{number}/trace.timeline")
    other = kind(activities=[ProfilerActivity.CPU])
    other.start()
    step()
    other.stop()
    other.export_chrome_trace(f"{made}/{number}/trace.json")
os._exit(5)
"""


def test_every_profilers_export_is_known_when_the_script_ends_without_a_word(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "made").mkdir()
    command = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "trace", "--archive"]
    command += [str(tmp_path / "archive"), "--", sys.executable, "-c", EXPORTING, str(tmp_path / "archive")]
    done = subprocess.run([*command, str(tmp_path / "made")], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 5, done.stderr
    (own,) = (tmp_path / "archive" / "hosts").iterdir()
    wrote = [Path(path).relative_to(tmp_path / "made").as_posix() for path in told(own)["wrote"]]
    assert wrote == ["0/trace.json.gz", "1/trace.timeline", "1/trace.json", "2/trace.timeline", "2/trace.json"]
    kept = ["trace.json.gz", "trace.timeline", "trace.json", "trace-2.timeline", "trace-2.json"]
    for source, name in zip(wrote, kept, strict=True):
        assert (own / name).read_bytes() == (tmp_path / "made" / source).read_bytes()
