"""Progress of a training, as rank 0 reports it: a line of progress.jsonl."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where training stands, as rank 0 reports it."""

    iteration: int  # finished ones
    iterations: int
    loss: float | None
    accuracy: float | None  # of the last evaluation, 0..1
    elapsed_s: float
    remaining_s: float | None
