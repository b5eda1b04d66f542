"""A Worker that hands every verb on to another: what wraps a Worker overrides the verbs that it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np

from e2c_dl.strategies.base import Array, Bucket, LinkEstimate, Message, Pending, Vector, Verdict, Worker

T = TypeVar("T")


# Verb by verb, not by __getattr__: so mypy holds it to the protocol, and a new verb cannot be forgotten.
class Wrapped:
    """``worker``, as it is; implements :class:`e2c_dl.strategies.base.Worker`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def rank(self) -> int:
        return self._worker.rank

    @property
    def size(self) -> int:
        return self._worker.size

    @property
    def samples(self) -> int:
        return self._worker.samples

    @property
    def total_samples(self) -> int:
        return self._worker.total_samples

    @property
    def parameters(self) -> Vector:
        return self._worker.parameters

    @property
    def gradients(self) -> Vector:
        return self._worker.gradients

    @property
    def layers(self) -> Sequence[str]:
        return self._worker.layers

    @property
    def random(self) -> np.random.Generator:
        return self._worker.random

    @property
    def compute_s(self) -> float:
        return self._worker.compute_s

    @property
    def loss(self) -> float:
        return self._worker.loss

    def iterations(self) -> AsyncIterator[int]:
        return self._worker.iterations()

    def resize(self, samples: int, total_samples: int) -> None:
        self._worker.resize(samples, total_samples)

    def skip_to(self, iteration: int) -> None:
        self._worker.skip_to(iteration)

    def zeros(self, length: int | None = None, dtype: str | None = None) -> Array:
        return self._worker.zeros(length, dtype)

    def gradient(self) -> AsyncIterator[Bucket]:
        return self._worker.gradient()

    async def step(self) -> None:
        await self._worker.step()

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        return self._worker.send(dst, message, priority)

    def queued_bytes(self, dst: int) -> int:
        return self._worker.queued_bytes(dst)

    def link(self, dst: int) -> LinkEstimate | None:
        return self._worker.link(dst)

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        return await self._worker.receive(kind, src=src, iteration=iteration, bucket=bucket, step=step)

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        return await self._worker.receive_any(kind, sources=sources, timeout_s=timeout_s)

    def deadline_s(self, kind: str) -> float | None:
        return self._worker.deadline_s(kind)

    def arrived(self, kind: str) -> Sequence[Message]:
        return self._worker.arrived(kind)

    def verdicts(self) -> Sequence[Verdict]:
        return self._worker.verdicts()

    def spawn(self, coroutine: Coroutine[Any, Any, T], background: bool = False) -> Pending[T]:
        return self._worker.spawn(coroutine, background)

    async def copy(self, into: Vector, values: Vector) -> None:
        await self._worker.copy(into, values)

    async def accumulate(self, into: Vector, values: Vector, factor: float = 1.0) -> None:
        await self._worker.accumulate(into, values, factor)

    async def scale(self, vector: Vector, factor: float) -> None:
        await self._worker.scale(vector, factor)

    async def apply(self, into: Vector, update: Vector, *, src: int, staleness: int) -> None:
        await self._worker.apply(into, update, src=src, staleness=staleness)

    async def round_as_sent(self, values: Vector) -> None:
        await self._worker.round_as_sent(values)

    async def calculate(self, work: Callable[[], T], *, nbytes: int, shapes: Callable[[], T]) -> T:
        return await self._worker.calculate(work, nbytes=nbytes, shapes=shapes)
