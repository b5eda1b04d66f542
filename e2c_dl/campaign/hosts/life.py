"""Signs of life of every host of a run, while it is up: a byte there and back again every other second.

::

    here: one thread             host: cat, over one ssh session that stays
      . ------------------------> .
      . <------------------------ .     it costs the host nothing that a training would notice

A host whose processes are all stopped, or whose management network is gone, answers nothing, and ends no connection:
whoever waits for it waits for ever. A pause that the scenario asks for stops a worker alone, and is no silence.

Silence is counted in bytes that were sent and not answered, not in time: a process that was itself stopped, or a
machine that slept, blames nobody.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access

EVERY_S = 2.0
TOLD_AFTER = 3  # bytes without an answer
LOST_AFTER = 30
WHY = "its processes are stopped, or its management network is gone"
RUN_DIR_VARIABLE = "E2CDL_RUN_DIR"
_BYTE = b"."


@dataclass(frozen=True, kw_only=True)
class Silence:
    """A host gave no sign of life."""

    host: str
    since_s: float  # Unix time of the first byte that it did not answer
    until_s: float | None = None  # when it answered again; None: it has not

    def told(self) -> str:
        """In a sentence."""
        since = datetime.fromtimestamp(self.since_s, timezone.utc).isoformat(timespec="seconds")
        long = "and none since" if self.until_s is None else f"for {self.until_s - self.since_s:.0f} s"
        return f"{self.host}: no sign of life from {since}, {long}"


class Signs:
    """What hosts showed; a thread of its own asks them while in ``signs_of_life``."""

    def __init__(self, accesses: Sequence[Access], tell: Callable[[str], None]) -> None:
        self._lines = [_Line(access) for access in accesses]
        self._tell = tell
        self._silences: dict[str, list[Silence]] = {access.name: [] for access in accesses}
        self._lock = threading.Lock()

    def silences(self) -> tuple[Silence, ...]:
        """All that there were, oldest first."""
        with self._lock:
            found = [silence for each in self._silences.values() for silence in each]
        return tuple(sorted(found, key=lambda silence: silence.since_s))

    def silent(self) -> frozenset[str]:
        """The hosts that are silent now."""
        return frozenset(silence.host for silence in self.silences() if silence.until_s is None)

    def failure(self) -> str | None:
        """A sentence, if hosts were silent for so long that nobody need wait for them; None while there are none."""
        lost = [line.host for line in self._lines if line.unanswered >= LOST_AFTER]
        return f"{', '.join(lost)}: no sign of life for {LOST_AFTER * EVERY_S:g} s: {WHY}" if lost else None

    def watch(self, stop: socket.socket) -> None:
        """Ask until the other end of ``stop`` is closed."""
        with selectors.DefaultSelector() as selector:
            selector.register(stop, selectors.EVENT_READ)
            going = True
            while going:
                for line in self._lines:
                    self._look_at(line)
                    if line.ask():
                        selector.register(line.answers, selectors.EVENT_READ, line)
                going = self._hear(selector, time.monotonic() + EVERY_S)
        for line in self._lines:
            line.close()

    def _look_at(self, line: _Line) -> None:
        told = line.heard_once and line.unanswered == TOLD_AFTER
        lost = line.unanswered == LOST_AFTER
        if told or (lost and not line.heard_once):
            self._note(Silence(host=line.host, since_s=line.since_s))
        if told:
            self._tell(f"{line.host}: no sign of life for {TOLD_AFTER * EVERY_S:g} s: {WHY}")

    def _hear(self, selector: selectors.BaseSelector, until_s: float) -> bool:
        """Listen until then; whether to go on."""
        while (left_s := until_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                line: _Line | None = key.data
                if line is None:
                    return False
                if not line.hear():
                    selector.unregister(key.fileobj)
                    line.close()
                elif line.host in self.silent():
                    self._note(Silence(host=line.host, since_s=line.since_s, until_s=time.time()))
                    self._tell(f"{line.host} answers again")
        return True

    def _note(self, silence: Silence) -> None:
        with self._lock:
            known = self._silences[silence.host]
            if silence.until_s is None:
                known.append(silence)
            else:
                known[-1] = replace(known[-1], until_s=silence.until_s)


@contextmanager
def signs_of_life(accesses: Sequence[Access], tell: Callable[[str], None]) -> Iterator[Signs]:
    """While in it, hosts are asked: ``tell`` hears, from another thread, of those that fall silent and answer again."""
    signs = Signs(accesses, tell)
    here, there = socket.socketpair()
    thread = threading.Thread(target=signs.watch, args=(there,), name="life", daemon=True)
    thread.start()
    try:
        yield signs
    finally:
        here.close()
        thread.join()
        there.close()


class _Line:
    """The session to one host; it is begun anew when it ends."""

    def __init__(self, access: Access) -> None:
        self.host = access.name
        self.unanswered = 0  # bytes in a row
        self.since_s = 0.0  # when the first of them was sent
        self.heard_once = False  # a slow host takes its time until the session is there
        self._access = access
        self._session: subprocess.Popen[bytes] | None = None

    @property
    def answers(self) -> int:
        return _descriptor(self._session, 1)

    def ask(self) -> bool:
        """Send a byte, and count it as unanswered; whether a session was begun for it."""
        if not self.unanswered:
            self.since_s = time.time()
        begun = False
        if self._session is None and self.unanswered % TOLD_AFTER == 0:  # a host that refuses is not stormed
            with suppress(OSError, TestbedError):  # what it cannot be reached by is no better than silence
                self._begin()
                begun = True
        self.unanswered += 1
        if self._session is not None:
            with suppress(BlockingIOError, BrokenPipeError):  # full as nobody reads; ended, as ``hear`` finds out
                os.write(_descriptor(self._session, 0), _BYTE)
        return begun

    def hear(self) -> bool:
        """Whether something came, and not the end of the session."""
        try:
            came = bool(os.read(self.answers, 4096))
        except OSError:
            came = False
        if came:
            self.unanswered, self.heard_once = 0, True
        return came

    def close(self) -> None:
        """End the session; the next byte begins another."""
        if self._session is None:
            return
        self._session.kill()
        with self._session:  # closes its pipes and reaps it
            pass
        self._session = None

    def _begin(self) -> None:
        self._session = subprocess.Popen(
            # its run directory in the environment: there, what ends a run finds by it what the run has started
            programs.ssh_argv(self._access, "env", f"{RUN_DIR_VARIABLE}={self._access.run_dir}", "cat"),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C at the terminal is no silence
        )
        os.set_blocking(_descriptor(self._session, 0), False)


def _descriptor(session: subprocess.Popen[bytes] | None, number: int) -> int:
    pipe = None if session is None else (session.stdin, session.stdout)[number]
    if pipe is None:
        raise ValueError("there is no session")
    return pipe.fileno()
