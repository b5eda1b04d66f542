"""Mathematics of one rank, as worlds run it: real on torch, or shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from e2c_dl.strategies.seam.messages import Vector
from e2c_dl.trace.model import Phase

TensorShapes = Sequence[tuple[int, ...]]
"""The shapes of the model's tensors that a bucket holds, one after the other; empty: they are not known."""


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A flat piece of the gradient, complete. ``values`` is a view: writing to it writes the gradient."""

    index: int
    where: slice  # in the flat vector
    values: Vector
    tensor_shapes: TensorShapes = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Loss and accuracy of the parameters on samples that were not trained on."""

    loss: float  # mean
    accuracy: float  # fraction, 0..1


OnSegment = Callable[[Phase, int, int, int], None]
"""Told of each piece of a gradient as it ends: phase (DATA, FORWARD, BACKWARD), bucket (-1: none), start_ns, end_ns."""


class Compute(Protocol):
    """The mathematics of one rank, for a world to run: real on torch, or shapes alone. Calls block, one by one."""

    @property
    def parameters(self) -> Vector: ...
    @property
    def gradients(self) -> Vector: ...
    @property
    def buckets(self) -> Sequence[slice]:
        """Where each bucket lies in the flat vector, by index, in the order in which backward completes them."""

    @property
    def tensor_shapes(self) -> Sequence[TensorShapes]:
        """Of the tensors in each bucket, by index; empty: of none are they known."""

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        """Mean loss over the batch of ``iteration``, of ``samples`` samples; writes its gradient into ``gradients``.

        A world calls it in a thread. A bucket's BACKWARD is reported when its values are final.
        """

    def step(self) -> None:
        """Apply the optimizer to ``parameters`` with ``gradients`` as they are."""

    def evaluate(self) -> Evaluation:
        """Loss and accuracy of ``parameters`` as they are, on the test samples."""


def bucket_of(compute: Compute, index: int) -> Bucket:
    """Bucket ``index`` of ``compute``'s gradient, as a strategy sees it."""
    where, known = compute.buckets[index], compute.tensor_shapes
    return Bucket(
        index=index, where=where, values=compute.gradients[where], tensor_shapes=known[index] if known else ()
    )
