"""Budgets that ranks on different hosts share: over any delays the account is used up to the last grant, and no rank
waits for one while there is plenty. Time is virtual: delays are exact, and nothing is slept."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import virtual_loop
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.drivers.live.budget.account import Account, CountAccount, TimeAccount
from e2c_dl.drivers.live.budget.shares import AskedShare, GrantedShare, LimitedShare
from e2c_dl.worlds.allotment import SharedCount, SharedTime


@dataclass
class Ranks:
    """Ranks whose iterations take ``durations_s`` each, and whose words to the account, or from it, ``delays_s``."""

    durations_s: list[float]
    delays_s: list[float]
    done: list[int] = field(default_factory=list)
    waited: list[list[tuple[int, float]]] = field(default_factory=list)  # (iteration, when) that had to wait
    ended_s: float = 0.0
    recalled_s: float = float("inf")

    def run(self, account: Account) -> Ranks:
        virtual_loop.run(self._run(account))
        return self

    async def _run(self, account: Account) -> None:
        size, loop = len(self.durations_s), asyncio.get_running_loop()
        self.done, self.waited = [0] * size, [[] for _ in range(size)]
        shares: list[AskedShare] = []

        def answer(answers: Any) -> None:
            for ranks, said in answers:
                if said.get("recall"):
                    self.recalled_s = loop.time()
                for rank in ranks:
                    loop.call_later(self.delays_s[rank], shares[rank].hear, said)

        def heard(rank: int, said: dict[str, Any]) -> None:
            answer(account.hear(rank, said))

        async def train(rank: int) -> None:
            asked_s = loop.time()
            while await shares[rank].begins(self.done[rank]):
                if loop.time() > asked_s:
                    self.waited[rank].append((self.done[rank], asked_s))
                await asyncio.sleep(self.durations_s[rank])
                self.done[rank] += 1
                asked_s = loop.time()
            self.ended_s = max(self.ended_s, asked_s)

        for rank in range(size):
            delay_s = self.delays_s[rank]

            def say(said: dict[str, Any], rank: int = rank, delay_s: float = delay_s) -> None:
                loop.call_later(delay_s, heard, rank, said)

            timed = isinstance(account, TimeAccount)
            shares.append(LimitedShare(say, SharedTime(account.seconds or 0)) if timed else GrantedShare(say))
        if account.seconds is not None:
            loop.call_later(account.seconds, lambda: answer(account.time_is_over()))
        await asyncio.gather(*(train(rank) for rank in range(size)))


def ideal(durations_s: list[float], amount: int, costs: list[int]) -> float:
    """When the last iteration ends, where asking takes no time."""
    account, free_s, done = SharedCount(amount, costs), dict.fromkeys(range(len(costs)), 0.0), [0] * len(costs)
    ended_s = 0.0
    while free_s:
        rank = min(free_s, key=lambda rank: (free_s[rank], rank))
        at_s = free_s.pop(rank)
        if account.begins(rank, done[rank], at_s):
            done[rank] += 1
            free_s[rank] = at_s + durations_s[rank]
            ended_s = max(ended_s, free_s[rank])
    return ended_s


ranks = st.integers(2, 5).flatmap(
    lambda size: st.tuples(
        st.lists(st.floats(0.11, 2.0), min_size=size, max_size=size),
        st.lists(st.floats(0.0, 0.05), min_size=size, max_size=size),
        st.lists(st.integers(1, 40), min_size=size, max_size=size),
    )
)


@given(drawn=ranks, each=st.integers(1, 30), by_samples=st.booleans())
@settings(max_examples=60, deadline=None)
def test_all_is_granted_and_nobody_waits_while_there_is_plenty(
    drawn: tuple[list[float], list[float], list[int]], each: int, by_samples: bool
) -> None:
    durations_s, delays_s, batches = drawn
    costs = batches if by_samples else [1] * len(durations_s)
    amount = sum(costs) * each
    ended = Ranks(durations_s, delays_s).run(CountAccount(amount, costs))
    drawn_on = sum(count * cost for count, cost in zip(ended.done, costs, strict=True))
    assert amount <= drawn_on < amount + max(costs)
    assert min(ended.done) >= 1
    early = [waited for rank in ended.waited for waited in rank if waited[1] < ended.recalled_s]
    assert not early  # a link of 50 ms there and 50 ms back, and no iteration is shorter than that
    # Behind the ideal by what asking for the last iterations takes, and by one that somebody else could have done.
    assert ended.ended_s <= ideal(durations_s, amount, costs) + max(durations_s) + 0.5


@given(duration_s=st.floats(0.001, 0.05))
@settings(max_examples=20, deadline=None)
def test_who_is_faster_than_the_way_comes_to_ask_further_ahead(duration_s: float) -> None:
    ended = Ranks([duration_s, duration_s], [0.05, 0.0]).run(CountAccount(1000, [1, 1]))
    assert sum(ended.done) == 1000
    early = [iteration for iteration, at_s in ended.waited[0] if at_s < ended.recalled_s]
    assert len(early) <= 0.1 / duration_s + 2  # once for each that fits into the way there and back


@given(drawn=ranks, seconds=st.floats(0.05, 20.0))
@settings(max_examples=40, deadline=None)
def test_ranks_in_step_stop_after_the_same_iteration(
    drawn: tuple[list[float], list[float], list[int]], seconds: float
) -> None:
    durations_s, delays_s, _ = drawn
    alike = [max(durations_s)] * len(durations_s)  # in step: nobody is faster than the slowest
    ended = Ranks(alike, delays_s).run(TimeAccount(seconds, len(alike)))
    assert len(set(ended.done)) == 1
    assert not any(ended.waited)
    assert seconds <= ended.ended_s + 1e-9
    assert ended.ended_s <= seconds + 2 * alike[0] + 0.1
