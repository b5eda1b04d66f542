"""Rates of all links, as their senders measured them, told to all ranks: what they decide by them, all decide alike."""

from __future__ import annotations

import numpy as np

from e2c_dl.strategies.base import Message, Worker


async def measured_rates(worker: Worker, iteration: int) -> list[list[float]]:
    """Bits per second, by source and destination; 0 to itself. The same on all ranks. Raises: PeerLost.

    Infinite where it could not be told, as what was sent did not fill the link. ``iteration`` tells this exchange from
    others. Every pair of ranks is used.
    """
    ranks = range(worker.size)
    estimates = [None if other == worker.rank else worker.link(other) for other in ranks]
    own = np.array([np.inf if each is None else each.rate_bps for each in estimates])
    own[worker.rank] = 0
    for other in ranks:
        if other != worker.rank:  # not awaited: the array is the message's own, and nobody changes it
            worker.send(other, Message(kind="rates", iteration=iteration, payload=own))
    rows = []
    for src in ranks:
        came = own if src == worker.rank else (await worker.receive("rates", src=src, iteration=iteration)).vector
        rows.append([float(rate) for rate in came])
    return rows
