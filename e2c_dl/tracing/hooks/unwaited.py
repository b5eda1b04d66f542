"""Collectives that were called and go on: who can be asked for them, until somebody has waited.

::

    work = all_reduce(..., async_op=True)       asked by      work.wait()
    work.get_future(), and what its then()      ...           future.wait()
        and collect_all() make
    while not work.is_completed(): sleep()      ...           itself: the thread that trains did nothing else meanwhile
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl.trace.model import Collective

UNWAITED = "collectives that nobody waits for are not recorded"
PAUSE_NS = 100_000_000  # a script that asks again and again sleeps no longer between


@dataclass(slots=True)
class Joined:
    """A collective that was called and is waited for later."""

    start_ns: int
    kind: Collective
    seq: int
    group: int
    nbytes: int
    askable: int = 0  # a Work of it, and its Futures
    over: bool = False


class Pending(weakref.ref[Any]):
    """A Work, or a Future, that was not asked yet; once it is gone, another may have its ``key``, the id."""

    __slots__ = ("joined", "key")

    key: int
    joined: Sequence[Joined]


class Unwaited:
    """Those that were joined and not waited for yet, by their Works and Futures."""

    def __init__(self, limited: Callable[[str], None]) -> None:
        self._limited = limited
        self._pending: dict[int, Pending] = {}

    def hold(self, asked: Any, joined: Sequence[Joined]) -> None:
        """``asked`` can be asked for ``joined``."""
        if not joined:
            return
        try:
            pending = Pending(asked, self._dropped)
        except TypeError:  # a backend's own, which nobody can watch
            self._limited(UNWAITED)
            return
        pending.key, pending.joined = id(asked), joined
        self._pending[pending.key] = pending
        for each in joined:
            each.askable += 1

    def of(self, asked: Any) -> list[Joined]:
        """What ``asked`` can be asked for, and nobody has waited for."""
        pending = self._pending.get(id(asked))
        return [] if pending is None else [each for each in pending.joined if not each.over]

    def take(self, asked: Any) -> list[Joined]:
        """As :meth:`of`; it is waited for now."""
        joined = self.of(asked)
        self._pending.pop(id(asked), None)
        for each in joined:
            each.over = True
        return joined

    def forget(self) -> None:
        """Waits are not seen any more."""
        self._pending.clear()

    def end(self) -> None:
        """Nobody waits any more."""
        if any(not each.over for pending in self._pending.values() for each in pending.joined):
            self._limited(UNWAITED)

    def _dropped(self, gone: weakref.ref[Any]) -> None:
        """Nobody can ask it any more."""
        if sys.is_finalizing() or not isinstance(gone, Pending) or self._pending.pop(gone.key, None) is None:
            return
        for each in gone.joined:
            each.askable -= 1
            if not (each.askable or each.over):
                self._limited(UNWAITED)


class Polling:
    """Since when a thread does nothing but ask again and again whether something is over."""

    def __init__(self) -> None:
        self._asks = False
        self._last: Any = None  # what it had done before
        self._asked_ns = self._since_ns = 0

    def asked(self, events: Sequence[Any], now_ns: int, over: bool) -> int:
        """It asks now, and is told; ``events`` are what it has done, which is taken from time to time: then unknown."""
        last = next(reversed(events), None)  # at once: another thread may take them all meanwhile
        if not self._asks or last is not self._last or now_ns - self._asked_ns > PAUSE_NS:
            self._since_ns = now_ns
        self._asks, self._last, self._asked_ns = not over, last, now_ns
        return self._since_ns
