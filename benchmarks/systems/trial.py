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
from e2c_dl.campaign.predicting.advice.learning import ModelBeside
from e2c_dl.campaign.predicting.advice.trial import Account, designed
from e2c_dl.errors import E2cDlError
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.training import iterations_of
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.trace.model import SPAN, Phase
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
    accuracy: float = float("nan")  # after AFTER_S: of the last evaluation within a second of it
    bytes_to_target: int | None = None  # sent by all ranks until then
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
    ground = Ground(name="systems", files={**files, **environment.files()}, total_samples=0, real=True)
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


class Watched(ModelBeside):
    """Mathematics of the ranks, and the accuracy of their model over time."""

    def __init__(self, training: Training, within_s: float) -> None:
        super().__init__(training)
        self._within_s = within_s
        self._curve: list[tuple[float, float]] = []
        self._iterations = [0] * len(training.batch_sizes)

    def ended(self, iteration: SimulatedIteration) -> None:
        """A rank has ended an iteration. Raises: Ended, when nothing more is asked."""
        at_s = iteration.at_ns / 1e9
        self._iterations[iteration.rank] = iteration.iteration + 1
        if self._curve and at_s < self._curve[-1][0] + EVALUATE_EVERY_S:
            return
        self._curve.append((at_s, self.evaluate().accuracy))
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


class Spans(Account):
    """An account that keeps when what was sent, too, and how late updates are, of a run that may be cut off."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.staleness: list[int] = []
        self._sent: list[tuple[int, int]] = []  # (nbytes, end_ns)
        self._last_ns = 0

    def write(self, rank: int, records: bytes) -> None:
        super().write(rank, records)
        spans = np.frombuffer(records, dtype=SPAN)
        self._sent += spans[spans["phase"] == Phase.SEND][["nbytes", "end_ns"]].tolist()
        self.staleness += spans["staleness"][(spans["phase"] == Phase.REDUCE) & (spans["src"] >= 0)].tolist()
        self._last_ns = max(self._last_ns, int(spans["end_ns"].max(initial=0)))

    @property
    def run_s(self) -> float:
        """Until the last span that there is: a rank that is cut off never says that its training has ended."""
        return max(self._last_ns / 1e9, 1e-9)

    def sent_by(self, at_s: float) -> int:
        """Bytes that had left all ranks by then."""
        return sum(nbytes for nbytes, end_ns in self._sent if end_ns <= at_s * 1e9)


def _told(came: Ran, spans: Spans) -> Ran:
    return replace(
        came,
        bytes_to_target=None if came.reached_s is None else spans.sent_by(came.reached_s),
        computing=tuple(round(each, 3) for each in spans.busy),
        staleness=float(np.mean(spans.staleness)) if spans.staleness else None,
        links={
            f"{src} {dst}": round(nbytes * 8e-6 / spans.run_s, 2)
            for (src, dst), nbytes in sorted(spans.sent_bytes.items())
        },
    )
