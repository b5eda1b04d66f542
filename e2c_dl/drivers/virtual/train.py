"""Training of one scenario in the virtual world, with real mathematics of every rank or shapes alone, and its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from e2c_dl import strategies
from e2c_dl.archive import layout
from e2c_dl.archive.records import Progress
from e2c_dl.drivers.virtual import hosts
from e2c_dl.drivers.virtual.changes import RunChanges
from e2c_dl.drivers.virtual.verdicts import VirtualJudging
from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.scenario.model import Scenario
from e2c_dl.strategies.base import Compute, Evaluation
from e2c_dl.worlds.allotment import allotted
from e2c_dl.worlds.trained import TrainedModel, trained_model
from e2c_dl.worlds.virtual import HostModel, InFiles, Result, SimulatedIteration, Sink, simulate

FLUSH_EVERY = 50
"""Iterations of rank 0 between two writings of the ranks' progress."""


class SimulatedRun:
    """Made once per simulated run; ``train``, then ``conclude``, whatever came of it. ``tell`` hears of rank 0."""

    def __init__(
        self, scenario: Scenario, models: Sequence[HostModel], archive: Path, *, shapes_only: bool,
        tell: Callable[[Progress], None],
    ) -> None:  # fmt: skip
        self._scenario, self._models, self._archive, self._tell = scenario, models, archive, tell
        self._records = hosts.records(archive, scenario)
        self._spans: Sink = InFiles([each.spans for each in self._records])
        self._judging: VirtualJudging | None = None
        if strategies.load(scenario.training.strategy)(**scenario.training.strategy_settings).hears_verdicts:
            facts = [hosts.facts(each, real=not shapes_only) for each in models]
            self._spans = self._judging = VirtualJudging(scenario, self._spans, facts, self._records[0].verdicts_file)
        self._allotment = allotted(scenario.training)
        self._progress = hosts.ProgressFiles(self._records, self._allotment, trained_model(scenario.training).curve)
        self._changes = RunChanges(scenario, archive)
        self._computes = None if shapes_only else _computes(scenario)
        self._ended: Result | None = None
        self._end_ns = 0
        self._lost: int | None = None  # the rank of which no more came, where that ended the run
        self._killed: int | None = None

    @property
    def virtual_s(self) -> float:
        """How long training took, whatever ended it."""
        return self._end_ns / 1e9

    def train(self) -> None:
        """Run the strategy to its end on all ranks. Raises: TrainingError, InputError, Interrupted."""
        try:
            self._train()
        except PeerLost as lost:
            self._lost = lost.rank
            raise

    def _train(self) -> None:
        training = self._scenario.training
        strategy = strategies.load(training.strategy)
        self._ended = simulate(
            lambda: strategy(**training.strategy_settings),
            hosts=self._changes.hosts(self._models), links=self._changes.links(),
            bottlenecks=self._changes.bottlenecks, unsteady=self._changes.unsteady,
            on_iteration=self._changes.on_iteration, sink=self._spans, iterations=training.iterations,
            seed=training.seed, computes=self._computes, evaluate_every=training.evaluate_every,
            on_progress=self._on_progress, as_seen=training.wrapping,
            on_end=self._on_end, allotment=self._allotment, judging=self._judging,
            on_kill=self._on_kill,
        )  # fmt: skip

    def conclude(self, reason: str) -> None:
        """Write what every host leaves; ``reason`` says why training did not finish, and is empty if it did."""
        self._changes.conclude(self._end_ns)  # first: what happened is logged also of a run that failed
        evaluation: Evaluation | None = None  # of shapes, or a run that failed, there is none
        if self._ended is not None and self._computes is not None:
            evaluation = self._evaluated(self._computes, self._ended.samples)
        self._progress.write()
        left = [None if rank == self._killed else each for rank, each in enumerate(self._records)]
        hosts.write_outcomes(left, self._progress, reason, evaluation, lost=self._lost)

    def _evaluated(self, computes: Sequence[Compute], samples: Sequence[int]) -> Evaluation:
        """The strategy's model, evaluated by rank 0, and saved."""
        training = self._scenario.training
        model = TrainedModel.of(strategies.load(training.strategy)(**training.strategy_settings), samples)
        computes[0].parameters[:] = model.assembled(lambda rank: computes[rank].parameters)
        evaluation = computes[0].evaluate()
        self._progress.evaluated(0, evaluation, model.described())
        np.savez(self._archive / layout.MODEL, parameters=computes[0].parameters)
        return evaluation

    def _on_end(self, at_ns: int) -> None:
        self._end_ns = at_ns

    def _on_kill(self, rank: int) -> None:
        """End the run, as a live one ends once a rank's control connection has closed."""
        self._killed = self._lost = rank
        raise TrainingError(f"lost rank {rank} ({self._models[rank].name}): its process was killed")

    def _on_progress(self, done: SimulatedIteration) -> None:
        told = self._progress.ended(done.rank, done.iteration, done.loss, done.accuracy, done.at_ns / 1e9)
        if done.rank == 0:  # one account is enough for people to see that it goes on
            self._tell(told)
            if told.iteration % FLUSH_EVERY == 0:
                self._progress.write()


def _computes(scenario: Scenario) -> tuple[Compute, ...]:
    """Every rank's mathematics on torch, deterministic, one thread."""
    from e2c_dl.training.compute import TorchCompute, make_deterministic  # a run of shapes alone must not need torch

    make_deterministic()
    size = len(scenario.topology.ranks)
    return tuple(TorchCompute(scenario.training, rank=rank, size=size) for rank in range(size))
