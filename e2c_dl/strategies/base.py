"""The seam between algorithms and worlds: a Strategy is a coroutine over a Worker.

A strategy awaits Worker verbs only; it never sees a socket, a clock or torch. So the same file runs live (one rank per
process, real sockets) and virtual (all ranks in one process, a simulated clock). Vectors are flat NumPy arrays, float32
unless the scenario says float64; torch shares their memory.

Rules that keep worlds equal: a payload is not changed between ``send`` and the resolution of its Pending; vector
mathematics goes through ``copy``, ``accumulate`` and ``scale``, which cost time in every world (and move nothing where
a world runs shapes alone: a Vector is then a length and a type, which can be sliced); no sets, no global random.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.trace.model import Phase

Vector = npt.NDArray[np.floating[Any]]
Setting = float | int | str | bool
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A flat piece of the gradient, complete. ``values`` is a view: writing to it writes the gradient."""

    index: int
    where: slice  # in the flat vector
    values: Vector


@dataclass(frozen=True, kw_only=True)
class Message:
    """Message between two ranks. ``src`` is filled in by the world."""

    kind: str  # at most 16 ASCII characters: "reduce", "gather", ...
    iteration: int = -1
    bucket: int = -1
    step: int = -1  # a counter of the strategy's own, such as the step of a ring
    payload: Vector | None = None
    src: int = -1

    @property
    def vector(self) -> Vector:
        """The payload. Raises: TrainingError if the message carries none."""
        if self.payload is None:
            raise TrainingError(f"message {self.kind!r} from rank {self.src} carries no vector; send it with a payload")
        return self.payload


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Loss and accuracy of the parameters on samples that were not trained on."""

    loss: float  # mean
    accuracy: float  # fraction, 0..1


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


OnSegment = Callable[[Phase, int, int, int], None]
"""Told of each piece of a gradient as it ends: phase (DATA, FORWARD, BACKWARD), bucket (-1: none), start_ns, end_ns."""


class Compute(Protocol):
    """The mathematics of one rank, for a world to run: real on torch, or shapes alone. Calls block, one by one."""

    @property
    def parameters(self) -> Vector: ...
    @property
    def gradients(self) -> Vector: ...
    @property
    def buckets(self) -> Sequence[slice]:
        """Where each bucket lies in the flat vector, by index, in the order in which backward completes them."""

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        """Mean loss over the batch of ``iteration``, of ``samples`` samples; writes its gradient into ``gradients``.

        A world calls it in a thread. A bucket's BACKWARD is reported when its values are final.
        """

    def step(self) -> None:
        """Apply the optimizer to ``parameters`` with ``gradients`` as they are."""

    def evaluate(self) -> Evaluation:
        """Loss and accuracy of ``parameters`` as they are, on the test samples."""


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

    def resize(self, samples: int, total_samples: int) -> None:
        """From the next gradient on, ``samples`` and ``total_samples`` are these.

        For batch controllers, which see to it that all ranks agree; see e2c_dl.strategies.batching.
        """

    def zeros(self) -> Vector:
        """A new vector of the parameters' length and type."""

    def gradient(self) -> AsyncIterator[Bucket]:
        """Mean gradient of the loss over this rank's batch, bucket by bucket as backward completes them.

        Computed at the parameters as they are when iteration begins; they must not change until the last bucket.
        """

    async def step(self) -> None:
        """Apply the configured optimizer to ``parameters`` with ``gradients`` as they are now."""

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        """Queue ``message`` for ``dst`` and return at once; resolves when its last byte has left this rank."""

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


class Strategy(ABC):
    """One algorithm. Subclasses stand in one file each, named like their ``name``.

    ::

        strategy = strategies.load("localsgd")(period=8)        # the class of that name, with a scenario's settings
        links = strategy.used_links(["edge", "edge", "cloud"])  # [(0, 1), (1, 2), (2, 0)]: connected and measured
        await strategy.run(worker)                              # once per rank, on that rank's Worker
    """

    name: ClassVar[str]
    """What scenarios call it: lower case."""

    exact_with: ClassVar[Mapping[str, Setting] | None] = None
    """The settings with which it equals SGD without momentum on all ranks' batches together, to rounding; None: with
    none. The laws hold it to that."""

    asynchronous: ClassVar[bool] = False
    """Whether ranks go at their own pace: then who is faster decides who meets whom, and what is computed. Otherwise
    speeds change when things happen, and nothing else: what all ranks compute and send is the same in every run.

    A rank that goes at its own pace is awaited by no other's iterations, and may have more of them than others."""

    hears_verdicts: bool = False  # training is diagnosed while it goes on, and every rank told: Worker.verdicts
    former_settings: ClassVar[Mapping[str, str]] = {}
    """Settings that earlier versions knew -> what to do instead, which a scenario that still has one is told."""

    def __init__(self, **settings: Setting) -> None:
        """``settings`` are the scenario's ``strategy_settings``; a strategy that has some overrides this with
        keyword-only parameters and defaults, and raises InputError for values out of range."""
        if settings:
            raise InputError(f"strategy {self.name!r} has no settings; remove {', '.join(sorted(settings))}")

    @classmethod
    @abstractmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """The directed links (src rank, dst rank) that training uses, sorted; they are connected and measured first.

        If that depends on settings or layers, all that may be used.
        """

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        """Those of ``links`` that are used with these settings, where rank r is in ``layers[r]``, sorted."""
        return self.links(len(layers))

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        """Settings that `e2c-dl advise` tries where rank r is in ``layers[r]``, for about so many iterations each."""
        return [{}]

    def model_weights(self, samples: Sequence[int]) -> Sequence[float] | None:
        """Where the trained model is, which is evaluated and saved: the sum of all ranks' parameters times these
        weights, by rank; None: every rank's parameters are the model. ``samples``: in each rank's last batch."""
        return None

    @abstractmethod
    async def run(self, worker: Worker) -> None:
        """Train: returns when ``worker.iterations()`` ends."""


def any_pair(size: int) -> list[tuple[int, int]]:
    """All directed links among ``size`` ranks, sorted."""
    return [(src, dst) for src in range(size) for dst in range(size) if src != dst]
