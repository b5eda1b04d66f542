"""The seam between algorithms and worlds: a Strategy is a coroutine over a Worker.

A strategy awaits Worker verbs only; it never sees a socket, a clock or torch. So the same file runs live (one rank per
process, real sockets) and virtual (all ranks in one process, a simulated clock). Vectors are flat NumPy arrays, float32
unless the scenario says float64; torch shares their memory.

Rules that keep worlds equal: a payload is not changed between ``send`` and the resolution of its Pending; vector
mathematics goes through ``copy``, ``accumulate``, ``scale`` and ``calculate``, which cost time in every world (and move
nothing where a world runs shapes alone: a Vector is then a length and a type, which can be sliced); no sets, no global
random.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2c_dl.errors import InputError
from e2c_dl.strategies.seam import Setting
from e2c_dl.strategies.seam.compute import Bucket, Compute, Evaluation, OnSegment, TensorShapes, bucket_of
from e2c_dl.strategies.seam.messages import Array, Message, Payload, Sparse, Vector
from e2c_dl.strategies.seam.worker import LinkEstimate, Pending, Slow, Verdict, Worker

__all__ = [
    "Array", "Bucket", "Compute", "Evaluation", "LinkEstimate", "Message", "OnSegment", "Payload", "Pending", "Setting",
    "Slow", "Sparse", "Strategy", "TensorShapes", "Vector", "Verdict", "Worker", "any_pair", "bucket_of",
]  # fmt: skip


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

    asynchronous: bool = False
    """Whether ranks go at their own pace: then who is faster decides who meets whom, and what is computed. Otherwise
    speeds change when things happen, and nothing else: what all ranks compute and send is the same in every run.

    A rank that goes at its own pace may have more iterations than others. Where settings decide, ``__init__`` sets it;
    the class's is that of the defaults."""

    fixed_batches: bool = False
    """Whether batches must stay as they are: ranks that wait for each other in an order of the strategy's own cannot
    wait for each other's speeds, too. ``__init__`` sets it where settings decide."""

    grows_batches: bool = False
    """Whether the samples of all ranks together become more as training goes on. ``__init__`` sets it where settings
    decide."""

    skips_iterations: bool = False
    """Whether ranks leave iterations out that count as done. ``__init__`` sets it where settings decide."""

    adapts_to_links: bool = False
    """Whether what is computed depends on rates of links that ranks have measured, though they keep in step: then it is
    not the same in every run. ``__init__`` sets it where settings decide."""

    divides_by_links: bool = False
    """Whether measured rates decide who sends how much to whom, and nothing else: what is computed is the same."""

    cycle: int = 1
    """Iterations after which what is sent begins anew, if most of it is sent in few of them: what links carry is told
    by whole ones. ``__init__`` sets it where settings decide."""

    hears_verdicts: bool = False  # training is diagnosed while it goes on, and every rank told: Worker.verdicts
    rank_settings: Sequence[str] = ()
    """Settings whose values are ranks: where some hosts do not train, these move with theirs. ``__init__`` sets it
    where settings decide."""

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

    @property
    def chooses_by_links(self) -> bool:
        """Whether measured rates of links decide what it sends, or to whom."""
        return self.adapts_to_links or self.divides_by_links

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        """Settings that `e2c-dl advise` tries where rank r is in ``layers[r]``, for about so many iterations each."""
        return [{}]

    def model_weights(self, samples: Sequence[int]) -> Sequence[float] | None:
        """Where the trained model is, which is evaluated and saved: the sum of all ranks' parameters times these
        weights, by rank; None: every rank's parameters are the model. ``samples``: in each rank's last batch."""
        return None

    def check_shapes(self) -> None:
        """Does nothing. Raises: InputError, if how much is sent depends on values, which a run of shapes alone has not,
        and the settings do not state it."""
        return

    @abstractmethod
    async def run(self, worker: Worker) -> None:
        """Train: returns when ``worker.iterations()`` ends."""


def any_pair(size: int) -> list[tuple[int, int]]:
    """All directed links among ``size`` ranks, sorted."""
    return [(src, dst) for src in range(size) for dst in range(size) if src != dst]
