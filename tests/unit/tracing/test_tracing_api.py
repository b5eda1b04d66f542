"""The three lines: the example of the documentation, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_raising_scripts import attached

from e2c_dl import tracing as trace
from e2c_dl.errors import InputError
from e2c_dl.trace.model import Phase
from e2c_dl.trace.store import read_trace
from e2c_dl.tracing.left import keep_written


def example(repository: Path) -> str:
    page = (repository / "docs/tracing.md").read_text(encoding="utf-8")
    return page.partition("```python\n")[2].partition("```")[0]


def test_the_documented_example_leaves_what_it_says(repository: Path, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(example(repository))
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (rank,) = read_trace(tmp_path / "traces/mine").ranks
    found = Counter(Phase(phase).name for phase in rank.spans["phase"])
    assert (found["ITERATION"], found["COLLECTIVE"], found["TRAINING"], rank.complete) == (100, 100, 1, True)
    iterations = rank.spans["iteration"][rank.spans["phase"] == Phase.ITERATION]
    assert list(iterations) == list(range(100))
    (told,) = (tmp_path / "traces/mine/hosts").glob("*/tracing.json")
    assert json.loads(told.read_text())["world_size"] == 1


KILLED = """
import os, torch
from e2c_dl import tracing as trace
with trace.run("mine"):
    for number in trace.iteration(range(3)):
        with torch.profiler.profile() as profiler, trace.span("forward"):
            torch.ones(2).sum()
    profiler.export_chrome_trace("of-torch.txt")
    os.kill(os.getpid(), 9)
"""


def test_traces_that_libraries_write_meanwhile_are_known_even_of_a_script_that_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = {**os.environ, "HOROVOD_TIMELINE": "of-horovod"}
    subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, capture_output=True, check=False)
    (own,) = (tmp_path / "mine/hosts").iterdir()
    wrote = json.loads((own / "tracing.json").read_text())["wrote"]
    assert wrote == [str(tmp_path / name) for name in ("of-horovod", "of-torch.txt")]
    (problem,) = keep_written(tmp_path / "mine")
    assert problem == f"{tmp_path}/of-horovod: is not in the archive: No such file or directory"
    assert (own / "of-torch.txt").is_file()


def test_a_phase_that_there_is_not_is_told_with_the_closest() -> None:
    with pytest.raises(InputError, match="'forwrd' is no phase; did you mean 'forward'"), trace.span("forwrd"):
        pass


def test_a_number_is_one_iteration_and_no_loop() -> None:
    with pytest.raises(InputError, match="is one iteration: write `with`"):
        next(iter(trace.iteration(3)))


def test_outside_of_a_run_nothing_is_recorded(tmp_path: Path) -> None:
    for _ in trace.iteration(range(3)):
        with trace.span("step"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rank 3 of 2 is none"), trace.run(tmp_path, rank=3, world_size=2):
        pass


EPOCHS = """
from e2c_dl import tracing as trace
with trace.run("mine"):
    for epoch in range(2):
        for number in trace.iteration(iter("abcde")):
            with trace.span("forward"):
                pass
    for number in trace.iteration(range(3)):
        with trace.span("step"):
            if number == 1:
                break
    late = iter(trace.iteration(range(2)))
    next(late)
    for number in trace.iteration(range(2)):
        if number == 1:
            late = None
    with trace.iteration(20):
        pass
    for number in trace.iteration(range(1)):
        pass
"""


def test_iterations_of_one_loop_after_another_are_numbered_on(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", EPOCHS], cwd=tmp_path, check=True)
    (rank,) = read_trace(tmp_path / "mine").ranks
    iterations = rank.spans["iteration"][rank.spans["phase"] == Phase.ITERATION]
    assert list(iterations) == [*range(14), 20, 21], "11 was left by a break"
    (outcome,) = (tmp_path / "mine/hosts").glob("*/outcome.json")
    assert json.loads(outcome.read_text())["iterations_done"] == 22


LEFT = """
import time
from e2c_dl import tracing as trace
with trace.run("mine"):
    for epoch in range(2):
        batches = iter(trace.iteration(range(9)))
        for _ in range(3):
            next(batches)
            with trace.span("forward"):
                time.sleep(0.01)
        with trace.span("evaluate"):
            time.sleep(0.3)
    batches.close()
    for epoch in range(3):
        for _ in zip(trace.iteration(range(9)), range(4)):
            with trace.span("step"):
                time.sleep(0.001)
"""


def test_an_iteration_that_a_loop_is_left_in_ends_with_its_work_and_without_any_is_none(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LEFT], cwd=tmp_path, check=True)
    (rank,) = read_trace(tmp_path / "mine").ranks
    iterations = rank.spans[rank.spans["phase"] == Phase.ITERATION]
    assert list(iterations["iteration"]) == list(range(2 * 3 + 3 * 4))
    lasted_ns = iterations["end_ns"] - iterations["start_ns"]
    assert (lasted_ns.min() > 1_000_000, lasted_ns.max() < 200_000_000) == (True, True)


STEPPED = """
import time, torch
from e2c_dl import tracing as trace
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = torch.utils.data.DataLoader(torch.ones(32, 8), batch_size=8)
for epoch in range(3):
    numbers = trace.iteration(range(9))
    for _, batch in zip(numbers, batches):
        model(batch).sum().backward()
        optimizer.step()
    numbers = iter(trace.iteration(range(9)))
    for number in numbers:
        model(batch).sum().backward()
        optimizer.step()
        if number == 1:
            break
    with torch.no_grad():
        model(batch)
    time.sleep(0.3)
