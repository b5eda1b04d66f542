"""A connection through a relay whose links change while it carries: rates, a cut, and back."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import os
import subprocess
from pathlib import Path

import pytest
from relay_namespaces import BACK, FORTH, config, namespaces, running

from e2c_dl.emulation.relay.control import RelayControl
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.topology import Link

pytestmark = [pytest.mark.local, pytest.mark.alone]  # alone: rates are checked

STREAM = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as s:
    print("connected", flush=True)
    try:
        while True:
            s.sendall(bytes(1 << 16))
    except OSError:
        pass
"""
WATCH = """
import socket, time
server = socket.create_server(("", 5000))
print("listening", flush=True)
connection, _ = server.accept()
connection.settimeout(0.4)
total = 0
while True:
    try:
        chunk = connection.recv(1 << 20)
    except TimeoutError:
        chunk = b""
    total += len(chunk)
    print(time.monotonic_ns(), total, flush=True)
"""


class Stream:
    """A TCP connection that never rests, over which bytes are watched as they come."""

    def __init__(self, watcher: subprocess.Popen[str]) -> None:
        self._watcher = watcher
        self.seen: list[tuple[int, int]] = []  # (CLOCK_MONOTONIC ns, bytes so far)

    def until(self, more: int) -> None:
        """Reads on until ``more`` bytes have come, or, of 0 bytes, until none come for a while."""
        before = self.seen[-1][1] if self.seen else 0
        assert self._watcher.stdout is not None
        for line in self._watcher.stdout:
            now_ns, total = map(int, line.split())
            silent = bool(self.seen) and total == self.seen[-1][1]
            self.seen.append((now_ns, total))
            if total - before >= more > 0 or (silent and not more):
                return
        raise AssertionError("the connection broke")

    def rate_bps(self, begin_ns: int, end_ns: int) -> float:
        """Of payload, between the first and the last arrival in there."""
        within = [one for one in self.seen if begin_ns <= one[0] <= end_ns]
        return (within[-1][1] - within[0][1]) * 8e9 / (within[-1][0] - within[0][0])


def test_a_connection_lives_through_changes_that_count_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    fast, slow = Link(rate_bps=40e6, delay_s=0.001), Link(rate_bps=8e6, delay_s=0.001)
    with namespaces(2) as (h1, h2):
        settings = config((h1, h2), tmp_path / "report.json", {FORTH: fast, BACK: Link(delay_s=0.001)})
        with running(settings, tmp_path) as relay, contextlib.ExitStack() as ends:
            watcher = h2.python(WATCH)
            ends.callback(_end, watcher)
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == "listening\n"
            ends.callback(_end, h1.python(STREAM, "198.19.0.2"))
            control, stream = RelayControl(tmp_path / "relay.sock"), Stream(watcher)
            stream.until(4_000_000)
            slow_ns = control.apply({FORTH: slow}, {})
            stream.until(800_000)  # half of what the queue may hold: it was there before
            fast_ns = control.apply({FORTH: fast}, {})
            stream.until(3_000_000)
            control.apply({FORTH: dataclasses.replace(fast, down=True)}, {})
            stream.until(0)
            control.apply({FORTH: fast}, {})
            stream.until(1_000_000)
            report = relay.stop()
    tenth_ns = 100_000_000
    goodput = 1448 / 1514
    assert stream.rate_bps(slow_ns - 3 * tenth_ns, slow_ns) == pytest.approx(40e6 * goodput, rel=0.15)
    assert stream.rate_bps(slow_ns + tenth_ns, fast_ns) == pytest.approx(8e6 * goodput, rel=0.15)
    assert stream.rate_bps(fast_ns + tenth_ns, fast_ns + 4 * tenth_ns) == pytest.approx(40e6 * goodput, rel=0.15)
    forth = next(link for link in report["links"] if link["src"] == "h1")
    assert forth["dropped_down"] > 0 and forth["dropped_loss"] == 0
    assert (report["changes"], report["changes_refused"]) == (4, 0)
    assert not (tmp_path / "relay.sock").exists()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_the_worked_call_of_a_relay_gives_what_its_docstring_says(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    with namespaces(2) as hosts:
        known = {"config": config(hosts, tmp_path / "report.json"), "os": os, "Path": Path, "Link": Link}
        known |= {"RelayProcess": RelayProcess, "RelayControl": RelayControl}
        (example,) = doctest.DocTestFinder(recurse=False).find(RelayProcess, globs=known)
        assert doctest.DocTestRunner().run(example).failed == 0 < len(example.examples)
