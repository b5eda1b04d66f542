"""One number from every rank to every rank, in two waves over a binomial tree.

The numbers are read by the strategy itself, so they travel as they are, also where a world runs shapes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2c_dl.strategies.base import Worker
from e2c_dl.strategies.collectives.tag import Tag
from e2c_dl.strategies.collectives.tree import DOWN, UP, children, parent


async def gather(worker: Worker, value: float, tag: Tag, group: Sequence[int]) -> list[float]:
    """The ``value`` of each rank of ``group``, in its order. Raises: PeerLost."""
    place = group.index(worker.rank)
    below = children(place, len(group))
    own = [value]
    for child in below:  # nearest first: the positions under a child follow each other
        own += (await tag.receive(worker, group[child], UP)).tolist()
    if place:
        worker.send(group[parent(place)], tag.message(UP, np.array(own, dtype=np.float64)))
        own = (await tag.receive(worker, group[parent(place)], DOWN)).tolist()
    for child in reversed(below):
        worker.send(group[child], tag.message(DOWN, np.array(own, dtype=np.float64)))
    return own
