"""Deadlines, after which something is given up: by how long such things took lately, and what redoing costs.

::

    deadline = median + k * MAD               of the last WINDOW durations

MAD is the median of the absolute deviations from the median: unlike a standard deviation it is not moved by the few
values that a deadline is there to catch, and unlike a fixed time-out the sum follows what is being waited for. k is the
one of FACTORS that would have cost least in the window, and the next larger one: what is to come is a little worse than
what came. Costs, in seconds::

    came in time               how long it took
    came after the deadline    the deadline + REDO medians: what was given up has to be done again
    never came                 the deadline: waited in vain; redoing it costs the same under every deadline

Pure: durations go in, deadlines come out. Source of median and MAD: Leys et al., "Detecting outliers: Do not use
standard deviation around the mean, use absolute deviation around the median", J. of Experimental Social Psychology 49
(2013). The choice of k follows the leader: Cesa-Bianchi and Lugosi, "Prediction, Learning, and Games" (2006), 3.2.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

WINDOW = 128  # older ones leave, so that a deadline follows a network that has changed
LEAST = 8  # of fewer, median and MAD say little
FACTORS = (3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0)
REDO = 10.0  # medians; what was given up too early has to be done again
LEAST_MAD = 0.02  # of the median: of durations that are all the same, the next may still differ

Seconds = npt.NDArray[np.float64]


class Deadline:
    """A deadline that adapts to what is observed, in seconds; ``first_s`` holds until LEAST durations are known."""

    def __init__(self, first_s: float | None = None) -> None:
        self._first_s = first_s
        self._durations_s: deque[float] = deque(maxlen=WINDOW)
        self._waited_s = 0.0  # in vain so far, for what comes next

    @property
    def seconds(self) -> float | None:
        """How long to wait now; None: for ever, as far as is known."""
        durations_s = np.array(self._durations_s)
        came_s = durations_s[np.isfinite(durations_s)]  # what never came has no duration: it counts in the costs alone
        if len(came_s) < LEAST:
            return self._first_s
        median_s = float(np.median(came_s))
        mad_s = max(float(np.median(np.abs(came_s - median_s))), LEAST_MAD * median_s)
        deadlines_s = median_s + np.array(FACTORS) * mad_s
        costs_s = [cost_s(durations_s, float(each), REDO * median_s) for each in deadlines_s]
        return float(deadlines_s[min(int(np.argmin(costs_s)) + 1, len(FACTORS) - 1)])

    def came(self, waited_s: float) -> None:
        self._durations_s.append(self._waited_s + waited_s)
        self._waited_s = 0.0

    def gave_up(self, waited_s: float) -> None:
        """It had not come when it was given up, after ``waited_s``; it may come yet."""
        self._waited_s += waited_s

    def never(self) -> None:
        self._durations_s.append(np.inf)  # not what was waited: that says how patient somebody was
        self._waited_s = 0.0


def cost_s(durations_s: Seconds, deadline_s: float, redo_s: float) -> float:
    """What one deadline costs on all of ``durations_s`` (infinite: never came), in seconds; see the module."""
    gave_up_s = deadline_s + np.where(np.isinf(durations_s), 0.0, redo_s)
    return float(np.where(durations_s <= deadline_s, durations_s, gave_up_s).sum())
