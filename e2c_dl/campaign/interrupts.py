"""Ends of a step from outside: Ctrl-C, a closed terminal, a time limit, or another thread that knows better.

::

    the first signal    raised in a step that may fail; in one that is always done only remembered
    each further one    raised in whatever step is under way: it ends the wait, and the steps after it are still done;
                        not while an archive is told how its run ended
    a limit, ``end``    raised in whatever step is under way

Signals become an exception of ours, where it may come; elsewhere they are remembered. Where Python calls back on its
own (after a fork, on collecting garbage) it prints an exception and goes on: one that was lost so is raised again a
moment later. Other people's ``except Exception`` may swallow it too: so ``ended`` is asked after each step, and where
they would go on for ever, as Ansible does that waits for a host, it is raised again and again (``insisting``).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from e2c_dl.errors import E2cDlError, Interrupted

_AT_ONCE_S = 1.0
"""Signals that follow within it are the same wish: `timeout` sends two, and people press more than once."""
_INSISTS_S = 10.0


class Interrupts:
    """What was received, and whether it is raised."""

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self.received: Interrupted | None = None  # by the first signal
        self.first = ""  # that signal's name
        self.ended: E2cDlError | None = None  # what ended the step that is under way, or was until now
        self._within = self._held = self._insists = False
        self._last_s = 0.0
        self._limit: tuple[float, Callable[[], E2cDlError]] | None = None
        self._tell = tell
        self._main = os.getpid()

    @contextmanager
    def raised(self, wanted: bool) -> Iterator[None]:
        """Within, if ``wanted``, the first signal raises Interrupted, also one that came before; others always do."""
        try:
            self.ended, self._held, self._within = None, not wanted, True
            if wanted and self.received is not None:
                self._raise(self.received)
            yield
        finally:
            self._within = False

    @contextmanager
    def limited(self, seconds: float | None, why: Callable[[], E2cDlError]) -> Iterator[None]:
        """Within ``raised``: after ``seconds``, what ``why`` says is raised; never, if that is None."""
        self._limit = None if seconds is None else (time.monotonic() + seconds, why)
        try:
            self._arm()
            yield
        finally:
            self._limit = None

    @contextmanager
    def insisting(self) -> Iterator[None]:
        """Within, what another thread, or a limit, has raised is raised again every ten seconds."""
        self._insists = True
        try:
            yield
        finally:
            self._insists = False
            if signal.getitimer(signal.ITIMER_REAL)[0] > Interrupted.again_s:  # else what was lost is about to come
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._arm()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Within, in a step that is always done, nothing is raised: short work that must be whole. A limit waits."""
        within, self._within = self._within, False
        try:
            yield
        finally:
            self._within = within
            self._arm()

    def prolong(self, seconds: float) -> None:
        """The limit of the step under way, if it has one, comes so much later: others keep it waiting."""
        if self._limit is not None:
            self._limit = (self._limit[0] + seconds, self._limit[1])
            self._arm()

    def end(self, error: E2cDlError) -> None:
        """Have the main thread raise ``error`` in the step under way, if there is one; for other threads to call."""
        if self._within and self.ended is None:
            self.ended = error
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raises: Interrupted, in the process that began; forks of it end."""
        if os.getpid() != self._main:
            if os.getpgrp() == os.getpid():  # Ansible's: with it goes the ssh that it waits for, maybe for ever
                os.killpg(0, signal.SIGKILL)
            os._exit(128 + number)  # not sys.exit: a fork must not go through the controller's clean-up
        name, before_s, self._last_s = signal.Signals(number).name, self._last_s, time.monotonic()
        if self.received is None:
            self.first = name
            self.received = Interrupted(f"stopped by {name}; what was traced until then is in the archive")
            if self._within and not self._held:
                self._raise(self.received)
            self._tell_of_the_next()
        elif self._within and self._last_s - before_s > _AT_ONCE_S:
            self._raise(Interrupted(f"{name} again: what was waited for was given up"))

    def on_alarm(self, number: int, frame: FrameType | None) -> None:
        """Raises: what ends the step, from another thread, after its limit, or again as it was lost before."""
        if os.getpid() != self._main or not self._within:
            return
        if self.ended is None and self._limit is not None and time.monotonic() >= self._limit[0]:
            self.ended = self._limit[1]()
        if self.ended is not None:
            if self._insists:
                signal.setitimer(signal.ITIMER_REAL, _INSISTS_S)
            self._raise(self.ended)
        self._arm()

    def on_lost(self, lost: sys.UnraisableHookArgs) -> None:
        """Called by Python with an exception that goes nowhere."""
        if lost.exc_value is not None and lost.exc_value is self.ended:
            signal.setitimer(signal.ITIMER_REAL, Interrupted.again_s)  # not here: it would go nowhere again
        else:
            sys.__unraisablehook__(lost)

    def _raise(self, error: E2cDlError) -> None:
        self.ended = error
        raise error

    def _arm(self) -> None:
        """Have an alarm come when the limit is reached."""
        if self._limit is not None:
            signal.setitimer(signal.ITIMER_REAL, max(Interrupted.again_s, self._limit[0] - time.monotonic()))

    def _tell_of_the_next(self) -> None:
        # By a thread: whatever this signal came into may be writing to the same stream.
        line = "stopping when this is done; Ctrl-C once more ends what is waited for, and no more than that"
        threading.Thread(target=self._tell, args=(line,), name="signal", daemon=True).start()


@contextmanager
def interruptible(tell: Callable[[str], None] = lambda _: None) -> Iterator[Interrupts]:
    """Ctrl-C, SIGTERM and a closed terminal are remembered; within ``raised`` of what it yields they raise Interrupted.

    What is not raised is told. Where SIGHUP was ignored before, as under ``nohup``, it still is. Only in this process:
    Ansible's forks inherit the handler, and end by themselves.
    """
    interrupts = Interrupts(tell)
    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    handlers = {**dict.fromkeys(wanted, interrupts.on_signal), signal.SIGALRM: interrupts.on_alarm}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    hook, sys.unraisablehook = sys.unraisablehook, interrupts.on_lost
    try:
        yield interrupts
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # first: without a handler, an alarm ends the process
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
