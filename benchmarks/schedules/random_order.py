"""One order of events drawn at random, of more ranks and iterations than all orders can be tried of."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from random import Random

from benchmarks.schedules.explore import DEADLOCK, LEFT, Violated, told_as, too_far
from benchmarks.schedules.rank import Draws, Rank, Sent, Step, Wait, World, fits


class RandomOrder:
    """One run of ``world``. ``ahead`` is how far rank i ever was ahead of rank j, of the pairs in ``bounds``."""

    def __init__(self, world: World, bounds: Mapping[tuple[int, int], int], seed: int) -> None:
        self._random, self._bounds = Random(seed), bounds
        self._links: dict[tuple[int, int, str], deque[Sent]] = defaultdict(deque)
        self._hurry = self._random.choice((0.2, 0.5, 0.8))  # how likely the next message is to have arrived
        self._weights = [self._random.choice((1, 1, 5, 50)) for _ in range(world.size)]  # how often each goes on
        self._schedule: list[tuple[int, Step]] = []
        self.ahead = dict.fromkeys(bounds, 0)
        self._ranks = [Rank(world, rank) for rank in range(world.size)]
        for rank in self._ranks:
            rank.worker.random = _Drawn(self._random)  # type: ignore[assignment]
            self._sent(rank)

    def run(self) -> None:
        """To its end. Raises: Violated."""
        while choices := [
            (rank, task) for rank in self._ranks for task, waits in rank.waits().items() if self._can(rank, waits)
        ]:
            rank, task = self._random.choices(choices, [self._weights[rank.worker.rank] for rank, _ in choices])[0]
            begun = rank.worker.iteration
            came = self._arriving(rank, rank.waits()[task])
            rank.happen(Step(task, came))
            self._schedule.append((rank.worker.rank, Step(task, came)))
            self._sent(rank)
            if rank.worker.iteration != begun:
                self._check(rank.worker.rank)
        waiting = ", ".join(str(rank.worker.rank) for rank in self._ranks if not rank.done)
        if waiting:
            raise self._violated(f"{DEADLOCK}: {waiting}")
        if any(self._links.values()) or any(rank.worker.mail for rank in self._ranks):
            raise self._violated(LEFT)

    def _can(self, rank: Rank, waits: Wait) -> bool:
        if waits is None or any(fits(waits, each) for each in rank.worker.mail):
            return True
        to = rank.worker.rank
        return any(fits(waits, each) for (_, dst, _), link in self._links.items() if dst == to for each in link)

    def _arriving(self, rank: Rank, waits: Wait) -> tuple[Sent, ...]:
        """What arrives before it goes on: some, and what it waits for."""
        came: list[Sent] = []
        there = waits is None or any(fits(waits, each) for each in rank.worker.mail)
        while links := [link for (_, dst, _), link in self._links.items() if dst == rank.worker.rank and link]:
            if there and self._random.random() > self._hurry:
                break
            came.append(self._random.choice(links).popleft())
            there = there or fits(waits, came[-1])
        return tuple(came)

    def _sent(self, rank: Rank) -> None:
        for dst, sent in rank.worker.sent:
            self._links[rank.worker.rank, dst, sent.kind].append(sent)

    def _check(self, rank: int) -> None:
        for (one, other), most in self._bounds.items():
            if one == rank:
                ahead = self._ranks[one].worker.iteration - self._ranks[other].worker.iteration
                self.ahead[one, other] = max(ahead, self.ahead[one, other])
                if ahead > most:
                    raise self._violated(too_far(one, other, ahead, most))

    def _violated(self, law: str) -> Violated:
        return Violated(law, [told_as(rank, step) for rank, step in self._schedule])


class _Drawn(Draws):
    """Outcomes drawn at random."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def permutation(self, count: int) -> list[int]:
        return self._random.sample(range(count), count)

    def integers(self, count: int) -> int:
        return self._random.randrange(count)
