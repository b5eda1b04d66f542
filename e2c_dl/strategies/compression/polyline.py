"""Polyline: entries rounded to so many decimal places, as differences, in as few characters as each takes.

1. q <- round(x * 10^precision).
2. The difference to the entry before; the sign is moved to the lowest bit: 0, -1, 1, -2 become 0, 1, 2, 3.
3. Five bits at a time, the lowest first, 32 added where more follow, and 63: a printable character each.

Law: what comes is at most 0.5 * 10^-precision from what was sent (and what its type rounds). A vector with entries that
are not finite, or of which 2^50 is not enough for q, travels as it is.

What is rounded off of a message that adds is kept, and added to the next. How many characters a vector takes depends on
its values, which a run of shapes alone has not, nor one that is simulated again: there, each entry takes
``entry_bytes``; 2.5 is what those of the digits' cnn take, trained for a while.

Sources: Google, "Encoded polyline algorithm format"; Chai et al., "FedAT", SC 2021, which compresses models so, at
precision 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.strategies.base import Array, Vector
from e2c_dl.strategies.compression.compressing import Compressor, Zeros
from e2c_dl.strategies.compression.rounding import as_it_was

_BITS, _MORE, _FIRST = 5, 32, 63  # of a character, what says that another follows, the first that is used
_MOST = 2.0**50  # |q|: up to here what is handed on is what came, in float64, too
_MOST_CHARACTERS = 11  # of an entry: a difference is below 2^51, and its sign a bit


class Polyline(Compressor):
    """``precision`` decimal places, in characters: 1 to 4 an entry of most models, of shapes alone ``entry_bytes``."""

    passes, decoding_passes = 170.0, 250.0  # measured beside torch's add_ of as much, 240 kB, one thread

    def __init__(self, *, precision: int = 4, entry_bytes: float = 2.5) -> None:
        """Raises: InputError."""
        if not 0 <= precision <= 9:
            raise InputError(f"compression 'polyline': precision is {precision}; write 0 to 9 decimal places")
        if not 1 <= entry_bytes <= _MOST_CHARACTERS:
            raise InputError(f"compression 'polyline': entry_bytes is {entry_bytes}; write 1 to {_MOST_CHARACTERS}")
        self._precision, self._entry_bytes = precision, entry_bytes
        self._residual: Vector | None = None

    def encode(self, values: Vector, adds: bool) -> tuple[Array, ...]:
        owed = values if self._residual is None or not adds else values + self._residual
        if not np.isfinite(owed).all() or np.abs(owed).max(initial=0.0) >= _MOST / 10**self._precision:
            return (values.copy(),)
        characters = encoded(owed, self._precision)
        if adds:
            self._residual = owed - decoded(characters, self._precision).astype(owed.dtype)
        return (characters,)

    def decode(self, arrays: Sequence[Array], length: int, dtype: str) -> Vector:
        if len(arrays) != 1 or str(arrays[0].dtype) != "uint8":
            return as_it_was(arrays[0] if len(arrays) == 1 else arrays[0][:0], length, dtype)
        values = decoded(arrays[0], self._precision)
        if len(values) != length:
            raise TrainingError(f"{len(values)} numbers came for {length}; run one version everywhere")
        return values.astype(dtype)

    def shapes(self, length: int, dtype: str, adds: bool, zeros: Zeros) -> tuple[Array, ...]:
        return (zeros(round(length * self._entry_bytes), "uint8"),)


def encoded(values: Vector, precision: int, dimensions: int = 1) -> Array:
    """The characters of ``values``, as uint8; of points in several ``dimensions``, differences are in each of them."""
    whole = np.rint(values.astype(np.float64) * 10.0**precision).astype(np.int64)
    difference = whole.copy()
    difference[dimensions:] -= whole[:-dimensions]
    bits = (difference << 1) ^ (difference >> 63)  # not negative: the sign is the lowest
    longest = max(1, -(-int(bits.max(initial=0)).bit_length() // _BITS))
    if longest * _BITS < 32:  # as most models are: half of the bytes to go over
        bits = bits.astype(np.int32)
    parts, kept = np.empty((len(bits), longest), np.uint8), np.empty((len(bits), longest), bool)
    for place in range(longest):
        rest = bits >> (_BITS * place)
        parts[:, place] = (rest & (_MORE - 1)) + (_FIRST + _MORE * (rest >= _MORE))
        kept[:, place] = rest > 0
    kept[:, 0] = True  # 0 is a character, too
    characters: Array = parts[kept]
    return characters


def decoded(characters: Array, precision: int, dimensions: int = 1) -> Vector:
    """The float64 numbers that ``characters`` stand for. Raises: TrainingError, if they stand for none."""
    ends = characters < _FIRST + _MORE
    starts = np.flatnonzero(ends[:-1]) + 1  # of all but the first
    starts = np.concatenate([[0], starts]) if len(characters) else starts[:0]
    counts = np.diff(starts, append=len(characters))
    longest = int(counts.max(initial=0))
    if longest > _MOST_CHARACTERS or (len(characters) and not (ends[-1] and _known(characters))):
        raise TrainingError("what came is no polyline of numbers; run one version everywhere")
    low = (characters - _FIRST & (_MORE - 1)).astype(np.int32 if longest * _BITS < 32 else np.int64)
    bits = low[starts]
    for place in range(1, longest):
        own = np.flatnonzero(counts > place)
        bits[own] |= low[starts[own] + place] << (_BITS * place)
    difference = ((bits >> 1) ^ -(bits & 1)).astype(np.int64)
    whole = np.empty_like(difference)
    for first in range(dimensions):
        np.cumsum(difference[first::dimensions], out=whole[first::dimensions])
    values: Vector = whole / 10.0**precision
    return values


def _known(characters: Array) -> bool:
    return bool(characters.min() >= _FIRST and characters.max() < _FIRST + 2 * _MORE)
