"""When an injection began: where it first struck what its hosts do, or its links carry.

::

    in force      |------####------####------####--|
    host steps    |#-----------#-----#-----#-----#-|     it is first slow here (the fourth), whatever held it up before
                                           ^
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.diagnosis.injections import Injection, When
from benchmarks.diagnosis.system import System
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.trace.messages import MESSAGE, join
from e2c_dl.trace.model import Phase, Trace


def onset_iteration(system: System, trace: Trace, injection: Injection, undisturbed_s: float) -> int | None:
    """The iteration, of that of its hosts or its links' sources which it struck first, in which ``injection`` began.

    It begins where it strikes what the host does, or the link carries: until then no trace can show it. None: it is
    there all the time.
    """
    if injection.when is When.PERSISTENT:
        return None
    in_force, onset_s = injection.during(undisturbed_s, 1.0, 0.0), injection.onset_s(undisturbed_s)
    sources: Sequence[str] = injection.hosts or [src for src, _ in injection.links]
    struck_s = (_struck_s(each, in_force, onset_s) for each in _done_s(system, trace, injection))
    struck = [(at_s, src) for src, at_s in zip(sources, struck_s, strict=True) if at_s is not None]
    began_s, source = min(struck, default=(onset_s, sources[0]))  # of a layer, of whichever it struck first
    return iteration_at(trace, system.ranks[source], began_s)


def _done_s(system: System, trace: Trace, injection: Injection) -> Iterator[npt.NDArray[np.float64]]:
    """Of each of its hosts or links when it did what ``injection`` slows, or carried something.

    Shape (times, 2), begins and ends, in seconds of training.
    """
    start_ns = began_ns(trace)
    for host in injection.hosts:
        spans = trace.ranks[system.ranks[host]].spans
        own = spans[np.isin(spans["phase"], sorted(injection.what.phases))]
        yield (np.stack([own["start_ns"], own["end_ns"]], axis=1) - start_ns) / 1e9
    by_link = join(trace).by_link() if injection.links else {}
    for src, dst in injection.links:
        rows = by_link.get((system.ranks[src], system.ranks[dst]), np.zeros(0, dtype=MESSAGE))
        yield (np.stack([rows["send_start_ns"], rows["recv_end_ns"]], axis=1) - start_ns) / 1e9


def _struck_s(done_s: npt.NDArray[np.float64], in_force: Schedule, onset_s: float) -> float | None:
    """When the first of ``done_s`` was under way while something was ``in_force``; None: none was."""
    for begin_s, end_s in done_s[np.argsort(done_s[:, 0], kind="stable")].tolist():
        at_s = max(begin_s, onset_s)
        at_s = at_s if in_force.at(at_s) > 0 else in_force.next_change_s(at_s)
        if at_s <= end_s:
            return at_s
    return None


def iteration_at(trace: Trace, rank: int, time_s: float) -> int:
    """The iteration that ``rank`` was in at ``time_s`` of training."""
    ends_ns = trace.ranks[rank].of(Phase.ITERATION)["end_ns"]
    return int(np.searchsorted(ends_ns, began_ns(trace) + round(time_s * 1e9), side="right"))


def begun_s(trace: Trace, rank: int, iteration: int) -> float:
    """When ``rank`` began ``iteration``, in seconds of training; of one that it did not do, when its last was over."""
    own = trace.ranks[rank].of(Phase.ITERATION)
    edges_ns = np.append(own["start_ns"], own["end_ns"].max())
    return float(edges_ns[min(iteration, len(own))] - began_ns(trace)) / 1e9


def began_ns(trace: Trace) -> int:
    """When training began."""
    return min(int(rank.spans["start_ns"][rank.spans["phase"] == Phase.TRAINING].min()) for rank in trace.ranks)
