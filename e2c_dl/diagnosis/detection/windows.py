"""Windows of a run that all its links are judged in: iterations, or pieces of time where ranks go at their own pace.

::

    rank 0   |--0--|--1--|--2--|           edges: where an iteration began, median over ranks
    rank 1    |--0--|--1--|--2--|
    window   |  0  |  1  |  2  |

Ranks whose iterations began further apart than OWN_PACE of their length go at their own pace: then a window is as long
as the median iteration, whoever's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.trace.messages import MessageArray
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.warm_up import warm_up

OWN_PACE = 2.0
MOST_PIECES = 2048  # of a run at unlike paces: shorter ones tell no more


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """``begins_s``: seconds of training, rising; the last one lasts until ``until_s``."""

    begins_s: Doubles
    until_s: float
    ended_s: Mapping[str, Doubles] = field(default_factory=dict)
    """Where ranks go at their own pace: host -> when each of its iterations ended."""

    @property
    def own_pace(self) -> bool:
        return bool(self.ended_s)

    @classmethod
    def of(cls, trace: Trace, began_ns: int) -> Windows:
        """The windows of ``trace``, in which every rank has an iteration."""
        spans = [rank.of(Phase.ITERATION) for rank in trace.ranks]
        count = min(int(each["iteration"].max()) + 1 for each in spans)
        starts_s = np.full((len(spans), count), np.nan)
        for row, each in zip(starts_s, spans, strict=True):
            own = each[each["iteration"] < count]
            row[own["iteration"]] = (own["start_ns"] - began_ns) / 1e9
        iterations = np.concatenate(spans)
        until_s = float((iterations["end_ns"].max() - began_ns) / 1e9)
        usual_s = float(np.median(iterations["end_ns"] - iterations["start_ns"])) / 1e9
        if float(np.nanmax(np.ptp(starts_s, axis=0))) > OWN_PACE * usual_s:
            first_s = float(np.nanmin(starts_s))  # of a run's last iterations: not when training began
            pieces = int(np.clip((until_s - first_s) / max(usual_s, 1e-9), 1, MOST_PIECES))
            ended_s = {
                rank.host: np.sort(each["end_ns"] - began_ns) / 1e9
                for rank, each in zip(trace.ranks, spans, strict=True)
            }
            return cls(begins_s=np.linspace(first_s, until_s, pieces + 1)[:-1], until_s=until_s, ended_s=ended_s)
        return cls(begins_s=np.maximum.accumulate(np.nanmedian(starts_s, axis=0)), until_s=until_s)

    def __len__(self) -> int:
        return len(self.begins_s)

    @property
    def first(self) -> int:
        """The first to judge by."""
        return warm_up(len(self))

    def iteration_at(self, time_s: float) -> int:
        """The window in which ``time_s`` is."""
        return int(max(0, np.searchsorted(self.begins_s, time_s, side="right") - 1))

    def iterations(self, host: str) -> npt.NDArray[np.int64]:
        """Of each window the iteration that ``host`` was in when it began, shape (windows,)."""
        if not self.own_pace:
            return np.arange(len(self))
        return np.searchsorted(self.ended_s[host], self.begins_s, side="right").astype(np.int64)

    def iterations_begin_s(self, host: str) -> Doubles:
        """When each iteration of ``host`` began, shape (iterations,); of all in step the median."""
        if not self.own_pace:
            return self.begins_s
        return np.append(self.begins_s[0], self.ended_s[host][:-1])

    def iteration_of(self, host: str, time_s: float) -> int:
        """The iteration that ``host`` was in at ``time_s``, the last one if that is over; the median of all in step."""
        if not self.own_pace:
            return self.iteration_at(time_s)
        ended_s = self.ended_s[host]
        return min(int(np.searchsorted(ended_s, time_s, side="right")), len(ended_s) - 1)

    def of_messages(self, rows: MessageArray, began_ns: int) -> npt.NDArray[np.int64]:
        """Window of each of ``rows``: that of its sender's iteration, or of the time at which it was sent."""
        sent_s = (rows["send_start_ns"] - began_ns) / 1e9
        by_time = np.maximum(0, np.searchsorted(self.begins_s, sent_s, side="right") - 1)
        if self.own_pace:
            return by_time
        inside = (rows["iteration"] >= 0) & (rows["iteration"] < len(self))
        return np.where(inside, rows["iteration"], by_time).astype(np.int64)
