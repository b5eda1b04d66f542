"""S, S_t, S_w, M_W and M_S: what a job would take if operations of one kind took the same everywhere, always.

Source: Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI'25, Eq. 1 to 5::

    T          replayed: every operation as long as it was, begun as soon as what it follows has ended
    T_ideal    computing takes the mean of its kind, over workers and steps; communication the median
    S        = T / T_ideal                                           the whole job's slow-down
    S_t, S_w = T_ideal with operations of t, of w as they were / T_ideal
    M_W      = (T - T with the slowest 3 % of workers idealised) / (T - T_ideal)
    M_S      = (T - T with the last pipeline stage idealised)    / (T - T_ideal)

    ---*---------*----------------*-------->  mean step time
     T_ideal   T without them     T             M_W, M_S: how much of the way from T to T_ideal they are

As the authors' program does, S_w is the lesser of the figures of w's data-parallel rank and of its pipeline stage: two
replays per row and column instead of one per worker. Where there is no pipeline that is its rank's figure, and there
is no M_S; of a single stage M_S is 1, as all workers are in it. Communication lasts from when its last participant was
ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.straggler.precedence import Floats, Longs, Precedence

SLOWEST = 0.03
"""Share of the workers, at least one, that M_W idealises."""

RESOLUTION = 1e-9
"""Of S: a job that is not slower than its ideal by that much has nothing that a share of could be told."""

AT_ONCE = 8
"""Replays in one pass: more take memory and gain nothing."""

Chosen = npt.NDArray[np.bool_]
Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class Operations:
    """What a job did; columns of equal length by operation.

    A *join*, where communication waits for its last participant, is an operation too: it takes no time, and its
    ``kind``, ``row``, ``stage`` are -1.
    """

    kind: Longs  # index into kinds
    row: Longs  # index into rows: its data-parallel rank
    stage: Longs  # pipeline stage
    step: Longs  # index into steps_s
    measured_s: Floats
    ideal_s: Floats
    precedence: Precedence
    kinds: tuple[str, ...]
    rows: int
    stages: int  # of the pipeline; 0: it has none, and all are of stage 0
    workers: tuple[tuple[str, int, int], ...]  # (name, row, stage), as they are numbered
    steps: tuple[int, ...]  # their numbers
    steps_s: Floats  # how long each took, as recorded
    limitations: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stragglers:
    """The metrics of one job, slow-downs in descending order. ``None``: there is nothing to take a share of."""

    measured_s: float  # mean step, as recorded
    replayed_s: float  # T
    ideal_s: float  # T_ideal
    slowdown: float  # S
    slowdown_by_kind: dict[str, float]  # S_t
    slowdown_by_worker: dict[str, float]  # S_w
    slowdown_by_stage: dict[int, float]  # of all workers of a pipeline stage; empty without stages
    slowdown_by_step: dict[int, float]  # T / T_ideal of each step
    slowest_workers: tuple[str, ...]  # those of M_W
    slowest_share: float | None  # M_W
    last_stage_share: float | None  # M_S
    limitations: tuple[str, ...]  # what the reader must know before believing a figure

    @property
    def unexplained(self) -> float:
        """Share of the recorded time that the replay has not: what no operation was recorded for."""
        return 1 - self.replayed_s / self.measured_s


def stragglers(operations: Operations) -> Stragglers:
    """The metrics of ``operations``."""
    parts = _Parts.of(operations)
    replay = _Replay(operations)
    none = np.zeros(len(operations.kind), dtype=bool)
    steps_s = replay.steps_s([~none, none, *parts.kinds, *parts.rows, *parts.stages])  # (sets, steps)
    mean_s = steps_s.mean(axis=1)
    relative = (mean_s / mean_s[1]).tolist()
    of_kinds, of_rows, of_stages = _split(relative[2:], len(parts.kinds), len(parts.rows))
    of_workers = {
        name: min(of_rows[row], of_stages[stage]) if operations.stages else of_rows[row]
        for name, row, stage in operations.workers
    }
    slowest = _slowest(of_workers)
    shares = _shares(operations, replay, slowest, mean_s[0], mean_s[1])
    return Stragglers(
        measured_s=float(operations.steps_s.mean()),
        replayed_s=float(mean_s[0]),
        ideal_s=float(mean_s[1]),
        slowdown=relative[0],
        slowdown_by_kind=_descending(dict(zip(operations.kinds, of_kinds, strict=True))),
        slowdown_by_worker=_descending(of_workers),
        slowdown_by_stage=_descending(dict(enumerate(of_stages))) if operations.stages > 1 else {},
        slowdown_by_step=_descending(dict(zip(operations.steps, (steps_s[0] / steps_s[1]).tolist(), strict=True))),
        slowest_workers=slowest,
        slowest_share=shares[0],
        last_stage_share=shares[1] if operations.stages else None,
        limitations=operations.limitations,
    )


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The operations that each replay keeps as they were."""

    kinds: list[Chosen]
    rows: list[Chosen]
    stages: list[Chosen]

    @classmethod
    def of(cls, operations: Operations) -> _Parts:
        return cls(
            kinds=[operations.kind == kind for kind in range(len(operations.kinds))],
            rows=[operations.row == row for row in range(operations.rows)],
            stages=[operations.stage == stage for stage in range(max(1, operations.stages))],
        )


