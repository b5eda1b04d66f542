"""Messages between ranks: what tells one from another, and the arrays that they carry.

::

    payload    None                            a message that says all it has to say by its key
               array                           float32, float64, float16, or integers of 1 to 8 bytes; flat
               (array, array, ...)             several, of any of these types each; Sparse is one of them

Several arrays travel in one message: a table of their types and lengths, and each of them behind it, padded to 8 bytes
(so that a receiver can look at it where it lies)::

    count 8 | type 8, bytes 8 | type 8, bytes 8 | ... | array ... | array ... |

Nothing is pickled: a payload holds numbers, and their meaning is the strategy's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import TrainingError

Vector = npt.NDArray[np.floating[Any]]
"""Flat, of float32 or float64: parameters, gradients, and what strategies compute of them."""

Array = npt.NDArray[Any]
"""Flat, of any of DTYPES: what a message can carry."""

DTYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(name) for name in ("<f4", "<f8", "<f2", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8")
)
MOST_ARRAYS = 16  # of one message

TABLE_BYTES, ENTRY_BYTES = 8, 16  # of several arrays: their count, and each one's type and length
ALIGNMENT_BYTES = 8


class Sparse(NamedTuple):
    """Some entries of a flat vector: ``values[i]`` stands at ``indices[i]``. A payload as it is.

    ::

        sent = worker.send(2, Message(kind="part", payload=Sparse(indices, values)))
        indices, values = (await worker.receive("part", src=0)).sparse
    """

    indices: Array  # int32, ascending, each once
    values: Array  # of any type, as many


Payload = Array | tuple[Array, ...]


@dataclass(frozen=True, kw_only=True)
class Message:
    """Message between two ranks. ``src`` is filled in by the world."""

    kind: str  # at most 16 ASCII characters: "reduce", "gather", ...
    iteration: int = -1
    bucket: int = -1
    step: int = -1  # a counter of the strategy's own, such as the step of a ring
    payload: Payload | None = None
    src: int = -1
    adds: bool = field(default=False, compare=False)
    """Told to wrappers alone, it does not travel: the receiver adds the payload to what it has, so that what a
    compressor leaves out of it may follow in a later message."""

    @property
    def vector(self) -> Vector:
        """The payload. Raises: TrainingError if the message carries none, or something else."""
        if self.payload is None:
            raise TrainingError(f"message {self.kind!r} from rank {self.src} carries no vector; send it with a payload")
        if isinstance(self.payload, tuple):
            raise self._unlike("a vector")
        return self.payload

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays of the payload; none of a message without one."""
        if self.payload is None:
            return ()
        return self.payload if isinstance(self.payload, tuple) else (self.payload,)

    @property
    def sparse(self) -> Sparse:
        """The payload, which was sent as a Sparse. Raises: TrainingError if it is none."""
        arrays = self.arrays
        if len(arrays) != len(Sparse._fields) or arrays[0].dtype != np.int32 or len(arrays[0]) != len(arrays[1]):
            raise self._unlike("a Sparse: int32 indices, and as many values")
        return Sparse(*arrays)

    def _unlike(self, wanted: str) -> TrainingError:
        found = ", ".join(f"{len(array)} {array.dtype}" for array in self.arrays) or "nothing"
        return TrainingError(f"message {self.kind!r} from rank {self.src} carries {found}, not {wanted}")


def size_bytes(payload: Payload | None) -> int:
    """Bytes that ``payload`` takes in a message, the table of several arrays included."""
    if payload is None:
        return 0
    if isinstance(payload, tuple):
        return TABLE_BYTES + sum(ENTRY_BYTES + padded_bytes(array.nbytes) for array in payload)
    return payload.nbytes


def padded_bytes(nbytes: int) -> int:
    """``nbytes`` and what is added to make them a multiple of ALIGNMENT_BYTES."""
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def fault_of(payload: Payload | None) -> str | None:
    """Why ``payload`` cannot travel, and what to send instead; None: it can."""
    arrays: tuple[object, ...] = payload if isinstance(payload, tuple) else () if payload is None else (payload,)
    if len(arrays) > MOST_ARRAYS:
        return f"its payload is {len(arrays)} arrays; send at most {MOST_ARRAYS} in one message"
    for array in arrays:
        if not isinstance(array, np.ndarray):
            return f"its payload holds a {type(array).__name__}; send arrays"
        if array.dtype not in DTYPES or array.ndim != 1 or not array.flags.c_contiguous:
            problem = f"its payload is {array.dtype} of shape {array.shape}"
            return f"{problem}; send contiguous flat vectors of floats (float16, 32, 64) or integers"
    return None
