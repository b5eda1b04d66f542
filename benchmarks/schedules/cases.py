"""Worlds that are explored, the bounds that must hold in them, and bugs that must be found.

Bounds, for a link on which j averages over what i sends: i is at most max_ig ahead of j, by tokens; without backup
workers, j is at most s + 1 ahead of i, by models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from benchmarks.schedules.explore import Violated
from benchmarks.schedules.random_order import RandomOrder
from benchmarks.schedules.rank import Sent, World
from e2c_dl.strategies import hop, prague
from e2c_dl.strategies.adpsgd import ADPSGD
from e2c_dl.strategies.base import Setting, Strategy, Worker
from e2c_dl.strategies.collectives.graph import edges
from e2c_dl.strategies.hop import Hop, Tokens
from e2c_dl.strategies.prague import Generator, Prague


@dataclass(frozen=True, kw_only=True)
class Case:
    """``strategy`` with ``chosen`` settings on ``size`` ranks, ``iterations`` each."""

    strategy: type[Strategy]
    size: int
    iterations: int
    chosen: Mapping[str, Setting] = field(default_factory=dict)

    def __str__(self) -> str:
        said = ", ".join(f"{key} {value}" for key, value in self.chosen.items())
        return f"{self.strategy.name}, {self.size} ranks, {self.iterations} iterations: {said or 'defaults'}"

    @property
    def world(self) -> World:
        return World(strategy=lambda: self.strategy(**self.chosen), size=self.size, iterations=self.iterations)

    @property
    def bounds(self) -> dict[tuple[int, int], int]:
        """(i, j) -> how far i may be ahead of j."""
        if self.strategy is not Hop:
            return {}
        chosen = Hop(**self.chosen)  # type: ignore[arg-type]
        found: dict[tuple[int, int], list[int]] = {}
        for src, dst in edges(chosen.graph, self.size):
            if chosen.max_ig:
                found.setdefault((src, dst), []).append(chosen.max_ig)
            if not chosen.backup_workers:
                found.setdefault((dst, src), []).append(chosen.staleness + 1)
        return {pair: min(several) for pair, several in found.items()}

    def reached(self, ahead: Mapping[tuple[int, int], int]) -> bool:
        """Whether some rank got as far ahead as is allowed."""
        return any(ahead.get(pair) == most for pair, most in self.bounds.items())


def hopping(size: int, iterations: int, **chosen: Setting) -> Case:
    """Hop."""
    return Case(strategy=Hop, size=size, iterations=iterations, chosen=chosen)


def paired(size: int, iterations: int) -> Case:
    """AD-PSGD."""
    return Case(strategy=ADPSGD, size=size, iterations=iterations)


def grouped(size: int, iterations: int, **chosen: Setting) -> Case:
    """Prague."""
    return Case(strategy=Prague, size=size, iterations=iterations, chosen=chosen)


WHOLE = (
    hopping(4, 3, graph="directed-ring", max_ig=1, backup_workers=0),
    hopping(4, 3, graph="directed-ring", max_ig=2, backup_workers=0),
    hopping(4, 3, graph="directed-ring", max_ig=0, backup_workers=0),
    hopping(4, 3, graph="directed-ring", max_ig=1, backup_workers=0, staleness=1),
    hopping(3, 3, graph="directed-ring", max_ig=1, backup_workers=1),
    hopping(4, 2, graph="directed-ring", max_ig=1, backup_workers=1, max_jump=2),
    grouped(4, 3, groups="static", group_size=2),
    grouped(4, 1, group_size=2),
    grouped(3, 1, groups="random", group_size=2, threshold=9),
    paired(3, 2),
    paired(4, 2),
    hopping(4, 3, graph="directed-ring", max_ig=1, backup_workers=1),
    grouped(4, 1, groups="random", group_size=2, threshold=9),
    grouped(4, 2, group_size=2),
)
"""Of which every state is reached. Groups of two among four ranks: 2 to 4 at random, and 4 or more in two divisions."""

DRAWN = (
    hopping(4, 5, graph="ring", max_ig=1),
    hopping(5, 5, graph="ring-based", max_ig=2),
    hopping(4, 6, graph="ring", max_ig=2, max_jump=3),
    hopping(5, 5, graph="directed-ring", max_ig=3, backup_workers=0, staleness=2),
    hopping(6, 4, graph="double-ring", backup_workers=0, max_ig=0),
    hopping(4, 6, graph="ring", max_ig=3, backup_workers=2, staleness=1, max_jump=2),
    grouped(5, 4, group_size=2),
    grouped(5, 4, groups="random", group_size=3, threshold=9),
    grouped(6, 4, groups="static"),
    paired(6, 5),
)
"""Of which schedules are drawn."""


class TooManyTokens(Hop):
    """A bug: a token queue begins with one too many."""

    def __init__(self, **chosen: Setting) -> None:
        super().__init__(**chosen)  # type: ignore[arg-type]
        self.max_ig += 1


class RemovesFirst(Hop):
    """A bug: a rank removes others' tokens before it inserts its own."""

    async def run(self, worker: Worker) -> None:
        rank = hop._Rank(worker, self)
        rank._tokens = _Late(worker, rank._models.sources, rank._out, self.max_ig)
        await rank.train()


class _Late(Tokens):
    """Tokens that are inserted when those of others have been removed."""

    def insert(self, iteration: int) -> None:
        self._due = iteration

    async def remove(self, iteration: int) -> None:
        await super().remove(iteration)
        super().insert(self._due)


class Backwards(Generator):
    """A bug: half of the ranks take their groups in the reverse of the order in which they were generated."""

    def given(self, rank: int, step: int) -> tuple[int, list[int]]:
        if rank % 2:
            self._buffers[rank].reverse()
        found = super().given(rank, step)
        if rank % 2:
            self._buffers[rank].reverse()
        return found


@contextmanager
def backwards() -> Iterator[None]:
    """While it holds, Prague's generator has the bug."""
    prague.Generator = Backwards  # type: ignore[misc]
    try:
        yield
    finally:
        prague.Generator = Generator  # type: ignore[misc]


_ONE = WHOLE[0]
_THREE = hopping(3, 2, graph="directed-ring", max_ig=1, backup_workers=0)
_OVERLAPPING = grouped(5, 2, groups="random", threshold=9)


def lost(dst: int, sent: Sent) -> bool:
    """The first two tokens for rank 0."""
    return dst == 0 and sent.kind == "token" and sent.iteration in (0, 1)


BUGS: Mapping[str, tuple[Case, World]] = {
    "tokens are lost": (_ONE, replace(_ONE.world, lost=lost)),
    "tokens are removed before others are inserted": (
        _THREE,
        replace(_THREE.world, strategy=lambda: RemovesFirst(**_THREE.chosen)),  # type: ignore[arg-type]
    ),
    "a token too many": (_ONE, replace(_ONE.world, strategy=lambda: TooManyTokens(**_ONE.chosen))),
}
"""Name -> the case whose laws it breaks, and the world that has it: found among all orders."""


def found(case: Case, orders: int, first_seed: int = 0) -> tuple[int, str] | None:
    """How many of so many random orders of ``case`` it took to break a law, and which; None: all hold."""
    for seed in range(first_seed, first_seed + orders):
        try:
            RandomOrder(case.world, case.bounds, seed).run()
        except Violated as violated:
            return seed - first_seed + 1, violated.law
    return None


def found_backwards(orders: int) -> tuple[int, str] | None:
    """As :func:`found`, where groups are taken backwards."""
    with backwards():
        return found(_OVERLAPPING, orders)
