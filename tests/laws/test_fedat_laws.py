"""FedAT: one tier is FedAvg, tiers follow response times, slow ones weigh more, the lost are not awaited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, difference

from e2c_dl.errors import InputError
from e2c_dl.strategies import fedat
from e2c_dl.strategies.base import Vector
from e2c_dl.strategies.compression import compressed
from e2c_dl.strategies.fedat import FedAT, Report
from e2c_dl.strategies.tiers import Tiers, weights_of
from e2c_dl.trace.model import Phase
from e2c_dl.trace.staleness import applied
from e2c_dl.worlds.allotment import SharedCount
from e2c_dl.worlds.virtual import LinkModel

cases = given(size=st.integers(1, 6), seed=st.integers(0, 10_000))


def fedavg(problem: Problem, iterations: int, period: int) -> Vector:
    """Where FedAvg ends: all clients from one model, ``period`` steps each, their mean by samples in client order."""
    w = problem.start.copy()
    for first in range(0, iterations, period):
        steps = range(first, min(first + period, iterations))
        models = [w.copy() for _ in problem.samples]
        for rank, model in enumerate(models):
            for iteration in steps:
                model -= problem.rate * problem.gradient(rank, iteration, model)
        w = np.zeros_like(w)
        for model, samples in zip(models, problem.samples, strict=True):
            w += model * (samples / sum(problem.samples))
    return w


@cases
@settings(max_examples=20, deadline=None)
def test_one_tier_without_proximal_term_is_fedavg_to_the_bit(size: int, seed: int) -> None:
    problem, period, iterations = Problem(size, seed, dtype=np.float32), 1 + seed % 4, 7
    computes, server = problem.computes(), seed % size
    virtual_world.run(
        lambda: FedAT(tiers=1, period=period, proximal=0.0, server=server), size=size, seed=seed,
        iterations=iterations, computes=computes, samples=problem.samples,
        factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
        links=virtual_world.random_links(size, seed),
    )  # fmt: skip
    assert computes[server].parameters.tobytes() == fedavg(problem, iterations, period).tobytes()


@given(seed=st.integers(0, 10_000), proximal=st.floats(0.0, 2.0))
@settings(max_examples=10, deadline=None)
def test_a_client_steps_by_its_gradient_and_the_way_back_to_the_servers_model(seed: int, proximal: float) -> None:
    problem, period, iterations = Problem(1, seed), 3, 8
    computes = problem.computes()
    virtual_world.run(
        lambda: FedAT(period=period, proximal=proximal), size=1, iterations=iterations, computes=computes,
        samples=problem.samples,
    )  # fmt: skip
    w = given_w = problem.start.copy()
    for iteration in range(iterations):
        given_w = w if iteration % period == 0 else given_w
        w = w - problem.rate * (problem.gradient(0, iteration, w) + proximal * (w - given_w))
    assert difference(computes[0].parameters, w) < 1e-12


@given(rounds=st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_weights_sum_to_one_and_slow_tiers_get_fast_tiers_counters(rounds: list[int]) -> None:
    weights = weights_of(rounds)
    assert sum(weights) == pytest.approx(1.0, abs=1e-12)
    if min(rounds):
        assert weights == [each / sum(rounds) for each in rounds[::-1]]
    else:
        assert len(set(weights)) == 1


def test_weights_of_three_tiers() -> None:
    assert weights_of([7, 2, 1]) == [0.1, 0.2, 0.7]
    assert weights_of([7, 2, 0]) == [1 / 3] * 3


def tiers(size: int, count: int, factor: float = 1.5) -> Tiers:
    return Tiers(range(size), np.zeros(1), count=count, factor=factor)


def members(made: Tiers, size: int) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for client in range(size):
        found.setdefault(id(made.of(client)), []).append(client)
    return sorted(found.values())


def test_tiers_are_of_equal_size_by_response_time() -> None:
    made = tiers(6, 3)
    assert members(made, 6) == [[0, 1, 2, 3, 4, 5]]
    made.place(dict(enumerate([4.0, 0.2, 0.3, 1.1, 0.9, 0.3])))
    assert members(made, 6) == [[0, 3], [1, 2], [4, 5]]
    fast, slow = made.of(1), made.of(0)
    fast.rounds, made.of(4).rounds, slow.rounds = 7, 2, 1
    assert made.mixture()[1] == [0.1, 0.2, 0.7]


def test_tiers_are_made_again_when_a_response_time_departs() -> None:
    made = tiers(4, 2)
    made.place(dict(enumerate([1.0, 1.1, 2.0, 2.2])))
    assert members(made, 4) == [[0, 1], [2, 3]]
    made.place({0: 1.4, 1: 0.9})  # as before, but for noise
    assert members(made, 4) == [[0, 1], [2, 3]]
    for _ in range(2):  # a median of three: one round is luck
        assert members(made, 4) == [[0, 1], [2, 3]]
        made.place({0: 9.0, 1: 1.1})
    assert members(made, 4) == [[0, 2, 3], [1]]  # the other one moves when its own round ends
    made.place({2: 2.0, 3: 2.2})
    assert members(made, 4) == [[0, 3], [1, 2]]


def test_tiers_stay_where_they_are_never_made_again() -> None:
    made = tiers(4, 2, factor=0.0)
    made.place(dict(enumerate([1.0, 1.1, 2.0, 2.2])))
    for _ in range(5):
        made.place(dict(enumerate([9.0, 9.0, 2.0, 2.2])))
    assert members(made, 4) == [[0, 1], [2, 3]]


def test_a_tier_that_has_lost_its_last_client_counts_no_more_and_one_that_has_ended_does() -> None:
    ended, lost = tiers(3, 3), tiers(3, 3)
    for made in (ended, lost):
        made.place({0: 1.0, 1: 2.0, 2: 3.0})
    ended.leave(2)
    lost.lose(2)
    lost.lose(2)
    assert (len(ended.mixture()[0]), len(lost.mixture()[0])) == (3, 2)
    lost.lose(0)
    lost.lose(1)
    assert len(lost.mixture()[0]) == 1


@given(
    size=st.integers(1, 8), count=st.integers(1, 5), factor=st.sampled_from([0.0, 1.0, 1.5]),
    events=st.lists(st.tuples(st.sampled_from(["place", "leave", "lose"]), st.integers(0, 7), st.floats(1e-3, 9.0))),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_client_that_trains_is_in_one_tier(
    size: int, count: int, factor: float, events: list[tuple[str, int, float]]
) -> None:
    made, there = tiers(size, count, factor), set(range(size))
    made.place({client: 1.0 + client for client in there})
    assert len(made.mixture()[0]) == min(count, size)
    for event, client, seconds in events:
        if event == "place":
            made.place({client: seconds} if client < size else {})
        else:
            there.discard(client)
            (made.leave if event == "leave" else made.lose)(client)
        for each in there:
            assert each in made.of(each).members
            assert made.of(each).model is not None
        groups = {id(made.of(each)): made.of(each) for each in there}
        assert sorted(each for tier in groups.values() for each in tier.members) == sorted(there)
        assert (made.complete(there) is None) == (not there)
        assert sum(made.mixture()[1]) == pytest.approx(1.0)


class Watched(Tiers):
    """Tiers, the last made of which are seen."""

    made: list[Watched] = []  # noqa: RUF012

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        Watched.made.append(self)
        self.seen: list[list[tuple[int, ...]]] = []
        self.weights: list[list[float]] = []

    def place(self, seconds: object) -> None:
        super().place(seconds)  # type: ignore[arg-type]
        self.seen.append([tuple(tier.members) for tier in self._all])
        self.weights.append(self.mixture()[1])


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    Watched.made.clear()
    monkeypatch.setattr(fedat, "Tiers", Watched)
    return Watched


def test_slow_tiers_report_less_often_and_weigh_more(watched: type[Watched]) -> None:
    virtual_world.run(
        lambda: FedAT(tiers=2, period=1), size=4, factors=[1, 8, 1, 8], iterations=20,
        links=virtual_world.everywhere(4, LinkModel()),
    )  # fmt: skip
    (made,) = watched.made
    assert made.seen[1:10] == [[(0, 2), (1, 3)]] * 9
    assert made.weights[0] == [0.5, 0.5]
    assert all(slow > 0.8 for _, slow in made.weights[10:18])
    assert made.weights[-1] == [0.5, 0.5]  # all have 20 rounds in the end, one of them of both


def test_a_slow_link_makes_a_slow_client(watched: type[Watched]) -> None:
    links = virtual_world.everywhere(4, LinkModel(rate_bps=1e8, delay_s=1e-3))
    links[1, 0] = LinkModel(rate_bps=1e6, delay_s=1e-3)
    virtual_world.run(
        lambda: FedAT(tiers=2, period=1), size=4, iterations=20, links=links, of=virtual_world.profile((200_000,)),
    )  # fmt: skip
    (made,) = watched.made
    assert 1 in made.seen[30][1]
    assert 1 in made.seen[-12][1]


@cases
@settings(max_examples=10, deadline=None)
def test_staleness_is_what_others_gave_meanwhile(size: int, seed: int) -> None:
    run = virtual_world.run(
        lambda: FedAT(tiers=size, period=1, retier=0.0), size=size, seed=seed, iterations=9,
        factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
    )  # fmt: skip
    updates = applied(run.trace)
    updates = updates[np.argsort(updates["posted_ns"], kind="stable")]
    assert len(updates) == 9 * size
    assert updates["src"][:size].tolist() == list(range(size))  # the first round is of all, as one
    assert not updates["staleness"][:size].any()
    last = dict.fromkeys(range(size), size - 1)
    for place in range(size, len(updates)):
        src = int(updates["src"][place])
        assert updates["staleness"][place] == place - 1 - last[src]
        last[src] = place


@given(size=st.integers(3, 6), seed=st.integers(0, 10_000), at_s=st.floats(0.0, 0.05), count=st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_a_lost_client_is_not_waited_for(size: int, seed: int, at_s: float, count: int) -> None:
    problem, victim = Problem(size, seed), 1 + seed % (size - 1)
    hosts = list(virtual_world.hosts(size, of=virtual_world.profile_of(problem.computes()[0])))
    hosts[victim] = replace(hosts[victim], killed_at_s=at_s)
    run = virtual_world.run(
        lambda: FedAT(tiers=count, period=2), size=size, seed=seed, iterations=30, computes=problem.computes(),
        on_hosts=hosts,
    )  # fmt: skip
    for rank in range(size):
        if rank != victim:
            assert len(run.spans(rank, Phase.ITERATION)) == 30


def test_reports_travel_as_they_are() -> None:
    report = Report(samples=70, seconds=0.25, ends=True)
    assert Report.of(report.numbers()) == report


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tiers": 0}, "tiers is 0; write 1 or more"),
        ({"period": 0}, "period is 0; write 1 or more"),
        ({"proximal": -0.1}, "proximal is -0.1; write 0 or more"),
        ({"proximal": float("nan")}, "proximal is nan; write 0 or more"),
        ({"retier": 0.5}, "retier is 0.5; write 1 or more, or 0: never"),
        ({"server": -1}, "server is -1; write a rank"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(InputError, match=f"strategy 'fedat': {told}"):
        FedAT(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "seed"), [(4, 10), (3, 39), (3, 45)])
def test_who_trains_on_is_answered_when_the_servers_own_client_ends(size: int, seed: int) -> None:
    free = replace(virtual_world.profile((600, 400)), copy_s_per_byte=0.0)  # its last copy takes less than encoding
    run = virtual_world.run(
        lambda: FedAT(tiers=2, period=2 + seed % 2, server=seed % size), size=size, seed=seed,
        allotment=SharedCount(8 * size, [1] * size), of=free,
        factors=np.random.default_rng(seed).uniform(1, 5, size).tolist(),
        wrapping=lambda worker: compressed(worker, "polyline", {}),
    )  # fmt: skip
    assert sum(len(run.spans(rank, Phase.ITERATION)) for rank in range(size)) == 8 * size


@given(size=st.integers(2, 6), seed=st.integers(0, 10_000), count=st.integers(2, 4), period=st.integers(1, 2))
@settings(max_examples=25, deadline=None)
def test_who_joins_a_tier_whose_updates_are_on_their_way_waits_for_the_next(
    size: int, seed: int, count: int, period: int
) -> None:
    large = virtual_world.profile((50_000,))  # reports come long before updates
    run = virtual_world.run(
        lambda: FedAT(tiers=count, period=period, retier=1.0, server=seed % size), size=size, seed=seed,
        allotment=SharedCount(20 * size, [1] * size), noise=0.5, of=large,
        factors=np.random.default_rng(seed).uniform(1, 3, size).tolist(),
    )  # fmt: skip
    assert sum(len(run.spans(rank, Phase.ITERATION)) for rank in range(size)) == 20 * size
    for rank in range(size):
        came, awaited = run.spans(rank, Phase.RECEIVE), run.spans(rank, Phase.AWAIT_MESSAGE)
        assert sorted(awaited[["src", "seq"]].tolist()) == sorted(came[["src", "seq"]].tolist())
