"""The framed log: what was appended is read back; what damage, a kill, a full disk or a cap costs is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from full_disks import small_files
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.recording.frames import END, HEADER, MOST_PAYLOAD, SYNC, Frames, Scanner, framed
from e2c_dl.trace.recording.log import Log, read_log

FACTS = {"rank": 3, "host": "fog-1"}


def scanned(content: bytes) -> Frames:
    scanner = Scanner()
    return scanner.result(scanner.feed(content, last=True))


def laid_out(payloads: list[bytes]) -> list[bytes]:
    """The frames of a closed log, one by one."""
    header = framed(HEADER, b'{"rank": 3}', number=0, records=0)
    frames = [framed(1, payload, number=number) for number, payload in enumerate(payloads)]
    return [header, header, *frames, header, framed(END, b"", number=len(payloads), records=0)]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    with Log(tmp_path / "a.bin", FACTS) as log:
        log.append(1, b"one")
        log.append(7, b"")
        log.append(1, SYNC * 3)
    found = read_log(tmp_path / "a.bin")
    assert found.header == FACTS
    assert found.frames == ((1, b"one"), (7, b""), (1, SYNC * 3))
    assert found.whole and found.ended and not found.dropped


def test_records_of_one_length_share_frames(tmp_path: Path) -> None:
    with Log(tmp_path / "a.bin", FACTS, record_bytes=8) as log:
        for number in range(1000):
            log.append(1, number.to_bytes(8, "little"))
    found = read_log(tmp_path / "a.bin")
    assert b"".join(payload for _, payload in found.frames) == b"".join(n.to_bytes(8, "little") for n in range(1000))
    assert found.whole and len(found.frames) < 100
    assert (tmp_path / "a.bin").stat().st_size < 8000 + 1000


PAYLOADS = st.lists(st.binary(max_size=60) | st.just(SYNC * 2), min_size=1, max_size=8)


@given(payloads=PAYLOADS, data=st.data())
def test_a_flipped_bit_loses_its_own_frame_only(payloads: list[bytes], data: st.DataObject) -> None:
    frames = laid_out(payloads)
    content = bytearray(b"".join(frames))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    hit = next(n for n in range(len(frames)) if len(b"".join(frames[: n + 1])) > bit // 8) - 2
    found = scanned(bytes(content))
    assert found.header == {"rank": 3}
    assert [payload for _, payload in found.frames] == [p for number, p in enumerate(payloads) if number != hit]
    assert found.lost_bytes == len(frames[hit + 2])
    assert found.lost_frames == (0 <= hit < len(payloads)) or (hit == len(payloads) + 1 and found.lost_frames <= 1)
    assert not found.whole


@given(payloads=PAYLOADS, data=st.data())
def test_a_cut_leaves_what_was_whole_before_it(payloads: list[bytes], data: st.DataObject) -> None:
    frames = laid_out(payloads)
    content = b"".join(frames)
    length = data.draw(st.integers(0, len(content) - 1))
    ends = [len(b"".join(frames[: number + 1])) for number in range(len(frames))]
    found = scanned(content[:length])
    whole = sum(end <= length for end in ends)
    assert [payload for _, payload in found.frames] == payloads[: max(0, whole - 2)]
    assert found.torn == (length not in (0, *ends)) and not found.ended
    assert found.lost_bytes == length - max([0, *(end for end in ends if end <= length)])
    assert (found.lost_frames > 0) == found.torn


@given(payloads=PAYLOADS, cuts=st.lists(st.integers(0, 400), max_size=5), rubbish=st.binary(max_size=50))
def test_pieces_hold_what_the_whole_holds(payloads: list[bytes], cuts: list[int], rubbish: bytes) -> None:
    frames = laid_out(payloads)
    frames.insert(3, rubbish)
    content = b"".join(frames)
    whole, scanner, found, at = scanned(content), Scanner(), [], 0
    for cut in sorted(cuts):
        found += scanner.feed(content[at:cut])
        at = max(at, cut)
    found += scanner.feed(content[at:], last=True)
    assert scanner.result(found) == whole


@given(content=st.binary(max_size=300).map(lambda some: some.replace(b"\xff", SYNC)))
def test_anything_can_be_scanned(content: bytes) -> None:
    found = scanned(content)
    assert found.lost_bytes <= len(content)


def test_a_file_made_to_cost_time_does_not() -> None:
    hostile = framed(1, bytes(MOST_PAYLOAD), number=0)[:-MOST_PAYLOAD] * 100_000  # each asks for 64 KiB to be checked
    assert scanned(hostile).frames == ()


def test_a_gap_in_the_middle_is_counted_in_records() -> None:
    frames = laid_out([b"a", b"b", b"c", b"d"])
    del frames[3:5]
    found = scanned(b"".join(frames))
    assert found.lost_frames == 2 and found.lost_bytes == 0 and not found.whole


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"PAR1" * 100)
    with pytest.raises(ArchiveError, match=r"a\.bin: cannot read the trace: it is no log"):
        read_log(tmp_path / "a.bin")


KILLED = """
import os, signal, sys, time
from pathlib import Path
from e2c_dl.trace.recording.log import Log
log = Log(Path(sys.argv[1]), {"rank": 0}, flush_every_s=0.05)
for number in range(100):
    log.append(1, number.to_bytes(2, "little"))
