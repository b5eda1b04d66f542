"""What a deadline costs, and how much less a clairvoyant's would.

A round: something is waited for, until it comes or the deadline passes. Costs are those of e2c_dl.worlds.deadlines:
what came in time costs how long it took; what was given up too early costs the deadline and REDO medians of the
sequence; what never comes costs the deadline, waited in vain. The clairvoyant knows the whole sequence beforehand and
chooses the one deadline that is cheapest for it. Regret: (cost - the clairvoyant's) / the clairvoyant's; it is negative
where following what changes beats every fixed deadline.
"""

from __future__ import annotations

import numpy as np

from benchmarks.deadlines.sequences import Seconds
from e2c_dl.worlds.deadlines import REDO, Deadline


def regret(durations_s: Seconds) -> float:
    """Of the adaptive deadline on ``durations_s``; a thing that is late is seen when it comes."""
    redo_s = REDO * float(np.median(durations_s[np.isfinite(durations_s)]))
    best_s = clairvoyant_s(durations_s, redo_s)
    return (adaptive_s(durations_s, redo_s) - best_s) / best_s


def adaptive_s(durations_s: Seconds, redo_s: float) -> float:
    """The adaptive deadline's cost. Until it knows something, it waits as long as redoing takes."""
    deadline, total_s = Deadline(first_s=redo_s), 0.0
    for duration_s in durations_s.tolist():
        limit_s = deadline.seconds or redo_s
        if duration_s <= limit_s:
            total_s += duration_s
            deadline.came(duration_s)
        elif np.isinf(duration_s):
            total_s += limit_s
            deadline.gave_up(limit_s)
            deadline.never()
        else:
            total_s += limit_s + redo_s
            deadline.gave_up(limit_s)
            deadline.came(duration_s - limit_s)
    return total_s


def clairvoyant_s(durations_s: Seconds, redo_s: float) -> float:
    """The cost of the cheapest fixed deadline: one of the durations, or none at all."""
    came_s = np.sort(durations_s[np.isfinite(durations_s)])
    never = len(durations_s) - len(came_s)
    late = np.arange(len(came_s) - 1, -1, -1)  # how many come after each duration
    costs_s = np.cumsum(came_s) + late * (came_s + redo_s) + never * came_s
    return float(min(costs_s.min(), len(came_s) * redo_s))
