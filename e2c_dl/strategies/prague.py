"""Prague: after each local step, a rank averages its model with those of a small group, another one each time.

Source: Luo, He, Zhuo and Qian, "Prague: High-performance heterogeneity-aware asynchronous decentralized training",
ASPLOS 2020 (arXiv:1909.08029), sections 4 (partial all-reduce, group generator) and 5 (conflicts, slow ranks). Idea:
small groups wait for their own slowest only, and random ones spread what each rank learns.

1. Compute the gradient, and step.
2. Ask the group generator, which serves beside training on the rank ``generator``, for a group.
3. With its members, average the models: a partial all-reduce, all alike (collectives/ring.py).

The generator keeps, for each rank, the groups that it is in and has not executed (group buffer), in the order in which
they were generated; a rank that asks is given the first, and if there is none, groups are generated (``groups``):

    division   all whose buffer is empty are divided at random into groups of ``group_size`` at most, as even as can be
    random     one group of this rank and others, drawn at random: overlapping ones wait for each other, in order
    static     nobody is asked: consecutive ranks, ranks at equal distances, in turn; no two groups overlap

Slow-down filter: a generated group has only ranks that have asked at least c - ``threshold`` times, where whoever asks
now has c times. A rank that has ended trains no more, is in no new group, and executes those that it is in.

Every rank executes its groups in the order in which they were generated; of those that wait, the oldest is the first of
all its members, so no circle of ranks can wait for one another.

Laws: an average preserves the mean of all models, and weighs every rank alike (a doubly stochastic matrix); no rank is
in two averages at once; every order of events ends; the expected matrix has a spectral gap: models come together. One
group of all is LocalSGD with H = 1 and equal weights, to the bit.

An update is never stale: it is applied to the model that its gradient was computed at, before any average.

Differences from the paper: groups of a division are even, so that nobody is left alone; the paper's static schedule is
made for machines of several workers. ``group_size`` 3 and ``threshold`` 1 are not verified against its text. All ranks
count alike, whatever their batches. The step is the configured optimizer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Strategy, Worker, any_pair
from e2c_dl.strategies.collectives.averaging import local_step
from e2c_dl.strategies.collectives.ring import ring_links, ring_sum
from e2c_dl.strategies.collectives.tag import Tag

GROUPS = ("division", "random", "static")
TRAINS, ENDED = 0, 1  # step of what asks for a group: whether its rank trains on


class Prague(Strategy):
    """Averages of small groups after local steps; see the module."""

    name: ClassVar[str] = "prague"
    rank_settings: Sequence[str] = ("generator",)
    asynchronous = fixed_batches = True  # a rank may wait in a group for one that waits for its speed

    def __init__(
        self, *, groups: str = "division", group_size: int = 3, threshold: int = 1, generator: int = 0
    ) -> None:
        """Raises: InputError, for an unknown way to make groups, groups of one, and numbers below 0."""
        if groups not in GROUPS:
            raise InputError(f"strategy 'prague': groups is {groups!r}; write one of {', '.join(GROUPS)}")
        for name, value, least in (
            ("group_size", group_size, 2),
            ("threshold", threshold, 0),
            ("generator", generator, 0),
        ):
            if value < least:
                raise InputError(f"strategy 'prague': {name} is {value}; write {least} or more")
        self.groups, self.group_size, self.threshold, self._generator = groups, group_size, threshold, generator
        self.asynchronous = self.fixed_batches = groups != "static"  # else all have theirs in the same iteration
        self.cycle = PERIOD if groups == "static" else 1
        self.rank_settings = () if groups == "static" else self.rank_settings  # there, nobody generates

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: any three may be a group."""
        return any_pair(size)

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        size = len(layers)
        self._check(size)
        if self.groups != "static":
            return any_pair(size)
        rounds = [scheduled(size, self.group_size, iteration) for iteration in range(PERIOD)]
        return sorted({link for groups in rounds for group in groups for link in ring_links(group)})

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The average of all models, as in the paper's theorem."""
        return [1 / len(samples)] * len(samples)

    async def run(self, worker: Worker) -> None:
        self._check(worker.size)
        if self.groups == "static":
            await self._in_step(worker)
        elif worker.rank == self._generator:
            generator = Generator(worker, divides=self.groups == "division", size=self.group_size, most=self.threshold)
            worker.spawn(generator.serve(), background=True)
            await _train(worker, generator)
        else:
            await _train(worker, _Asking(worker, self._generator))

    async def _in_step(self, worker: Worker) -> None:
        async for iteration in worker.iterations():
            await local_step(worker)
            groups = scheduled(worker.size, self.group_size, iteration)
            await average(worker, next(group for group in groups if worker.rank in group), iteration)

    def _check(self, size: int) -> None:
        if self.groups != "static" and self._generator >= size:  # only now is it known how many ranks there are
            raise InputError(f"strategy 'prague': generator is {self._generator}; write a rank from 0 to {size - 1}")


