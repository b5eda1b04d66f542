"""One system in one environment, simulated with real gradients until it is accurate enough, or the time is over.

::

    0 s ------------- AFTER_S ---------------------------- the environment's within_s, or MOST_GRADIENTS
    evaluated every second; ends as soon as TARGET was reached, but not before AFTER_S

What is evaluated is the model that the strategy trains (the mean of all ranks', the server's ...), outside of virtual
time. What was sent and how ranks spent their time is read from the spans.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.systems import environments, table
from e2c_dl.campaign.predicting.advice.ground import Ground
from e2c_dl.campaign.predicting.advice.learning import computes
from e2c_dl.campaign.predicting.advice.trial import designed
from e2c_dl.errors import E2cDlError
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.training import iterations_of
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.trace.model import GRADIENT, SPAN, Phase
from e2c_dl.worlds.trained import trained_model
from e2c_dl.worlds.virtual import SimulatedIteration

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments" / "dlion-micro-clouds"
TARGET = 0.6  # accuracy on the test samples
AFTER_S = 20.0
MOST_GRADIENTS = 6000  # of all ranks: about a minute of one processor, whatever the strategy
EVALUATE_EVERY_S = 1.0
NOISE = 0.05  # relative, of computing


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One trial. What is simulated follows from these, and from the code."""

    system: str
    environment: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What came of one trial. Seconds are virtual but for ``took_s``; ``problem`` is empty if it ended."""

    asked: Asked
    curve: Sequence[tuple[float, float]] = ()  # (seconds, accuracy)
    reached_s: float | None = None  # when the accuracy was first TARGET
    accuracy: float = float("nan")  # after AFTER_S
    bytes_to_target: int | None = None  # sent by all ranks until then
    bytes_after: int = 0  # sent until AFTER_S
    iterations: Sequence[int] = ()  # by rank
    computing: Sequence[float] = ()  # by rank: share of the time in which it computed gradients
    staleness: float | None = None  # mean, of the updates that were applied late
    links: Mapping[str, float] = field(default_factory=dict)  # "0 1" -> Mbit/s on average, payload
    took_s: float = 0.0  # of this machine's time
    problem: str = ""


class Ended(Exception):
    """All that was asked is known."""


def ran(files: Mapping[str, bytes], asked: Asked) -> Ran:
    """What comes of ``asked``; ``files``: those of the experiment."""
    began = time.process_time()
    environment, system = environments.ALL[asked.environment], table.system(asked.system)
    rendered = {"network.yaml": environment.network().encode(), "emulation.yaml": environment.emulation().encode()}
    ground = Ground(name="systems", files={**files, **rendered}, total_samples=0, real=True)
    with ground.unpacked() as (scenario, scratch):
        training = trained_by(scenario.training, system, environment, asked.seed)
        watched, spans = Watched(training, environment.within_s), Spans(len(training.batch_sizes))
        problem = ""
        try:
            designed(scenario, scratch, training, spans, watched, noise=NOISE)
        except Ended:
            pass
        except E2cDlError as error:  # of one system, and no reason to leave the others
            problem = str(error)
    return _told(replace(watched.told(asked), problem=problem, took_s=time.process_time() - began), spans)


def experiment_files() -> dict[str, bytes]:
    """The files of the experiment, by their path in it."""
    own = [*EXPERIMENT.glob("*.yaml"), EXPERIMENT / PROFILE, *EXPERIMENT.glob("code/*.py")]
    return {str(file.relative_to(EXPERIMENT)): file.read_bytes() for file in own}


def trained_by(training: Training, system: table.System, environment: environments.Environment, seed: int) -> Training:
    """``training`` by ``system``, for as long as ``environment`` says."""
    budget = Budget(unit=Unit.SECONDS, amount=environment.within_s)
    settings = dict(system.settings)
    chosen = replace(
        training, strategy=system.strategy, strategy_settings=settings, batching=system.batching, budget=budget,
        seed=seed, compression=system.compression, compression_settings=dict(system.compression_settings),
    )  # fmt: skip
    return replace(chosen, iterations=iterations_of(chosen))


class Watched:
    """Mathematics of the ranks, and the accuracy of their model over time."""

    def __init__(self, training: Training, within_s: float) -> None:
        self.computes = computes(training)
        self._beside = computes(training, ranks=1)[0]
        self._model, self._within_s = trained_model(training), within_s
        self._curve: list[tuple[float, float]] = []
        self._iterations = [0] * len(training.batch_sizes)

    def ended(self, iteration: SimulatedIteration) -> None:
        """A rank has ended an iteration. Raises: Ended, when nothing more is asked."""
        at_s = iteration.at_ns / 1e9
        self._iterations[iteration.rank] = iteration.iteration + 1
        if self._curve and at_s < self._curve[-1][0] + EVALUATE_EVERY_S:
            return
        self._beside.parameters[:] = self._model.assembled(lambda rank: self.computes[rank].parameters)
        self._curve.append((at_s, self._beside.evaluate().accuracy))
        over = at_s >= self._within_s or sum(self._iterations) >= MOST_GRADIENTS
        if over or (at_s >= AFTER_S and self._reached_s is not None):
            raise Ended

    @property
    def _reached_s(self) -> float | None:
        return next((at_s for at_s, accuracy in self._curve if accuracy >= TARGET), None)

    def told(self, asked: Asked) -> Ran:
        before = [accuracy for at_s, accuracy in self._curve if at_s <= AFTER_S + EVALUATE_EVERY_S]
        return Ran(
            asked=asked, curve=tuple((round(at_s, 3), round(seen, 4)) for at_s, seen in self._curve),
            reached_s=self._reached_s, accuracy=before[-1] if before else float("nan"),
            iterations=tuple(self._iterations),
        )  # fmt: skip


class Spans:
    """A sink that keeps of each rank's spans what is asked: what was sent when, computing, and how late updates are."""

    def __init__(self, size: int) -> None:
        self.sent: list[tuple[int, int, int, int]] = []  # (rank, dst, nbytes, end_ns)
        self.computed_ns = [0] * size
        self.staleness: list[int] = []
        self.last_ns = 0

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        """Does nothing."""

    def write(self, rank: int, records: bytes) -> None:
        spans = np.frombuffer(records, dtype=SPAN)
        sent = spans[spans["phase"] == Phase.SEND]
        for dst, nbytes, end_ns in sent[["dst", "nbytes", "end_ns"]].tolist():
            self.sent.append((rank, dst, nbytes, end_ns))
        computed = spans[np.isin(spans["phase"], sorted(GRADIENT | {Phase.DATA}))]
        self.computed_ns[rank] += int((computed["end_ns"] - computed["start_ns"]).sum())
        self.staleness += spans["staleness"][(spans["phase"] == Phase.REDUCE) & (spans["src"] >= 0)].tolist()
        self.last_ns = max(self.last_ns, int(spans["end_ns"].max(initial=0)))

    def sent_by(self, at_s: float) -> int:
        """Bytes that had left all ranks by then."""
        return sum(nbytes for _, _, nbytes, end_ns in self.sent if end_ns <= at_s * 1e9)


def _told(came: Ran, spans: Spans) -> Ran:
    seconds = max(spans.last_ns / 1e9, 1e-9)
    by_link: dict[str, int] = {}
    for rank, dst, nbytes, _ in spans.sent:
        by_link[f"{rank} {dst}"] = by_link.get(f"{rank} {dst}", 0) + nbytes
    return replace(
        came,
        bytes_to_target=None if came.reached_s is None else spans.sent_by(came.reached_s),
        bytes_after=spans.sent_by(AFTER_S),
        computing=tuple(round(each / 1e9 / seconds, 3) for each in spans.computed_ns),
        staleness=float(np.mean(spans.staleness)) if spans.staleness else None,
        links={link: round(nbytes * 8e-6 / seconds, 2) for link, nbytes in sorted(by_link.items())},
    )  # fmt: skip
