"""One candidate tried once in the virtual world: how long it takes, what it sends, how busy hosts are, what it learns.

Every candidate trains on the same number of samples, all ranks together. With real gradients the model that the
strategy trains is evaluated at even parts of that, outside of virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from e2c_dl import strategies
from e2c_dl.campaign.predicting.advice.candidates import Candidate
from e2c_dl.campaign.predicting.advice.ground import Ground
from e2c_dl.campaign.predicting.advice.learning import Learned, Learning
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.drivers.virtual import hosts, inputs
from e2c_dl.drivers.virtual.changes import RunChanges
from e2c_dl.errors import E2cDlError
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.model import Scenario, Training
from e2c_dl.scenario.training import iterations_of
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.topology import Pair
from e2c_dl.trace.model import GRADIENT, SPAN, Phase
from e2c_dl.worlds.allotment import allotted
from e2c_dl.worlds.virtual import SimulatedIteration, Sink, simulate

if TYPE_CHECKING:
    from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
    from e2c_dl.strategies.base import Compute, Strategy

_DRAWN = sorted(GRADIENT | {Phase.DATA})


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What came of one trial. ``problem`` is empty if it ended; else nothing else counts."""

    candidate: Candidate
    seed: int
    run_s: float = math.nan  # from the first rank's first iteration to the last one's end
    sent_bytes: int = 0
    cost: float | None = None  # None: the scenario has no prices
    busy: tuple[float, ...] = ()  # by rank: part of the run in which it computed gradients
    learned: Learned | None = None  # None: of shapes
    problem: str = ""


def tried(ground: Ground, candidate: Candidate, seed: int) -> Tried:
    """What comes of ``candidate``, with the luck of ``seed`` (from 0)."""
    with ground.unpacked() as (scenario, scratch):
        try:
            return _tried(ground, scenario, scratch, candidate, seed)
        except E2cDlError as error:  # one that cannot be tried leaves the others
            return Tried(candidate=candidate, seed=seed, problem=str(error))
        except Exception as error:  # noqa: BLE001 - what users wrote themselves may fail in any way
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            return Tried(candidate=candidate, seed=seed, problem=problem)


def trained_by(training: Training, candidate: Candidate, total_samples: int) -> Training:
    """``training`` by ``candidate``, until all ranks together have had ``total_samples``."""
    asked = replace(
        training,
        strategy=candidate.strategy,
        strategy_settings=dict(candidate.settings),
        batching=candidate.batching,
        budget=Budget(unit=Unit.SAMPLES, amount=float(total_samples)),
    )
    return replace(asked, iterations=iterations_of(asked))


def _tried(ground: Ground, scenario: Scenario, scratch: Path, candidate: Candidate, seed: int) -> Tried:
    training = trained_by(scenario.training, candidate, ground.total_samples)
    training = replace(training, seed=training.seed + seed)
    learning = Learning(training, ground.total_samples) if ground.real else None
    account = Account(len(training.batch_sizes))
    if ground.measured is not None:
        _measured(ground.measured, training, account, learning, seed)
    else:
        designed(scenario, scratch, training, account, learning)
    names = [host.name for host in scenario.topology.ranks]
    sent = {(names[src], names[dst]): nbytes for (src, dst), nbytes in account.sent_bytes.items()}
    return Tried(
        candidate=candidate, seed=seed, run_s=account.run_s, sent_bytes=sum(sent.values()),
        cost=_cost(scenario, account.run_s, names, sent), busy=account.busy,
        learned=None if learning is None else learning.concluded(),
    )  # fmt: skip


def _measured(world: MeasuredWorld, training: Training, account: Account, learning: Learning | None, lap: int) -> None:
    """Simulate with the times that were measured."""
    asked = replace(
        world, strategy=_made(training), wrapping=training.wrapping, allotment=partial(allotted, training),
        evaluate_every=0, seed=training.seed,
    )  # fmt: skip
    asked.simulate(
        account, lap=lap, computes=learning.computes if learning else None,
        on_progress=learning.ended if learning else None,
    )  # fmt: skip


def _made(training: Training) -> partial[Strategy]:
    """What makes the strategy that ``training`` is by."""
    return partial(strategies.load(training.strategy), **training.strategy_settings)


class Learner(Protocol):
    """Mathematics of the ranks of one trial, and who hears of their iterations."""

    @property
    def computes(self) -> Sequence[Compute]: ...
    def ended(self, iteration: SimulatedIteration) -> None: ...


def designed(
    scenario: Scenario, scratch: Path, training: Training, sink: Sink, learner: Learner | None, noise: float = 0.0
) -> None:
    """Simulate ``training`` by the stored profile of ``scenario``, with links as they are emulated.

    ``noise``: of computing, relative. Raises: InputError, TrainingError, and whatever ``learner`` does.
    """
    asked = replace(scenario, trained=training)
    hosts.records(scratch, asked)  # changes are logged there, and nobody reads them
    changes = RunChanges(asked, scratch)
    models = inputs.host_models(asked, read_profile(scenario.path / PROFILE, asked))
    simulate(
        _made(training),
        hosts=changes.hosts([replace(model, noise=noise) for model in models]), links=changes.links(),
        bottlenecks=changes.bottlenecks, unsteady=changes.unsteady, on_iteration=changes.on_iteration, sink=sink,
        iterations=training.iterations, seed=training.seed, checked=False,
        computes=learner.computes if learner else None, on_progress=learner.ended if learner else None,
        allotment=allotted(training), as_seen=training.wrapping,
    )  # fmt: skip


def _cost(scenario: Scenario, run_s: float, names: Sequence[str], sent: Mapping[Pair, int]) -> float | None:
    return None if scenario.prices is None else scenario.prices.cost(run_s, names, sent)


class Account:
    """A sink that adds up what ``size`` ranks did, and keeps no spans."""

    def __init__(self, size: int) -> None:
        self.sent_bytes: dict[tuple[int, int], int] = {}
        self._computed_ns = [0] * size
        self._begins_ns: list[int] = []
        self._ends_ns: list[int] = []

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        """Does nothing."""

    def write(self, rank: int, records: bytes) -> None:
        spans = np.frombuffer(records, dtype=SPAN)
        sent = spans[spans["phase"] == Phase.SEND]
        for dst in np.unique(sent["dst"]).tolist():
            nbytes = int(sent["nbytes"][sent["dst"] == dst].sum())
            self.sent_bytes[rank, dst] = self.sent_bytes.get((rank, dst), 0) + nbytes
        computed = spans[np.isin(spans["phase"], _DRAWN)]
        self._computed_ns[rank] += int((computed["end_ns"] - computed["start_ns"]).sum())
        trained = spans[spans["phase"] == Phase.TRAINING]
        self._begins_ns += trained["start_ns"].tolist()
        self._ends_ns += trained["end_ns"].tolist()

    @property
    def run_s(self) -> float:
        return (max(self._ends_ns) - min(self._begins_ns)) / 1e9

    @property
    def busy(self) -> tuple[float, ...]:
        """By rank: part of the run in which it computed gradients."""
        return tuple(computed_ns / 1e9 / self.run_s for computed_ns in self._computed_ns)
