"""Connections of another process, asked of the kernel, are those that it has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from e2c_dl.errors import TrainingError
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.sockets import OwnSockets, ProcessSockets
from e2c_dl.trace.propagation.sockets.own import cookie_of

ANSWERS = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
    while one.recv(1 << 16):
        one.sendall(b"x")
"""


@pytest.fixture
def other() -> Iterator[tuple[int, socket.socket]]:
    """(its pid, this process's end of a connection to it)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [sys.executable, "-c", ANSWERS, str(server.getsockname()[1])]
        with subprocess.Popen(argv) as process:
            own = server.accept()[0]
            with own:
                yield process.pid, own


def asked(*pids: int) -> ProcessSockets:
    try:
        return ProcessSockets(pids)
    except TrainingError as error:  # a kernel without tcp_diag
        pytest.skip(str(error))


def test_what_the_other_process_sends_is_counted(other: tuple[int, socket.socket]) -> None:
    pid, own = other
    sockets = asked(pid)
    (connection,) = sockets.rescan()
    assert connection.remote == own.getsockname()
    assert connection.local == own.getpeername()
    assert sockets.rescan() == []
    list(sockets.read())
    own.sendall(b"12345")
    assert own.recv(1) == b"x"
    (told,) = sockets.read()
    assert cookie_of(told[0]) == connection.cookie
    assert tcp_info.field(told[2], "bytes_received") == 5
    assert tcp_info.field(told[2], "bytes_sent") == 1


def test_both_ways_of_asking_tell_the_same_cookie(other: tuple[int, socket.socket]) -> None:
    by_kernel = {one.cookie: one for one in asked(os.getpid()).rescan()}
    by_number = {one.cookie: one for one in OwnSockets().rescan()}
    ends = other[1].getsockname(), other[1].getpeername()
    assert [one.cookie for one in by_kernel.values() if (one.local, one.remote) == ends] == [
        one.cookie for one in by_number.values() if (one.local, one.remote) == ends
    ]


def test_a_process_that_has_ended_has_none() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    sockets = asked(ended.pid)
    assert sockets.rescan() == [] == list(sockets.read())


def test_where_the_kernel_cannot_be_asked_just_now_nothing_is_told_and_nothing_raised(
    other: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = asked(other[0])

    def without_descriptors(*_: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr(socket, "socket", without_descriptors)
        assert sockets.rescan() == [] == sockets.read()
    assert len(sockets.rescan()) == 1
