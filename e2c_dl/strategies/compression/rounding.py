"""Compressors that send every entry with fewer bits, and keep what that rounds off for later.

======  =============================================  ==============================  =====================
fp16    halves, one exponent                           2 bytes an entry                11 bits of each entry
int8    whole numbers, an exponent per block           1 byte an entry, 2 a block      6 to 7 of the largest
======  =============================================  ==============================  =====================

1. x is the vector, and, if the message adds, what was left of the last: x <- x + residual.
2. e is such that the largest |x| is below 2^e (int8: in each block of entries). Entries are divided by 2^(e - 15) and
   rounded to halves, or by 2^(e - 7) and rounded to whole numbers; so none overflows, whatever the gradient.
3. If the message adds: residual <- x - what the receiver will make of it.

Laws: what is sent and the residual are together x, exactly, as scales are powers of two; a residual is at most one step
of its entry. What was decoded is encoded to itself: who hands it on loses nothing more, and all have the same.

A vector that is not finite everywhere travels as it is, and leaves the residual alone: no scale fits it, and training
shall see it. A message that does not add (parameters, the second half of an all-reduce) is rounded, and what that loses
is lost.

Sources: Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2 (scaling); Seide et al., "1-bit
stochastic gradient descent", Interspeech 2014, Eqs. (2)-(3) (the residual); Dettmers, "8-bit approximations for
parallelism in deep learning", ICLR 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.strategies.base import Array, Vector
from e2c_dl.strategies.compression.compressing import Compressor, Zeros


class Rounding(Compressor):
    """Entries of ``_type``, of at most ``_largest`` below 2^``_bits``, and an exponent for each ``_block`` of them."""

    _type: ClassVar[str]
    _bits: ClassVar[int]
    _largest: ClassVar[int]  # else the largest, rounded up, would need another exponent when it is handed on

    def __init__(self, block: int) -> None:
        self._block = block  # 0: one for all
        self._residual: Vector | None = None

    def encode(self, values: Vector, adds: bool) -> tuple[Array, ...]:
        owed = values if self._residual is None or not adds else values + self._residual
        if not np.isfinite(owed).all():
            return (values.copy(),)
        arrays = self._rounded(owed)
        if adds:
            self._residual = owed - self._restored(*arrays, str(owed.dtype))
        return arrays

    def decode(self, arrays: Sequence[Array], length: int, dtype: str) -> Vector:
        if len(arrays) == 1:
            return as_it_was(arrays[0], length, dtype)
        told = [(len(each), str(each.dtype)) for each in arrays]
        if told != [(self._blocks(length), "int16"), (length, self._type)]:
            raise TrainingError(f"{told} stand for no {length} rounded numbers; run one version everywhere")
        return self._restored(arrays[0], arrays[1], dtype)

    def shapes(self, length: int, dtype: str, adds: bool, zeros: Zeros) -> tuple[Array, ...]:
        return zeros(self._blocks(length), "int16"), zeros(length, self._type)

    def _rounded(self, owed: Vector) -> tuple[Array, Array]:
        """(exponents, entries)."""
        largest = np.maximum.reduceat(np.abs(owed), range(0, len(owed), self._block or len(owed)))
        exponents = (np.frexp(largest)[1] - self._bits).astype(np.int16)
        scaled = np.ldexp(owed, -self._spread(exponents, len(owed)))
        if self._type == "int8":
            np.rint(scaled, out=scaled)
        return exponents, np.clip(scaled, -self._largest, self._largest).astype(self._type)

    def _restored(self, exponents: Array, entries: Array, dtype: str) -> Vector:
        restored: Vector = np.ldexp(entries.astype(dtype), self._spread(exponents, len(entries)))
        return restored

    def _blocks(self, length: int) -> int:
        return -(-length // (self._block or length))

    def _spread(self, exponents: Array, length: int) -> Array:
        """The exponent of each entry; of a single block, one for all."""
        each: Array = exponents.astype(np.int32)
        return each if len(each) == 1 else np.repeat(each, self._block)[:length]


class Halves(Rounding):
    """Halves, scaled by one power of two: 2 bytes an entry."""

    passes = 30.0  # measured beside accumulate, 80 kB to 300 kB; more for what no cache holds
    _type = "float16"
    _bits = 15
    _largest = 2**15 - 16

    def __init__(self) -> None:
        super().__init__(block=0)


class Bytes(Rounding):
    """Whole numbers, scaled by a power of two for each ``block`` of entries: 1 byte an entry."""

    passes = 12.0  # measured likewise
    _type = "int8"
    _bits = 7
    _largest = 2**7 - 1

    def __init__(self, *, block: int = 1024) -> None:
        """Raises: InputError."""
        if block < 1:
            raise InputError(f"compression 'int8': block is {block}; write 1 or more entries")
        super().__init__(block)


def as_it_was(values: Array, length: int, dtype: str) -> Vector:
    """A vector that was not compressed. Raises: TrainingError, if it is not of this length and type."""
    if len(values) != length or str(values.dtype) != dtype:
        raise TrainingError(f"{len(values)} {values.dtype} came for {length} {dtype}; run one version everywhere")
    return values
