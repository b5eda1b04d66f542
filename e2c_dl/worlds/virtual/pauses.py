"""Pauses of one rank's process, as by kill -STOP: what it does takes no step meanwhile.

::

    process   |===runs===|   stopped   |===runs===       pauses: [begin, end) in ns, in order, none touches another
    work      |--- 3 ----|             |- 2 -|           5 ns of work, begun at 0, end 2 ns after the pause
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Pauses:
    """One rank's, ``planned`` as (from s, until s) in any order; others may be added when they begin."""

    def __init__(self, planned: Iterable[tuple[float, float]] = ()) -> None:
        self._pauses: list[tuple[int, int]] = []
        for from_s, until_s in planned:
            self.add(round(from_s * 1e9), round(until_s * 1e9))

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._pauses)

    def add(self, begin_ns: int, end_ns: int) -> None:
        """Stopped from ``begin_ns`` until ``end_ns``, too."""
        touched = [pause for pause in self._pauses if pause[0] <= end_ns and begin_ns <= pause[1]]
        apart = [pause for pause in self._pauses if pause not in touched]
        begins, ends = zip((begin_ns, end_ns), *touched, strict=True)
        self._pauses = sorted([*apart, (min(begins), max(ends))])

    def runs_ns(self, time_ns: int) -> int:
        """``time_ns``, or, if it is stopped then, when it goes on."""
        for begin_ns, end_ns in self._pauses:
            if begin_ns <= time_ns < end_ns:
                return end_ns
        return time_ns

    def ends_ns(self, begin_ns: int, work_ns: int) -> int:
        """When what begins at ``begin_ns``, and takes ``work_ns`` of running, ends."""
        end_ns = begin_ns + work_ns
        for stopped_ns, goes_on_ns in self._pauses:
            if end_ns <= stopped_ns:
                break
            if begin_ns < goes_on_ns:
                end_ns += goes_on_ns - max(stopped_ns, begin_ns)
        return end_ns
