"""Importing large packages, faster: Python's garbage collector finds nothing to collect while modules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """While in it, no garbage is collected; what was made in it is never looked at again.

    Importing torch, or E2Clab, takes less time so; and later collections, which stop a training meanwhile, need not go
    through the objects of all these modules.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
