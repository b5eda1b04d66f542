"""A network of one's own while something runs, and the way back to the one before."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from e2c_dl.testbeds.this_machine import rootless

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def same_network() -> Iterator[None]:
    """After it, this thread is in the network namespace in which it was, whatever was entered in between."""
    with open("/proc/thread-self/ns/net", "rb") as before:
        was_entered = rootless.entered()
        try:
            yield
        finally:
            if not was_entered:
                os.environ.pop(rootless.ENTERED, None)
            with open("/proc/thread-self/ns/net", "rb") as after:
                if not os.path.sameopenfile(before.fileno(), after.fileno()):
                    _checked(_LIBC.setns(before.fileno(), _CLONE_NEWNET), "setns")


@contextmanager
def own_network() -> Iterator[None]:
    """While in it, this thread, and all that it starts, is in a network namespace that has a loopback device only."""
    with same_network():
        _checked(_LIBC.unshare(_CLONE_NEWNET), "unshare")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield


def _checked(status: int, call: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), call)
