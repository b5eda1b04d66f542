"""The trace recorder: what is recorded can be read, whatever cuts it off; the clock exchange."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disks import small_files
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace import earlier
from e2c_dl.trace.model import SPAN, Lost, Phase
from e2c_dl.trace.recording.frames import HEAD, SYNC
from e2c_dl.trace.recording.keeping import MOST_HELD
from e2c_dl.trace.recording.recorder import Recorder, Row, read_spans


def recorder(path: Path, **options: Any) -> Recorder:
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


def test_any_cut_leaves_the_whole_frames_before_it(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.bin", tmp_path / "cut.bin"
    with recorder(whole, flush_every_s=3600) as recording:
        for number in range(3):
            recording.record(Phase.STEP, number, number, number)
            recording.flush()
        recording.record(Phase.TRAINING, 0, 0, 9)
    content = whole.read_bytes()
    facts, spans, complete = read_spans(whole)
    assert (len(spans), complete, facts.lost) == (4, True, Lost())
    header = content.index(SYNC, 1)
    frame = HEAD.size + SPAN.itemsize
    for length in range(len(content)):
        cut.write_bytes(content[:length])
        if length < header:
            with pytest.raises(ArchiveError, match=r"cut\.bin"):
                read_spans(cut)
        else:
            facts, spans, complete = read_spans(cut)
            assert len(spans) == min(4, max(0, length - 2 * header) // frame)
            assert complete == (len(spans) == 4 and (length - 2 * header - 4 * frame) in (0, header))
            assert facts.lost == Lost()  # a torn end is how a killed rank's trace ends: "incomplete" says it


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred spans."""
    path = tmp_path_factory.mktemp("recorded") / "spans.bin"
    with recorder(path) as recording:
        for number in range(100):
            recording.record(Phase.STEP, number, number, number)
    return path


