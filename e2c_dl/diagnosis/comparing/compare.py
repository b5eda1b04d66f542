"""Comparison of groups of runs, the first of which is the baseline.

::

    one run on each side        differences iteration by iteration, their mean by block bootstrap
    several, the same seeds     differences of pairs of runs
    several otherwise           the two sides' means
    one beside several          no interval: how much runs differ is in no iteration, and of one side nobody knows it

A makespan is the sum of iterations; what a run does after its last one counts in its value and not in the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from e2c_dl.diagnosis.comparing.culprits import culprits_in_words
from e2c_dl.diagnosis.comparing.fairness import unfair
from e2c_dl.diagnosis.comparing.figures import Floats, Group, Run
from e2c_dl.diagnosis.comparing.resampling import Interval, of_pairs, of_series, of_sides
from e2c_dl.errors import InputError
from e2c_dl.trace.model import State


class Metric(Enum):
    """What is compared; less is better of all."""

    MAKESPAN = "makespan"  # s
    ITERATION = "iteration"  # s per iteration
    TIME_TO_ACCURACY = "time-to-accuracy"  # s
    BYTES = "bytes"  # per iteration, all links


VARIES = "not the same in all runs"
"""The setting of a group."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One metric of one group less that of the baseline, in the metric's unit."""

    metric: Metric
    before: float | None  # of the baseline; None: there is no value
    after: float | None
    interval: Interval | None  # of the difference; None: too little is known for one
    by: str  # what repeats: iterations, runs, pairs of runs
    differs: bool | None  # None without an interval
    smallest: float | None  # that could have been seen

    @property
    def relative(self) -> float | None:
        """The difference as a share of the baseline."""
        return None if self.before is None or self.after is None or not self.before else self.after / self.before - 1


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One group beside the baseline."""

    name: str
    runs: int
    differences: tuple[Difference, ...]
    settings: Mapping[str, tuple[Any, Any]]  # that differ: (baseline's, this one's)
    states_s: Mapping[str, Mapping[State, tuple[float, float]]]  # host -> state -> s per iteration, both
    culprits: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All groups beside the baseline. Worked example: ``compare([before, after]).contrasts[0].differences[0]``."""

    baseline: str
    runs: int
    culprits: tuple[str, ...]
    accuracy: float | None  # that time-to-accuracy is told for
    contrasts: tuple[Contrast, ...]
    limitations: tuple[str, ...]


def compare(
    groups: Sequence[Group],
    metrics: Sequence[Metric] = tuple(Metric),
    *,
    accuracy: float | None = None,
    anyway: bool = False,
) -> Comparison:
    """``groups`` beside the first of them, by ``metrics``; ``accuracy``: by default, what every run reached.

    Raises: InputError, if there is nothing to compare, or the work differs (model, dataset), unless ``anyway``.
    """
    if len(groups) < 2:
        raise InputError("a comparison needs two runs at least; name another archive")
    limitations = [line for group in groups for line in unfair(groups[0], group, anyway=anyway)]
    target = _target(groups) if accuracy is None else accuracy
    baseline = groups[0]
    return Comparison(
        baseline=baseline.name,
        runs=len(baseline.runs),
        culprits=culprits_in_words(baseline),
        accuracy=target,
        contrasts=tuple(_contrast(baseline, group, metrics, target) for group in groups[1:]),
        limitations=tuple(dict.fromkeys(limitations)),
    )


def _target(groups: Sequence[Group]) -> float | None:
    """The highest accuracy that every run came to; None: one of them told none."""
    best = [max((seen for _, seen in run.accuracies), default=None) for group in groups for run in group.runs]
    known = [each for each in best if each is not None]
    return min(known) if known and len(known) == len(best) else None


def _contrast(baseline: Group, group: Group, metrics: Sequence[Metric], target: float | None) -> Contrast:
    one, other = _settings(baseline), _settings(group)
    return Contrast(
        name=group.name,
        runs=len(group.runs),
        differences=tuple(_difference(metric, baseline, group, target) for metric in metrics),
        settings={key: (one[key], other[key]) for key in one if key in other and one[key] != other[key]},
        states_s=_states(baseline, group),
        culprits=culprits_in_words(group),
    )


