"""Figures of one run that a comparison needs: its iterations one by one, its states, its culprits, its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import ElementKind, Part, Report
from e2c_dl.diagnosis.prefix import common_iterations
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.trace.collectives import of_library
from e2c_dl.trace.model import Phase, RankTrace, Spans, State, Trace
from e2c_dl.worlds.virtual.tasks import MAIN

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """What departed, in what, by how much at worst."""

    element: str
    part: Part
    slowdown: float  # times slower; 1.0: it only stalled
    stalled_s: float = 0.0
    many: bool = False  # a group of hosts or links


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run. ``iteration_s`` are the times from one iteration's end on all ranks to the next one's: they add up."""

    name: str
    seeds: tuple[tuple[str, int], ...]  # what was drawn, from which seed
    settings: Mapping[str, Any]  # of its training, hosts and links, as recorded
    world: str  # virtual, or the testbed
    finished: bool
    run_s: float  # until its last rank ended
    iteration_s: Floats  # (iterations,): those that all ranks finished
    iteration_bytes: Floats  # (iterations,): sent by all ranks; NaN: a library sent them, and tells nobody
    accuracies: tuple[tuple[float, float], ...]  # (seconds of training, accuracy), in order of time
    states_s: Mapping[str, Mapping[State, float]]  # host -> seconds in each state, per iteration of its own
    culprits: tuple[Culprit, ...]
    undecided: bool = False  # whether there are any, nobody can say
    damage: tuple[str, ...] = ()  # hosts whose trace is not whole
    most_iterations: int = 0  # of any rank, where they went at their own pace; else 0
    mistimed_s: float = 0.0  # by as much messages arrive before they were sent: clocks are wrong

    @property
    def iterations(self) -> int:
        return len(self.iteration_s)

    def seconds_to(self, accuracy: float) -> float | None:
        """When it was first seen to be that accurate; None: never."""
        return next((at_s for at_s, seen in self.accuracies if seen >= accuracy), None)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that were made alike."""

    name: str
    runs: tuple[Run, ...]


def iterations_of(trace: Trace) -> tuple[Floats, Floats]:
    """(seconds, bytes) of each iteration that all ranks finished. Raises: AnalysisError, if there is none.

    What a rank's main task sends is of its iteration then, whatever its messages are numbered by; what others send, as
    a server does, of the iteration that the message is for.
    """
    count = common_iterations(trace)
    end_ns = np.zeros(count, dtype=np.int64)
    sent = np.full(count, np.nan if of_library(trace) else 0.0)
    for rank in trace.ranks:
        ended = rank.spans[(rank.spans["phase"] == Phase.ITERATION) & (rank.spans["iteration"] < count)]
        np.maximum.at(end_ns, ended["iteration"], ended["end_ns"])
        sends = rank.spans[rank.spans["phase"] == Phase.SEND]
        iterations = _iterations(rank, sends)
        inside = (iterations >= 0) & (iterations < count)
        np.add.at(sent, iterations[inside], sends["nbytes"][inside])
    end_ns = np.maximum.accumulate(end_ns)  # ranks at their own pace may end a later one first
    began_ns = min(training_ns(rank)[0] for rank in trace.ranks)
    return np.diff(end_ns, prepend=began_ns) / 1e9, sent


def _iterations(rank: RankTrace, sends: Spans) -> npt.NDArray[np.int32]:
    """The iteration that each of ``sends`` is of; -1: of none."""
    own = np.sort(rank.of(Phase.ITERATION), order="start_ns", kind="stable")
    place = np.searchsorted(own["start_ns"], sends["posted_ns"], side="right") - 1
    within = (place >= 0) & (sends["posted_ns"] <= own["end_ns"][place])
    by_time = np.where(within, own["iteration"][place], -1)
    return np.asarray(np.where(sends["task"] == MAIN, by_time, sends["iteration"]))


def run_s(trace: Trace) -> float:
    """From the first rank's first iteration to the last rank's end. Raises: AnalysisError."""
    intervals = [training_ns(rank) for rank in trace.ranks]
    return (max(end for _, end in intervals) - min(start for start, _ in intervals)) / 1e9


def states_of(report: Report) -> dict[str, Mapping[State, float]]:
    """Host -> seconds in each state, per iteration of its own."""
    return {
        host.host: {state: spent_s / max(1, host.iterations) for state, spent_s in host.states_s.items()}
        for host in report.hosts
    }


def culprits_of(report: Report) -> tuple[Culprit, ...]:
    """Each part of an element once, by its worst."""
    found: dict[tuple[str, Part], Culprit] = {}
    for finding in report.culprits:
        what = element, part = str(finding.element), finding.part
        many = finding.element.kind is ElementKind.GROUP
        before = found.get(what, Culprit(element=element, part=part, slowdown=0.0, many=many))
        found[what] = replace(
            before, slowdown=max(before.slowdown, finding.slowdown), stalled_s=max(before.stalled_s, finding.stalled_s)
        )
    return tuple(found.values())


def accuracies_of(lines: Sequence[Any]) -> tuple[tuple[float, float], ...]:
    """(seconds, accuracy) of each evaluation that ``lines`` of progress tell, in order of time."""
    told = {(line.elapsed_s, line.accuracy) for line in lines if line.accuracy is not None}
    return tuple(sorted(told))