print("appended", flush=True)
time.sleep(60)
"""


def test_a_kill_loses_nothing_older_than_the_last_flush(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "appended\n"
        while not path.exists() or len(read_log(path).frames) < 100:
            pass  # it is there within a flush; else this test runs into its time limit
        process.send_signal(signal.SIGKILL)
    found = read_log(path)
    assert len(found.frames) == 100 and not found.ended and found.whole


def test_a_forked_child_writes_nothing_and_does_not_hang(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.bin", FACTS, capacity=4, flush_every_s=3600)
    log.append(1, b"parent")
    with log._writing:  # as if the thread that writes were at it: nobody releases this in the child
        child = os.fork()
        if child == 0:
            for _ in range(20):
                log.append(1, b"child")
            log.flush()
            log.close()
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    log.append(1, b"parent again")
    log.close()
    assert read_log(tmp_path / "a.bin").frames == ((1, b"parent"), (1, b"parent again"))


def test_a_full_disk_is_told_once_to_who_wants_to_go_on(tmp_path: Path) -> None:
    told: list[TrainingError] = []
    log = Log(tmp_path / "a.bin", FACTS, flush_every_s=3600, on_failure=told.append)
    for number in range(50):
        log.append(1, bytes(100) + bytes([number]))
    with small_files(1024):
        log.flush()
    log.append(1, b"later")
    log.flush()
    log.close()
    assert len(told) == 1 and "a.bin: cannot write the trace" in str(told[0])
    assert log.dropped >= 1
    found = read_log(tmp_path / "a.bin")
    assert found.torn and 0 < len(found.frames) < 50


def test_a_full_disk_fails_whoever_appends_next(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.bin", FACTS, flush_every_s=3600)
    log.append(1, bytes(4000))
    with small_files(1024), pytest.raises(TrainingError, match="cannot write the trace"):
        log.flush()
    with pytest.raises(TrainingError, match="cannot write the trace"):
        log.append(1, b"")
    with pytest.raises(TrainingError, match="cannot write the trace"):
        log.close()


def test_a_cap_is_kept_and_what_it_cost_is_told(tmp_path: Path) -> None:
    with Log(tmp_path / "a.bin", FACTS, cap_bytes=20_000) as log:
        for number in range(1000):
            log.append(1, bytes(100 - number % 2))
        log.drop(5)
    found = read_log(tmp_path / "a.bin")
    assert (tmp_path / "a.bin").stat().st_size <= 20_000
    assert found.whole and found.ended
    assert found.dropped == 5 + 1000 - len(found.frames) and 100 < len(found.frames) < 200


def test_threads_lose_nothing_and_memory_is_bounded(tmp_path: Path) -> None:
    most = 0

    def work(kind: int) -> None:
        nonlocal most
        for number in range(20_000):
            log.append(kind, number.to_bytes(4, "little"))
            most = max(most, len(log._pending))

    with Log(tmp_path / "a.bin", FACTS, record_bytes=4) as log:
        threads = [threading.Thread(target=work, args=(kind,)) for kind in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    frames = read_log(tmp_path / "a.bin").frames
    for kind in (1, 2, 3):
        content = b"".join(payload for of, payload in frames if of == kind)
        assert content == b"".join(number.to_bytes(4, "little") for number in range(20_000))
    assert most < 20_000


@pytest.mark.parametrize("reused", [False, True], ids=["closed", "another file's by now"])
def test_a_file_that_the_program_closed_is_never_written_by_its_number(tmp_path: Path, reused: bool) -> None:
    """As ``os.closerange`` does; what a program opens next has the same number."""
    told: list[TrainingError] = []
    log = Log(tmp_path / "log.bin", {}, flush_every_s=3600, on_failure=told.append)
    os.close(log._file)
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT) if reused else None
    assert other in (None, log._file)
    log.append(1, b"a record")
    log.flush()
    log.close()
    assert [str(each).split(": ")[-1].partition(",")[0] for each in told] == ["the program has closed its file"]
    if other is not None:
        os.close(other)  # nobody else did
        assert (tmp_path / "other").read_bytes() == b""
