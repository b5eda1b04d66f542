"""One iteration that a rank trains by itself, seen as an update: how far its parameters moved."""

from __future__ import annotations

from e2c_dl.strategies.base import Vector, Worker


async def local_update(worker: Worker, update: Vector, factor: float) -> None:
    """Train one iteration; ``update`` is then the difference that it made to the parameters, times ``factor``."""
    await worker.copy(update, worker.parameters)
    async for _ in worker.gradient():
        pass
    await worker.step()
    await worker.scale(update, -factor)
    await worker.accumulate(update, worker.parameters, factor)
