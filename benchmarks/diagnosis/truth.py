"""What an injection cost: the same run, by the same seed, simulated again without it.

Two may hide each other, so that each is held against the run with all of them and against the undisturbed one, as a
Finding's ``speedup`` and ``joint_speedup`` are::

    alone    T(all injected) / T(all but this)
    jointly  T(this only) / T(none)
    material: the greater of both is at least MATERIAL_SPEEDUP

Where ranks go at their own pace, or choose by rates that they measure, or links lose segments by design, chance decides
how long a run takes: one and the same injection made a run 178 to 289 s, by its seed. Each time is then the mean over
LAPS runs by different seeds, unless the first of them take as long but for STEADY, as they are and without what was
injected: where all wait for the slowest, whomever they meet, it hides what chance does. It is the mean over MOST_LAPS
where that does not tell on which side of the bar it is, by SURE errors of these means. What is nearer to the bar even
then is on neither side. Nor is what the run that is judged, by its own seed, has on the other side than the mean, or as
near to the bar: that it costs much, and that it cost nothing, are true. Reports ask for means of such ranks, too
(resimulation/luck.py).

What one host alone does, such as a server's steps, no other host tells how long it should take: slowed all the time, it
looks like its design. So a part that no other host of that hardware has is slowed from the run's last third on instead.
If what else is injected holds up its first iterations until then, it is slow in all but warm-up, which nobody judges
by: it counts for nothing either.

One point around that bar nobody could tell which side a run is on, for noise alone moves a run by as much: such an
injection may be named or not, and counts for nothing (``EDGE``). Neither could anybody tell what an injection costs
only because one goes by time: without the other the run is ahead when it begins, so that it strikes other iterations,
or more of them. The trace says which iterations were slow, and not whether time or their number made them so. A report
goes by their number, of hosts: so what a host did costs as much as it would by those, in the run without the other, and
as by time, or counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.diagnosis.drawn import Drawn
from benchmarks.diagnosis.injections import Injection, When
from benchmarks.diagnosis.onsets import began_ns, begun_s, iteration_at, onset_iteration
from benchmarks.diagnosis.system import System, run_s
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS

EDGE = 0.01
"""Of a run's time: how near the bar nothing is counted."""
LAPS, FIRST, STEADY = 15, 3, 0.01  # of the mean, from the least to the most
MOST_LAPS, SURE = 30, 2.0
SILENT = 0.01
"""Of a layer's links, those that carry so little beside the busiest meanwhile: what a barrier sends shows no rate."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one injection cost, and when it began."""

    injection: Injection
    with_s: float  # the run with all that was injected; where it hangs on chance all are means
    without_s: float  # the run without it, all else as it was
    alone: float
    jointly: float
    own: float | None = None  # the greater of both by the run's own seed alone; None: there is no other
    own_s: tuple[float, float] | None = None  # with_s and without_s by that seed alone
    error: float = 0.0  # standard error of the speed-up; 0: chance decides nothing
    onset_iteration: int | None  # of its first host, or its first link's source, or line's; None: from the beginning
    moves: bool = False  # another injection comes or goes by time: without this one it strikes other iterations
    moved: bool = False  # it comes or goes by time itself: without another one it strikes other iterations
    by_number: float | None = None
    """Jointly, if it struck the same iterations without the others, and in any lap; None: not known, or as by time."""
    untold: bool = False  # slow in all but warm-up, of a host that nobody else tells how long it should take
    silent: frozenset[str] = frozenset()  # its members that do not show what they are like: see _silent

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
        """Whether it is too near the bar to say, or beyond it by luck, or by which iterations one of two strikes."""
        by_another = self.moves and self.alone >= MATERIAL_SPEEDUP > self.jointly - EDGE
        by_itself = self.moved and self.jointly >= MATERIAL_SPEEDUP > self.alone - EDGE
        by_itself |= self.by_number is not None and (self.by_number >= MATERIAL_SPEEDUP) != self.material
        by_luck = self.own is not None and (
            (self.own >= MATERIAL_SPEEDUP) != self.material or abs(self.own - MATERIAL_SPEEDUP) < EDGE
        )
        near = abs(self.speedup - MATERIAL_SPEEDUP) < EDGE or self.unsure
        return by_another or by_itself or by_luck or near or self.untold

    @property
    def unsure(self) -> bool:
        """Whether so few laps do not tell on which side of the bar it is."""
        return abs(self.speedup - MATERIAL_SPEEDUP) < SURE * self.error


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A run with everything injected, and what each injection cost."""

    trace: Trace
    run_s: float
    undisturbed_s: float
    costs: tuple[Cost, ...]
    laps: int = 1  # runs that each time is the mean of
    spread: float = 0.0  # of the run times with all injected, from the least to the most, as part of their mean


def truth(drawn: Drawn) -> Truth:
    """Simulate ``drawn`` undisturbed, disturbed, and without each of its injections, until a try is material."""
    system = drawn.system
    undisturbed = system.run()
    times = _Times(system, run_s(undisturbed))
    found = Truth(trace=undisturbed, run_s=times.undisturbed_s, undisturbed_s=times.undisturbed_s, costs=())
    for drawn_injections in drawn.tries:
        injections = tuple(tellable(system, undisturbed, each) for each in drawn_injections)
        told = _tried(injections, times, laps=1)
        if _material(told) >= _material(found):
            found = told  # of those that cost nothing the last: something was injected
        if injections and all(cost.material and not cost.edge for cost in told.costs):
            break
    injections = tuple(cost.injection for cost in found.costs)
    if not injections or not times.hang_on_chance(injections):
        return found
    found = _tried(injections, times, LAPS)
    return _tried(injections, times, MOST_LAPS) if any(cost.unsure for cost in found.costs) else found


def tellable(system: System, undisturbed: Trace, injection: Injection) -> Injection:
    """``injection``, or in the last third alone what of a host nobody could tell from its design."""
    if injection.when is not When.PERSISTENT or not injection.hosts or injection.layer is not None:
        return injection
    does = _does(undisturbed, injection)
    if injection.hosts[0] not in does or len(does & _alike(system, injection)) > 1:
        return injection
    return replace(injection, when=When.LAST_THIRD, begin=2 / 3, length=1 / 3)


def _does(trace: Trace, injection: Injection) -> set[str]:
    """The hosts that do at all what ``injection`` slows."""
    return {rank.host for rank in trace.ranks if np.isin(rank.spans["phase"], sorted(injection.what.phases)).any()}


def _alike(system: System, injection: Injection) -> set[str]:
    """The hosts of the hardware of the first that ``injection`` slows, as far as systems say what they are."""
    first = injection.hosts[0]
    kind = system.hardware[first]
    return {first} if kind is None else {name for name, of in system.hardware.items() if of == kind}


def _is_untold(system: System, trace: Trace, injection: Injection, since: int | None) -> bool:
    """``since``: the iteration in which it comes into force, of a host; whatever it strikes first."""
    if injection.when is not When.LAST_THIRD or len(injection.hosts) != 1 or since is None:
        return False
    return since <= WARM_UP_ITERATIONS and len(_does(trace, injection) & _alike(system, injection)) <= 1


def _material(told: Truth) -> int:
    return sum(cost.material for cost in told.costs)


class _Times:
    """Run times of ``system`` by what is in force, and by seed, each simulated once."""

    def __init__(self, system: System, undisturbed_s: float) -> None:
        self.system, self.undisturbed_s = system, undisturbed_s
        self._known: dict[tuple[tuple[Injection, ...], int], float] = {((), 0): undisturbed_s}
        self._traces: dict[tuple[tuple[Injection, ...], int], Trace] = {}

    def hang_on_chance(self, in_force: tuple[Injection, ...]) -> bool:
        """Whether the run takes other times by other seeds, with ``in_force`` or with nothing.

        Its ranks decide by what they meet, or links lose segments.
        """
        if not self.system.loses and not self.system.retraining().decides:
            return False
        firsts_s = (self.took_s(each, FIRST) for each in (in_force, ()))
        return any(np.ptp(first_s) > STEADY * first_s.mean() for first_s in firsts_s)

    def took_s(self, in_force: tuple[Injection, ...], laps: int) -> npt.NDArray[np.float64]:
        """Shape (laps,)."""
        return np.array([self.of_lap(in_force, lap) for lap in range(laps)])

    def trace(self, in_force: tuple[Injection, ...], lap: int = 0) -> Trace:
        """By the seed of ``lap``, of which 0 is the run's own."""
        if (in_force, lap) not in self._traces:
            self._traces[in_force, lap] = self.system.run(in_force, self.undisturbed_s, lap)
            self._known[in_force, lap] = run_s(self._traces[in_force, lap])
        return self._traces[in_force, lap]

    def of_lap(self, in_force: tuple[Injection, ...], lap: int) -> float:
        """The run time by the seed of ``lap``."""
        if (in_force, lap) not in self._known:
            self._known[in_force, lap] = run_s(self.system.run(in_force, self.undisturbed_s, lap))
        return self._known[in_force, lap]


