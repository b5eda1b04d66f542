"""Watches over directed links: one that is down for GIVE_UP_S on end takes its ends from each other, whoever sends.

::

    up |--------|                    |-----|                                 down from d on; at d + GIVE_UP_S: lost
    down        |==== 12 s: kept ====|     |======= 20 s: lost =======|

What a connection finds by itself, since nothing that it sent is acknowledged, it finds at the same time. Live, probes
of an idle connection are 5 s apart, so that it may be given up as much sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from e2c_dl.worlds.giving_up import GIVE_UP_S
from e2c_dl.worlds.virtual.kernel import Kernel
from e2c_dl.worlds.virtual.links import LinkModel, RankPair


class LinkWatch:
    """Calls ``lost`` once, when the link of ``model`` has been down for so long.

    A change of the link that lies ahead is no reason for a run to go on: where nothing else can happen, the watch
    ends, too, so that a deadlock is found under schedules that go on for ever.
    """

    def __init__(self, kernel: Kernel, model: LinkModel, lost: Callable[[], None]) -> None:
        self._kernel, self._model, self._lost = kernel, model, lost
        self._down_ns: int | None = None  # since when
        self._version = 0
        self.renew()

    def renew(self) -> None:
        """The model's conditions are others from now on."""
        self._version += 1
        self._steps: Iterator[tuple[float, LinkModel]] = self._model.over_time()
        self._next: tuple[float, LinkModel] | None = next(self._steps)
        self._see()

    def _see(self) -> None:
        """See what the link is like now, and come back when that changes, or when it is to be given up."""
        now_ns, down = self._kernel.now_ns, self._down_ns is not None
        while self._next is not None and round(self._next[0] * 1e9) <= now_ns:
            down, self._next = self._next[1].down, next(self._steps, None)
        if not down:
            self._down_ns = None
        elif self._down_ns is None:
            self._down_ns = now_ns
        change_ns = None if self._next is None else round(self._next[0] * 1e9)
        if self._down_ns is not None:
            given_up_ns = self._down_ns + round(GIVE_UP_S * 1e9)
            if change_ns is None or given_up_ns <= change_ns:
                self._kernel.at(given_up_ns, self._give_up, self._version)
                return
        if change_ns is not None:
            self._kernel.idle += 1
            self._kernel.at(change_ns, self._changes, self._version)

    def _changes(self, version: int) -> None:
        kernel = self._kernel
        kernel.idle -= 1
        if version == self._version and len(kernel.heap) > kernel.idle:  # else nothing else can happen
            self._see()

    def _give_up(self, version: int) -> None:
        if version == self._version:
            self._version += 1  # once: what is lost is not found again
            self._lost()


class Watches:
    """Over all of ``links`` that may be down, and over which TCP is modelled; ``lost`` is told of whose ends."""

    def __init__(
        self, kernel: Kernel, links: Mapping[RankPair, LinkModel], lost: Callable[[int, int], None]
    ) -> None:  # fmt: skip
        self._of = {
            pair: LinkWatch(kernel, model, partial(lost, *pair))
            for pair, model in links.items()
            if model.tcp is not None and (model.conditions is not None or model.down)
        }

    def renew(self, pair: RankPair) -> None:
        """Its conditions are others from now on."""
        if pair in self._of:
            self._of[pair].renew()
