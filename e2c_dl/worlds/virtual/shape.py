"""Vectors of which only length and type are known: what strategies handle where nothing is computed.

A Shape can be sliced and measured like a flat array; whoever wants numbers of it has left the rules that keep worlds
equal (vector mathematics goes through a Worker's verbs), and is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Array, Evaluation, OnSegment, TensorShapes


class Shape:  # torch's meta tensors would do, at 48 us per operation in place of 2, and with torch
    """``length`` items of ``dtype``, flat."""

    __slots__ = ("dtype", "length", "nbytes")

    def __init__(self, length: int, dtype: np.dtype[Any]) -> None:
        self.length, self.dtype = length, dtype
        self.nbytes = length * dtype.itemsize  # not a property: it is read at every message

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        return self.length

    @property
    def shape(self) -> tuple[int]:
        return (self.length,)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, where: slice) -> Shape:
        """The part ``where``. Raises: TrainingError for a single item: it has no value."""
        if not isinstance(where, slice):
            self._no_values()
        return Shape(len(range(*where.indices(self.length))), self.dtype)

    def __setitem__(self, where: object, values: object) -> None:
        self._no_values()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._no_values()

    def __repr__(self) -> str:
        return f"Shape({self.length}, {self.dtype})"

    def _no_values(self) -> NoReturn:
        raise TrainingError(
            f"a vector of {self.length} {self.dtype} has no values in a run of shapes alone; "
            "use the worker's copy, accumulate and scale, or run with real gradients"
        )


def shape(length: int, dtype: str) -> Array:
    """A Shape that passes for an array: it supports what strategies may do with one."""
    return cast(Array, Shape(length, np.dtype(dtype)))


class ShapeCompute:
    """A Compute of shapes alone: it computes nothing, and its loss is not a number."""

    def __init__(
        self, *, length: int, dtype: str, buckets: Sequence[slice], tensor_shapes: Sequence[TensorShapes]
    ) -> None:
        self.parameters = shape(length, dtype)
        self.gradients = shape(length, dtype)
        self.buckets, self.tensor_shapes = buckets, tensor_shapes

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        return float("nan")

    def step(self) -> None:
        """Nothing."""

    def evaluate(self) -> Evaluation:
        return Evaluation(loss=float("nan"), accuracy=float("nan"))
