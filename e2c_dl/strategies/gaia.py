"""Gaia: one server in each data centre; between them only updates travel that are significant to their parameter.

Source: Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI 2017, sections 3 to 5. Idea:
the links inside a data centre are fast, those between are not; most updates change a parameter by less than 1 %, and
can wait until they have added up.

A layer is a data centre, its first rank the server. In iteration (clock) k

1. ranks push their gradients, weighted by b_i / sum(b), to their server, which adds them up in rank order, and steps:
   the update u is how far the parameters moved. It counts at once, and is accumulated: a <- a + u.
2. Significance filter: of a, what is not 0 and more than v_k times its parameter (or of a parameter that is 0) is sent
   to all other servers, and is then accumulated no more; v_k = threshold / sqrt(k + 1) (``decay``). Where (index,
   value) would not be smaller, all of a is sent; where nothing is significant, the clock alone.
3. Mirror clock: the server waits for the updates of clock k - slack of all others, and adds them in rank order. Its
   own of later clocks may still wait for their links.
4. Selective barrier (with slack): an update that its link takes longer for than a gradient takes is announced, by its
   indices, ahead of everything that waits for the link; whoever hears of it waits for it before its next gradient.
5. Ranks pull the parameters. After the last clock servers wait for all that is still on its way, and ranks pull again.

Laws: threshold 0, slack 0 and one rank per data centre equal SGD on all batches together, to rounding; an infinite
threshold sends nothing, once parameters are not 0; sent + accumulated = sum of updates; what a server has not sent is
at most v_k times its parameter, entry by entry, as that was when it was judged; with slack 0, models differ by what
their servers have not sent.

Differences from the paper: updates of clock k - slack are applied in clock k, not as they come, so that what is
computed does not depend on speeds (but for the selective barrier). A model reads all of its parameters in every
iteration, so the barrier holds the next gradient back, not single reads. Inside a data centre ranks go in step (BSP).
Updates are averages over all ranks by samples, where the paper adds them up; the server trains, too. The slack of 0
is not the paper's. ``selectivity`` is the part of the entries that is significant in a run of shapes alone, which
cannot tell by itself.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Payload, Pending, Sparse, Strategy, Vector, Worker, any_pair
from e2c_dl.strategies.collectives.averaging import grouped
from e2c_dl.strategies.sparse import FILTERING, add_sparse, significant, sparse_bytes

DECAYS = ("sqrt", "none")
BARRIER = -1  # priority of what is announced


class Gaia(Strategy):
    """Significant updates between data centres; see the module."""

    name: ClassVar[str] = "gaia"

    def __init__(
        self, *, threshold: float = 0.01, decay: str = "sqrt", slack: int = 0, selective_barrier: bool = True,
        selectivity: float = 0.0,
    ) -> None:  # fmt: skip
        """``threshold`` is a fraction of a parameter, ``slack`` in clocks. Raises: InputError."""
        if not threshold >= 0:
            raise self._wrong(f"threshold is {threshold}; write 0 or more")
        if decay not in DECAYS:
            raise self._wrong(f"decay is {decay!r}; write {' or '.join(DECAYS)}")
        if slack < 0:
            raise self._wrong(f"slack is {slack}; write 0 or more")
        if not 0 <= selectivity <= 1:
            raise self._wrong(f"selectivity is {selectivity}; write 0 (not known) to 1")
        self._threshold, self._decay, self.selectivity = threshold, decay, selectivity
        self.slack = slack
        self.adapts_to_links = self.barrier = selective_barrier and slack > 0

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: layers decide which."""
        return any_pair(size)

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        """Between servers, and between each server and its layer."""
        groups = grouped(layers)
        servers = [group[0] for group in groups]
        pairs = {(src, dst) for src in servers for dst in servers if src != dst}
        pairs |= {pair for group in groups for rank in group[1:] for pair in ((rank, group[0]), (group[0], rank))}
        return sorted(pairs)

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The mean of all models, by samples: data centres hold back what is not significant."""
        return [each / sum(samples) for each in samples]

    def check_shapes(self) -> None:
        if not self.selectivity:
            raise self._wrong(
                "how much is significant depends on values, which a run of shapes alone has not; "
                "write the part of the entries under strategy_settings, such as selectivity: 0.05"
            )

    def threshold(self, clock: int) -> float:
        """v_k."""
        return self._threshold / (clock + 1) ** 0.5 if self._decay == "sqrt" else self._threshold

    async def run(self, worker: Worker) -> None:
        groups = grouped(worker.layers)
        own = next(group for group in groups if worker.rank in group)
        if worker.rank == own[0]:
            await _Server(worker, self, own[1:], [group[0] for group in groups if group is not own]).run()
        else:
            await self._follow(worker, own[0])

    async def _follow(self, worker: Worker, server: int) -> None:
        """Push gradients to the data centre's server, pull its parameters."""
        clock = -1
        async for clock in worker.iterations():
            await _weighted_gradient(worker)
            pushed = Message(kind="push", iteration=clock, payload=worker.gradients, adds=True)
            sent = worker.send(server, pushed)
            came = await worker.receive("pull", src=server, iteration=clock)
            await worker.copy(worker.parameters, came.vector)
            await sent  # the next gradient is written where this one leaves from
        if self.slack:
            came = await worker.receive("pull", src=server, iteration=clock + 1)
            await worker.copy(worker.parameters, came.vector)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"strategy 'gaia': {what}")


