"""Spans within the window of a step of their host's clock: how long they are is not known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.model import RankTrace


def in_steps(rank: RankTrace) -> npt.NDArray[np.bool_]:
    """Which of ``rank``'s spans reach into a window within which its clock stepped; shape (spans,)."""
    found = np.zeros(len(rank.spans), dtype=bool)
    for step in rank.clock.aligned_steps:
        found |= (rank.spans["end_ns"] >= step.from_ns) & (rank.spans["start_ns"] <= step.to_ns)
    return found
