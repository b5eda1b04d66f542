"""DLion: every rank sends each other the largest entries of its gradient that the link between them has time for.

Source: Hong and Chandra, "DLion: Decentralized Distributed Deep Learning in Micro-Clouds", HPDC 2021. Idea: no server;
ranks and links are unlike, so each rank trains on as much, and each link carries as much, as it can in the same time.

1. Weighted dynamic batching: batches by speed, which any strategy has by the scenario's ``batching: dynamic``
   (e2c_dl/strategies/batching); gradients count by their samples (``weighting``). Every ``growth_period`` iterations
   (0: never) the samples of all ranks together become more: by ``growth_step`` up to ``growth_slow_until`` of
   ``growth_samples``, those of the training set, then times ``growth_factor`` up to ``growth_until`` of them.
2. Per-link prioritized exchange (``max_n``): for each receiver, add the gradient to what is owed to it, choose the
   entries with |g| >= (1 - N/100) max|g|, N as large as the link's budget allows, and send them, (index, value);
   the rest stays owed (``residuals``). Budget: the link's measured rate times the time of this rank's last gradient,
   times ``budget_part``. Where the rate is not known yet, or all of it fits, the whole gradient is sent.
3. Wait for what all others sent in this iteration; sum in rank order, the own gradient whole; step.
4. Direct knowledge transfer: after every ``transfer_period`` iterations (0: never) ranks tell the mean of their last
   LOSSES losses, the one with the lowest sends its model w_b, and all others move: w <- w - transfer_rate (w - w_b).

Laws: bytes on a link never exceed its budget, and N is the largest; sent + owed = sum of gradients, exactly; everything
off is the full exchange summed in rank order, to the bit.

Weighting ``safe`` is the mean by samples, sum_j b_j g_j / sum(b). ``printed`` is the paper's (1/n) sum_j (b_j/b_k) g_j
at rank k: an effective learning rate of its own, sum(b) / (n b_k) times the safe one, so that replicas drift apart.

The learning rate stays while batches grow: what is applied is a mean, less noisy the more samples it is of, as it would
be if the rate fell instead (Smith et al., "Don't Decay the Learning Rate, Increase the Batch Size", ICLR 2018).

Differences from the paper: the global batch grows only where ``growth_period`` says so. How often, by how much, and the
bounds of 1 % and 10 % of the training set are not verified against the paper's text. The maximum is each bucket's, not
each tensor's (``bucket_bytes`` of 1 makes them the same). Gradients are sent when they are complete. Ranks go in step,
and wait for every message of an iteration. ``transfer_period`` 100, ``transfer_rate`` 0.75 and LOSSES are not verified
against the paper's text. ``least_n`` is the floor of N, whatever the budget.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Payload, Setting, Sparse, Strategy, Vector, Worker, any_pair
from e2c_dl.strategies.batching.growth import Growth, grow
from e2c_dl.strategies.collectives import Tag, gather
from e2c_dl.strategies.sparse import SELECTING, add_sparse, max_n, most_entries

WEIGHTINGS = ("safe", "printed")
LOSSES = 10  # that a mean is of
HEADER_BYTES = 64  # set aside for a message's header, of any world


class DLion(Strategy):
    """Max N per link under its budget, and knowledge transfer; see the module."""

    name: ClassVar[str] = "dlion"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {"max_n": False, "transfer_period": 0}

    def __init__(
        self, *, max_n: bool = True, least_n: float = 0.0, budget_part: float = 1.0, residuals: bool = True,
        weighting: str = "safe", transfer_period: int = 100, transfer_rate: float = 0.75, growth_period: int = 0,
        growth_samples: int = 0, growth_step: int = 32, growth_factor: float = 2.0, growth_slow_until: float = 0.01,
        growth_until: float = 0.1,
    ) -> None:  # fmt: skip
        """``least_n`` in percent, both periods in iterations; of growth: see its class. Raises: InputError."""
        if weighting not in WEIGHTINGS:
            raise self._wrong(f"weighting is {weighting!r}; write {' or '.join(WEIGHTINGS)}")
        if not 0 <= least_n <= 100:
            raise self._wrong(f"least_n is {least_n}; write 0 to 100")
        if not (budget_part > 0 and math.isfinite(budget_part)):
            raise self._wrong(f"budget_part is {budget_part}; write a number above 0")
        if transfer_period < 0:
            raise self._wrong(f"transfer_period is {transfer_period}; write 0 (never) or more")
        if not 0 <= transfer_rate <= 1:
            raise self._wrong(f"transfer_rate is {transfer_rate}; write 0 to 1")
        self.max_n, self.least_n, self.budget_part, self.residuals = max_n, least_n, budget_part, residuals
        self.printed = weighting == "printed"
        self.transfer_period, self.transfer_rate = transfer_period, transfer_rate
        self.adapts_to_links, self.grows_batches = max_n, bool(growth_period)
        try:
            self.growth = Growth(
                period=growth_period, training_samples=growth_samples, step=growth_step, factor=growth_factor,
                slow_until=growth_slow_until, until=growth_until,
            )  # fmt: skip
        except InputError as error:
            raise self._wrong(str(error)) from error

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: all send to all."""
        return any_pair(size)

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The mean of all models: a rank applies its own gradient as it is, others what was sent of it."""
        return [1 / len(samples)] * len(samples)

    async def run(self, worker: Worker) -> None:
        rank = _Rank(worker, self)
        async for iteration in worker.iterations():
            if self.growth.due(iteration):
                await grow(worker, self.growth, iteration)
            buckets = [bucket.where async for bucket in worker.gradient()]
            await rank.exchange(iteration, buckets)
            await worker.step()
            if self.transfer_period and (iteration + 1) % self.transfer_period == 0:
                await rank.transfer(iteration)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"strategy 'dlion': {what}")


class _Rank:
    """One rank: what it owes each other, and how it has done lately."""

    def __init__(self, worker: Worker, settings: DLion) -> None:
        self._worker, self._settings = worker, settings
        self._others = [rank for rank in range(worker.size) if rank != worker.rank]
        self._owed: dict[int, Vector] = {}  # by receiver; none, as long as all was sent
        self._losses: deque[float] = deque(maxlen=LOSSES)

    async def exchange(self, iteration: int, buckets: Sequence[slice]) -> None:
        """Turn the gradient into the weighted sum of what all ranks sent."""
        worker = self._worker
        self._losses.append(worker.loss)
        await worker.scale(worker.gradients, worker.samples / worker.total_samples)
        sent = []
        for dst in self._others:
            payload = await self._payload(dst, buckets)
            sent.append(worker.send(dst, Message(kind="gradient", iteration=iteration, payload=payload, adds=True)))
        total = worker.zeros()
        for src in range(worker.size):  # in rank order: sums of floats depend on it
            await self._add(total, src, iteration)
        if self._settings.printed:
            await worker.scale(total, worker.total_samples / (worker.size * worker.samples))
        for each in sent:  # the gradient may be what leaves
            await each
        await worker.copy(worker.gradients, total)

    async def transfer(self, iteration: int) -> None:
        """Move towards the model of the rank that has the lowest loss, the first of equals."""
        worker = self._worker
        means = await gather(worker, fmean(self._losses), Tag(kind="loss", iteration=iteration), range(worker.size))
        best = min(range(worker.size), key=lambda rank: math.inf if math.isnan(means[rank]) else means[rank])
        message = Message(kind="best", iteration=iteration, payload=worker.parameters)
        if worker.rank == best:
            for each in [worker.send(dst, message) for dst in self._others]:
                await each
            return
        came = await worker.receive("best", src=best, iteration=iteration)
        await worker.scale(worker.parameters, 1 - self._settings.transfer_rate)
        await worker.accumulate(worker.parameters, came.vector, self._settings.transfer_rate)

    async def _add(self, total: Vector, src: int, iteration: int) -> None:
        worker = self._worker
        if src == worker.rank:
            await worker.accumulate(total, worker.gradients)
            return
        came = await worker.receive("gradient", src=src, iteration=iteration)
        if isinstance(came.payload, tuple):
            await add_sparse(worker, total, came.sparse)
        else:
            await worker.accumulate(total, came.vector)

    async def _payload(self, dst: int, buckets: Sequence[slice]) -> Payload:
        """What is sent to ``dst``; the rest of the gradient is owed to it."""
        worker, gradient = self._worker, self._worker.gradients
        most = self._most(dst)
        owed = self._owed.get(dst)
        if owed is None:
            if most is None:
                return gradient
            owed = gradient
            if self._settings.residuals:
                owed = self._owed[dst] = worker.zeros()
        if owed is not gradient:
            await worker.accumulate(owed, gradient)
        if most is None:
            return await self._all(owed)
        return await worker.calculate(
            lambda: self._chosen(owed, buckets, most), nbytes=SELECTING * owed.nbytes,
            shapes=lambda: Sparse(worker.zeros(most, "int32"), worker.zeros(most)),
        )  # fmt: skip

    def _most(self, dst: int) -> int | None:
        """How many entries the link to ``dst`` has time for; None: all."""
        worker = self._worker
        link = worker.link(dst) if self._settings.max_n else None
        if link is None or worker.compute_s <= 0:
            return None
        budget_bytes = link.rate_bps / 8 * worker.compute_s * self._settings.budget_part - HEADER_BYTES
        if worker.gradients.nbytes <= budget_bytes:
            return None
        return most_entries(budget_bytes, worker.gradients.itemsize)

    def _chosen(self, owed: Vector, buckets: Sequence[slice], most: int) -> Sparse:
        indices = max_n(owed, buckets, most, self._settings.least_n)
        values = owed[indices]  # a copy, as it is not a slice
        if owed is not self._worker.gradients:
            owed[indices] = 0
        return Sparse(indices, values)

    async def _all(self, owed: Vector) -> Vector:
        """All that is owed, which then is no more."""
        worker = self._worker
        leaving = worker.zeros()
        await worker.copy(leaving, owed)
        await worker.copy(owed, worker.zeros())
        return leaving
