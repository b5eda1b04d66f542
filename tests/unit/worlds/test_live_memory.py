"""Payload memory is used again, but never while anybody can still look at it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from e2c_dl.worlds.live.incoming import KEPT, LEAST_BYTES, PayloadMemory

FLOAT = np.dtype("<f4")


def address(vector: np.ndarray) -> int:
    return int(vector.__array_interface__["data"][0])


def test_what_nobody_holds_is_used_again() -> None:
    memory = PayloadMemory()
    first = memory.vector(FLOAT, LEAST_BYTES)
    assert (first.nbytes, first.dtype) == (LEAST_BYTES, FLOAT)
    where = address(first)
    del first
    assert address(memory.vector(np.dtype("<f8"), LEAST_BYTES)) == where


@pytest.mark.parametrize(
    "hold",
    [
        lambda vector: vector,
        lambda vector: vector[3:5],
        memoryview,
        lambda vector: vector[::2].T,
    ],
    ids=["itself", "a slice", "a memoryview", "a view of a view"],
)
def test_what_somebody_holds_is_not(hold: object) -> None:
    memory = PayloadMemory()
    held = hold(memory.vector(FLOAT, LEAST_BYTES))  # type: ignore[operator]
    others = [memory.vector(FLOAT, LEAST_BYTES) for _ in range(3 * KEPT)]
    for other in others:
        other[:] = 7.0
    assert not any(np.shares_memory(np.asarray(held), other) for other in others)
    assert len({address(other) for other in others}) == len(others)


def test_torch_holds_what_it_shares() -> None:
    torch = pytest.importorskip("torch")
    memory = PayloadMemory()
    tensor = torch.from_numpy(memory.vector(FLOAT, LEAST_BYTES))
    gc.collect()
    assert tensor.data_ptr() != address(memory.vector(FLOAT, LEAST_BYTES))
