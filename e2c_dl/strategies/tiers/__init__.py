"""Tiers of clients by response time: who is in which, when they are made again, and what each counts for.

::

    response times, s    0.2  0.3  0.3  0.9  1.1  4.0       3 tiers of equal size, the fastest first
    tier                  1    1    2    2    3    3

Pure: what clients report is given, and nothing is sent.

Source: Chai et al., "FedAT", SC 2021; see :mod:`e2c_dl.strategies.fedat`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from e2c_dl.strategies.base import Vector

LAST = 3
"""Rounds of a client whose median is its response time."""


@dataclass(eq=False)  # two that hold the same are two
class Tier:
    """Clients that report together."""

    model: Vector  # w_m
    rounds: int = 0  # T_m
    members: list[int] = field(default_factory=list)  # ranks, sorted
    under_way: int = 0  # rounds: all have reported, and are not answered yet


class Tiers:
    """All tiers, the fastest first: one of all ``clients`` until they are placed for the first time, then ``count``.

    They are made again when a response time is more than ``factor`` times longer or shorter than it was when they were
    made; 0: never. ``model``: any vector, until a tier has one of its own.
    """

    def __init__(self, clients: Sequence[int], model: Vector, *, count: int, factor: float) -> None:
        self._all = [Tier(model=model, members=list(clients))]
        self._of = dict.fromkeys(clients, self._all[0])  # those that train
        self._count, self._factor = count, factor
        self._last: dict[int, deque[float]] = {client: deque(maxlen=LAST) for client in clients}
        self._made_by: Mapping[int, float] = {}  # client -> its response time when tiers were made, fastest first

    def of(self, client: int) -> Tier:
        """The tier of ``client``, which trains."""
        return self._of[client]

    def complete(self, reported: Collection[int]) -> Tier | None:
        """A tier all of whose clients are among those that have ``reported``, if there is one."""
        whole = (tier for tier in self._all if tier.members and all(each in reported for each in tier.members))
        return next(whole, None)

    def mixture(self) -> tuple[list[Vector], list[float]]:
        """The models of all tiers, and what each counts for."""
        return [tier.model for tier in self._all], weights_of([tier.rounds for tier in self._all])

    def place(self, seconds: Mapping[int, float]) -> None:
        """Put clients, whose last rounds took so many ``seconds``, into the tiers that they are as fast as.

        Others stay where they are, until their rounds end; and so do those who would come into a round under way.
        """
        there = {client: each for client, each in seconds.items() if client in self._of}
        for client, each in there.items():
            self._last[client].append(each)
        if self._count == 1 or not there:
            return
        if not self._made_by:
            self._all = [Tier(model=self._all[0].model) for _ in range(min(self._count, len(self._of)))]
        if not self._made_by or self._departed():
            now = {client: self._now(client) for client in self._of}
            self._made_by = {client: now[client] for client in sorted(now, key=lambda each: (now[each], each))}
        for place, client in enumerate(self._made_by):
            tier = self._all[place * len(self._all) // len(self._made_by)]
            if client in there and not tier.under_way:
                self._of[client].members.remove(client)
                self._of[client] = tier
                tier.members.append(client)
                tier.members.sort()

    def leave(self, client: int) -> None:
        """``client`` reports no more; what its tier has learnt stays."""
        tier = self._of.pop(client, None)
        if tier is not None:
            tier.members.remove(client)

    def lose(self, client: int) -> None:
        """``client`` is lost; a tier whose last it was is none any more: its model would grow old."""
        tier = self._of.get(client)
        self.leave(client)
        if tier in self._all and not tier.members and len(self._all) > 1:
            self._all.remove(tier)

    def _now(self, client: int) -> float:
        last = sorted(self._last[client])
        return last[(len(last) - 1) // 2] if last else 0.0

    def _departed(self) -> bool:
        pairs = [(self._now(client), self._made_by[client]) for client in self._of]
        return self._factor > 0 and any(max(pair) > self._factor * min(pair) for pair in pairs)


def weights_of(rounds: Sequence[int]) -> list[float]:
    """What each tier counts for, the fastest first, when they have had so many ``rounds``: T_(M+1-m) / T.

    Alike, until each has had one. They sum to 1.
    """
    if not min(rounds):
        return [1 / len(rounds)] * len(rounds)
    return [each / sum(rounds) for each in reversed(rounds)]
