"""The trace recorder: what is recorded can be read, whatever cuts it off; the clock exchange."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.model import SPAN, Phase
from e2c_dl.trace.recorder import Recorder, read_spans


def recorder(path: Path, **options: int) -> Recorder:
    return Recorder(path, rank=3, host="fog-1", layer="fog", **options)


def test_every_field_is_read_back(tmp_path: Path) -> None:
    with recorder(tmp_path / "spans.bin") as recording:
        who = {"task": 4, "peer_task": 11, "src": 7, "dst": 8}
        what = {"iteration": 5, "bucket": 6, "seq": 9, "nbytes": 10, "staleness": 12}
        recording.record(Phase.SEND, 1, 2, 3, **who, **what)
    facts, spans, complete = read_spans(tmp_path / "spans.bin")
    assert (facts.rank, facts.host, facts.layer) == (3, "fog-1", "fog")
    assert not complete
    row = dict(zip(SPAN.names or (), spans[0].item(), strict=True))
    assert row == {
        "posted_ns": 1, "start_ns": 2, "end_ns": 3, "task": 4, "iteration": 5, "bucket": 6, "src": 7, "dst": 8,
        "seq": 9, "nbytes": 10, "peer_task": 11, "staleness": 12, "phase": Phase.SEND, "kind": 0,
    }  # fmt: skip


def test_any_cut_leaves_the_whole_records_before_it(tmp_path: Path) -> None:
    whole = tmp_path / "whole.bin"
    with recorder(whole) as recording:
        for number in range(3):
            recording.record(Phase.STEP, number, number, number)
        recording.record(Phase.TRAINING, 0, 0, 9)
    content = whole.read_bytes()
    begin = len(content) - 4 * SPAN.itemsize
    assert read_spans(whole)[2]
    for length in range(len(content)):
        cut = tmp_path / "cut.bin"
        cut.write_bytes(content[:length])
        if length < begin:
            with pytest.raises(ArchiveError, match=r"cut\.bin"):
                read_spans(cut)
        else:
            _, spans, complete = read_spans(cut)
            assert len(spans) == (length - begin) // SPAN.itemsize
            assert not complete


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spans.bin"
    path.write_bytes(b"PAR1" * 100)
    with pytest.raises(ArchiveError, match="not a trace"):
        read_spans(path)


def test_threads_lose_nothing(tmp_path: Path) -> None:
    with recorder(tmp_path / "spans.bin", capacity=16) as recording:

        def work(task: int) -> None:
            for number in range(500):
                recording.record(Phase.STEP, number, number, number, task=task)

        threads = [threading.Thread(target=work, args=(task,)) for task in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    spans = read_spans(tmp_path / "spans.bin")[1]
    for task in range(4):
        assert spans["posted_ns"][spans["task"] == task].tolist() == list(range(500))


def test_spans_reach_the_file_while_nothing_more_happens(tmp_path: Path) -> None:
    with Recorder(tmp_path / "s.bin", rank=0, host="h", layer="l", flush_every_s=0.001) as recording:
        recording.record(Phase.STEP, 1, 1, 1)
        give_up = time.monotonic() + 30
        while not len(read_spans(tmp_path / "s.bin")[1]) and time.monotonic() < give_up:
            pass
        assert len(read_spans(tmp_path / "s.bin")[1]) == 1


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="/dev/full: cannot write the trace: No space left"):
        recorder(Path("/dev/full"))


@contextmanager
def small_files() -> Iterator[None]:
    """No longer than needed: the limit holds for whatever pytest writes into a file, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_becomes_full_fails_whoever_records_next(tmp_path: Path) -> None:
    recording = recorder(tmp_path / "spans.bin")
    for number in range(20):
        recording.record(Phase.STEP, number, number, number)
    with small_files(), pytest.raises(TrainingError, match="cannot write the trace"):
        recording.flush()
    with pytest.raises(TrainingError, match="cannot write the trace"):
        recording.record(Phase.STEP, 0, 0, 0)
    with pytest.raises(TrainingError, match="cannot write the trace"):
        recording.close()
