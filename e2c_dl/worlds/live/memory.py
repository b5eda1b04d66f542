"""Memory of payloads that is used again once nobody looks at it: fresh pages cost more than what is copied into them.

Whoever received a payload may keep it, or views of it, as long as it likes: a view refers to the memory that it looks
into, so the count of references says whether anybody does.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.strategies.base import Vector

KEPT = 4
LEAST_BYTES = 1 << 18  # below, the allocator's own pages are warm

Piece = npt.NDArray[np.uint8]


class Memory:
    """Payload memory of one link; keeps at most KEPT pieces that were handed out."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def vector(self, dtype: np.dtype[Any], size_bytes: int) -> Vector:
        """A vector of ``size_bytes``, its values whatever they were."""
        if size_bytes < LEAST_BYTES:
            return np.empty(size_bytes // dtype.itemsize, dtype=dtype)
        for index in range(len(self._pieces)):
            if self._pieces[index].nbytes == size_bytes and _references(self._pieces, index) == _UNUSED:
                return self._pieces[index].view(dtype)
        self._pieces = [*self._pieces[-(KEPT - 1) :], np.empty(size_bytes, dtype=np.uint8)]
        return self._pieces[-1].view(dtype)


def _references(pieces: list[Piece], index: int) -> int:
    """How many refer to a piece, whatever this very look adds to it."""
    return sys.getrefcount(pieces[index])


_UNUSED = _references([np.empty(1, dtype=np.uint8)], 0)  # interpreters differ in what a look adds
