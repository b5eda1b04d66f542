"""Spans that are shorter than their clock is certain: beside another host's spans their order is not known.

Their length is: both ends are of one clock. Only within the window of a step is that not so either.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.model import RankTrace


def shorter_than_uncertainty(rank: RankTrace) -> npt.NDArray[np.bool_]:
    """Which of ``rank``'s spans last less than their beginning may be off; shape (spans,)."""
    lengths_ns = rank.spans["end_ns"] - rank.spans["start_ns"]
    return np.asarray(lengths_ns < rank.clock.aligned_uncertainties_ns(rank.spans["start_ns"]))


def in_steps(rank: RankTrace) -> npt.NDArray[np.bool_]:
    """Which of ``rank``'s spans reach into a window within which its clock stepped: their lengths are not known."""
    found = np.zeros(len(rank.spans), dtype=bool)
    for step in rank.clock.aligned_steps:
        found |= (rank.spans["end_ns"] >= step.from_ns) & (rank.spans["start_ns"] <= step.to_ns)
    return found
