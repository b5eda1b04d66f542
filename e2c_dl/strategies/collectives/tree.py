"""Sum, broadcast and gather over a binomial tree: 2 log2(n) delays, not a ring's 2 (n-1), but whole vectors at each.

Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", International
Journal of High Performance Computing Applications 19 (2005), sections 4.2 (broadcast) and 4.3 (reduce).

The parent of a position is that position without its lowest bit. Up: add what comes from the children, nearest first,
and send the sum to the parent. Down: take over what comes from the parent, and send it to the children, farthest
first, for they have the most children themselves::

    position    0 <--- 1
                0 <------- 2 <--- 3
                0 <------------------- 4 <--- 5
                                       4 <------- 6

Gather brings one number of every rank to every rank in the same two waves. Strategies read these numbers themselves, so
they travel as they are, under every compression, also where a world runs shapes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from e2c_dl.strategies.base import Vector, Worker
from e2c_dl.strategies.collectives.tag import Tag

UP, DOWN = 0, 1  # steps of the messages


async def tree_sum(worker: Worker, values: Vector, tag: Tag, group: Sequence[int], *, adds: bool = False) -> None:
    """Turn ``values`` into their sum over ``group``, as ``ring_sum`` does; returns when they may be written again.

    Raises: PeerLost.
    """
    place = group.index(worker.rank)
    for child in children(place, len(group)):  # in a fixed order: sums of floats depend on it
        await worker.accumulate(values, await tag.receive(worker, group[child], UP))
    if place:
        await worker.send(group[parent(place)], tag.message(UP, values, adds=adds))  # awaited: they are overwritten
    await broadcast(worker, values, tag, group)


async def broadcast(worker: Worker, values: Vector, tag: Tag, group: Sequence[int]) -> None:
    """Turn ``values`` into those of the first rank of ``group``; returns when they may be written again.

    Raises: PeerLost.
    """
    place = group.index(worker.rank)
    if place:
        await worker.copy(values, await tag.receive(worker, group[parent(place)], DOWN))
    elif len(group) > 1:  # it has them as the others will
        await worker.round_as_sent(values)
    below = reversed(children(place, len(group)))  # farthest first: most ranks wait behind it
    sent = [worker.send(group[child], tag.message(DOWN, values)) for child in below]
    for each in sent:
        await each


async def gather(worker: Worker, value: float, tag: Tag, group: Sequence[int]) -> list[float]:
    """The ``value`` of each rank of ``group``, in its order. Raises: PeerLost."""
    place = group.index(worker.rank)
    below = children(place, len(group))
    own = [value]
    for child in below:  # nearest first: the positions under a child follow each other
        own += await tag.receive_numbers(worker, group[child], UP)
    if place:
        # Not awaited: the array is the message's own, and nobody changes it.
        worker.send(group[parent(place)], tag.numbers(UP, own))
        own = await tag.receive_numbers(worker, group[parent(place)], DOWN)
    for child in reversed(below):
        worker.send(group[child], tag.numbers(DOWN, own))
    return own


def tree_links(group: Sequence[int]) -> list[tuple[int, int]]:
    """The directed links that a tree over ``group`` uses: each rank to its parent, and back."""
    pairs = [(group[place], group[parent(place)]) for place in range(1, len(group))]
    return [*pairs, *((above, below) for below, above in pairs)]


def parent(place: int) -> int:
    """The position above ``place``, which is not the root."""
    return place & (place - 1)  # without its lowest bit


def children(place: int, size: int) -> list[int]:
    """The positions below ``place`` among ``size``, nearest first."""
    distances = (1 << bit for bit in range(size.bit_length()))
    # By bits below its own lowest one: by others, it would be the child of another position.
    return [place + each for each in distances if (place == 0 or each < place & -place) and place + each < size]