def _tried(injections: tuple[Injection, ...], times: _Times, laps: int) -> Truth:
    """What ``injections`` cost, in the mean over ``laps``."""
    trace, system = times.trace(injections), times.system
    all_s = times.took_s(injections, laps)
    costs = []
    for injection in injections:
        others = tuple(other for other in injections if other is not injection)
        without_s = times.took_s(others, laps)
        only_s, none_s = times.took_s((injection,), laps), times.took_s((), laps)
        alone, jointly = (_ratio(*pair) for pair in ((all_s, without_s), (only_s, none_s)))
        hosts, from_s = injection.hosts, injection.onset_s(times.undisturbed_s)
        since = iteration_at(trace, system.ranks[hosts[0]], from_s) if hosts else None
        costs.append(
            Cost(
                injection=injection, with_s=float(all_s.mean()), without_s=float(without_s.mean()), alone=alone[0],
                jointly=jointly[0], own=float(max(all_s[0] / without_s[0], only_s[0] / none_s[0])),
                own_s=(float(all_s[0]), float(without_s[0])), error=max(alone, jointly)[1],
                onset_iteration=onset_iteration(system, trace, injection, times.undisturbed_s),
                untold=_is_untold(system, trace, injection, since),
                moves=any(other.when is not When.PERSISTENT for other in others),
                moved=bool(others) and injection.when is not When.PERSISTENT,
                by_number=_by_number(times, trace, injection, laps) if others or laps > 1 else None,
                silent=_silent(system, trace, injection, times.undisturbed_s),
            )
        )  # fmt: skip
    return Truth(
        trace=trace, run_s=run_s(trace), undisturbed_s=times.undisturbed_s, costs=tuple(costs), laps=laps,
        spread=float(np.ptp(all_s) / all_s.mean()),
    )  # fmt: skip


