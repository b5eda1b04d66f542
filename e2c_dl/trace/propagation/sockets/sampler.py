"""Samples of a process's connections, into connections.bin: at the boundaries of iterations, and at a rate between.

::

    main thread   --iteration(i)-------iteration(i+1)-----      a round each: two system calls for each connection
    own thread    ----round----round-----round----round---      at rate_hz, where iterations are longer than two of that
                  ------------------decodes---------------      all rounds since the last time, and writes what moved

Connections that have moved less than a hundredth of what the busiest one has (a rendezvous) are looked at by the thread
alone, once iterations have ended in which they could: those that will carry gradients are idle before training. New
connections are looked for after 0.5 s; then, as long as there are none, half as often each time, down to every 4 s:
counters tell all that a connection did since it began. Of one that was opened meanwhile a first sample says that it had
counted nothing when it was not there yet. Where iterations are short its thread looks up ever less often,
down to every 0.9 s, and at small connections only when it looks for new ones.

A connection whose counters have not moved is not written, except that one which was active in an iteration is also
written at its end. How much is kept within one: :mod:`e2c_dl.trace.propagation.sockets.share`. What all that costs is
counted: :attr:`SocketSampler.cpu_s`.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from e2c_dl.errors import TrainingError
from e2c_dl.trace.propagation.samples import (
    CONNECTION_KIND,
    RECORD_BYTES,
    SAMPLE,
    SAMPLE_KIND,
    described,
    header,
    packed,
)
from e2c_dl.trace.propagation.sockets.own import MOVED, OwnSockets, Told, cookie_of, moved_bytes
from e2c_dl.trace.propagation.sockets.room import Room
from e2c_dl.trace.propagation.sockets.share import Share
from e2c_dl.trace.propagation.sockets.source import RankOf, Source
from e2c_dl.trace.propagation.tcp_info import unborn
from e2c_dl.trace.recording.errands import EARLY, Errands
from e2c_dl.trace.recording.log import FLUSH_EVERY_S, Log

RATE_HZ = 10.0
RESCAN_S, RESCAN_MOST_S = 0.5, 4.0
APART_S = 0.005  # iterations that are shorter share a round
_APART_NS = round(APART_S * 1e9)
REST_MOST_S = 0.9  # of the thread, where there is nothing to do between iterations
SMALL = 0.01  # of the bytes of the busiest connection: one with less is not looked at where iterations end
_SHOWN = 2  # iterations since the newest connection was found, in which one that is not small has moved
_MOST_ROUNDS = 1024  # in memory: then whoever takes one writes them, since the log does not keep up
_NEVER_NS = 1 << 62


class SocketSampler:
    """Writes what ``source``'s connections tell to ``path`` until closed; any thread may call :meth:`iteration`.

    ::

        with SocketSampler(folder / "connections.bin", rank=3, host="edge-1") as sampler:
            for number in range(iterations):
                sampler.iteration(number)
                ...                                                 # the work

    ``clock`` is the machine's, ``own_ns`` turns it into the host's own time, as for a Recorder. ``rate_hz`` 0: at the
    boundaries of iterations alone. ``iteration``: the one under way. What a fork inherits of it does nothing. A disk
    that fails ends the sampling, and ``on_failure`` is told once: training goes on. ``errands``: whose thread
    looks and writes; else its own. ``cap_bytes``: the file never gets larger; see
    :mod:`~e2c_dl.trace.propagation.sockets.room`.

    Raises: TrainingError, if ``path`` cannot be created.
    """

    def __init__(
        self, path: Path, *, rank: int, host: str, more: Mapping[str, Any] | None = None, source: Source | None = None,
        clock: Callable[[], int] = time.monotonic_ns, own_ns: Callable[[int], int] | None = None,
        rate_hz: float = RATE_HZ, iteration: int = -1, rank_of: RankOf | None = None, cap_bytes: int | None = None,
        flush_every_s: float = FLUSH_EVERY_S, on_failure: Callable[[TrainingError], None] = lambda _: None,
        errands: Errands | None = None,
    ) -> None:  # fmt: skip
        self.rounds = 0
        self._source = source or OwnSockets()
        self._clock, self._own_ns = clock, own_ns
        self._rank_of = rank_of
        self._iteration = iteration
        # Not decoded: time, iteration, whether it ends, what was told.
        self._rounds: deque[tuple[int, int, bool, list[Told]]] = deque()
        self._known: dict[bytes, int] = {}  # cookies of connections that the log has, as the kernel gives them
        self._moved: dict[bytes, bytes] = {}  # cookie, as the kernel gives it -> what it last told of what moves
        self._small: set[int] = set()
        self._ended = 0  # iterations since the newest connection was found
        self._active: set[bytes] = set()  # those that have moved since the iteration began
        self._share = Share()
        self._scan_due_s = 0.0
        self._scanned_at: tuple[int, int] | None = None  # the host's own time, and the iteration then
        self._born: dict[bytes, tuple[int, int]] = {}  # cookies of new connections, when each was not there yet
        self._scanned = False  # since small ones were told
        self._next_ns = self._ended_ns = 0
        self._scan_every_s = RESCAN_S
        self._resting = self._closed = False
        self._used_ns = 0
        self._process = os.getpid()
        self._on_failure = on_failure
        self._main_scans = rate_hz <= 0  # else the thread does
        self._apart_s = self._wait_s = 1 / (rate_hz or 1)
        self._flush_every_s = flush_every_s
        self._flush_due_s = time.monotonic() + flush_every_s
        self._errands = errands or Errands()
        self._log = Log(
            path, header(rank, host, more), record_bytes=RECORD_BYTES, cap_bytes=cap_bytes,
            flush_every_s=flush_every_s if self._main_scans else None, on_failure=self._failed, errands=self._errands,
        )  # fmt: skip
        self._room = None if cap_bytes is None else Room(cap_bytes, self._log.drop)
        self._log.fed_by(self._decode)  # now: its thread may write at once
        self._rescan()
        self._sample(self._clock(), ends=False)
        if rate_hz > 0:
            self._errands.add(self._errand, min(self._apart_s, flush_every_s))

    @property
    def cpu_s(self) -> float:
        """Processor time that all of it has used, in whatever thread."""
        return self._used_ns / 1e9

    @property
    def facts(self) -> dict[str, float]:
        """For ``sockets`` of facts.json; ``dropped``: samples left out for lack of room, or after a failure."""
        return {"rounds": self.rounds, "cpu_s": self.cpu_s, "dropped": self._log.dropped}

    def iteration(self, number: int, now_ns: int | None = None) -> None:
        """Iteration ``number`` begins (-1: none): what moved until now belongs to the one before.

        ``now_ns``: who has just looked at the clock tells what it showed.
        """
        if now_ns is None:
            now_ns = self._clock()
        if now_ns < self._next_ns:  # for ever, once nothing is looked at any more
            self._iteration = number
            return
        self._ended_ns, self._next_ns = now_ns, now_ns + _APART_NS
        if self._main_scans and time.monotonic() >= self._scan_due_s:
            self._rescan()
        at_ns = now_ns if self._own_ns is None else self._own_ns(now_ns)
        rounds = self._rounds
        rounds.append((at_ns, self._iteration, True, self._source.read(ends=True)))  # as _sample, a frame less
        self._iteration = number
        self.rounds += 1
        self._used_ns += self._clock() - now_ns
        if len(rounds) > _MOST_ROUNDS:
            self._relieve()

    def rest(self, resting: bool) -> None:
        """No more rounds between iterations, or again some."""
        self._resting = resting

    def close(self) -> None:
        """A last round, and the end of the file. A second call does nothing."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed, self._next_ns = True, _NEVER_NS
        self._errands.remove(self._errand)
        self._rescan()
        self._sample(self._clock(), ends=True, all_of_them=True)
        self._log.close()

    def __enter__(self) -> SocketSampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _failed(self, error: TrainingError) -> None:
        self._next_ns = _NEVER_NS
        self._on_failure(error)

    def _errand(self) -> float | None:
        """Look and, where it is due, write: one errand, since each costs. Seconds until the next; None: writing failed.

        What is due soon is written with what is due now, as errands are.
        """
        if not self._resting:
            self._look()
        now_s = time.monotonic()
        if self._flush_due_s - now_s <= EARLY * self._flush_every_s:
            self._flush_due_s = now_s + self._flush_every_s
            self._log.flush()
        return None if self._log.failure is not None else min(self._wait_s, self._flush_every_s)

    def _look(self) -> None:
        """A round, unless an iteration has just ended."""
        scanning = time.monotonic() >= self._scan_due_s
        if scanning:
            self._rescan()
        now_ns, most_s = self._clock(), max(self._apart_s, REST_MOST_S)
        just_ended = now_ns < self._ended_ns + 2e9 * self._apart_s
        if scanning or not just_ended:  # small connections are to be looked at now and then
            self._sample(now_ns, ends=False)
        self._wait_s = min(2 * self._wait_s, most_s) if just_ended else self._apart_s

    def _sample(self, now_ns: int, *, ends: bool, all_of_them: bool = False) -> None:
        """One round at ``now_ns``. ``ends``: an iteration is over."""
        at_ns = now_ns if self._own_ns is None else self._own_ns(now_ns)
        self._rounds.append((at_ns, self._iteration, ends, self._source.read(ends=ends and not all_of_them)))
        self.rounds += 1
        self._used_ns += self._clock() - now_ns  # it waits for nothing
        if len(self._rounds) > _MOST_ROUNDS:
            self._relieve()

    def _relieve(self) -> None:
        if os.getpid() != self._process:  # a fork's: nobody writes them
            self._rounds.clear()
        self._log.flush()

    def _decode(self) -> None:
        """Hand what rounds told to the log, in the order in which they were taken."""
        began_ns = time.thread_time_ns()
        last, active, known, pack = self._moved, self._active, self._known, SAMPLE.pack
        samples: list[bytes] = []
        while self._rounds:
            at_ns, iteration, ends, told = self._rounds.popleft()
            if not (ends or self._takes(told)):
                continue
            found = []
            for cookie_told, family, raw in told:
                moved = raw[MOVED]
                if moved != last.get(cookie_told):
                    if cookie_told not in known:  # of a number that was used again: see _rescan
                        continue
                    last[cookie_told] = moved
                    active.add(cookie_told)
                    if cookie_told in self._born:
                        samples.append(self._before_birth(cookie_told, family, len(raw)))
                elif not (ends and cookie_told in active):
                    continue
                found.append(pack(at_ns, known[cookie_told], iteration, family, 0, len(raw)) + raw)  # as packed
            samples += found if self._room is None else self._room.offer(found, at_ns, ends=ends)
            if ends:
                self._share.ended(len(active))
                active.clear()
                self._ended += 1
        if self._closed and self._room is not None:
            samples += self._room.end()
        self._log.extend(SAMPLE_KIND, samples)
        if self._scanned and self._ended >= _SHOWN and not self._main_scans:
            self._scanned = False
            self._tell_small()
        self._used_ns += time.thread_time_ns() - began_ns

    def _before_birth(self, cookie_told: bytes, family: int, length: int) -> bytes:
        at_ns, iteration = self._born.pop(cookie_told)
        sample = packed(at_ns, self._known[cookie_told], iteration, family, unborn(length))
        if self._room is not None:
            self._room.use(sample)
        return sample

    def _takes(self, told: list[Told]) -> bool:
        """Whether a round within an iteration is kept; what moved is active all the same."""
        moving = [one[0] for one in told if one[2][MOVED] != self._moved.get(one[0]) and one[0] in self._known]
        self._active.update(moving)
        return self._share.takes(len(moving), len(self._active))

    def _tell_small(self) -> None:
        carried = {cookie_told: moved_bytes(moved) for cookie_told, moved in self._moved.items()}
        least = SMALL * max(carried.values(), default=0)
        small = {cookie_of(cookie_told) for cookie_told, nbytes in carried.items() if nbytes < least}
        if small != self._small:
            self._small = small
            self._source.small(small)

    def _rescan(self) -> None:
        began_ns = time.thread_time_ns()
        at_ns = self._clock() if self._own_ns is None else self._own_ns(self._clock())
        before, self._scanned_at = self._scanned_at, (at_ns, self._iteration)
        found, self._scanned = self._source.rescan(), True
        self._ended = 0 if found else self._ended
        self._scan_every_s = RESCAN_S if found else min(2 * self._scan_every_s, RESCAN_MOST_S)
        self._scan_due_s = time.monotonic() + self._scan_every_s
        for connection in found:
            cookie_told = connection.cookie.to_bytes(8, sys.byteorder)
            if cookie_told in self._known:  # by another descriptor now: of a copy, whose first was closed
                continue
            rank, host = (None, None) if self._rank_of is None else self._rank_of(connection.remote)
            record = described(msgspec.structs.replace(connection, rank=rank, host=host))
            self._log.append(CONNECTION_KIND, record)
            if self._room is not None:
                self._room.use(record)
            if before is not None:
                self._born[cookie_told] = before
            self._known[cookie_told] = connection.cookie
        self._used_ns += time.thread_time_ns() - began_ns
