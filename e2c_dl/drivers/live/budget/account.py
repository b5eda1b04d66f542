"""Accounts of shared budgets, at rank 0: what ranks say goes in, what is answered, and to whom, comes out.

::

    CountAccount     ask -> grant  while more is left than an iteration of every rank takes
                     recall -> back, from all; then: need -> grant, first come first served
                     over, when nothing is left and everybody has given back
    TimeAccount      begun k -> all may go as far as k + ahead;  when time is over: that is the last

Pure: no socket, no clock; who holds an account says when its time is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

from e2c_dl.scenario.model import Training
from e2c_dl.worlds.allotment import SharedCount, SharedTime, allotted

Answers = list[tuple[Sequence[int], dict[str, Any]]]
"""(to which ranks, what)."""


class Account(ABC):
    """A budget that all ranks share. ``seconds``: after so many of training, :meth:`time_is_over`; None: never."""

    seconds: float | None = None

    @abstractmethod
    def hear(self, rank: int, said: dict[str, Any]) -> Answers:
        """The answers to what ``rank`` has said. Raises: KeyError, if it says nothing of this protocol."""

    def time_is_over(self) -> Answers:
        """What is to be told then."""
        return []


class CountAccount(Account):
    """``amount``, on which an iteration of rank r draws ``costs[r]``; the first of each is granted from the begin."""

    def __init__(self, amount: float, costs: Sequence[int]) -> None:
        self._amount, self._costs = amount, costs
        self._left = amount - sum(costs)
        self._back: set[int] | None = None  # who has given back; None: nobody was asked to
        self._waiting: deque[int] = deque()

    def hear(self, rank: int, said: dict[str, Any]) -> Answers:
        if "back" in said:
            return self._given_back(rank, int(said["back"]), bool(said["waits"]))
        wanted = int(said["ask"])
        if self._back is None and self._left - wanted * self._costs[rank] < sum(self._costs):
            self._back = set()
            return [(range(len(self._costs)), {"recall": True})]  # this one, too, says whether it waits
        if self._back is None:
            return [self._grant(rank, wanted)]
        if rank in self._back:  # else it was said before it had heard of the recall
            self._waiting.append(rank)
        return self._served()

    def _given_back(self, rank: int, held: int, waits: bool) -> Answers:
        self._left += held * self._costs[rank]
        if self._back is not None:
            self._back.add(rank)
        if waits:
            self._waiting.append(rank)
        return self._served()

    def _served(self) -> Answers:
        answers: Answers = []
        while self._waiting and self._left > 0:
            answers.append(self._grant(self._waiting.popleft(), 1))
        if self._left <= 0 and self._back is not None and len(self._back) == len(self._costs):
            answers.append((range(len(self._costs)), {"over": True, "used": 1.0}))
        return answers

    def _grant(self, rank: int, count: int) -> tuple[Sequence[int], dict[str, Any]]:
        self._left -= count * self._costs[rank]
        return [rank], {"grant": count, "used": min(1.0, 1 - self._left / self._amount)}


class TimeAccount(Account):
    """``seconds`` for ranks in step: they are told how far they may go, always ahead of the first of them."""

    def __init__(self, seconds: float, size: int) -> None:
        self.seconds = seconds
        self._size = size
        self._ahead = 1
        self._limit = 1
        self._over = False

    def hear(self, rank: int, said: dict[str, Any]) -> Answers:
        begun = int(said["begun"])
        if said["waited"]:  # iterations are shorter than the way of a message there and back
            self._ahead += 1
        if self._over or begun + self._ahead <= self._limit:
            return []
        self._limit = begun + self._ahead
        return [self._told()]

    def time_is_over(self) -> Answers:
        self._over = True
        return [self._told()]

    def _told(self) -> tuple[Sequence[int], dict[str, Any]]:
        return range(self._size), {"limit": self._limit, "over": self._over}


def account_of(training: Training) -> Account | None:
    """The account that the budget of ``training`` needs where ranks are apart; None: each rank can tell by itself."""
    own, budget = allotted(training), training.ends
    if isinstance(own, SharedCount):
        return CountAccount(budget.amount, budget.costs(training.batch_sizes))
    return TimeAccount(budget.amount, len(training.batch_sizes)) if isinstance(own, SharedTime) else None
