"""What a script's rank has of its processors: counted in its facts, told where others have them for long."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from test_ports_of_scripts import RANKS, Recording
from test_traced_script import traced

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import ProcessorFacts
from e2c_dl.diagnosis.diagnose import read_run
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.check import MOST_WAITED_US
from e2c_dl.trace.model import Phase
from e2c_dl.tracing.looks import Looks
from e2c_dl.tracing.rows import Processor, Rows
from e2c_dl.tracing.samplers.counters import EVERY_S
from e2c_dl.tracing.samplers.processors import Processors


def counted(root: Path, ran_ns: int, waited_ns: int) -> None:
    folder = root / f"proc/self/task/{threading.get_native_id()}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"{ran_ns} {waited_ns} 7\n")


def processor_of(folder: Path) -> ProcessorFacts | None:
    facts = HostRecords(folder).facts()
    assert facts is not None
    return facts.processor


def test_facts_hold_what_the_training_thread_had_up_to_now_and_at_the_end(tmp_path: Path) -> None:
    counted(tmp_path, 10**9, 10**9)
    recording, processors = Recording(tmp_path), Processors(tmp_path)
    processors.on_ready(RANKS, recording)
    counted(tmp_path, 4 * 10**9, 2 * 10**9)
    assert processors._look_again() == EVERY_S
    assert processor_of(tmp_path) == ProcessorFacts(ran_s=3.0, waited_s=1.0)
    counted(tmp_path, 4 * 10**9, 4 * 10**9)
    processors.on_end()
    told = processor_of(tmp_path)
    assert told == ProcessorFacts(ran_s=3.0, waited_s=3.0)
    assert told.waited_share == 0.5
    assert ProcessorFacts(ran_s=0.0, waited_s=0.0).waited_share == 0.0


def test_it_says_what_the_thread_has_had_by_now(tmp_path: Path) -> None:
    counted(tmp_path, 100, 200)
    processors = Processors(tmp_path)
    assert Looks([processors]).seen() is None, "before it began"
    processors.on_ready(RANKS, Recording(tmp_path))
    looks = Looks([processors])
    counted(tmp_path, 150, 290)
    assert Processor.of(looks.seen()) == Processor(ran=150, waited=290)
    processors.on_end()
    assert looks.seen() is None


@pytest.mark.parametrize("look", [None, b"", b"1 2", b"1 x 3", b"another file's\n"])
def test_what_is_no_count_tells_nothing(look: bytes | None) -> None:
    assert Processor.of(look) is None


def test_nothing_is_said_where_the_kernel_does_not_count(tmp_path: Path) -> None:
    recording, processors = Recording(tmp_path), Processors(tmp_path)
    processors.on_ready(RANKS, recording)
    assert processors.processor() is None
    processors.on_end()
    assert processor_of(tmp_path) is None
    assert recording.limitations == []


def test_a_file_that_has_its_number_by_the_end_stays_open(tmp_path: Path) -> None:
    counted(tmp_path, 0, 0)
    processors = Processors(tmp_path)
    processors.on_ready(RANKS, Recording(tmp_path))
    number = processors._file
    assert number is not None
    os.close(number)  # as os.closerange does
    with (tmp_path / "others").open("w") as file:
        assert file.fileno() == number
        processors.on_end()
        file.write("mine")
    assert (tmp_path / "others").read_text() == "mine"


def test_a_full_disk_is_told_once_and_ends_the_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(tmp_path, 0, 0)
    recording, processors = Recording(tmp_path), Processors(tmp_path)
    processors.on_ready(RANKS, recording)

    def full(*_: object, **__: object) -> None:
        raise ArchiveError("no space")

    monkeypatch.setattr(HostRecords, "amend_facts", full)
    assert processors._look_again() is None
    assert recording.limitations == ["how long it waited for a processor ends here: no space"]


CROWDED = """
import os, subprocess, sys, torch
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(100):
    for _ in range(4):
        model(torch.ones(256, 512)).pow(2).mean().backward()
    optimizer.step()
other.kill()
other.wait()
"""


@pytest.mark.slow
def test_a_script_beside_another_program_on_its_processor_is_told_to_have_waited_for_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = traced(tmp_path / "archive", sys.executable, "-c", CROWDED)
    assert done.returncode == 0, done.stderr
    (told,) = (each for each in open_archive(tmp_path / "archive").run.limitations if "processors" in each)
    assert told.startswith("ranks waited for processors that others had, ")


BRIEF = """
import time, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    model(torch.ones(8, 8)).sum().backward()
    time.sleep(0.005)
    optimizer.step()
