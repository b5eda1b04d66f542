"""Verbs of one rank: what a strategy awaits, and what each world implements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from e2c_dl.strategies.seam.compute import Bucket
from e2c_dl.strategies.seam.messages import Array, Message, Vector

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Slow:
    """A host or a directed link that is slower than designed."""

    ranks: tuple[int, ...]  # (rank,) of a host; (src, dst) of a link
    factor: float  # how many times slower
    since: int  # iteration of its (first) rank


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What slows training down now; it replaces all earlier ones."""

    slow: tuple[Slow, ...]  # sorted by ranks; empty: nothing does any more

    def factor(self, *ranks: int) -> float:
        """Times slower than designed that rank ``r`` computes, or link ``src, dst`` carries; 1.0: not named."""
        return next((each.factor for each in self.slow if each.ranks == ranks), 1.0)


@dataclass(frozen=True, kw_only=True)
class LinkEstimate:
    """What a link has done lately, as far as its sender can know: by what was acknowledged to it."""

    rate_bps: float  # bits of messages per second, their headers included, while it had something to carry
    round_trip_s: float
    age_s: float  # since the last that it is judged by was acknowledged


class Pending(Awaitable[T], Generic[T]):
    """Something under way that can be awaited once or asked whether it is ``done``."""

    @property
    @abstractmethod
    def done(self) -> bool: ...


class Worker(Protocol):
    """Verbs of one rank. Every one that takes time is awaited and leaves a span in the trace.

    One rank's iteration of gossip on a ring, by its verbs::

        async for iteration in worker.iterations():
            async for bucket in worker.gradient():  # bucket.values is final; the rest is still being computed
                pass
            await worker.step()
            sent = worker.send(after, Message(kind="model", iteration=iteration, payload=worker.parameters))
            came = await worker.receive("model", src=before, iteration=iteration)
            await sent                               # from here on the payload may change
            await worker.accumulate(worker.parameters, came.vector)
    """

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int:
        """World size: how many ranks train."""

    @property
    def samples(self) -> int:
        """Samples in this rank's batch, per iteration."""

    @property
    def total_samples(self) -> int:
        """Samples in all ranks' batches together, per iteration."""

    @property
    def parameters(self) -> Vector:
        """The model's parameters, flat; torch shares this memory."""

    @property
    def gradients(self) -> Vector:
        """The gradient, flat, same layout; buckets are views of it."""

    def iterations(self) -> AsyncIterator[int]:
        """0, 1, ...: the one stop rule. An iteration's span runs until the next is asked for."""

    @property
    def layers(self) -> Sequence[str]:
        """The layer (edge, fog, cloud) of every rank, by rank."""

    @property
    def random(self) -> np.random.Generator:
        """This rank's own generator, seeded by the scenario's seed and the rank."""

    @property
    def compute_s(self) -> float:
        """Duration of this rank's last gradient, in seconds of the world's clock; 0.0 before the first."""

    @property
    def loss(self) -> float:
        """Mean loss over the batch of this rank's last gradient; not a number before, and in a run of shapes alone."""

    def skip_to(self, iteration: int) -> None:
        """Let ``iterations`` go on with ``iteration`` after the present one: those in between are never begun.

        Past the last iteration, training ends here. One that is not ahead changes nothing.
        """

    def resize(self, samples: int, total_samples: int) -> None:
        """From the next gradient on, ``samples`` and ``total_samples`` are these.

        For batch controllers, which see to it that all ranks agree; see e2c_dl.strategies.batching.
        """

    def zeros(self, length: int | None = None, dtype: str | None = None) -> Array:
        """A new vector of ``length`` and ``dtype``; None: the parameters'."""

    def gradient(self) -> AsyncIterator[Bucket]:
        """Mean gradient of the loss over this rank's batch, bucket by bucket as backward completes them.

        Computed at the parameters as they are when iteration begins; they must not change until the last bucket.
        """

    async def step(self) -> None:
        """Apply the configured optimizer to ``parameters`` with ``gradients`` as they are now."""

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        """Queue ``message`` for ``dst`` and return at once; resolves when its last byte has left this rank."""

    def queued_bytes(self, dst: int) -> int:
        """Bytes of payloads that were sent to ``dst`` and wait here for room on the link, about."""

    def link(self, dst: int) -> LinkEstimate | None:
        """What the link to ``dst`` has done lately; None: too little was sent over it to tell."""

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        """The message from ``src`` with exactly this key, waiting for it. Raises: PeerLost."""

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        """The message of this kind that arrived first, from any of ``sources`` (None: from anyone), whatever its key.

        None after ``timeout_s`` without one. Raises: PeerLost, if no source is left that could send one.
        """

    def deadline_s(self, kind: str) -> float | None:
        """A ``timeout_s`` for the next ``receive_any`` of ``kind``, by how long the last ones took; None: unknown."""

    def arrived(self, kind: str) -> Sequence[Message]:
        """All messages of this kind that are there, in order of arrival, without waiting; they are taken."""

    def verdicts(self) -> Sequence[Verdict]:
        """What diagnosis said since the last call, oldest first, without waiting: see ``Strategy.hears_verdicts``."""

    def spawn(self, coroutine: Coroutine[Any, Any, T], background: bool = False) -> Pending[T]:
        """Run ``coroutine`` as a task of its own beside the caller; await the Pending to join it.

        A ``background`` task serves others (a parameter server's loop): it is cancelled when ``run`` has returned on
        all ranks, and until then goes on serving ranks that are not done.
        """

    async def copy(self, into: Vector, values: Vector) -> None:
        """``into[:] = values``."""

    async def accumulate(self, into: Vector, values: Vector, factor: float = 1.0) -> None:
        """``into += factor * values``."""

    async def scale(self, vector: Vector, factor: float) -> None:
        """``vector *= factor``."""

    async def apply(self, into: Vector, update: Vector, *, src: int, staleness: int) -> None:
        """``into += update``, which rank ``src`` has computed from what ``into`` was ``staleness`` updates ago.

        As :meth:`accumulate`, and the trace tells whose update it was, and how stale.
        """

    async def round_as_sent(self, values: Vector) -> None:
        """``values`` become what receivers of them have, by a message that does not add: where that is compressed,
        what is rounded off is rounded off here, too. For who computes what all shall have alike, before sending it."""

    async def calculate(self, work: Callable[[], T], *, nbytes: int, shapes: Callable[[], T]) -> T:
        """What ``work()`` returns: mathematics on vectors that is no copy, sum or scaling.

        ``nbytes``: how much it goes over, all passes together; where time is simulated, it takes as long as
        accumulating that much. In a run of shapes alone ``shapes()`` is called instead, which makes what has the same
        sizes by ``zeros``, and knows no values.
        """
