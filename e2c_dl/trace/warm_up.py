"""Iterations that say little of a run: the first ones, left out of averages and judgements."""

from __future__ import annotations

WARM_UP_ITERATIONS = 2
"""Caches are cold, a library makes its plans, and TCP still learns how much it may send."""


def warm_up(iterations: int) -> int:
    """The first iteration to judge by: WARM_UP_ITERATIONS, fewer if the run is not longer than that."""
    return max(0, min(WARM_UP_ITERATIONS, iterations - 1))
