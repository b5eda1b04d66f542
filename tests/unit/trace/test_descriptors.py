"""Numbers of files that are kept open: closed only while they are one's own, and what closing says is told."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2c_dl.errors import TrainingError
from e2c_dl.trace.clocks.clock import ClockServer
from e2c_dl.trace.recording.descriptors import identity, is_still
from e2c_dl.trace.recording.log import Log


def test_a_number_is_another_files_once_it_was_closed(tmp_path: Path) -> None:
    file = os.open(tmp_path / "own", os.O_WRONLY | os.O_CREAT)
    opened = identity(file)
    assert is_still(file, opened)
    os.close(file)
    assert not is_still(file, opened)
    assert os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT) == file
    assert not is_still(file, opened)
    os.close(file)


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> Callable[[Log], None]:
    """NFS that says only when the file of a log is closed that it had no room."""
    close = os.close

    def of(log: Log) -> None:
        def refused(descriptor: int) -> None:
            close(descriptor)
            if descriptor == log._file:
                raise OSError(errno.EDQUOT, "Disk quota exceeded")

        monkeypatch.setattr(os, "close", refused)

    return of


def test_what_closing_says_is_raised_or_told_once(tmp_path: Path, quota: Callable[[Log], None]) -> None:
    log = Log(tmp_path / "log.bin", {})
    quota(log)
    with pytest.raises(TrainingError, match=r"log.bin: cannot write the trace: Disk quota exceeded; make room"):
        log.close()
    log.close()
    assert log.failure is not None
    told: list[TrainingError] = []
    log = Log(tmp_path / "log.bin", {}, on_failure=told.append)
    quota(log)
    log.close()
    assert [str(each).partition(": ")[2] for each in told] == [
        "cannot write the trace: Disk quota exceeded; make room or choose another directory"
    ]


def test_a_clock_is_closed_after_the_program_has_closed_its_socket() -> None:
    server = ClockServer("127.0.0.1")
    number = server._socket.fileno()
    time.sleep(0.2)  # until its thread waits there
    os.close(number)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as others:
        assert others.fileno() == number
        others.bind(("127.0.0.1", 0))
        server.close()
        others.sendto(b"mine", others.getsockname())
        others.settimeout(5)
        assert others.recv(9) == b"mine"