"""


def test_a_step_of_torchs_is_work_of_an_iteration_and_a_batch_is_none(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ((spans, _),) = attached(tmp_path, "-c", STEPPED).values()
    iterations = spans[spans["phase"] == Phase.ITERATION]
    assert list(iterations["iteration"]) == list(range(3 * (4 + 2)))
    assert (iterations["end_ns"] - iterations["start_ns"]).max() < 200_000_000


RANKS = """
import sys
from e2c_dl import tracing as trace
told = {"rank": int(sys.argv[1]), "world_size": 2} if sys.argv[1:] else {}
with trace.run("mine", **told):
    for number in trace.iteration(range(3)):
        pass
"""


@pytest.mark.parametrize("told", ["by the script", "by its environment"])
def test_ranks_of_one_machine_that_do_not_know_of_each_other_are_all_traced(told: str, tmp_path: Path) -> None:
    begun = []
    for rank in ("0", "1"):
        words, environment = ([rank], {}) if told == "by the script" else ([], {"E2CDL_RANK": rank})
        begun.append(
            subprocess.Popen(
                [sys.executable, "-c", RANKS, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "E2CDL_WORLD_SIZE": "2", **environment},
            )
        )  # fmt: skip
    assert [each.communicate(timeout=100)[1] for each in begun] == ["", ""]
    assert sorted(rank.rank for rank in read_trace(tmp_path / "mine").ranks) == [0, 1]
    again = [sys.executable, "-c", RANKS, "1"]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "rank 1 was traced there before; use another archive" in done.stderr
    assert len(list((tmp_path / "mine/hosts").iterdir())) == 2


SEVERAL = """
from e2c_dl import tracing as trace
import sys
before = sys.excepthook
for name in ("a", "b", "c"):
    with trace.run(name, layer=name):
        for number in trace.iteration(range(3)):
            with trace.span("collective", kind="all_reduce", nbytes=8):
                pass
    assert before in [cell.cell_contents for cell in sys.excepthook.__closure__], "it is wrapped once"
"""


def test_several_runs_of_one_process_leave_an_archive_each(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SEVERAL], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for name in ("a", "b", "c"):
        (rank,) = read_trace(tmp_path / name).ranks
        found = Counter(Phase(phase).name for phase in rank.spans["phase"])
        assert (found["ITERATION"], found["COLLECTIVE"], rank.layer) == (3, 3, name)
        assert set(rank.spans["seq"][rank.spans["phase"] == Phase.COLLECTIVE]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"nbytes": 4e3}, "nbytes=4000.0 is no whole number"),
        ({"nbytes": -1}, "nbytes=-1 is not within 0 and "),
        ({"nbytes": 2 << 40}, "nbytes=2199023255552 is not within 0 and 1099511627776"),
        ({"bucket": 1 << 15}, "bucket=32768 is not within -1 and 32767"),
        ({"group": 1 << 40}, "group=1099511627776 is not within -2 and "),
        ({"kind": "all_redcue"}, "'all_redcue' is no kind; did you mean 'all_reduce'"),
    ],
)
def test_what_no_span_can_tell_is_refused_before_its_block(told: dict[str, Any], said: str) -> None:
    ran = False
    with pytest.raises(InputError, match=re.escape(said)), trace.span("collective", **told):
        ran = True
    assert not ran


THREADS = """
import threading, time
from e2c_dl import tracing as trace
from e2c_dl.errors import InputError

def train():
    for number in trace.iteration(range(3)):
        with trace.span("forward"):
            time.sleep(0.001)

def another():
    try:
        with trace.run("other"):
            train()
    except InputError as error:
        print(error)
    train()
    with trace.span("data"):
        time.sleep(0.001)

def beside(what):
    thread = threading.Thread(target=what)
    thread.start()
    thread.join()

with trace.run("here"):
    train()
    with trace.run("inner"):
        train()
    beside(another)
    train()
with trace.run("elsewhere"):
    beside(train)
"""


def test_one_thread_trains_and_a_run_within_another_is_a_part_of_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "another thread of this process has a run" in done.stdout
    assert {each.name for each in tmp_path.iterdir()} == {"here", "elsewhere"}
    for name, iterations, said in (("here", 9, True), ("elsewhere", 3, False)):
        (rank,) = read_trace(tmp_path / name).ranks
        found = Counter(Phase(phase).name for phase in rank.spans["phase"])
        assert (found["ITERATION"], found["FORWARD"], found["DATA"]) == (iterations, iterations, 0)
        (told,) = (tmp_path / name / "hosts").glob("*/tracing.json")
        assert ("other threads" in str(json.loads(told.read_text())["limitations"])) is said
    ((spans, _),) = attached(tmp_path / "command", "-c", THREADS).values()
    assert (spans["phase"] == Phase.ITERATION).sum() == 9, "nor does it end there where the command traces"