@given(data=st.data())
@settings(max_examples=30)
def test_a_flipped_bit_costs_its_frame_and_is_counted(data: st.DataObject, recorded: Path) -> None:
    path = recorded.with_name("flipped.bin")
    content = bytearray(recorded.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    facts, spans, _ = read_spans(path)
    assert facts.lost.damaged_bytes > 0
    assert len(spans) + facts.lost.spans == 100
    assert len(spans) >= 100 - 32


def test_what_earlier_versions_left_is_read(tmp_path: Path) -> None:
    spans = np.zeros(3, dtype=SPAN)
    spans["phase"] = Phase.STEP, Phase.STEP, Phase.TRAINING
    fields = [["reserved" if name == "kind" else name, kind] for name, kind in SPAN.descr]
    text = json.dumps({"rank": 3, "host": "fog-1", "layer": "fog", "dtype": fields}).encode()
    content = earlier.PREFIX.pack(earlier.MAGIC, 1, len(text)) + text + spans.tobytes()
    path = tmp_path / "spans.bin"
    for length in (*range(0, len(content), 13), *range(len(content) - 64, len(content) + 1, 8)):
        path.write_bytes(content[:length])
        if length < len(content) - spans.nbytes:
            with pytest.raises(ArchiveError, match=r"spans\.bin"):
                read_spans(path)
            continue
        facts, found, complete = read_spans(path)
        assert (facts.rank, facts.host, facts.layer, complete) == (3, "fog-1", "fog", length == len(content))
        assert found.tobytes() == spans.tobytes()[: found.nbytes]


def test_with_a_cap_slow_iterations_are_kept(tmp_path: Path) -> None:
    path, cap_bytes = tmp_path / "spans.bin", 200_000
    with recorder(path, cap_bytes=cap_bytes, clock=lambda: 0) as recording:
        for iteration in range(500):
            begin, lasted = iteration * 1000, 100 * (3 if iteration % 50 == 7 else 1)
            for number in range(20):
                recording.record(Phase.STEP, begin, begin + number, begin + lasted, iteration=iteration)
            recording.record(Phase.ITERATION, begin, begin, begin + lasted, iteration=iteration)
            recording.record(Phase.RECEIVE, begin, begin, begin + lasted, iteration=iteration)  # late
        recording.record(Phase.TRAINING, 0, 0, 500_000)
        dropped = recording.dropped
    facts, spans, complete = read_spans(path)
    assert path.stat().st_size <= cap_bytes and complete
    assert facts.lost == Lost(dropped=dropped) and dropped == 500 * 22 + 1 - len(spans) > 0
    of = {iteration: spans[spans["iteration"] == iteration] for iteration in range(500)}
    first = next(iteration for iteration in range(500) if len(of[iteration]) < 22)
    assert first > 30
    assert {len(of[iteration]) for iteration in range(first + 1, 500) if iteration % 50 == 7} == {22}
    others = [len(of[iteration]) for iteration in range(first + 1, 500) if iteration % 50 != 7]
    assert others == [1] * sum(others) + [0] * (len(others) - sum(others)), "a quarter of the cap is for slow ones"
    assert sum(others) > 100


def test_iterations_that_are_not_slow_leave_a_quarter_of_a_cap_to_those_that_are(tmp_path: Path) -> None:
    path, cap_bytes, slow = tmp_path / "spans.bin", 100_000, (900, 4900)
    with recorder(path, cap_bytes=cap_bytes, clock=lambda: 0) as recording:
        for iteration in range(5000):
            begin, lasted = iteration * 1000, 300 if iteration in slow else 100
            for number in range(20):
                recording.record(Phase.STEP, begin, begin + number, begin + lasted, iteration=iteration)
            recording.record(Phase.ITERATION, begin, begin, begin + lasted, iteration=iteration)
    spans = read_spans(path)[1]
    assert path.stat().st_size <= cap_bytes
    assert [int(np.sum(spans["iteration"] == each)) for each in slow] == [21, 21]
    assert np.sum(spans["phase"] == Phase.ITERATION) > cap_bytes / 4 / 112


def test_what_a_cap_keeps_does_not_depend_on_when_it_is_written(tmp_path: Path) -> None:
    kept = []
    for capacity in (1, 4096):
        with recorder(tmp_path / "spans.bin", cap_bytes=40_000, capacity=capacity, clock=lambda: 0) as recording:
            for iteration in range(300):
                lasted = 100 + 400 * (iteration % 17 == 3)
                for _ in range(5):
                    recording.record(Phase.STEP, 0, 0, lasted, iteration=iteration)
                recording.record(Phase.ITERATION, 0, 0, lasted, iteration=iteration)
        kept.append(read_spans(tmp_path / "spans.bin")[1].tobytes())
        assert (tmp_path / "spans.bin").stat().st_size <= 40_000
    assert kept[0] == kept[1]


@pytest.mark.parametrize("by_rows", [False, True])
def test_an_iteration_that_hangs_is_in_the_file_though_it_never_ends(tmp_path: Path, by_rows: bool) -> None:
    """Past half of the cap, too: what waits there would be lost with a rank that is killed."""
    now, told = [0], list[Row]()
    rows = {"rows": lambda: [told.pop(0) for _ in range(len(told))]} if by_rows else {}
    with recorder(tmp_path / "s.bin", cap_bytes=60_000, clock=lambda: now[0], flush_every_s=1e6, **rows) as recording:

        def note(phase: Phase, start: int, end: int, iteration: int) -> None:
            if by_rows:
                told.append((start, start, end, 0, -1, iteration, 0, -2, -1, -1, -1, 0, int(phase), 0))
            else:
                recording.record(phase, start, start, end, iteration=iteration)

        for iteration in range(100):
            for number in range(5):
                note(Phase.STEP, 1000 * iteration, 1000 * iteration + number, iteration)
            note(Phase.ITERATION, 1000 * iteration, 1000 * iteration + 1000, iteration)
            recording.flush()
        found = []
        for now[0], began in ((101_400, 100_000), (101_500, 101_400), (101_500, 101_450)):
            note(Phase.STEP, began, now[0], 100)
            recording.flush()
            spans = read_spans(tmp_path / "s.bin")[1]
            found.append(int(np.sum(spans["iteration"] == 100)))
        assert found == [0, 2, 3]
        assert np.sum(spans["iteration"] == 99) == 1, "others are held to the cap"
        note(Phase.ITERATION, 100_000, 101_600, 100)
    assert np.sum(read_spans(tmp_path / "s.bin")[1]["iteration"] == 100) == 4


def test_many_spans_that_wait_for_the_end_of_their_iteration_are_written_at_the_end(tmp_path: Path) -> None:
    """More than a log has in memory: the thread that writes asks for rows meanwhile."""
    told = [(0, 0, 10, 0, -1, each // 100, 0, -2, -1, -1, -1, 0, int(Phase.STEP), 0) for each in range(25_000)]
    more = [(0, 0, 10, 0, -1, 999, 0, -2, -1, -1, -1, 0, int(Phase.STEP), 0) for _ in range(MOST_HELD - 10)]
    rows: list[list[Row]] = [more, told]
    options = {"rows": lambda: rows.pop() if rows else [], "clock": lambda: 0, "cap_bytes": 5_600_000}
    recording = recorder(tmp_path / "s.bin", flush_every_s=1e6, **options)
    for _ in range(2):
        recording.flush()
    closing = threading.Thread(target=recording.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert np.sum(read_spans(tmp_path / "s.bin")[1]["iteration"] == 999) > 16_384


def test_iterations_that_never_end_take_bounded_memory(tmp_path: Path) -> None:
    with recorder(tmp_path / "spans.bin", cap_bytes=20_000, clock=lambda: 0) as recording:
        for number in range(MOST_HELD + 1000):
            recording.record(Phase.STEP, 0, 0, 1, iteration=number)
        assert recording.dropped >= 900


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


def test_a_disk_that_becomes_full_fails_whoever_records_next(tmp_path: Path) -> None:
    recording = recorder(tmp_path / "spans.bin")
    for number in range(20):
        recording.record(Phase.STEP, number, number, number)
    with small_files(1024), pytest.raises(TrainingError, match="cannot write the trace"):
        recording.flush()
    with pytest.raises(TrainingError, match="cannot write the trace"):
        recording.record(Phase.STEP, 0, 0, 0)
    with pytest.raises(TrainingError, match="cannot write the trace"):
        recording.close()
