"""FedAT: clients of one tier of speed average their models in step, and the server mixes tiers, each at its own pace.

Source: Chai, Chen, Anwar, Zhao, Cheng and Rangwala, "FedAT: A high-performance and communication-efficient federated
learning system with asynchronous tiers", SC 2021 (arXiv:2010.05958). Idea: who waits, waits for clients as fast as
itself; and as fast tiers report more often, slow ones count for more.

1. A client trains ``period`` steps from the server's model w, by g + lambda (w_k - w): the gradient of its loss and of
   lambda/2 ||w_k - w||^2, lambda being ``proximal``. Then it sends its model w_k to the rank ``server``.
2. When all clients of tier m have reported, w_m <- sum(n_k w_k) / sum(n_k) in client order, n_k the samples that each
   has trained on, and T_m <- T_m + 1.
3. w <- sum_m (T_(M+1-m) / T) w_m, tier 1 the fastest, T = sum(T_m): slow tiers get fast tiers' counters. Until every
   tier has reported, all weigh alike. The clients of tier m get w, and nobody else waits.

Tiers: the first round is of all clients, as one. From then on they are in ``tiers`` tiers of equal size, by response
time: what the gradients of a round took, and what its link takes for a model each way, once it has carried one. The
median of a client's last three rounds counts. When one is more than ``retier`` times longer or shorter than when tiers
were made, they are made again (0: never). A client changes its tier when its round ends, unless updates of the other
are on their way. With ``tiers: 1`` this is FedAvg, and all go in step.

The staleness of an update is how many others w has taken in since its client was given w, when its tier is averaged.

A client that has ended its training reports what it has trained, and leaves its tier, whose model stays. One that is
lost is not waited for, and a tier that has lost its last client is left out of w; of a single tier it ends the run.

Laws: weights sum to 1; one tier, no proximal term: FedAvg to the bit, and with one step SGD on all batches together;
nobody waits for a client of another tier.

Differences from the paper: every client of a tier takes part in each of its rounds. The server is a client, too. What
the optimizer remembers stays with the client. Steps are counted, not epochs. How tiers are divided, and when anew, is
not the paper's. 5 tiers and lambda 0.4 are not verified against its text. The paper's compression is any strategy's:
``compression: polyline``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from e2c_dl.errors import InputError, PeerLost
from e2c_dl.strategies.base import LinkEstimate, Message, Pending, Setting, Vector, Worker
from e2c_dl.strategies.collectives import Tag
from e2c_dl.strategies.collectives.server import Served
from e2c_dl.strategies.tiers import Tier, Tiers


class FedAT(Served):
    """Averages in step inside tiers, tiers at their own pace; see the module."""

    name: ClassVar[str] = "fedat"
    exact_with: ClassVar[Mapping[str, Setting] | None] = {"tiers": 1, "period": 1, "proximal": 0.0}
    asynchronous = fixed_batches = True  # a client may wait in a tier for one that waits for its speed

    def __init__(
        self, *, server: int = 0, tiers: int = 5, period: int = 4, proximal: float = 0.4, retier: float = 1.5
    ) -> None:
        """Raises: InputError, for no tier, no step, and numbers out of range."""
        super().__init__(server=server)
        for name, value, wrong, remedy in (
            ("tiers", tiers, tiers < 1, "1 or more"),
            ("period", period, period < 1, "1 or more"),
            ("proximal", proximal, not 0 <= proximal < np.inf, "0 or more"),
            ("retier", retier, retier != 0 and not 1 <= retier < np.inf, "1 or more, or 0: never"),
        ):
            if wrong:
                raise InputError(f"strategy {self.name!r}: {name} is {value}; write {remedy}")
        self._tiers, self._proximal, self._retier = tiers, proximal, retier
        self.cycle = period
        self.asynchronous = self.fixed_batches = tiers > 1

    async def follow(self, worker: Worker) -> None:
        await self._train(worker, _Remote(worker, self._server))

    async def serve(self, worker: Worker) -> None:
        server = Server(worker, tiers=self._tiers, retier=self._retier)
        server.listen()
        await self._train(worker, server)

    async def _train(self, worker: Worker, server: Server | _Remote) -> None:
        """Train as a client of ``server``: what is left of a round when training ends is reported, too."""
        given = worker.zeros()  # w
        if self._proximal:
            await worker.copy(given, worker.parameters)
        steps, samples, seconds = 0, 0, 0.0
        async for _ in worker.iterations():
            async for _ in worker.gradient():
                pass
            if self._proximal and steps:  # in the first step of a round w_k is w
                await worker.accumulate(worker.gradients, worker.parameters, self._proximal)
                await worker.accumulate(worker.gradients, given, -self._proximal)
            await worker.step()
            steps, samples, seconds = steps + 1, samples + worker.samples, seconds + worker.compute_s
            if steps == self.cycle:
                await server.exchange(Report(samples=samples, seconds=seconds, ends=False))
                if self._proximal:
                    await worker.copy(given, worker.parameters)
                steps, samples, seconds = 0, 0, 0.0
        await server.exchange(Report(samples=samples, seconds=seconds, ends=True))


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a client tells beside its model."""

    samples: int  # that it has trained on since the last; 0: it has no model to give
    seconds: float  # response time of the round
    ends: bool  # it trains no more

    def numbers(self) -> list[float]:
        """As they travel."""
        return [float(self.samples), self.seconds, float(self.ends)]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Report:
        """The report that was sent as ``numbers``."""
        samples, seconds, ends = numbers
        return cls(samples=round(samples), seconds=seconds, ends=bool(ends))