def _settings(group: Group) -> dict[str, Any]:
    """What all runs of ``group`` know of; VARIES, where they have not the same."""
    first, *others = (run.settings for run in group.runs)
    known = [key for key in first if all(key in each for each in others)]
    return {key: first[key] if all(each[key] == first[key] for each in others) else VARIES for key in known}


def _difference(metric: Metric, baseline: Group, group: Group, target: float | None) -> Difference:
    values = [[_value(metric, run, target) for run in side.runs] for side in (baseline, group)]
    known = [[value for value in side if value is not None] for side in values]
    complete = all(len(k) == len(v) for k, v in zip(known, values, strict=True))
    before, after = (float(np.mean(k)) if k and len(k) == len(v) else None for k, v in zip(known, values, strict=True))
    interval, by = _interval(metric, baseline, group, known) if complete else (None, "")
    return Difference(
        metric=metric, before=before, after=after, interval=interval, by=by,
        differs=interval.differs if interval else None, smallest=interval.smallest if interval else None,
    )  # fmt: skip


def _value(metric: Metric, run: Run, target: float | None) -> float | None:
    if metric is Metric.TIME_TO_ACCURACY:
        return None if target is None else run.seconds_to(target)
    if run.mistimed_s and metric in (Metric.MAKESPAN, Metric.ITERATION):  # times that span hosts
        return None
    if metric is Metric.MAKESPAN and not run.finished:  # of less work
        return None
    of_run: dict[Metric, Callable[[], float]] = {
        Metric.MAKESPAN: lambda: run.run_s,
        Metric.ITERATION: lambda: float(run.iteration_s.mean()),
        Metric.BYTES: lambda: float(run.iteration_bytes.mean()),
    }
    value = of_run[metric]()
    return None if np.isnan(value) else value


def _interval(
    metric: Metric, baseline: Group, group: Group, values: Sequence[Sequence[float]]
) -> tuple[Interval | None, str]:
    """The interval of the difference, and what repeats in it."""
    if min(len(baseline.runs), len(group.runs)) > 1:
        pairs = _paired(baseline, group)
        if pairs is None:
            return of_sides(*values), "runs"
        return of_pairs([values[1][j] - values[0][i] for i, j in pairs]), "pairs of runs"
    if metric is Metric.TIME_TO_ACCURACY or max(len(baseline.runs), len(group.runs)) > 1:
        return None, ""  # one moment of a run, or a side's only run: nothing repeats
    before, after = (_series(metric, side.runs[0]) for side in (baseline, group))
    common = min(len(before), len(after))
    found = of_series(after[:common] - before[:common])
    if found is None:
        return None, ""
    times = common if metric is Metric.MAKESPAN else 1
    # What is no iteration of both, and those that only one side has, are part of the difference, and vary in nobody's.
    shift = float(np.mean(values[1]) - np.mean(values[0])) - found.mean * times
    return Interval(**{name: value * times + shift for name, value in vars(found).items()}), "iterations"


def _series(metric: Metric, run: Run) -> Floats:
    """Iteration by iteration."""
    return run.iteration_bytes if metric is Metric.BYTES else run.iteration_s


def _paired(baseline: Group, group: Group) -> list[tuple[int, int]] | None:
    """Places of runs with the same seeds, if all have exactly one partner; None otherwise."""
    before, after = ([run.seeds for run in side.runs] for side in (baseline, group))
    if len(set(before)) < len(before) or sorted(before) != sorted(after):
        return None
    return [(place, after.index(seeds)) for place, seeds in enumerate(before)]


def _states(baseline: Group, group: Group) -> dict[str, dict[State, tuple[float, float]]]:
    """Hosts that both have, and what each spends in each state per iteration."""
    hosts = [host for host in baseline.runs[0].states_s if all(host in run.states_s for run in group.runs)]
    return {
        host: {state: (_per_iteration(baseline, host, state), _per_iteration(group, host, state)) for state in State}
        for host in hosts
    }


def _per_iteration(group: Group, host: str, state: State) -> float:
    spent = [run.states_s.get(host, {}).get(state, 0.0) for run in group.runs]
    return float(np.mean(spent))
