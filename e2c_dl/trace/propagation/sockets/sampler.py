"""Samples of a process's connections, into connections.bin: at the boundaries of iterations, and at a rate between.

::

    main thread   --iteration(i)-------iteration(i+1)-----      a round each: all connections, some 2 us each
    own thread    ---round----round----round----round-----      at rate_hz, where iterations are longer than that

New connections are looked for after 0.5 s; then, as long as there are none, half as often each time, down to every 4 s:
counters tell all that a connection did since it began.

A connection whose counters have not moved is not written, except that one which was active in an iteration is also
written at its end. What that costs is counted: :attr:`SocketSampler.cpu_s`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from e2c_dl.errors import TrainingError
from e2c_dl.trace.propagation.samples import CONNECTION_KIND, SAMPLE_KIND, Connection, header, packed
from e2c_dl.trace.propagation.sockets.own import OwnSockets
from e2c_dl.trace.recording.log import FLUSH_EVERY_S, Log

RATE_HZ = 10.0
RESCAN_S, RESCAN_MOST_S = 0.5, 4.0
APART_S = 0.005  # iterations that are shorter share a round
RankOf = Callable[[tuple[str, int]], tuple[int | None, str | None]]
"""(rank, host) that an (address, port) belongs to, as far as is known."""


class Source(Protocol):
    """Where connections are looked at."""

    def rescan(self) -> list[Connection]:
        """Connections not told before."""

    def read(self) -> Iterable[tuple[int, int, bytes, bool]]:
        """(cookie, family, TCP_INFO, whether it has moved since the last time) of those that are there."""


class SocketSampler:
    """Writes what ``source``'s connections tell to ``path`` until closed; any thread may call :meth:`iteration`.

    ::

        with SocketSampler(folder / "connections.bin", rank=3, host="edge-1") as sampler:
            for number in range(iterations):
                sampler.iteration(number)
                ...                                                 # the work

    ``clock`` is the machine's, ``own_ns`` turns it into the host's own time, as for a Recorder. ``rate_hz`` 0: at the
    boundaries of iterations alone. ``iteration``: the one under way. What a fork inherits of it does nothing. A disk
    that fails ends the sampling, and ``on_failure`` is told once: training goes on.

    Raises: TrainingError, if ``path`` cannot be created.
    """

    def __init__(
        self, path: Path, *, rank: int, host: str, more: Mapping[str, Any] | None = None, source: Source | None = None,
        clock: Callable[[], int] = time.monotonic_ns, own_ns: Callable[[int], int] | None = None,
        rate_hz: float = RATE_HZ, iteration: int = -1, rank_of: RankOf | None = None, cap_bytes: int | None = None,
        flush_every_s: float = FLUSH_EVERY_S, on_failure: Callable[[TrainingError], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.rounds = 0
        self._source = source or OwnSockets()
        self._clock, self._own_ns = clock, own_ns
        self._rank_of = rank_of
        self._iteration = iteration
        self._active: set[int] = set()  # cookies of those that have moved since the iteration began
        self._scan_due_s = self._next_s = self._last_s = 0.0
        self._scan_every_s = RESCAN_S
        self._resting = False
        self._main_scans = rate_hz <= 0  # else the thread does, unless iterations are too short for it
        self._used_ns = 0
        self._round = threading.Lock()
        self._process = os.getpid()
        self._closing = threading.Event()
        told = header(rank, host, more)
        self._log = Log(path, told, cap_bytes=cap_bytes, flush_every_s=flush_every_s, on_failure=on_failure)
        self._thread = threading.Thread(target=self._sample_for_ever, args=(rate_hz,), name="sockets", daemon=True)
        self._sample(ends=False, then=None, scan=True)
        if rate_hz > 0:
            self._thread.start()

    @property
    def cpu_s(self) -> float:
        """Processor time that all rounds have used, in whatever thread."""
        return self._used_ns / 1e9

    def iteration(self, number: int) -> None:
        """Iteration ``number`` begins (-1: none): what moved until now belongs to the one before."""
        if os.getpid() != self._process or self._closing.is_set():
            return
        now_s = time.monotonic()
        if now_s < self._next_s:
            self._iteration = number
            return
        self._next_s = now_s + APART_S
        overdue = now_s >= self._scan_due_s + RESCAN_S
        self._sample(ends=True, then=number, scan=self._main_scans or overdue)

    def rest(self, resting: bool) -> None:
        """No more rounds between iterations, or again some."""
        self._resting = resting

    def close(self) -> None:
        """A last round, and the end of the file. A second call does nothing."""
        if self._closing.is_set() or os.getpid() != self._process:
            return
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sample(ends=True, then=-1, scan=True)
        self._log.close()

    def __enter__(self) -> SocketSampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _sample_for_ever(self, rate_hz: float) -> None:
        while not self._closing.wait(1 / rate_hz) and self._log.failure is None:
            if not self._resting and time.monotonic() >= self._last_s + 1 / rate_hz:  # else an iteration has just ended
                self._sample(ends=False, then=None, scan=True)

    def _sample(self, *, ends: bool, then: int | None, scan: bool) -> None:
        """One round. ``ends``: an iteration is over, and ``then`` begins; ``scan``: look for new connections if due."""
        with self._round:
            began_ns = time.thread_time_ns()
            now_ns = self._clock()
            if scan and time.monotonic() >= self._scan_due_s:
                self._rescan()
            at_ns = now_ns if self._own_ns is None else self._own_ns(now_ns)
            for cookie, family, raw, moved in self._source.read():
                if moved:
                    self._active.add(cookie)
                if moved or (ends and cookie in self._active):
                    self._log.append(SAMPLE_KIND, packed(at_ns, cookie, self._iteration, family, raw))
            if ends:
                self._active.clear()
            if then is not None:
                self._iteration = then
            self.rounds += 1
            self._last_s = time.monotonic()
            self._used_ns += time.thread_time_ns() - began_ns

    def _rescan(self) -> None:
        found = self._source.rescan()
        self._scan_every_s = RESCAN_S if found else min(2 * self._scan_every_s, RESCAN_MOST_S)
        self._scan_due_s = time.monotonic() + self._scan_every_s
        for connection in found:
            rank, host = (None, None) if self._rank_of is None else self._rank_of(connection.remote)
            told = msgspec.structs.replace(connection, rank=rank, host=host)
            self._log.append(CONNECTION_KIND, msgspec.json.encode(told))