async def _train(worker: Worker, generator: Generator | _Asking) -> None:
    """Train with the groups of ``generator``; then execute those that are left for this rank."""
    async for _ in worker.iterations():
        await local_step(worker)
        number, group = await generator.group(TRAINS)
        await average(worker, group, number)
    number, group = await generator.group(ENDED)
    while group:
        await average(worker, group, number)
        number, group = await generator.group(ENDED)


async def average(worker: Worker, group: Sequence[int], number: int) -> None:
    """Partial all-reduce: the parameters become the mean over ``group``, the ``number``-th. Raises: PeerLost."""
    if len(group) > 1:
        await worker.scale(worker.parameters, 1 / len(group))
        await ring_sum(worker, worker.parameters, Tag(kind="group", iteration=number), group)


class _Asking:
    """The generator, to all other ranks: one message each way."""

    def __init__(self, worker: Worker, generator: int) -> None:
        self._worker, self._generator, self._asked = worker, generator, 0

    async def group(self, step: int) -> tuple[int, list[int]]:
        """Number and members of the group that this rank is to average in; no members: none is left.

        Raises: PeerLost.
        """
        self._worker.send(self._generator, Message(kind="ask", iteration=self._asked, step=step))
        came = await self._worker.receive("members", src=self._generator, iteration=self._asked)
        self._asked += 1
        number, *members = came.vector.tolist()
        return number, members


class Generator:
    """Group generator: group buffers, and how groups come into them. It serves all other ranks by messages.

    ``divides``: all idle ranks at once; else one group at a time. ``most``: threshold of the filter.
    """

    def __init__(self, worker: Worker, *, divides: bool, size: int, most: int) -> None:
        self._worker, self._divides, self._size, self._most = worker, divides, size, most
        self._buffers: list[deque[tuple[int, list[int]]]] = [deque() for _ in range(worker.size)]
        self._asked = [0] * worker.size  # how often each has, which is how far it has come
        self._ended = [False] * worker.size
        self._generated = 0

    async def serve(self) -> None:
        """Answer whoever asks."""
        worker = self._worker
        others = [rank for rank in range(worker.size) if rank != worker.rank]
        while others:
            asked = await worker.receive_any("ask", sources=others)
            if asked is None:  # after a timeout alone, and none is given
                continue
            number, members = self.given(asked.src, asked.step)
            answer = np.array([number, *members], dtype=np.int64)
            worker.send(asked.src, Message(kind="members", iteration=asked.iteration, payload=answer))

    async def group(self, step: int) -> tuple[int, list[int]]:
        """As other ranks ask, for its own rank."""
        return self.given(self._worker.rank, step)

    def given(self, rank: int, step: int) -> tuple[int, list[int]]:
        """The next group of ``rank``, which is generated if need be; of one that has ended, maybe none."""
        self._ended[rank] = step == ENDED
        if not self._ended[rank]:
            self._asked[rank] += 1
            if not self._buffers[rank]:
                self._generate(rank)
        return self._buffers[rank].popleft() if self._buffers[rank] else (-1, [])

    def _generate(self, rank: int) -> None:
        least = self._asked[rank] - self._most
        fit = [
            other
            for other, count in enumerate(self._asked)
            if other != rank
            and not self._ended[other]
            and count >= least
            and not (self._divides and self._buffers[other])
        ]
        drawn = [fit[place] for place in self._worker.random.permutation(len(fit))]
        if not self._divides:
            self._put([rank, *drawn[: self._size - 1]])
            return
        idle = [rank, *drawn]
        for place in range(count := -(-len(idle) // self._size)):
            self._put(idle[place::count])

    def _put(self, members: list[int]) -> None:
        for rank in members:
            self._buffers[rank].append((self._generated, sorted(members)))
        self._generated += 1


PERIOD = 3
"""Iterations after which the static schedule begins anew."""


def scheduled(size: int, most: int, iteration: int) -> list[list[int]]:
    """The groups of ``iteration`` by the static schedule: all ranks, in groups of ``most`` or fewer, none in two.

    ::

        9 ranks in groups of 3    [0 1 2] [3 4 5] [6 7 8]    consecutive
                                  [0 3 6] [1 4 7] [2 5 8]    at equal distances: after both, one mean of all
                                  [1 2 3] [4 5 6] [0 7 8]    consecutive from 1: joins what the others might leave apart
    """
    count = -(-size // most)
    if iteration % PERIOD == 1:
        return [list(range(place, size, count)) for place in range(count)]
    first = int(iteration % PERIOD == 2)
    bounds = [size * place // count for place in range(count + 1)]
    return [sorted((first + rank) % size for rank in range(begin, end)) for begin, end in pairwise(bounds)]
