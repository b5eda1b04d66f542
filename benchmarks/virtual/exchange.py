"""What both sides simulate: every rank of a ring computes, sends to both neighbours, and receives from both.

Times are whole nanoseconds, so that both sides can be held to the same end. Compute differs from rank to rank, messages
of one link queue for its rate, and arrive a delay later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from e2c_dl.ethernet import wire_bits
from e2c_dl.strategies.base import Message, Strategy, Worker
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes, HostModel, LinkModel
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES

LENGTH = 25_000  # float32: 100 kB
RATE_BPS = 1e9  # one bit per ns
DELAY_NS = 1_000_000
NBYTES = MESSAGE_HEADER_BYTES + 4 * LENGTH
SERVICE_NS = wire_bits(NBYTES)
HEADER_NS = wire_bits(MESSAGE_HEADER_BYTES)
FORWARD_NS, BACKWARD_NS = 2_000_000, 3_000_000
LINK = LinkModel(rate_bps=RATE_BPS, delay_s=DELAY_NS / 1e9, send_buffer_bytes=0)


class Exchange(Strategy):
    """Neighbours on a ring swap vectors; nothing is done with them."""

    name: ClassVar[str] = "exchange"

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return sorted(pair for rank in range(size) for pair in ((rank, (rank + 1) % size), (rank, (rank - 1) % size)))

    async def run(self, worker: Worker) -> None:
        left, right = (worker.rank - 1) % worker.size, (worker.rank + 1) % worker.size
        async for iteration in worker.iterations():
            async for _ in worker.gradient():
                message = Message(kind="swap", iteration=iteration, payload=worker.parameters)
                worker.send(left, message)
                worker.send(right, message)
            await worker.receive("swap", src=left, iteration=iteration)
            await worker.receive("swap", src=right, iteration=iteration)


def factor(rank: int) -> int:
    """How many times slower a rank computes: 1, 2 or 3, without a pattern that repeats soon."""
    return 1 + rank * 2654435761 % 4294967296 * 3 // 4294967296


def hosts(size: int) -> list[HostModel]:
    """``size`` hosts whose gradients take whole nanoseconds."""
    times = GradientTimes(data_s=0.0, forward_s=FORWARD_NS / 1e9, backward_s=(BACKWARD_NS / 1e9,))
    profile = ComputeProfile(
        model="none", dtype="float32", parameters=LENGTH, buckets=((0, LENGTH),), gradients={1: times}
    )
    return [
        HostModel(name=f"edge-{rank + 1}", profile=profile, samples=1, factor=float(factor(rank)))
        for rank in range(size)
    ]
