"""Ranking of candidates by an objective, from all of their trials.

==============  =====================================================================================
``makespan``    the least time to the budget of samples
``cost``        the least money, by the scenario's prices
``fairness``    hosts most evenly busy, and whose own models are most evenly accurate: the product of both; where
                gradients are not real, most evenly busy
``accuracy``    the least time to the same loss: what the scenario's own strategy has after three quarters of its
                samples, so that others, which learn less from a sample, may come to it as well; real gradients
==============  =====================================================================================

Figures are medians over seeds. Evenness of x_1 ... x_n is (sum x)^2 / (n sum x^2): 1 if all are alike, 1/n if one has
all. Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource allocation in
shared computer systems", DEC-TR-301, 1984.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from statistics import median
from typing import Any

from e2c_dl.campaign.predicting.advice.candidates import Candidate
from e2c_dl.campaign.predicting.advice.trial import Tried
from e2c_dl.strategies import load

TARGET_PART = 0.75


class Objective(str, Enum):
    """What is to be best."""

    MAKESPAN = "makespan"
    COST = "cost"
    FAIRNESS = "fairness"
    ACCURACY = "accuracy"


LEARNED = frozenset({Objective.FAIRNESS, Objective.ACCURACY})
"""Told by what is learned: by real gradients."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One candidate; figures are medians over its trials. None: not known."""

    candidate: Candidate
    run_s: float
    least_s: float
    most_s: float
    sent_bytes: float
    cost: float | None
    evenly_busy: float  # Jain's index
    loss: float | None = None  # of the model in the end
    accuracy: float | None = None
    evenly_accurate: float | None = None  # Jain's index of the hosts' own models
    to_loss_s: float | None = None  # to the same loss; None: it never came to it

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        figures = {name: None if value == math.inf else value for name, value in asdict(self).items()}
        return figures | {"candidate": {**asdict(self.candidate), "settings": dict(self.candidate.settings)}}


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """``rows``, the best first, ``own``, that of the scenario as it is, and why others could not be tried.

    ``currency``: of their costs; None where the scenario has no prices. ``limitations``: what trials leave out.
    """

    objective: Objective
    rows: tuple[Row, ...]
    own: Row | None
    problems: dict[str, str]
    currency: str | None = None
    limitations: tuple[str, ...] = ()


def ranking(objective: Objective, own: Candidate, trials: Sequence[Tried]) -> Ranking:
    """What ``trials``, in any order, say of their candidates; ``own`` is the scenario as it is."""
    by_candidate: dict[Candidate, list[Tried]] = {}
    for each in sorted(trials, key=lambda trial: (str(trial.candidate), trial.seed)):
        by_candidate.setdefault(each.candidate, []).append(each)
    problems = {str(one): wrong for one, several in by_candidate.items() if (wrong := _problem(several))}
    sound = {one: several for one, several in by_candidate.items() if str(one) not in problems}
    losses = [each.learned.loss_after(TARGET_PART) for each in sound.get(own, ()) if each.learned is not None]
    target = median(losses) if losses else None
    if target is not None and not math.isfinite(target):  # it diverged
        target = None
    rows = sorted(
        (_row(one, several, target) for one, several in sound.items()),
        key=lambda row: _key(objective, row),
    )
    mine = next((row for row in rows if row.candidate == own), None)
    return Ranking(
        objective=objective, rows=tuple(rows), own=mine, problems=problems,
        limitations=tuple(said for each in sound for said in _about(each)),
    )  # fmt: skip


def jain(values: Sequence[float]) -> float:
    """Evenness of ``values``, none below 0: 1 / n to 1; 1 where all are 0."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _about(candidate: Candidate) -> Iterator[str]:
    """In what trials of ``candidate`` are unlike a run of it, or those of others."""
    strategy = load(candidate.strategy)(**dict(candidate.settings))
    if strategy.hears_verdicts:  # which no trial tells
        yield f"{candidate}: tried so, the training hears no verdicts: it goes round nothing."
    if strategy.skips_iterations:
        yield f"{candidate}: iterations that it skips count as done: it trains on fewer samples than the others."


def _problem(trials: Sequence[Tried]) -> str:
    return next((trial.problem for trial in trials if trial.problem), "")


def _row(candidate: Candidate, trials: Sequence[Tried], target: float | None) -> Row:
    learned = [each.learned for each in trials if each.learned is not None]
    costs = [each.cost for each in trials if each.cost is not None]
    reached_s = [each.reached_s(target) for each in learned] if target is not None else []
    known_s = [math.inf if at_s is None else at_s for at_s in reached_s]
    to_loss_s = median(known_s) if known_s else math.inf
    return Row(
        candidate=candidate,
        run_s=median(each.run_s for each in trials),
        least_s=min(each.run_s for each in trials),
        most_s=max(each.run_s for each in trials),
        sent_bytes=median(each.sent_bytes for each in trials),
        cost=median(costs) if costs else None,
        evenly_busy=median(jain(each.busy) for each in trials),
        loss=median(each.loss for each in learned) if learned else None,
        accuracy=median(each.accuracy for each in learned) if learned else None,
        evenly_accurate=median(jain(each.by_host) for each in learned) if learned else None,
        to_loss_s=to_loss_s if math.isfinite(to_loss_s) else None,
    )


def _key(objective: Objective, row: Row) -> tuple[float, ...]:
    """Smaller is better; ties by time, then by name, which the order of rows has kept."""
    by_objective = {
        Objective.MAKESPAN: row.run_s,
        Objective.COST: math.inf if row.cost is None else row.cost,
        Objective.FAIRNESS: -row.evenly_busy * (1.0 if row.evenly_accurate is None else row.evenly_accurate),
        Objective.ACCURACY: math.inf if row.to_loss_s is None else row.to_loss_s,
    }[objective]
    return by_objective, row.run_s if row.loss is None or objective is not Objective.ACCURACY else row.loss, row.run_s
