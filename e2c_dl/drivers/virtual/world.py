"""One scenario in the virtual world, and the files it leaves: real mathematics of every rank here, or shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from e2c_dl import strategies
from e2c_dl.archive.records import Progress as Told
from e2c_dl.drivers.virtual import hosts
from e2c_dl.drivers.virtual.dynamics import Dynamics
from e2c_dl.scenario.model import Scenario
from e2c_dl.strategies.base import Compute, Evaluation
from e2c_dl.strategies.batching import controlled
from e2c_dl.worlds.virtual import HostModel, InFiles, Progress, simulate

FLUSH_EVERY = 50
"""Iterations of rank 0 between two writings of the ranks' progress."""


class Run:
    """Made once per simulated run; ``train``, then ``conclude``, whatever came of it. ``tell`` hears of rank 0."""

    def __init__(
        self, scenario: Scenario, models: Sequence[HostModel], archive: Path, *, shapes_only: bool,
        tell: Callable[[Told], None],
    ) -> None:  # fmt: skip
        self._scenario, self._models, self._archive, self._tell = scenario, models, archive, tell
        self._records = hosts.records(archive, scenario)
        self._spans = InFiles([each.spans for each in self._records])
        self._progress = hosts.ProgressFiles(self._records, scenario.training.iterations)
        self._dynamics = Dynamics(scenario, archive)
        self._computes = None if shapes_only else _computes(scenario)
        self._finished = False
        self._end_ns = 0

    @property
    def virtual_s(self) -> float:
        """How long training took, whatever ended it."""
        return self._end_ns / 1e9

    def train(self) -> None:
        """Run the strategy to its end on all ranks. Raises: TrainingError, InputError, Interrupted."""
        training = self._scenario.training
        strategy = strategies.load(training.strategy)
        simulate(
            lambda: strategy(**training.strategy_settings),
            hosts=self._dynamics.hosts(self._models), links=self._dynamics.links(),
            bottlenecks=self._dynamics.bottlenecks, unsteady=self._dynamics.unsteady,
            on_iteration=self._dynamics.on_iteration, sink=self._spans, iterations=training.iterations,
            seed=training.seed, computes=self._computes, evaluate_every=training.evaluate_every,
            on_progress=self._on_progress, as_seen=lambda worker: controlled(worker, training.batching),
            on_end=self._on_end,
        )  # fmt: skip
        self._finished = True

    def conclude(self, reason: str) -> None:
        """Write what every host leaves; ``reason`` says why training did not finish, and is empty if it did."""
        self._dynamics.conclude(self._end_ns)
        evaluation: Evaluation | None = None
        if self._finished and self._computes is not None:
            evaluation = self._computes[0].evaluate()
            self._progress.evaluated(0, evaluation)
            hosts.write_model(self._archive, self._computes[0])
        self._progress.write()
        hosts.write_outcomes(self._records, self._progress, reason, evaluation)

    def _on_end(self, at_ns: int) -> None:
        self._end_ns = at_ns

    def _on_progress(self, progress: Progress) -> None:
        told = self._progress.ended(
            progress.rank, progress.iteration, progress.loss, progress.accuracy, progress.at_ns / 1e9
        )
        if progress.rank == 0:
            self._tell(told)
            if told.iteration % FLUSH_EVERY == 0:
                self._progress.write()


def _computes(scenario: Scenario) -> tuple[Compute, ...]:
    """Every rank's mathematics on torch, deterministic, one thread."""
    from e2c_dl.training.compute import TorchCompute, make_deterministic

    make_deterministic()
    size = len(scenario.topology.ranks)
    return tuple(TorchCompute(scenario.training, rank=rank, size=size) for rank in range(size))
