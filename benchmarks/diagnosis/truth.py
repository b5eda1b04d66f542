"""What an injection cost: the same run, by the same seed, simulated again without it.

Two may hide each other, so that each is held against the run with all of them and against the undisturbed one, as a
Finding's ``speedup`` and ``joint_speedup`` are::

    alone    T(all injected) / T(all but this)
    jointly  T(this only) / T(none)
    material: the greater of both is at least MATERIAL_SPEEDUP

One point around that bar nobody could tell which side a run is on, for noise alone moves a run by as much: such an
injection may be named or not, and counts for nothing (``EDGE``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.diagnosis.drawn import Drawn
from benchmarks.diagnosis.injections import Injection, When
from benchmarks.diagnosis.system import System, run_s
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS

EDGE = 0.01
"""Of a run's time: how near the bar nothing is counted."""
SILENT = 0.01
"""Of a layer's links, those that carry so little beside the busiest: what a barrier sends shows no rate."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one injection cost, and when it began."""

    injection: Injection
    without_s: float  # the run without it, all else as it was
    alone: float
    jointly: float
    onset_iteration: int | None  # of its first host, or its first link's source, or line's; None: from the beginning
    silent: frozenset[str] = frozenset()  # its links that carried next to nothing: they do not show what they are like

    @property
    def names(self) -> tuple[str, ...]:
        """What a report can name it by."""
        return tuple(name for name in self.injection.names if name not in self.silent)

    @property
    def speedup(self) -> float:
        return max(self.alone, self.jointly)

    @property
    def material(self) -> bool:
        return self.speedup >= MATERIAL_SPEEDUP

    @property
    def edge(self) -> bool:
        """Whether it is too near the bar to say."""
        return abs(self.speedup - MATERIAL_SPEEDUP) < EDGE


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A run with everything injected, and what each injection cost."""

    trace: Trace
    run_s: float
    undisturbed_s: float
    costs: tuple[Cost, ...]


def truth(drawn: Drawn) -> Truth:
    """Simulate ``drawn`` undisturbed, disturbed, and without each of its injections, until a try is material."""
    undisturbed = drawn.system.run()
    undisturbed_s = run_s(undisturbed)
    found = Truth(trace=undisturbed, run_s=undisturbed_s, undisturbed_s=undisturbed_s, costs=())
    for injections in drawn.tries:
        told = _tried(drawn.system, injections, found)
        if injections and all(cost.material and not cost.edge for cost in told.costs):
            return told
        if _material(told) >= _material(found):
            found = told  # of those that cost nothing the last: something was injected
    return found


def _material(told: Truth) -> int:
    return sum(cost.material for cost in told.costs)


def _tried(system: System, injections: tuple[Injection, ...], clean: Truth) -> Truth:
    """What ``injections`` cost; of ``clean`` only how long it took undisturbed is read."""
    trace = system.run(injections, clean.undisturbed_s)
    times_s = {injections: run_s(trace), (): clean.undisturbed_s}  # by what was in force

    def took_s(*in_force: Injection) -> float:
        if in_force not in times_s:
            times_s[in_force] = run_s(system.run(in_force, clean.undisturbed_s))
        return times_s[in_force]

    costs = []
    for injection in injections:
        without_s = took_s(*(other for other in injections if other is not injection))
        costs.append(
            Cost(
                injection=injection, without_s=without_s, alone=took_s(*injections) / without_s,
                jointly=took_s(injection) / took_s(),
                onset_iteration=onset_iteration(system, trace, injection, clean.undisturbed_s),
                silent=_silent(system, trace, injection),
            )
        )  # fmt: skip
    return Truth(trace=trace, run_s=took_s(*injections), undisturbed_s=clean.undisturbed_s, costs=tuple(costs))


def _silent(system: System, trace: Trace, injection: Injection) -> frozenset[str]:
    """The links of ``injection`` that carried less than SILENT of what the busiest of them did, warm-up left out."""
    ranks = system.ranks
    nbytes = dict.fromkeys(injection.links, 0)
    for src, dst in nbytes:
        spans = trace.ranks[ranks[src]].spans
        own = (spans["phase"] == Phase.SEND) & (spans["dst"] == ranks[dst]) & (spans["iteration"] >= WARM_UP_ITERATIONS)
        nbytes[src, dst] = int(spans["nbytes"][own].sum())
    most = max(nbytes.values(), default=0)
    return frozenset(f"{src} -> {dst}" for (src, dst), own in nbytes.items() if own < SILENT * most)


def onset_iteration(system: System, trace: Trace, injection: Injection, undisturbed_s: float) -> int | None:
    """The iteration, of its first host or its first link's source, in which ``injection`` began; None: all of it."""
    if injection.when is When.PERSISTENT:
        return None
    sources: Sequence[str] = injection.hosts or [src for src, _ in injection.links]
    began_ns = min(int(rank.spans["start_ns"][rank.spans["phase"] == Phase.TRAINING].min()) for rank in trace.ranks)
    spans = trace.ranks[system.ranks[sources[0]]].spans
    ends_ns = spans["end_ns"][spans["phase"] == Phase.ITERATION]
    onset_ns = began_ns + round(injection.onset_s(undisturbed_s) * 1e9)
    return int(np.searchsorted(ends_ns, onset_ns, side="right"))
