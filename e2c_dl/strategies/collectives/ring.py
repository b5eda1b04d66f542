"""Sum over a ring: every rank sends and receives 2 (n-1)/n of the vector, however many ranks there are.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of Parallel
and Distributed Computing 69 (2009), section 3.

1. Cut the vector into n chunks.
2. Reduce-scatter: n-1 times, send one chunk to the next rank, and add the chunk that comes from the one before; in the
   end the rank at position r has the complete sum of chunk r+1.
3. All-gather: n-1 times, pass the completed chunk on, and take over the one that comes from the rank before.

The chunks that 4 ranks send (S: complete)::

    step      0    1    2  |  3    4    5
    rank 0    0    3    2  |  1S   0S   3S
    rank 1    1    0    3  |  2S   1S   0S
    rank 2    2    1    0  |  3S   2S   1S
    rank 3    3    2    1  |  0S   3S   2S

All ranks end with the same sums to the bit. A vector shorter than n leaves some chunks empty; they travel as empty
messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from e2c_dl.strategies.base import Pending, Vector, Worker
from e2c_dl.strategies.collectives.tag import Tag


async def ring_sum(worker: Worker, values: Vector, tag: Tag, group: Sequence[int], *, adds: bool = False) -> None:
    """Turn ``values`` into their sum over ``group``; returns when they may be written again.

    ``adds``: what a compressor leaves out may follow with the next sum of this tag (gradients, updates); without it
    the sum is whole (parameters).

    Raises: PeerLost.
    """
    place, last = group.index(worker.rank), len(group) - 1  # last: steps of each half
    after, before = group[(place + 1) % len(group)], group[place - 1]
    chunks = split(values, len(group))
    sent: list[Pending[None]] = []
    for step in range(2 * last):
        leaving = chunks[(place - step) % len(group)]
        if step == last:  # complete, and from here on everybody's: this rank has it as they will
            await worker.round_as_sent(leaving)
        sent.append(worker.send(after, tag.message(step, leaving, adds=adds and step < last)))  # first: else all wait
        came = await tag.receive(worker, before, step)
        coming = chunks[(place - step - 1) % len(group)]
        if step < last:
            await worker.accumulate(coming, came)
        else:
            await sent[step - last]  # this chunk left in reduce-scatter; it is overwritten now
            await worker.copy(coming, came)
    for each in sent[last:]:  # the caller may write to them from here on
        await each


def ring_links(group: Sequence[int]) -> list[tuple[int, int]]:
    """The directed links that a ring over ``group`` uses: each rank to the next."""
    return list(pairwise([*group, group[0]])) if len(group) > 1 else []


def split(values: Vector, count: int) -> list[Vector]:
    """``count`` consecutive views of ``values`` whose lengths differ by at most one; some are empty if it is short."""
    bounds = [len(values) * index // count for index in range(count + 1)]
    return [values[begin:end] for begin, end in pairwise(bounds)]
