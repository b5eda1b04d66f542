"""Sinks of simulated spans that keep a few sums and no spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2c_dl.trace.model import SPAN, Phase


class TrainingEnds:
    """Keeps when ranks trained, and how many ``iterations`` all of them had together."""

    def __init__(self) -> None:
        self.iterations = 0
        self._begin_ns: list[int] = []
        self._end_ns: list[int] = []

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        """Does nothing."""

    def write(self, rank: int, records: bytes) -> None:
        spans = np.frombuffer(records, dtype=SPAN)
        self.iterations += int((spans["phase"] == Phase.ITERATION).sum())
        training = spans[spans["phase"] == Phase.TRAINING]
        self._begin_ns += training["start_ns"].tolist()
        self._end_ns += training["end_ns"].tolist()

    @property
    def run_ns(self) -> int:
        """From the first rank's beginning to the last one's end."""
        return max(self._end_ns) - min(self._begin_ns)


class Spent:
    """Keeps how long each of ``size`` ranks spent in ``phase``, in ns."""

    def __init__(self, phase: Phase, size: int) -> None:
        self._phase = phase
        self.by_rank_ns = [0] * size

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        """Does nothing."""

    def write(self, rank: int, records: bytes) -> None:
        spans = np.frombuffer(records, dtype=SPAN)
        spans = spans[spans["phase"] == self._phase]
        self.by_rank_ns[rank] += int((spans["end_ns"] - spans["start_ns"]).sum())
