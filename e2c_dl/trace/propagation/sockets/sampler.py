"""Samples of a process's connections, into connections.bin: at the boundaries of iterations, and at a rate between.

::

    main thread   --iteration(i)-------iteration(i+1)-----      a round each: two system calls for each connection
    own thread    ----round----round-----round----round---      at rate_hz, where iterations are longer than two of that
    log's thread  ------------------decodes---------------      all rounds since the last time, and writes what moved

New connections are looked for after 0.5 s; then, as long as there are none, half as often each time, down to every 4 s:
counters tell all that a connection did since it began. Where iterations are short its thread looks up ever less often,
down to every 0.8 s.

A connection whose counters have not moved is not written, except that one which was active in an iteration is also
written at its end. What that costs is counted: :attr:`SocketSampler.cpu_s`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from e2c_dl.errors import TrainingError
from e2c_dl.trace.propagation.samples import CONNECTION_KIND, SAMPLE_KIND, Connection, header, packed
from e2c_dl.trace.propagation.sockets.own import OwnSockets, Told, cookie_of, moved_part
from e2c_dl.trace.recording.log import FLUSH_EVERY_S, Log

RATE_HZ = 10.0
RESCAN_S, RESCAN_MOST_S = 0.5, 4.0
APART_S = 0.005  # iterations that are shorter share a round
_APART_NS = round(APART_S * 1e9)
REST_MOST_S = 0.8  # of the thread, where there is nothing to do between iterations
_MOST_ROUNDS = 1024  # in memory: then whoever takes one writes them, since the log does not keep up
RankOf = Callable[[tuple[str, int]], tuple[int | None, str | None]]
"""(rank, host) that an (address, port) belongs to, as far as is known."""


class Source(Protocol):
    """Where connections are looked at."""

    def rescan(self) -> list[Connection]:
        """Connections not told before."""

    def read(self) -> list[Told]:
        """What those tell that are there: fast, and by two threads at once."""


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
        # Not decoded: time, iteration, whether it ends, what was told.
        self._rounds: deque[tuple[int, int, bool, list[Told]]] = deque()
        self._known: set[int] = set()  # cookies of connections that the log has
        self._moved: dict[int, bytes] = {}  # what they last told of what moves
        self._active: set[int] = set()  # those that have moved since the iteration began
        self._scan_due_s = 0.0
        self._next_ns = self._ended_ns = 0
        self._scan_every_s = RESCAN_S
        self._resting = False
        self._used_ns = 0
        self._process = os.getpid()
        self._closing = threading.Event()
        self._closed = False
        told = header(rank, host, more)
        self._log = Log(
            path, told, cap_bytes=cap_bytes, flush_every_s=flush_every_s, on_failure=on_failure, source=self._decode
        )
        self._thread = threading.Thread(target=self._sample_for_ever, args=(1 / (rate_hz or 1),), name="sockets",
                                        daemon=True)  # fmt: skip
        self._main_scans = rate_hz <= 0  # else the thread does
        self._rescan()
        self._sample(self._clock(), ends=False)
        if rate_hz > 0:
            self._thread.start()

    @property
    def cpu_s(self) -> float:
        """Processor time that all of it has used, in whatever thread."""
        return self._used_ns / 1e9

    def iteration(self, number: int) -> None:
        """Iteration ``number`` begins (-1: none): what moved until now belongs to the one before."""
        if self._closed or os.getpid() != self._process or self._log.failure is not None:
            return
        now_ns = self._clock()
        if now_ns < self._next_ns:
            self._iteration = number
            return
        self._ended_ns, self._next_ns = now_ns, now_ns + _APART_NS
        if self._main_scans and time.monotonic() >= self._scan_due_s:
            self._rescan()
        self._sample(now_ns, ends=True)
        self._iteration = number

    def rest(self, resting: bool) -> None:
        """No more rounds between iterations, or again some."""
        self._resting = resting

    def close(self) -> None:
        """A last round, and the end of the file. A second call does nothing."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._rescan()
        self._sample(self._clock(), ends=True)
        self._log.close()

    def __enter__(self) -> SocketSampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _sample_for_ever(self, apart_s: float) -> None:
        wait_s = apart_s
        while not self._closing.wait(wait_s) and self._log.failure is None:
            if self._resting:
                continue
            if time.monotonic() >= self._scan_due_s:
                self._rescan()
            now_ns = self._clock()
            if now_ns < self._ended_ns + 2e9 * apart_s:  # an iteration has just ended
                wait_s = min(2 * wait_s, max(apart_s, REST_MOST_S))
                continue
            wait_s = apart_s
            self._sample(now_ns, ends=False)

    def _sample(self, now_ns: int, *, ends: bool) -> None:
        """One round at ``now_ns``. ``ends``: an iteration is over."""
        at_ns = now_ns if self._own_ns is None else self._own_ns(now_ns)
        self._rounds.append((at_ns, self._iteration, ends, self._source.read()))
        self.rounds += 1
        self._used_ns += self._clock() - now_ns  # it waits for nothing
        if len(self._rounds) > _MOST_ROUNDS:
            self._log.flush()

    def _decode(self) -> None:
        """Hand what rounds told to the log, in the order in which they were taken."""
        began_ns = time.thread_time_ns()
        while self._rounds:
            at_ns, iteration, ends, told = self._rounds.popleft()
            for cookie_told, family, raw in told:
                cookie = cookie_of(cookie_told)
                if cookie not in self._known:  # of a number that was used again: the next rescan tells of it
                    continue
                moved = moved_part(raw)
                if moved != self._moved.get(cookie):
                    self._moved[cookie] = moved
                    self._active.add(cookie)
                elif not (ends and cookie in self._active):
                    continue
                self._log.append(SAMPLE_KIND, packed(at_ns, cookie, iteration, family, raw))
            if ends:
                self._active.clear()
        self._used_ns += time.thread_time_ns() - began_ns

    def _rescan(self) -> None:
        began_ns = time.thread_time_ns()
        found = self._source.rescan()
        self._scan_every_s = RESCAN_S if found else min(2 * self._scan_every_s, RESCAN_MOST_S)
        self._scan_due_s = time.monotonic() + self._scan_every_s
        for connection in found:
            rank, host = (None, None) if self._rank_of is None else self._rank_of(connection.remote)
            told = msgspec.structs.replace(connection, rank=rank, host=host)
            self._log.append(CONNECTION_KIND, msgspec.json.encode(told))
            self._known.add(connection.cookie)
        self._used_ns += time.thread_time_ns() - began_ns
