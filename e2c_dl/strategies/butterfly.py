"""All-reduce in one hop, each rank the sum of one part, as large as its bandwidth allows.

Source: Ryabinin, Gorbunov, Plokhotnyuk and Pekhimenko, "Moshpit SGD", NeurIPS 2021, section 3; which parts:
collectives/parts.py. Idea: around a ring all ranks send as much, and the slowest link decides; here a rank with slow
links sums little, or nothing.

1. Compute the gradient g_i; as each bucket of it is complete, beside the remaining backward pass, weight it by its
   samples, b_i / sum(b), and cut it into one part for each rank.
2. Send each part to the rank that sums it; that rank adds them up in rank order,
3. and sends the sum to all. When all buckets are summed, step.
4. In the first iterations parts are equal. After MEASURED_AFTER of them, when TCP's windows are open, and again every
   ``period``, each rank tells all others the rates that its links had, as measured; a rank's bandwidth is the sum of
   those, and the parts are the optimum for them.

Laws: equals single-process SGD on the concatenated batches, also for unequal ones (float64: 1e-9 relative over 100
iterations); all ranks hold the same parameters, to the bit, and the same for any parts: each entry is summed in rank
order, wherever that is.

Differences from the paper: it averages models, in groups that change. A link that nothing has filled has no rate; a
rank of which no link has one counts as the mean of those that have. Under a compressor, what it kept of parts that are
divided anew is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import isfinite
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Setting, Strategy, Vector, Worker, any_pair
from e2c_dl.strategies.collectives import Tag
from e2c_dl.strategies.collectives.parts import divided_by_bandwidth
from e2c_dl.strategies.collectives.rates import measured_rates

MEASURED_AFTER = 4


class Butterfly(Strategy):
    """Sum of each bucket by parts, overlapped with backward; see the module."""

    name: ClassVar[str] = "butterfly"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {}

    def __init__(self, *, period: int = 50) -> None:
        """``period``: iterations between two divisions, 0: equal parts for good. Raises: InputError."""
        if period < 0:
            raise InputError(f"strategy 'butterfly': period is {period}; write 0 or more iterations")
        self._period = period
        self.divides_by_links = period > 0

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair."""
        return any_pair(size)

    async def run(self, worker: Worker) -> None:
        bandwidths: Sequence[float | None] = [None] * worker.size  # all alike
        division = 0  # told by messages, so that parts of unlike lengths are no messages of one kind
        async for iteration in worker.iterations():
            sums = []
            async for bucket in worker.gradient():
                tag = Tag(kind="part", iteration=iteration, bucket=bucket.index)
                sums.append(worker.spawn(_mean(worker, bucket.values, tag, division, bandwidths)))
            for each in sums:
                await each  # the step reads the whole gradient
            await worker.step()
            if self._period and iteration % self._period == min(MEASURED_AFTER, self._period) - 1:
                bandwidths = [_bandwidth(row) for row in await measured_rates(worker, iteration)]
                division += 1


def _bandwidth(rates: Sequence[float]) -> float | None:
    """Of a rank whose links have these rates; None: not known."""
    known = [rate for rate in rates if rate and isfinite(rate)]
    return sum(known) / len(known) * (len(rates) - 1) if known else None  # those not known: as the others


async def _mean(worker: Worker, values: Vector, tag: Tag, division: int, bandwidths: Sequence[float | None]) -> None:
    """Turn ``values`` into the sample-weighted mean over all ranks, by parts for ``bandwidths``."""
    rank, summed = worker.rank, replace(tag, kind="sum")
    await worker.scale(values, worker.samples / worker.total_samples)
    bounds = [0, *accumulate(divided_by_bandwidth(len(values), bandwidths))]
    parts = [values[begin:end] for begin, end in pairwise(bounds)]
    own, there = parts[rank], [other for other, part in enumerate(parts) if len(part) and other != rank]
    sent = [worker.send(other, tag.message(division, parts[other], adds=True)) for other in there]
    if len(own):
        total = await _summed(worker, own, tag, division)
        await worker.round_as_sent(total)
        others = [other for other in range(worker.size) if other != rank]
        sent += [worker.send(other, summed.message(division, total)) for other in others]
        await worker.copy(own, total)
    for other in there:
        came = await summed.receive(worker, other, division)
        await sent[there.index(other)]  # this part has left: it is overwritten now
        await worker.copy(parts[other], came)
    for each in sent:
        await each


async def _summed(worker: Worker, own: Vector, tag: Tag, division: int) -> Vector:
    """The sum of all ranks' parts of ``own``'s place, in rank order; a vector of its own."""
    total = worker.zeros()[: len(own)]
    for src in range(worker.size):
        came = own if src == worker.rank else await tag.receive(worker, src, division)
        await worker.accumulate(total, came)
    return total
