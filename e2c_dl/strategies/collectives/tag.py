"""Tags that tell the messages of one collective from those of any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl.strategies.base import Message, Vector, Worker


@dataclass(frozen=True, kw_only=True)
class Tag:
    """Kind, iteration and bucket of all messages of one collective; their ``step`` is its own counter."""

    kind: str
    iteration: int
    bucket: int = -1

    def message(self, step: int, payload: Vector, *, adds: bool = False) -> Message:
        """The message of ``step`` with ``payload``, which its receiver ``adds`` to what it has, or takes over."""
        return Message(
            kind=self.kind, iteration=self.iteration, bucket=self.bucket, step=step, payload=payload, adds=adds
        )

    async def receive(self, worker: Worker, src: int, step: int) -> Vector:
        """The payload that ``src`` sent in ``step``. Raises: PeerLost."""
        came = await worker.receive(self.kind, src=src, iteration=self.iteration, bucket=self.bucket, step=step)
        return came.vector

    def numbers(self, step: int, values: Sequence[float]) -> Message:
        """The message of ``step`` with ``values``, which their receiver reads itself: a tuple is never compressed."""
        payload = (np.array(values, dtype=np.float64),)
        return Message(kind=self.kind, iteration=self.iteration, bucket=self.bucket, step=step, payload=payload)

    async def receive_numbers(self, worker: Worker, src: int, step: int) -> list[float]:
        """The ``numbers`` that ``src`` sent in ``step``. Raises: PeerLost."""
        came = await worker.receive(self.kind, src=src, iteration=self.iteration, bucket=self.bucket, step=step)
        return [float(each) for each in came.arrays[0]]
