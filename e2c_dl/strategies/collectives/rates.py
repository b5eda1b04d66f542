"""Rates of all links, as their senders measured them, told to all ranks: what they decide by them, all decide alike.

::

    model ------->                        a slow link still carries its model when others are through
    came  <-------   all of yours are here
    rates ------->   told once every link of this rank has delivered: a slow one is not taken for one never filled
"""

from __future__ import annotations

from math import inf

from e2c_dl.strategies.base import Message, Worker
from e2c_dl.strategies.collectives.tag import Tag


async def measured_rates(worker: Worker, iteration: int) -> list[list[float]]:
    """Bits per second, by source and destination; 0 to itself. The same on all ranks. Raises: PeerLost.

    Infinite where it could not be told, as what was sent did not fill the link. To be called when all that others sent
    in ``iteration`` has come, which tells this exchange from others. Every pair of ranks is used.
    """
    ranks = range(worker.size)
    for other in ranks:
        if other != worker.rank:
            worker.send(other, Message(kind="came", iteration=iteration))
    for other in ranks:
        if other != worker.rank:
            await worker.receive("came", src=other, iteration=iteration)
    estimates = [None if other == worker.rank else worker.link(other) for other in ranks]
    own = [inf if each is None else each.rate_bps for each in estimates]
    own[worker.rank] = 0
    tag = Tag(kind="rates", iteration=iteration)
    for other in ranks:
        if other != worker.rank:  # not awaited: the array is the message's own, and nobody changes it
            worker.send(other, tag.numbers(-1, own))
    return [own if src == worker.rank else await tag.receive_numbers(worker, src, -1) for src in ranks]