class _Remote:
    """The server, to all other ranks."""

    def __init__(self, worker: Worker, server: int) -> None:
        self._worker, self._server, self._round = worker, server, 0

    async def exchange(self, report: Report) -> None:
        """Give what was trained, wait for the tier, take over the server's model. Raises: PeerLost."""
        worker, server, number = self._worker, self._server, self._round
        seconds = report.seconds + transfer_s(worker.link(server), worker.parameters.nbytes)
        told = Report(samples=report.samples, seconds=seconds, ends=report.ends).numbers()
        worker.send(server, Tag(kind="report", iteration=number).numbers(0, told))
        payload = worker.parameters if report.samples else None
        sent = worker.send(server, Message(kind="update", iteration=number, payload=payload))
        came = await worker.receive("model", src=server, iteration=number)
        await sent
        if came.payload is not None:  # who has ended is given none
            await worker.copy(worker.parameters, came.vector)
        self._round += 1


class Server:
    """The server: the models of all tiers, and who is in which.

    Each client is heard by a task of its own, which begins its tier's round when all have reported. The server's own
    client is a member as others are: it waits for its tier by taking the updates itself.
    """

    def __init__(self, worker: Worker, *, tiers: int, retier: float) -> None:
        self._worker, self._in_step = worker, tiers == 1
        self._tiers = Tiers(range(worker.size), worker.zeros(), count=tiers, factor=retier)
        self._reports: dict[int, Report] = {}  # of whom has reported and is in no round yet
        self._model = worker.parameters  # w; before the first round, what all begin with
        self._updates = 0  # that w has taken in
        self._read = dict.fromkeys(range(worker.size), 0)  # by rank: how many it had when it was given
        self._rounds = [0] * worker.size  # by rank: those that it was answered in
        self._answers: list[Pending[None]] = []  # that may not have left
        self._lost: PeerLost | None = None
        self._trained = False

    def listen(self) -> None:
        """Hear all clients, from before the first iteration: what is heard later belongs to none."""
        for client in range(self._worker.size):
            if client != self._worker.rank:
                self._worker.spawn(self._hear(client), background=True)

    async def exchange(self, report: Report) -> None:
        """As clients do, for its own. Raises: PeerLost, of a single tier."""
        rank, worker = self._worker.rank, self._worker
        if self._lost is not None and self._in_step:
            raise self._lost
        if report.samples:
            self._reports[rank] = report
            await self._round(self._tiers.of(rank))
        else:
            self._tiers.leave(rank)
        await self._go_on()
        if report.ends:  # what is evaluated in the end holds every update
            self._trained = True
            await worker.copy(worker.parameters, self._model)
            for each in self._answers:  # what waits to be sent would end with this task
                try:
                    await each
                except PeerLost:  # told where its client is heard
                    continue

    async def _hear(self, client: int) -> None:
        number, ends = 0, False
        while not ends:
            tag = Tag(kind="report", iteration=number)
            try:
                report = Report.of(await tag.receive_numbers(self._worker, client, 0))
            except PeerLost as why:
                ends = True
                self._lose(client, why)
            else:
                number, ends = number + 1, report.ends
                self._reports[client] = report
            if self._tiers.complete(self._reports) is not None:
                # A task of its own: this one hears a report before anyone takes the update behind it.
                self._worker.spawn(self._go_on(), background=True)

    async def _go_on(self) -> None:
        while (tier := self._tiers.complete(self._reports)) is not None:
            await self._round(tier)

    async def _round(self, tier: Tier) -> None:
        """Take the updates of all in ``tier``, some of which may not have come, average, and answer."""
        worker = self._worker
        tier.under_way += 1
        clients = list(tier.members)
        reports = {each: self._reports.pop(each) for each in clients if each in self._reports}
        updates: dict[int, Vector] = {}
        for client in clients:
            if client == worker.rank:
                updates[client] = worker.parameters
                continue
            try:
                came = await worker.receive("update", src=client, iteration=self._rounds[client])
            except PeerLost as why:
                self._lose(client, why)
                reports.pop(client, None)
                continue
            report = reports.get(client) or self._reports.pop(client, None)  # it was sent before the update
            if report is None:  # of one that was lost meanwhile
                continue
            reports[client] = report
            if came.payload is not None:
                updates[client] = came.vector
        if updates:
            await self._average(tier, {client: (reports[client].samples, each) for client, each in updates.items()})
            self._read.update(dict.fromkeys(reports, self._updates))  # as of the next line
            self._model = await self._mixed()
        tier.under_way -= 1
        self._place(reports)
        await self._answer(reports, self._model)

    async def _average(self, tier: Tier, updates: Mapping[int, tuple[int, Vector]]) -> None:
        """w_m: FedAvg over ``updates``, client -> (samples, model)."""
        worker, mean = self._worker, self._worker.zeros()
        total = sum(samples for samples, _ in updates.values())
        stale = {client: self._updates - self._read[client] for client in updates}  # now, of all: they count together
        for client, (samples, update) in updates.items():
            share = await worker.calculate(
                partial(np.multiply, update, samples / total), nbytes=update.nbytes, shapes=worker.zeros
            )
            await worker.apply(mean, share, src=client, staleness=stale[client])
        tier.model, tier.rounds = mean, tier.rounds + 1
        self._updates += len(updates)

    async def _mixed(self) -> Vector:
        """w: the models of all tiers, at once, so that no other round changes one meanwhile."""
        models, weights = self._tiers.mixture()

        def mixed() -> Vector:
            whole: Vector = models[0] * weights[0]
            for model, weight in zip(models[1:], weights[1:], strict=True):
                whole += model * weight
            return whole

        nbytes = len(models) * models[0].nbytes
        return await self._worker.calculate(mixed, nbytes=nbytes, shapes=self._worker.zeros)

    def _place(self, reports: Mapping[int, Report]) -> None:
        """Let those who have reported go, or into the tiers that they are as fast as."""
        worker, seconds = self._worker, {}
        for client, report in reports.items():
            if report.ends:
                self._tiers.leave(client)
                continue
            link = None if client == worker.rank else worker.link(client)
            seconds[client] = report.seconds + transfer_s(link, worker.parameters.nbytes)
        self._tiers.place(seconds)

    async def _answer(self, reports: Mapping[int, Report], model: Vector) -> None:
        worker, own = self._worker, self._worker.rank
        self._answers = [each for each in self._answers if not each.done]
        for client in sorted(reports):
            answer = Message(
                kind="model", iteration=self._rounds[client], payload=None if reports[client].ends else model
            )
            if client != own:
                self._answers.append(worker.send(client, answer))
            self._rounds[client] += 1
        if own in reports or self._trained:
            await worker.copy(worker.parameters, model)

    def _lose(self, client: int, why: PeerLost) -> None:
        self._lost = why
        self._tiers.lose(client)
        self._reports.pop(client, None)


def transfer_s(link: LinkEstimate | None, nbytes: int) -> float:
    """Seconds that ``nbytes`` take over ``link``; 0 where nothing is known of it."""
    return 0.0 if link is None else 8 * nbytes / link.rate_bps + link.round_trip_s / 2
