"""How a process ended is known as it ends: by whatever way, and whoever has caught what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_traced_script import traced

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import Cause

WATCHED = """
import atexit, sys, threading
from e2c_dl.tracing.ends import Ending
ending = Ending()
atexit.register(lambda: print("told", repr(ending.failure())))
def mine(*_):
    print("mine")
"""

WAYS = {
    "": "''",
    "sys.exit()": "''",
    "sys.exit(0)": "''",
    "sys.exit(4)": "'SystemExit: 4'",
    "exit(5)": "'SystemExit: 5'",
    "sys.exit('bad luck\\nor not')": "'SystemExit: bad luck'",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.exit(3)": "'SystemExit: 3'",
    "try:\n    sys.exit(4)\nexcept SystemExit:\n    pass": "''",
    "try:\n    sys.exit(4)\nexcept SystemExit:\n    sys.exit(0)": "''",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.excepthook(*sys.exc_info())": "''",
    "sys.excepthook = mine\n1 / 0": "'ZeroDivisionError: division by zero'",
    "thread = threading.Thread(target=sys.exit, args=(4,))\nthread.start()\nthread.join()": "''",
    "raise SystemExit(4)": "None",
    "def test():\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n        sys.last_value = error\n"
    "test()\nraise SystemExit(0)": "None",
}


@pytest.mark.parametrize("way", WAYS)
def test_how_a_process_ends_is_told_as_it_does(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED + way], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.splitlines()[-1] == f"told {WAYS[way]}"
    assert done.stdout.count("told") == 1


OPEN = """
import sys, torch
left = open(sys.argv[1], "w")
def wrote():
    left.write("all of it")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
wrote()
"""


@pytest.mark.parametrize("way", ["", "sys.exit(4)", "1 / 0"])
def test_a_file_that_a_script_leaves_open_is_written_as_it_ends(way: str, tmp_path: Path) -> None:
    """By Python, once nobody holds it: functions hold what is global, and frames do."""
    pytest.importorskip("torch")
    script, left = tmp_path / "main.py", tmp_path / "left"
    script.write_text(OPEN + way, encoding="utf-8")
    traced(tmp_path / "archive", sys.executable, str(script), str(left))
    assert left.read_text() == "all of it"


MAIN = """
import sys
def main():
    import torch
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return int(sys.argv[1])
sys.exit(main())
"""


@pytest.mark.parametrize(("status", "cause"), [(0, Cause.FINISHED), (4, Cause.FAILED)])
def test_the_status_of_what_was_looked_up_before_training_is_known(status: int, cause: Cause, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = traced(tmp_path / "archive", sys.executable, "-c", MAIN, str(status))
    assert done.returncode == status
    archive = open_archive(tmp_path / "archive")
    (outcome,) = archive.outcomes(archive.hosts).values()
    assert outcome is not None and outcome.cause is cause, outcome
    assert not any("exit status" in each for each in archive.trace().connections.limitations)


HELD_BACK = """
import os, signal, time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)  # a scheduler's
time.sleep(0.1)
torch.save(model.state_dict(), os.devnull)
print("saved whole before", signal.sigwait({signal.SIGTERM}).name)
"""


def test_a_signal_that_a_script_holds_back_comes_to_none_of_the_threads_that_watch_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = traced(tmp_path / "archive", sys.executable, "-c", HELD_BACK)
    assert (done.returncode, done.stdout) == (0, "saved whole before SIGTERM\n"), done.stderr
