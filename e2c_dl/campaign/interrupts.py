"""Ctrl-C and SIGTERM as an exception of ours, once: what follows it is not interrupted again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from e2c_dl.errors import Interrupted


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Ctrl-C and SIGTERM raise Interrupted, once; after the function it yields is called they are only remembered.

    Only in this process: Ansible's forks inherit the handler, and end by themselves.
    """
    main = os.getpid()
    held = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal held
        if os.getpid() != main:
            os._exit(128 + number)
        if not held:
            held = True
            raise Interrupted(f"stopped by {signal.Signals(number).name}; what was traced until then is in the archive")

    def hold() -> None:
        nonlocal held
        held = True

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield hold
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
