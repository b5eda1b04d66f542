"""Importing large packages, faster: Python's garbage collector finds nothing to collect while modules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """While in it, no garbage is collected; what was made in it is never looked at again.

    An eighth of the time that importing torch, or E2Clab, takes; and later collections, which stop a training for
    milliseconds, need not go through a million objects of modules.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