def _by_number(times: _Times, trace: Trace, injection: Injection, laps: int) -> float | None:
    """What ``injection`` costs by itself if it strikes the iterations that it does in ``trace``, with all injected.

    None, if it is of no host, or comes and goes more than once, or nothing would be left of it.
    """
    if not injection.hosts or injection.when not in (When.LAST_THIRD, When.ONCE):
        return None
    rank, undisturbed_s = times.system.ranks[injection.hosts[0]], times.undisturbed_s
    edges_s = [injection.onset_s(undisturbed_s), (injection.begin + injection.length) * undisturbed_s]
    edges = [iteration_at(trace, rank, at_s) for at_s in edges_s]
    slow_s = []
    for lap in range(laps):
        begin, end = (begun_s(times.trace((), lap), rank, each) / undisturbed_s for each in edges)
        if not lap and not 0 < begin < end:
            return None
        struck = (replace(injection, begin=begin, length=end - begin),) if begin < end else ()
        slow_s.append(times.of_lap(struck, lap))
    return _ratio(np.array(slow_s), times.took_s((), laps))[0]


def _ratio(slow_s: npt.NDArray[np.float64], fast_s: npt.NDArray[np.float64]) -> tuple[float, float]:
    """(mean of ``slow_s`` / mean of ``fast_s``, its standard error: laps are by the same seed in both)."""
    ratio = float(slow_s.mean() / fast_s.mean())
    if len(slow_s) == 1:
        return ratio, 0.0
    return ratio, float((slow_s - ratio * fast_s).std(ddof=1) / fast_s.mean() / np.sqrt(len(slow_s)))


def _silent(system: System, trace: Trace, injection: Injection, undisturbed_s: float) -> frozenset[str]:
    """The members of ``injection`` that do not show what they are like.

    Of links those that carried less than SILENT of what the busiest of them did while it was in force, warm-up left
    out; of a layer's hosts those whose last iteration began before it did.
    """
    ranks = system.ranks
    start_ns = began_ns(trace)
    if injection.hosts:
        since_ns = start_ns + round(injection.onset_s(undisturbed_s) * 1e9)
        last_ns = {
            host: int(trace.ranks[ranks[host]].of(Phase.ITERATION)["start_ns"].max()) for host in injection.hosts
        }
        early = frozenset(host for host, at_ns in last_ns.items() if at_ns < since_ns)
        return early if len(early) < len(injection.hosts) else frozenset()
    nbytes, in_force = dict.fromkeys(injection.links, 0), injection.during(undisturbed_s, 1.0, 0.0)
    for src, dst in nbytes:
        spans = trace.ranks[ranks[src]].spans
        own = (spans["phase"] == Phase.SEND) & (spans["dst"] == ranks[dst]) & (spans["iteration"] >= WARM_UP_ITERATIONS)
        sent_s = ((spans["start_ns"][own] - start_ns) / 1e9).tolist()
        nbytes[src, dst] = sum(spans["nbytes"][own][[in_force.at(at_s) > 0 for at_s in sent_s]].tolist())
    most = max(nbytes.values(), default=0)
    return frozenset(f"{src} -> {dst}" for (src, dst), own in nbytes.items() if own < SILENT * most)
