"""Strategies in which one rank serves all others: the setting that says which, and the links to it.

::

    rank 0 --push--> server <--push-- rank 2        every rank, the server too, trains
           <--pull--        --pull-->
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Setting, Strategy, Worker, any_pair


class Served(Strategy):
    """``server`` is the rank that serves; a subclass says what the server does, and what the others do."""

    rank_settings: Sequence[str] = ("server",)

    def __init__(self, *, server: int = 0) -> None:
        """Raises: InputError, if ``server`` is below 0."""
        if server < 0:
            raise InputError(f"strategy {self.name!r}: server is {server}; write a rank, from 0 on")
        self._server = server

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        """Every pair: any rank may serve."""
        return any_pair(size)

    def used_links(self, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
        self._check(len(layers))
        return [pair for pair in any_pair(len(layers)) if self._server in pair]  # workers never speak to each other

    @classmethod
    def tried(cls, layers: Sequence[str], iterations: int) -> Sequence[Mapping[str, Setting]]:
        """The first rank of each layer as the server."""
        return [{"server": layers.index(layer)} for layer in dict.fromkeys(layers)]

    def model_weights(self, samples: Sequence[int]) -> Sequence[float]:
        """The server's copy: others hold what they pulled last, rounded where it travels compressed."""
        return [float(rank == self._server) for rank in range(len(samples))]

    async def run(self, worker: Worker) -> None:
        self._check(worker.size)
        await (self.serve(worker) if worker.rank == self._server else self.follow(worker))

    @abstractmethod
    async def serve(self, worker: Worker) -> None:
        """Train as the server."""

    @abstractmethod
    async def follow(self, worker: Worker) -> None:
        """Train as any other rank."""

    def _check(self, size: int) -> None:
        if self._server >= size:  # only now is it known how many ranks there are
            raise InputError(f"strategy {self.name!r}: server is {self._server}; write a rank from 0 to {size - 1}")
