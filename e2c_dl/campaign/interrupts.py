"""Ctrl-C and SIGTERM as an exception of ours, once, and only where it may come: elsewhere they are remembered.

Where Python calls back on its own (after a fork, on collecting garbage) it prints an exception and goes on: one that
was lost so is raised again a moment later. Other people's ``except Exception`` may swallow it too: whoever runs the
steps asks ``received`` after each.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from e2c_dl.errors import Interrupted

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_AGAIN_S = 0.05


class Interrupts:
    """What was received, and whether it is raised."""

    def __init__(self) -> None:
        self.received: Interrupted | None = None
        self._held = True
        self._main = os.getpid()

    @contextmanager
    def raised(self, wanted: bool) -> Iterator[None]:
        """Within, if ``wanted``, a signal raises Interrupted, also one that came before; elsewhere it is remembered."""
        try:
            self._held = not wanted
            if wanted and self.received is not None:
                raise self.received
            yield
        finally:
            self._held = True

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raises: Interrupted, the first time, in the process that began; forks of it end."""
        if os.getpid() != self._main:
            os._exit(128 + number)  # not sys.exit: a fork must not go through the controller's clean-up
        if self.received is None:  # only the first: whoever presses Ctrl-C again must not stop the clean-up
            what = signal.Signals(number).name
            self.received = Interrupted(f"stopped by {what}; what was traced until then is in the archive")
            if not self._held:
                raise self.received

    def on_alarm(self, number: int, frame: FrameType | None) -> None:
        """Raises: Interrupted, as it was lost before."""
        if self.received is not None and not self._held:
            raise self.received

    def on_lost(self, lost: UnraisableHookArgs) -> None:
        """Called by Python with an exception that goes nowhere."""
        if lost.exc_value is not None and lost.exc_value is self.received:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)  # not here: it would go nowhere again
        else:
            sys.__unraisablehook__(lost)


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Ctrl-C and SIGTERM are remembered; within ``raised`` of what it yields they raise Interrupted, once.

    Only in this process: Ansible's forks inherit the handler, and end by themselves.
    """
    interrupts = Interrupts()
    handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), interrupts.on_signal)
    before = {
        number: signal.signal(number, handler)
        for number, handler in [*handlers.items(), (signal.SIGALRM, interrupts.on_alarm)]
    }
    hook, sys.unraisablehook = sys.unraisablehook, interrupts.on_lost
    try:
        yield interrupts
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # first: without a handler, an alarm ends the process
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
