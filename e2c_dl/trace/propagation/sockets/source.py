"""Where a sampler looks at connections, and whom it asks what ranks they lead to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from e2c_dl.trace.propagation.samples import Connection
from e2c_dl.trace.propagation.sockets.own import Told

RankOf = Callable[[tuple[str, int]], tuple[int | None, str | None]]
"""(rank, host) that an (address, port) belongs to, as far as is known."""


class Source(Protocol):
    """Where connections are looked at."""

    def rescan(self) -> list[Connection]:
        """Connections not told before."""

    def read(self, *, ends: bool = False) -> list[Told]:
        """What those tell that are there; ``ends``: without :meth:`small` ones. Fast, and by two threads at once."""

    def small(self, cookies: Collection[int]) -> None:
        """These connections carry next to nothing: they may be left out where iterations end."""