class _Server:
    """A data centre's server: ``mates`` are its ranks, ``peers`` the other servers, in order of rank."""

    def __init__(self, worker: Worker, settings: Gaia, mates: Sequence[int], peers: Sequence[int]) -> None:
        self._worker, self._settings, self._mates, self._peers = worker, settings, mates, peers
        self._accumulated = worker.zeros()
        self._early: list[tuple[int, int]] = []  # (peer, clock) of updates that were announced, and applied at once

    async def run(self) -> None:
        worker, clock = self._worker, -1
        answers: list[Pending[None]] = []
        updates: deque[list[Pending[None]]] = deque()  # by clock
        async for clock in worker.iterations():
            await self._gather(clock)
            oldest = updates.popleft() if len(updates) > self._settings.slack else []
            for each in [*answers, *oldest]:  # answers are of the parameters, which change now
                await each
            await self._update()
            updates.append(await self._send(clock))
            await self._receive(clock - self._settings.slack)
            await self._heed(clock - self._settings.slack)
            answers = self._answer(clock)
        for each in itertools.chain(answers, *updates):
            await each
        for late in range(clock + 1 - self._settings.slack, clock + 1):
            await self._receive(late)
        worker.arrived("barrier")  # of updates that have come since
        if self._settings.slack:
            for each in self._answer(clock + 1):
                await each

    async def _gather(self, clock: int) -> None:
        """The sum of the data centre's gradients, in order of rank."""
        worker = self._worker
        await _weighted_gradient(worker)
        for src in self._mates:
            came = await worker.receive("push", src=src, iteration=clock)
            await worker.accumulate(worker.gradients, came.vector)

    async def _update(self) -> None:
        """Step, and accumulate how far the parameters have moved."""
        worker, update = self._worker, self._worker.zeros()
        await worker.copy(update, worker.parameters)
        await worker.step()
        await worker.scale(update, -1.0)
        await worker.accumulate(update, worker.parameters)
        await worker.accumulate(self._accumulated, update)

    async def _send(self, clock: int) -> list[Pending[None]]:
        worker = self._worker
        payload = await worker.calculate(
            lambda: self._filtered(clock), nbytes=FILTERING * self._accumulated.nbytes, shapes=self._stated
        )
        sent = []
        for dst in self._peers:
            message = Message(kind="update", iteration=clock, payload=payload, adds=True)
            if self._settings.barrier and self._bursts(dst, payload):
                indices = payload[0] if isinstance(payload, tuple) else None  # None: all of them
                sent.append(worker.send(dst, Message(kind="barrier", iteration=clock, payload=indices), BARRIER))
            sent.append(worker.send(dst, message))
        return sent

    def _filtered(self, clock: int) -> Payload | None:
        """What is significant, which is then accumulated no more."""
        accumulated = self._accumulated
        indices = significant(accumulated, self._worker.parameters, self._settings.threshold(clock))
        if not len(indices):
            return None
        if sparse_bytes(len(indices), accumulated.itemsize) >= accumulated.nbytes:
            whole: Vector = accumulated.copy()
            accumulated[:] = 0
            return whole
        values = accumulated[indices]  # a copy, as it is not a slice
        accumulated[indices] = 0
        return Sparse(indices, values)

    def _stated(self) -> Payload:
        """As :meth:`_filtered`, of as many entries as the settings say. Raises: InputError, if they do not."""
        worker = self._worker
        self._settings.check_shapes()
        count = max(1, round(self._settings.selectivity * len(worker.parameters)))
        if sparse_bytes(count, worker.parameters.itemsize) >= worker.parameters.nbytes:
            return worker.zeros()
        return Sparse(worker.zeros(count, "int32"), worker.zeros(count))

    def _bursts(self, dst: int, payload: Payload | None) -> bool:
        """Whether the link takes longer for ``payload`` than a gradient takes."""
        link = self._worker.link(dst)
        nbytes = sum(each.nbytes for each in Message(kind="update", payload=payload).arrays)
        return link is not None and nbytes * 8 / link.rate_bps > self._worker.compute_s

    async def _receive(self, clock: int) -> None:
        """Apply the updates of ``clock`` of all peers."""
        for src in self._peers if clock >= 0 else ():
            if (src, clock) in self._early:
                self._early.remove((src, clock))
            else:
                await self._apply(src, clock)

    async def _heed(self, applied: int) -> None:
        """Wait for the updates that were announced; those of clocks to ``applied`` are there."""
        for announced in self._worker.arrived("barrier"):
            if announced.iteration > applied:
                await self._apply(announced.src, announced.iteration)
                self._early.append((announced.src, announced.iteration))

    async def _apply(self, src: int, clock: int) -> None:
        worker = self._worker
        came = await worker.receive("update", src=src, iteration=clock)
        if isinstance(came.payload, tuple):
            await add_sparse(worker, worker.parameters, came.sparse)
        elif came.payload is not None:
            await worker.accumulate(worker.parameters, came.vector)

    def _answer(self, clock: int) -> list[Pending[None]]:
        """Send the data centre's ranks the parameters."""
        message = Message(kind="pull", iteration=clock, payload=self._worker.parameters)
        return [self._worker.send(dst, message) for dst in self._mates]


async def _weighted_gradient(worker: Worker) -> None:
    async for _ in worker.gradient():
        pass
    await worker.scale(worker.gradients, worker.samples / worker.total_samples)
