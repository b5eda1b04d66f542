"""What is done now and then beside a training, by one thread for all of it: each wake of a thread costs some 0.1 ms.

::

    add(log.write)     every 0.9 s  |---------x---------x---------x    what is due soon is done with what is due now
    add(sockets.look)  every 0.9 s  |---------x---------x---------x

Whoever trains waits for the slowest: what keeps each of n ranks for a millisecond, whenever it likes, keeps all of them
n times; what keeps all at once does once. Those that are ``in_step`` do theirs when the time of day says so.

Source: Petrini, Kerbyson and Pakin, "The case of the missing supercomputer performance", SC 2003.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

EARLY = 0.5
"""Of its time to wait: how much earlier an errand may be done, with another one. Half: those that wait equally long are
done together from their second time on, whenever they began."""
OFTEN_S = 1.0  # what waits longer is done with what does not, whenever that is: it wakes nobody
LEAST_APART = 0.05
"""Of its time to wait: what would be done in step sooner than that waits for the next time."""

Errand = Callable[[], float | None]
"""Does something; says in how many seconds to do it again, None: not any more."""


_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}  # of a thread itself


@contextmanager
def unsignalled() -> Iterator[None]:
    """Threads that begin in it are given none of the signals that come to the process: whoever trains may wait for one,
    or hold it back while a checkpoint is written, which the kernel believes if all threads do.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Errands:
    """A thread that runs errands when they are due; there is one as long as there are any, and it ends with the last.

    One that raises is told of as threads are, and not run again. Methods may be called from any thread but this one.
    ``in_step``: one that waits equally long each time, and OFTEN_S at most, is done at multiples of that, by the time
    of day, on all hosts.
    """

    def __init__(self, *, in_step: bool = False) -> None:
        self._in_step = in_step
        self._due_s: dict[Errand, tuple[float, float]] = {}  # (when, at the earliest)
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()
        self._running = threading.Lock()
        self._bell = threading.Lock()  # free: it has rung; waits without a frame of Python's, and ends without raising
        self._bell.acquire()

    def add(self, errand: Errand, wait_s: float) -> None:
        """``errand`` is due in ``wait_s`` seconds."""
        with self._changing:
            self._put(errand, wait_s)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
                with unsignalled():
                    self._thread.start()
        self._ring()

    def hurry(self, errand: Errand) -> None:
        """It is due now, if it is there."""
        if errand in self._due_s:
            self._due_s[errand] = (0.0, 0.0)
            self._ring()

    def remove(self, errand: Errand) -> None:
        """It is not run any more, nor under way."""
        with self._changing:
            self._due_s.pop(errand, None)
            ends = None if self._due_s else self._thread
        with self._running:
            pass
        if ends is not None:
            self._ring()
            ends.join()

    def _ring(self) -> None:
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def _put(self, errand: Errand, wait_s: float) -> None:
        now_s = time.monotonic()
        due_s = in_step_s(wait_s, time.time()) if self._in_step and wait_s <= OFTEN_S else wait_s
        self._due_s[errand] = (now_s + due_s, now_s + (1 - EARLY) * due_s)

    def _run(self) -> None:
        while (wait_s := self._turn()) is not None:
            self._bell.acquire(timeout=wait_s)

    def _turn(self) -> float | None:
        """Run what is due; how long there is nothing to do; None: for ever."""
        now_s = time.monotonic()
        done = []
        with self._running:  # once for all that is due: caches are cold, and each lock counts
            for errand, due_s in tuple(self._due_s.items()):
                if due_s[1] <= now_s and errand in self._due_s:  # else it was removed meanwhile
                    done.append((errand, due_s, _outcome(errand)))
        with self._changing:
            for errand, due_s, wait_s in done:
                if self._due_s.get(errand) is not due_s:  # removed, added anew, or hurried meanwhile
                    continue
                if wait_s is None:
                    del self._due_s[errand]
                else:
                    self._put(errand, wait_s)
            if not self._due_s:
                self._thread = None
                return None
            return max(0.0, min(self._due_s.values())[0] - time.monotonic())


def in_step_s(wait_s: float, of_day_s: float) -> float:
    """Seconds until the time of day is a multiple of ``wait_s``, of which it is ``of_day_s`` now.

    The one after that, where it is too near.
    """
    if wait_s <= 0:
        return wait_s
    due_s = wait_s - of_day_s % wait_s
    return due_s + wait_s if due_s < LEAST_APART * wait_s else due_s


def _outcome(errand: Errand) -> float | None:
    """What it says, having done it; None, once it was told of, if it raised: a defect, and other errands go on."""
    try:
        return errand()
    except Exception as error:  # noqa: BLE001
        told = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(told))
        return None
