"""A rank's session does its script no harm, whatever the store of the script's own does."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from e2c_dl.errors import TrainingError
from e2c_dl.trace.clocks.clock import exchange
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.span_log import read_spans
from e2c_dl.tracing.rendezvous import Ranks, StoreExchange
from e2c_dl.tracing.samplers.clocks import Clocks
from e2c_dl.tracing.samplers.sampler import Recording
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings


class Gone:
    """A store whose server has gone."""

    def __init__(self) -> None:
        self.told = b""

    def set(self, key: str, value: bytes) -> None:
        self.told = value
        raise RuntimeError("Connection reset by peer\n#0 c10d::TCPStore::set")


def test_a_store_that_fails_leaves_the_script_alone_and_the_rank_untraced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, store = Session(Settings(archive=tmp_path)), Gone()
    session.meet(0, 2, StoreExchange(store))
    session.end_iteration(session.clock())
    session.end()
    assert session.said.limitations == ["rank 0 is not traced: Connection reset by peer"]
    assert capsys.readouterr().err == "e2c-dl: rank 0 is not traced: Connection reset by peer\n"
    assert list(tmp_path.iterdir()) == []
    port, token = json.loads(store.told)["offers"]["clock"]
    with pytest.raises(TrainingError):
        exchange("127.0.0.1", port, token, rounds=1, within_s=0.2)


class Slow(Clocks):
    """Takes long to begin."""

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        time.sleep(0.05)
        super().on_ready(ranks, recording)


def test_what_the_trace_of_a_script_alone_takes_to_begin_is_of_its_first_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def timekeeping(**_: Any) -> dict[str, Any]:
        time.sleep(0.03)
        asked.append(time.monotonic_ns())
        return {}

    monkeypatch.setattr("e2c_dl.tracing.session.SAMPLERS", (Slow,))
    monkeypatch.setattr("e2c_dl.tracing.samplers.clocks.timekeeping", timekeeping)
    session = Session(Settings(archive=tmp_path))
    for _ in range(3):
        session.active()
        session.end_iteration(session.clock())
    session.end()
    _, spans, _ = read_spans(session.folder / "spans.bin")
    own = spans[spans["phase"] == Phase.ITERATION]
    assert (own["end_ns"][:-1] == own["start_ns"][1:]).all()
    assert asked[0] < own["start_ns"][1], "threads have settled"
    assert (own["end_ns"][1:] - own["start_ns"][1:]).max() < 40e6


def test_who_ends_a_session_waits_until_the_thread_that_writes_has_told_of_a_full_disk(tmp_path: Path) -> None:
    session, begun, told = Session(Settings(archive=tmp_path)), threading.Event(), []

    def tell(why: str) -> None:
        begun.set()
        time.sleep(0.3)  # Python would end meanwhile
        told.append(why)

    session._tell_failure = tell
    session.meet(0, 1)
    session.active()
    session.end_iteration(session.clock())
    assert session._recorder is not None
    log, full = session._recorder._log, os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file)
    os.close(full)
    log._opened = os.fstat(log._file).st_dev, os.fstat(log._file).st_ino
    session._recorder.wake()
    assert begun.wait(10)
    session.end()
    (why,) = told
    assert "No space left" in why


def test_a_file_that_tells_of_a_full_disk_when_it_is_closed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, close = Session(Settings(archive=tmp_path)), os.close
    session.meet(0, 1)
    session.active()
    session.end_iteration(session.clock())
    assert session._recorder is not None
    file = session._recorder._log._file

    def refused(descriptor: int) -> None:
        close(descriptor)
        if descriptor == file:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", refused)
    session.end()
    assert "spans.bin: cannot write the trace: Disk quota exceeded; make room" in capsys.readouterr().err
    assert any("Disk quota exceeded" in each for each in session.said.limitations)
