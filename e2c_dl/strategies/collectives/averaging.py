"""Local training, and averages of what it leads to: over all ranks, or inside a layer often and between layers rarely.

::

    iteration    0  1  2  3  4  5  6  7      period_within 2, period_between 8
    averages        L     L     L     A      L: in each layer; A: over all

The average over all in layers: sum inside each layer around a ring; the first rank of each layer, its leader, sums
with the other leaders; the leader broadcasts to its layer. So a vector crosses the links between layers once each way
for each leader, however many ranks a layer has; and what comes out is the flat average, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Vector, Worker
from e2c_dl.strategies.collectives.ring import ring_links, ring_sum
from e2c_dl.strategies.collectives.tag import Tag
from e2c_dl.strategies.collectives.tree import broadcast, gather, tree_links

PERIODS = (2, 4, 16, 50)
LAYERED_PERIODS = ((2, 8), (4, 16))
WEIGHTS = ("samples", "equal")


class Scope(Enum):
    """Group that averages."""

    LAYER = "layer"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """Settings that LocalSGD and DiLoCo share. Periods in iterations.

    ``period`` counts unless ``period_within`` and ``period_between`` are given, which ask for layers. ``weights``:
    ``samples`` counts each rank by its batch, ``equal`` all alike.

    Raises: InputError, naming ``strategy``.
    """

    strategy: str
    period: int
    period_within: int
    period_between: int
    weights: str

    def __post_init__(self) -> None:
        within, between = self.period_within, self.period_between
        if self.period < 1:
            raise self._wrong(f"period is {self.period}; write 1 or more")
        if min(within, between) < 0 or (within == 0) != (between == 0):  # 0: not given
            raise self._wrong(f"period_within is {within}, period_between {between}; write both, each 1 or more")
        if within and between % within:
            raise self._wrong(f"period_between is {between}; write a multiple of period_within, {within}")
        if self.weights not in WEIGHTS:
            raise self._wrong(f"weights is {self.weights!r}; write {' or '.join(WEIGHTS)}")

    @property
    def layered(self) -> bool:
        return self.period_within > 0

    @property
    def cycle(self) -> int:
        """Iterations from one average over all to the next."""
        return self.period_between or self.period

    def scope_after(self, iteration: int) -> Scope | None:
        """The group that averages at the end of ``iteration``; None: nobody does."""
        done = iteration + 1
        if done % self.cycle == 0:  # first: over all is over each layer, too
            return Scope.ALL
        return Scope.LAYER if self.layered and done % self.period_within == 0 else None

    def weights_of(self, samples: Sequence[int]) -> list[float]:
        """The weight of each rank in an average over all, where they have so many ``samples``."""
        if self.weights == "equal":
            return [1 / len(samples)] * len(samples)
        return [each / sum(samples) for each in samples]

    async def mean(
        self, worker: Worker, values: Vector, iteration: int, scope: Scope, *, adds: bool = False
    ) -> None:  # fmt: skip
        """Turn ``values`` into their weighted mean over ``scope``; returns when they may be written again.

        ``adds``: as ``ring_sum`` has it.

        Raises: PeerLost.
        """
        groups = grouped(worker.layers)
        layer = next(group for group in groups if worker.rank in group)
        if scope is Scope.LAYER:
            await worker.scale(values, await self._share(worker, iteration, layer))  # these add up to 1 in the layer
            await ring_sum(worker, values, Tag(kind="layer", iteration=iteration), layer, adds=adds)
            return
        share = worker.samples / worker.total_samples if self.weights == "samples" else 1 / worker.size
        await worker.scale(values, share)
        if not self.layered:
            await ring_sum(worker, values, Tag(kind="all", iteration=iteration), range(worker.size), adds=adds)
            return
        await ring_sum(worker, values, Tag(kind="layer", iteration=iteration), layer, adds=adds)
        if worker.rank == layer[0]:  # others wait in broadcast
            leaders = [group[0] for group in groups]
            await ring_sum(worker, values, Tag(kind="leaders", iteration=iteration), leaders, adds=adds)
        await broadcast(worker, values, Tag(kind="mean", iteration=iteration), layer)

    def links(self, layers: Sequence[str]) -> list[tuple[int, int]]:
        """The directed links that averaging uses, sorted, where rank r is in ``layers[r]``."""
        if not self.layered:
            return sorted(ring_links(range(len(layers))))
        groups = grouped(layers)
        used = ring_links([group[0] for group in groups])
        for group in groups:
            used += ring_links(group) + tree_links(group)
        return sorted(set(used))  # rings and trees share links

    async def _share(self, worker: Worker, iteration: int, layer: Sequence[int]) -> float:
        """This rank's weight inside its layer. Batches may change while training, so they are asked for."""
        if self.weights == "equal":
            return 1 / len(layer)
        tag = Tag(kind="samples", iteration=iteration)
        return worker.samples / sum(await gather(worker, worker.samples, tag, layer))

    def _wrong(self, what: str) -> InputError:
        return InputError(f"strategy {self.strategy!r}: {what}")


def periods(layers: Sequence[str], iterations: int) -> list[dict[str, int]]:
    """Periods worth trying in ``iterations``: over all ranks; of several layers, inside each of them more often."""
    flat = [{"period": period} for period in PERIODS if period <= iterations]
    if len(set(layers)) == 1:
        return flat
    pairs = [(within, between) for within, between in LAYERED_PERIODS if between <= iterations]
    return [*flat, *({"period_within": within, "period_between": between} for within, between in pairs)]


def grouped(layers: Sequence[str]) -> list[list[int]]:
    """The ranks of each layer, layers in the order of their first rank, which leads them."""
    groups: dict[str, list[int]] = {}  # in order of insertion: by first rank
    for rank, layer in enumerate(layers):
        groups.setdefault(layer, []).append(rank)
    return list(groups.values())


async def local_step(worker: Worker) -> None:
    """Train one iteration by itself: nothing is sent, so its buckets need no attention."""
    async for _ in worker.gradient():
        pass
    await worker.step()


async def local_update(worker: Worker, update: Vector, factor: float) -> None:
    """Train one iteration; ``update`` is then the difference that it made to the parameters, times ``factor``."""
    await worker.copy(update, worker.parameters)
    await local_step(worker)
    await worker.scale(update, -factor)  # -f old, then + f new: no third vector
    await worker.accumulate(update, worker.parameters, factor)
