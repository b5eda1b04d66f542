"""Tags that tell the messages of one collective from those of any other."""

from __future__ import annotations

from dataclasses import dataclass

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