"""


def test_of_a_script_of_less_than_a_second_every_iteration_but_the_first_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = traced(tmp_path / "archive", sys.executable, "-c", BRIEF)
    assert done.returncode == 0, done.stderr
    (rank,) = read_run(open_archive(tmp_path / "archive"))[0].ranks
    assert [*np.flatnonzero(rank.of(Phase.ITERATION)["seq"] < 0)] == [0], "in which whose trace it is was asked"


def test_who_is_here_is_the_thread_that_trains(tmp_path: Path) -> None:
    counted(tmp_path, 100, 200)
    processors = Processors(tmp_path)
    processors.on_ready(RANKS, Recording(tmp_path))
    looks, found = Looks([processors]), []
    assert Processor.of(looks.seen()) == Processor(100, 200)

    def train() -> None:
        counted(tmp_path, 1000, 5000)
        looks.here()
        found.append(Processor.of(looks.seen()))

    other = threading.Thread(target=train)
    other.start()
    other.join()
    assert found == [Processor(1000, 5000)]
    processors.on_end()


def test_an_iteration_waits_no_longer_than_a_trace_may_say() -> None:
    rows = Rows()
    rows.iterate(0, 0, 0, b"0 0 1", ended=False)
    rows.iterate(1 << 60, 1, 0, ended=True)
    rows.seen(1 << 60, b"0 1152921504606846976 2")
    (row,) = rows.taken()
    assert row[4] == MOST_WAITED_US


MS = 10**6


class Trained:
    """Iterations one after the other; how long each waited for a processor, and how long it slept, nobody tells."""

    def __init__(self) -> None:
        self.rows = Rows()
        self._now_ns = self._ran_ns = self._waited_ns = self._number = 0
        self.rows.iterate(0, 0, 0, self._look(), ended=False)

    def _look(self) -> bytes:
        return f"{self._ran_ns} {self._waited_ns} 1\n".encode()

    def went_on(self, *, ran_ms: int = 0, waited_ms: int = 0, slept_ms: int = 0) -> None:
        self._now_ns += (ran_ms + waited_ms + slept_ms) * MS
        self._ran_ns += ran_ms * MS
        self._waited_ns += waited_ms * MS

    def ended(self) -> None:
        self._number += 1
        self.rows.iterate(self._now_ns, self._number, self._ran_ns, ended=True)

    def written(self) -> list[float]:
        """Milliseconds that each waited which has ended since the last time."""
        self.rows.seen(self._now_ns, self._look())
        return [row[4] / 1e3 for row in self.rows.taken()]


def test_of_iterations_that_are_looked_at_together_that_one_waited_which_did_not_run() -> None:
    trained = Trained()
    for waited_ms in (0, 30, 0, 10):
        trained.went_on(ran_ms=50, waited_ms=waited_ms)
        trained.ended()
    assert trained.written() == [0, 30, 0, 10]


def test_who_sleeps_beside_them_is_told_a_part_of_what_the_others_waited() -> None:
    trained = Trained()
    trained.went_on(ran_ms=50, waited_ms=20)
    trained.ended()
    trained.went_on(ran_ms=50, slept_ms=60)
    trained.ended()
    assert trained.written() == [5, 15], "in proportion to what each did not run"


def test_what_an_iteration_waited_before_it_is_looked_at_is_its_own() -> None:
    trained = Trained()
    trained.went_on(ran_ms=50, waited_ms=10)
    trained.ended()
    trained.went_on(ran_ms=20, waited_ms=15)  # under way
    assert trained.written() == [10]
    trained.went_on(ran_ms=30)
    assert trained.written() == []
    trained.went_on(waited_ms=5)
    trained.ended()
    trained.went_on(ran_ms=50)
    trained.ended()
    assert trained.written() == [20, 0]


def test_what_is_waited_outside_of_iterations_is_none_of_theirs() -> None:
    trained = Trained()
    trained.went_on(ran_ms=50, waited_ms=10)
    trained.ended()
    trained.rows.iterate(trained._now_ns, -1, trained._ran_ns, trained._look(), ended=False)
    trained.went_on(ran_ms=500, waited_ms=300)
    trained.rows.iterate(trained._now_ns, 1, trained._ran_ns, trained._look(), ended=False)
    trained.went_on(ran_ms=50, slept_ms=100)
    trained.ended()
    assert trained.written() == [10, 0]


def test_where_the_kernel_ends_to_count_nothing_is_told_from_there_on() -> None:
    trained = Trained()
    trained.went_on(ran_ms=50, waited_ms=10)
    trained.ended()
    trained.rows.seen(trained._now_ns, None)
    assert [row[4] for row in trained.rows.taken()] == [-1]
