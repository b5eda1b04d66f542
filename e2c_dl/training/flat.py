"""A model whose parameters, and whose gradients, each lie in one flat vector that NumPy and torch share.

::

    flat vector    | conv1.w | conv1.b | conv2.w | conv2.b | fc1.w ......... | fc1.b | fc2.w | fc2.b |
    buckets        |<-------------- 1 -------------------->|<------------------- 0 ----------------->|

Backward completes gradients from the last layer to the first, so buckets are filled from the end; a bucket is closed as
soon as it holds ``bucket_bytes``. A parameter is never split. ``param.data`` and ``param.grad`` are views: autograd
adds into the vector in place, and the optimizer sees one parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Vector = npt.NDArray[np.floating[Any]]


class FlatModel:
    """``model``, moved into flat vectors: those of its parameters that require a gradient become views, in place.

    The vectors are where the model is; ``pinned``: in memory that a device copies from and to by itself.
    """

    def __init__(self, model: nn.Module, bucket_bytes: int, *, pinned: bool = False) -> None:
        self.model = model
        # views of the vector, first layer first; ``bucket_of`` is by the same index
        self.tensors = [parameter for parameter in model.parameters() if parameter.requires_grad]
        dtype, device = self.tensors[0].dtype, self.tensors[0].device
        length = sum(parameter.numel() for parameter in self.tensors)
        self.vector = nn.Parameter(
            torch.empty(length, dtype=dtype, device=device, pin_memory=pinned), requires_grad=False
        )
        self.vector.grad = torch.zeros(length, dtype=dtype, device=device, pin_memory=pinned)
        self._move()
        sizes = [parameter.numel() for parameter in self.tensors]
        self.buckets, self.bucket_of = buckets(sizes, self.vector.element_size(), bucket_bytes)
        # of each bucket, in the order in which its tensors lie there
        self.tensor_shapes: list[list[tuple[int, ...]]] = [[] for _ in self.buckets]
        for parameter, bucket in zip(self.tensors, self.bucket_of, strict=True):
            self.tensor_shapes[bucket].append(tuple(parameter.shape))

    @property
    def gradient(self) -> torch.Tensor:
        """The flat gradient, as torch sees it."""
        grad = self.vector.grad
        if grad is None:
            raise RuntimeError("the flat gradient was set to None; zero it in place instead")
        return grad

    @property
    def parameters(self) -> Vector:
        """The flat parameters, as NumPy sees them."""
        values: Vector = self.vector.detach().numpy()  # shares torch's memory
        return values

    @property
    def gradients(self) -> Vector:
        """The flat gradient, as NumPy sees it."""
        values: Vector = self.gradient.numpy()
        return values

    def _move(self) -> None:
        begin = 0
        with torch.no_grad():
            for parameter in self.tensors:
                where = slice(begin, begin + parameter.numel())
                self.vector[where].copy_(parameter.flatten())
                parameter.data = self.vector.data[where].view(parameter.shape)
                parameter.grad = self.gradient[where].view(parameter.shape)  # set once: autograd adds to what is there
                begin = where.stop


def buckets(sizes: Sequence[int], item_bytes: int, bucket_bytes: int) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """(where each bucket lies in the flat vector, which bucket each parameter is in); ``sizes`` are the parameters'."""
    where: list[slice] = []
    bucket_of = [0] * len(sizes)
    begin = end = sum(sizes)
    for index in reversed(range(len(sizes))):  # as backward completes them
        begin -= sizes[index]
        bucket_of[index] = len(where)
        if (end - begin) * item_bytes >= bucket_bytes or index == 0:  # the first layers are the last to be complete
            where.append(slice(begin, end))
            end = begin
    return tuple(where), tuple(bucket_of)
