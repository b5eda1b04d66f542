"""What slowed the runs of a group down, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from e2c_dl import formatting
from e2c_dl.diagnosis.comparing.figures import Culprit, Group
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.shown.verbs import slower


def culprits_in_words(group: Group) -> tuple[str, ...]:
    """Those first that most runs name: ``edge-1 -> fog-1 carries data 3.8 to 4.1 × slower (2 of 3 runs)``; last, in how
    many they are ``not known``.
    """
    alike: dict[tuple[str, Part], list[Culprit]] = {}
    for run in group.runs:
        for culprit in run.culprits:
            alike.setdefault((culprit.element, culprit.part), []).append(culprit)
    undecided = sum(run.undecided for run in group.runs)
    named = (
        f"{element} {_departs(part, found)}" + _of_runs(len(found), len(group.runs))
        for (element, part), found in sorted(alike.items(), key=lambda item: -len(item[1]))
    )
    return (*named, *(["not known" + _of_runs(undecided, len(group.runs))] if undecided else []))


def _departs(part: Part, found: Sequence[Culprit]) -> str:
    """``computes 3.0 × slower and stalled for 3.20 s``."""
    said = []
    if part is not Part.STALLED:
        slowdowns = [each.slowdown for each in found if each.slowdown > 1]
        times = f"{_range(slowdowns, '{:.1f}'.format)} ×" if slowdowns else ""
        said.append(slower(part, times, many=found[0].many))
    stalled = [each.stalled_s for each in found if each.stalled_s]
    if stalled:
        said.append(f"stalled for {_range(stalled, formatting.seconds)}")
    return " and ".join(said)


def _range(values: Sequence[float], shown: Callable[[float], str]) -> str:
    least, most = shown(min(values)), shown(max(values))
    return least if least == most else f"{least} to {most}"


def _of_runs(count: int, runs: int) -> str:
    return f" ({count} of {runs} runs)" if runs > 1 else ""
