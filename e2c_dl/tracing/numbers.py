"""Numbers of a rank's collectives in their groups, by which those of all ranks are joined, and of its threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from e2c_dl.trace.collectives import WORLD
from e2c_dl.tracing.lane import Told

UNCOUNTED: Sequence[Told] = (({},),)
"""``passed`` while a backward is under way, until something is counted meanwhile."""


BETWEEN_JOINS = 1 << 18  # numbers of collectives
UNJOINED = 1 << 26  # numbers from here on are of no other rank's collectives
_APART = 256  # ranks that have numbers of their own there, of those that are in no group of all ranks any more


def following(seq: int) -> int:
    """Number from which all ranks count on, whichever each has come to, if these are not too far apart."""
    return (seq // BETWEEN_JOINS + 1) * BETWEEN_JOINS


class Numbers:
    """Counts collectives group by group; -2 is the group of all ranks."""

    def __init__(self) -> None:
        self.given_from: int | None = None  # what is taken off numbers that the script gives its iterations
        self.seqs: dict[int, int] = {}  # group -> number of its next collective, but for those of ``passed``
        self.passed: Sequence[Told] = ()  # the newest backward, whose collectives are not counted yet
        self.meanwhile: dict[int, None] = {}  # groups in which something was counted while it was under way, and since
        self._common: dict[int, int] | None = None  # ``seqs`` of the group of all ranks, while this one is in another
        self._apart: dict[int, int] = {}  # ... and of the others, while it is in that
        self.main = threading.get_ident()  # the thread that trains
        self._threads: dict[int, int] = {}

    def task(self) -> int:
        """Of the thread that asks: 0 the one that trains, others from 1."""
        thread = threading.get_ident()
        if thread == self.main:
            return 0
        return self._threads.setdefault(thread, len(self._threads) + 1)

    def next_seq(self, group: int = -2, count: int = 1) -> int:
        """Number of the next collective in ``group``, the first of ``count``."""
        self.count_passed()
        self.meanwhile[group] = None
        seq = self.seqs.get(group, 0)
        self.seqs[group] = seq + count
        return seq

    def numbered(self, passes: Sequence[Told]) -> list[Told]:
        """The ``passes`` of a backward that is over, after what was counted meanwhile, and one after the other.

        Several modules may reduce within one backward, and what a script does to gradients may reduce there, too.
        """
        free: dict[int, int] = {}
        found: list[Told] = []
        for told in passes:
            if told[0] and len(told) > 1:
                at_ns, nbytes, group, _ = told
                seq = free.get(group, self.seqs.get(group, 0))
                free[group] = seq + len(nbytes)
                found.append((at_ns, nbytes, group, seq))
            else:
                found.append(told)
        return found

    def count_anew(self) -> None:
        """Ranks may have come to other numbers than others: from here on all count from the same."""
        self.count_passed()
        if self._common is not None:
            self._apart, self.seqs = self.seqs, {**self.seqs, **self._common}
            self._common = None
        self.seqs = {group: following(self.seqs.get(group, 0)) for group in (WORLD, *self.seqs)}

    def count_apart(self, rank: int) -> None:
        """What is called the group of all ranks is another for ``rank``: its collectives are joined to no others'."""
        self.count_passed()
        if self._common is None:
            free = UNJOINED + rank % _APART * BETWEEN_JOINS
            self._common, self.seqs = self.seqs, {each: self._apart.get(each, free) for each in (WORLD, *self.seqs)}

    def count_passed(self) -> None:
        """Count those of the newest backward: when a number is asked for, since where it ended caches are cold."""
        if self.passed is UNCOUNTED:
            self.meanwhile = {}
        for told in self.passed:
            if told[0] and len(told) > 1:
                self.seqs[told[2]] = told[3] + len(told[1])
        self.passed = ()
