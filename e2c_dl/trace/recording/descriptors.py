"""Files and sockets that are open for as long as a script trains: their numbers may be another's by the end.

A program that closes all numbers (``os.closerange``, as daemons do) closes those of whoever watches it, too, and what
it opens next has one of them. Whoever keeps a number asks before it is written, read on, or closed.
"""

from __future__ import annotations

import os

Identity = tuple[int, int]


def identity(descriptor: int) -> Identity:
    """Which file or socket ``descriptor`` is of. Raises: OSError, if of none."""
    told = os.fstat(descriptor)
    return told.st_dev, told.st_ino


def is_still(descriptor: int, opened: Identity) -> bool:
    """Whether ``descriptor`` is of what was ``opened`` by it."""
    try:
        return identity(descriptor) == opened
    except OSError:
        return False