class _Replay:
    """Replays of operations, some of them as they were, the others idealised."""

    def __init__(self, operations: Operations) -> None:
        self._precedence = precedence = operations.precedence
        self._measured = operations.measured_s[precedence.order, None]
        self._ideal = operations.ideal_s[precedence.order, None]
        step = operations.step[precedence.order][precedence.last]
        by_step = np.argsort(step, kind="stable")
        self._last = precedence.last[by_step]
        self._begin = np.searchsorted(step[by_step], np.arange(len(operations.steps)))

    def steps_s(self, as_they_were: Sequence[Chosen]) -> Floats:
        """When the last operation of each step ends, in each replay: (replays, steps)."""
        found = [np.empty((0, len(self._begin)))]
        for begin in range(0, len(as_they_were), AT_ONCE):
            chosen = np.stack(as_they_were[begin : begin + AT_ONCE], axis=1)[self._precedence.order]
            ends = self._precedence.ends(np.where(chosen, self._measured, self._ideal))
            found.append(np.maximum.reduceat(ends[self._last], self._begin, axis=0).T)
        return np.concatenate(found)


def _shares(
    operations: Operations, replay: _Replay, slowest: Sequence[str], replayed_s: float, ideal_s: float
) -> tuple[float | None, float | None]:
    """M_W and M_S."""
    if replayed_s - ideal_s <= RESOLUTION * ideal_s:
        return None, None
    without = [~_chosen(operations, slowest), operations.stage != operations.stages - 1]
    removed_s = replayed_s - replay.steps_s(without).mean(axis=1)
    share = (removed_s / (replayed_s - ideal_s)).tolist()
    return share[0], share[1]


def _chosen(operations: Operations, names: Sequence[str]) -> Chosen:
    """The operations of the workers ``names``."""
    chosen = np.zeros(len(operations.kind), dtype=bool)
    for name, row, stage in operations.workers:
        if name in names:
            chosen |= (operations.row == row) & (operations.stage == stage)
    return chosen


def _slowest(of_workers: dict[str, float]) -> tuple[str, ...]:
    """The names of the 3 % with the largest S_w; of equals those that are numbered lower."""
    count = -(-len(of_workers) * round(100 * SLOWEST) // 100)
    return tuple(sorted(of_workers, key=of_workers.__getitem__, reverse=True)[:count])  # stable


def _descending(values: dict[Key, float]) -> dict[Key, float]:
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def _split(values: list[float], first: int, second: int) -> tuple[list[float], list[float], list[float]]:
    return values[:first], values[first : first + second], values[first + second :]
