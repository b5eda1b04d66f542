"""The dialogue between a controller and what holds namespaces, with plain shells: no rights are needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.namespaces.holder import Holder

_ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Holder]]:
    holders: list[Holder] = []
    yield holders
    for holder in holders:
        holder.reap()


def start(holders: list[Holder], log: Path, script: str) -> Holder:
    holders.append(Holder("edge-1", ["sh", "-c", script], _ENVIRON, log / "log"))
    return holders[-1]


def test_lines_until_a_word(started: list[Holder], tmp_path: Path) -> None:
    holder = start(started, tmp_path, "echo pid 7; echo sysctl a 1 2; echo prepared")
    assert holder.await_pid() == holder.pid == 7
    assert holder.expect("prepared") == [["a", "1", "2"], []]


def test_it_goes_on_when_told(started: list[Holder], tmp_path: Path) -> None:
    holder = start(started, tmp_path, "read -r go; echo started $go")
    holder.tell_go()
    assert holder.expect("started") == [["go"]]


def test_it_ends_if_its_controller_does(started: list[Holder], tmp_path: Path) -> None:
    holder = start(started, tmp_path, "set -eu; read -r go; sleep 600")
    holder.reap()  # lets go of the pipe, as the kernel does for a controller that was killed


def test_a_failure_names_the_host_and_what_it_said_last(started: list[Holder], tmp_path: Path) -> None:
    holder = start(started, tmp_path, "echo first >&2; echo 'mount: no such thing' >&2; exit 1")
    with pytest.raises(TestbedError, match="host edge-1 ended while it was being brought up: mount: no such thing"):
        holder.await_pid()


def test_a_silent_failure_is_told_as_that(started: list[Holder], tmp_path: Path) -> None:
    holder = start(started, tmp_path, "echo pid 7")
    holder.await_pid()
    with pytest.raises(TestbedError, match="said nothing"):
        holder.expect("prepared")
