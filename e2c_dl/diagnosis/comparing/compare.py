"""Comparison of groups of runs, the first of which is the baseline.

::

    one run on each side        differences iteration by iteration, their mean by block bootstrap
    several, the same seeds     differences of pairs of runs
    several otherwise           the two sides' means

A makespan is the sum of iterations; what a run does after its last one counts in its value and not in the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.comparing.figures import Culprit, Run
from e2c_dl.diagnosis.comparing.resampling import Interval, of_pairs, of_series, of_sides
from e2c_dl.diagnosis.model import Part
from e2c_dl.errors import InputError
from e2c_dl.trace.model import State


class Metric(Enum):
    """What is compared; less is better of all."""

    MAKESPAN = "makespan"  # s
    ITERATION = "iteration"  # s per iteration
    TIME_TO_ACCURACY = "time-to-accuracy"  # s
    BYTES = "bytes"  # per iteration, all links


VIRTUAL = "virtual"
"""The world in which a run repeats itself."""

IDENTICAL = ("model", "dataset")
"""Settings without which two runs do not do the same work."""

ALIKE = ("mathematics", "dtype", "partition", "seed", "iterations", "budget", "evaluate_every")
"""Settings that make a difference which is none of the strategy's or the topology's."""

VARIES = "not the same in all runs"
"""The setting of a group."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that were made alike."""

    name: str
    runs: tuple[Run, ...]


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
    limitations = [line for group in groups for line in _unfair(groups[0], group, anyway=anyway)]
    target = _target(groups) if accuracy is None else accuracy
    baseline = groups[0]
    return Comparison(
        baseline=baseline.name,
        runs=len(baseline.runs),
        culprits=_culprits(baseline),
        accuracy=target,
        contrasts=tuple(_contrast(baseline, group, metrics, target) for group in groups[1:]),
        limitations=tuple(dict.fromkeys(limitations)),
    )


def _target(groups: Sequence[Group]) -> float | None:
    """The highest accuracy that every run came to; None: one of them told none."""
    best = [max((seen for _, seen in run.accuracies), default=None) for group in groups for run in group.runs]
    known = [each for each in best if each is not None]
    return min(known) if known and len(known) == len(best) else None


def _unfair(baseline: Group, group: Group, *, anyway: bool) -> list[str]:
    """One line for each thing in which ``group`` does other work, naming the key. Raises: InputError."""
    one, lines = baseline.runs[0], []
    for key in (*IDENTICAL, *ALIKE, "batch_sizes"):
        before = _comparable(one, key)
        others = [run for run in group.runs if None not in (before, _comparable(run, key))]  # None: not recorded
        differing = [run for run in others if _comparable(run, key) != before]
        if not differing:
            continue
        line = f"{key}: {before} in {one.name}, {_comparable(differing[0], key)} in {_named(differing)}"
        if key in IDENTICAL and not anyway:
            raise InputError(f"{line}; compare runs that train the same, or say --anyway")
        lines.append(f"{line}: they do not do the same work.")
    elsewhere = [run for run in group.runs if run.world != one.world]
    if elsewhere:
        lines.append(f"{one.name} ran on {one.world}, {_named(elsewhere)} on {elsewhere[0].world}.")
    lines += [
        f"{run.name} did not finish: figures are of the {run.iterations} iterations all finished."
        for run in group.runs if not run.finished
    ]  # fmt: skip
    lines += [
        f"{run.name}: traces are not whole, those of {', '.join(run.damage)}: figures are of what is left."
        for run in group.runs if run.damage
    ]  # fmt: skip
    if min(len(baseline.runs), len(group.runs)) == 1 and group is not baseline and one.world != VIRTUAL:
        lines.append(
            f"One run of {baseline.name} or {group.name}: how much another run of the same differs is in no interval."
        )
    return lines


def _comparable(run: Run, key: str) -> Any:
    """The setting ``key`` of ``run``, None if it was not recorded; of batches, what all ranks take together."""
    value = run.settings.get(key)
    return sum(value) if key == "batch_sizes" and value is not None else value


def _named(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{runs[0].name} and {len(runs) - 1} more"


def _contrast(baseline: Group, group: Group, metrics: Sequence[Metric], target: float | None) -> Contrast:
    one, other = _settings(baseline), _settings(group)
    return Contrast(
        name=group.name,
        runs=len(group.runs),
        differences=tuple(_difference(metric, baseline, group, target) for metric in metrics),
        settings={key: (one[key], other[key]) for key in one if key in other and one[key] != other[key]},
        states_s=_states(baseline, group),
        culprits=_culprits(group),
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
    before, after = (float(np.mean(side)) if side and complete else None for side in known)
    interval, by = _interval(metric, baseline, group, known) if complete else (None, "")
    return Difference(
        metric=metric, before=before, after=after, interval=interval, by=by,
        differs=interval.differs if interval else None, smallest=interval.smallest if interval else None,
    )  # fmt: skip


def _value(metric: Metric, run: Run, target: float | None) -> float | None:
    if metric is Metric.TIME_TO_ACCURACY:
        return None if target is None else run.seconds_to(target)
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
    if metric is Metric.TIME_TO_ACCURACY:  # one moment of a run: nothing repeats
        return None, ""
    before, after = (_series(metric, side) for side in (baseline, group))
    common = min(len(before), len(after))
    found = of_series(after[:common] - before[:common])
    if found is None:
        return None, ""
    times = common if metric is Metric.MAKESPAN else 1
    # What is no iteration of both, and those that only one side has, are part of the difference, and vary in nobody's.
    shift = float(np.mean(values[1]) - np.mean(values[0])) - found.mean * times
    return Interval(**{name: value * times + shift for name, value in vars(found).items()}), "iterations"


def _series(metric: Metric, group: Group) -> Any:
    """Iteration by iteration, the mean over the runs of ``group``."""
    series = [run.iteration_bytes if metric is Metric.BYTES else run.iteration_s for run in group.runs]
    common = min(map(len, series))
    return np.mean([each[:common] for each in series], axis=0)


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


def _culprits(group: Group) -> tuple[str, ...]:
    """In words, those that most runs name first: ``edge-1 -> fog-1, 3.8 to 4.1 × slower in rate (2 of 3 runs)``."""
    alike: dict[tuple[str, Part], list[Culprit]] = {}
    for run in group.runs:
        for culprit in run.culprits:
            alike.setdefault((culprit.element, culprit.part), []).append(culprit)
    return tuple(
        f"{element}, {_slower(part, found)}" + _of_runs(len(found), len(group.runs))
        for (element, part), found in sorted(alike.items(), key=lambda item: -len(item[1]))
    )


def _slower(part: Part, found: Sequence[Culprit]) -> str:
    slowdowns = [each.slowdown for each in found if each.slowdown > 1]
    if slowdowns:
        return f"{_range(slowdowns, '{:.1f}'.format)} × slower in {part.value}"
    return f"stalled for {_range([each.stalled_s for each in found], formatting.seconds)}"


def _range(values: Sequence[float], shown: Callable[[float], str]) -> str:
    least, most = shown(min(values)), shown(max(values))
    return least if least == most else f"{least} to {most}"


def _of_runs(count: int, runs: int) -> str:
    return f" ({count} of {runs} runs)" if runs > 1 else ""
