"""What makes a comparison of runs unfair: other work, another world, a run or a trace that is not whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from e2c_dl import formatting
from e2c_dl.diagnosis.comparing.figures import Group, Run
from e2c_dl.diagnosis.detection.clocks import arriving
from e2c_dl.errors import InputError

VIRTUAL = "virtual"
"""The world in which a run repeats itself."""

IDENTICAL = ("model", "dataset")
"""Settings without which two runs do not do the same work."""

ALIKE = ("mathematics", "dtype", "partition", "seed", "iterations", "budget", "evaluate_every")
"""Settings that make a difference which is none of the strategy's or the topology's."""


def unfair(baseline: Group, group: Group, *, anyway: bool) -> list[str]:
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
    lines += [line for run in group.runs for line in _about(run)]
    alone = len(baseline.runs) == len(group.runs) == 1 and group is not baseline
    if alone and (one.world != VIRTUAL or one.seeds != group.runs[0].seeds):
        lines.append(
            f"One run of {baseline.name} or {group.name}: how much another run of the same differs is in no interval."
        )
    return lines


def _about(run: Run) -> Iterator[str]:
    """What of ``run`` itself its figures do not tell."""
    if not run.finished:
        finished = formatting.count(run.iterations, "iteration")
        yield f"{run.name} did not finish: figures are of the {finished} all finished, and it has no makespan."
    if run.damage:
        yield f"{run.name}: traces are not whole, those of {', '.join(run.damage)}: figures are of what is left."
    if run.most_iterations > run.iterations:
        unlike = f"ranks trained {run.iterations} to {run.most_iterations} iterations"
        yield f"{run.name}: {unlike}: its iterations, and their bytes, are the first {run.iterations} of each."
    if run.mistimed_s:
        yield f"{run.name}: {arriving(run.mistimed_s)}: it has no makespan, and its iterations no times."


def _comparable(run: Run, key: str) -> Any:
    """The setting ``key`` of ``run``, None if it was not recorded; of batches, what all ranks take together."""
    value = run.settings.get(key)
    return sum(value) if key == "batch_sizes" and value is not None else value


def _named(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{runs[0].name} and {len(runs) - 1} more"
