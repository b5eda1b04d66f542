"""The laws of Prague: averages keep the mean, groups of one division are apart, and models come together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import cast

import numpy as np
import pytest
import virtual_world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quadratic import Problem, difference

from e2c_dl.errors import InputError
from e2c_dl.strategies import prague
from e2c_dl.strategies.base import Setting, Vector, Worker
from e2c_dl.strategies.localsgd import LocalSGD
from e2c_dl.strategies.prague import ENDED, GROUPS, PERIOD, TRAINS, Generator, Prague, scheduled
from e2c_dl.trace.model import Phase

seeds, ways = st.integers(0, 10_000), st.sampled_from(GROUPS)
ITERATIONS = 20


class Drawing:
    """What a Generator needs of a Worker."""

    def __init__(self, size: int, seed: int) -> None:
        self.rank, self.size, self.random = 0, size, np.random.default_rng(seed)


def generator(size: int, seed: int = 0, *, divides: bool = True, of: int = 3, most: int = 1) -> Generator:
    return Generator(cast(Worker, Drawing(size, seed)), divides=divides, size=of, most=most)


def matrix(groups: list[list[int]], size: int) -> np.ndarray:
    """What one average of each of ``groups`` does to the models of all ranks."""
    whole = np.eye(size)
    for group in groups:
        own = np.eye(size)
        own[np.ix_(group, group)] = 1 / len(group)
        whole = own @ whole
    return whole


@given(size=st.integers(1, 8), seed=seeds, way=ways, group_size=st.integers(2, 4), threshold=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_averages_keep_the_mean_of_models(size: int, seed: int, way: str, group_size: int, threshold: int) -> None:
    problem = Problem(size, seed)
    moved = np.zeros_like(problem.start)

    def gradient(rank: int, iteration: int, w: Vector) -> Vector:
        values = problem.gradient(rank, iteration, w)
        moved[:] += values / size
        return values

    computes = problem.computes(gradient)
    virtual_world.run(
        lambda: Prague(groups=way, group_size=group_size, threshold=threshold, generator=seed % size), size=size,
        seed=seed, iterations=ITERATIONS, computes=computes,
        factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
    )  # fmt: skip
    mean = np.mean([compute.parameters for compute in computes], axis=0)
    assert difference(mean, problem.start - problem.rate * moved) <= size * ITERATIONS * np.finfo(float).eps


@pytest.mark.parametrize(
    "chosen", [{"groups": "static"}, {"threshold": 50}, {"groups": "random", "threshold": 50}], ids=str
)
@given(size=st.integers(1, 6), seed=seeds)
@settings(max_examples=8, deadline=None)
def test_one_group_of_all_is_local_sgd_to_the_bit(chosen: dict[str, Setting], size: int, seed: int) -> None:
    problem = Problem(size, seed)
    together, local = problem.computes(), problem.computes()
    one = {"size": size, "seed": seed, "iterations": ITERATIONS}
    virtual_world.run(lambda: Prague(group_size=6, **chosen), computes=together, **one)  # type: ignore[arg-type]
    virtual_world.run(lambda: LocalSGD(period=1, weights="equal"), computes=local, **one)  # type: ignore[arg-type]
    for here, there in zip(together, local, strict=True):
        assert np.array_equal(here.parameters, there.parameters)


@given(size=st.integers(1, 12), seed=seeds, of=st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_a_division_is_of_all_idle_ranks_and_no_two_of_its_groups_overlap(size: int, seed: int, of: int) -> None:
    generated = generator(size, seed, of=of)
    first = [generated.given(rank, TRAINS) for rank in range(size)]
    groups = dict(first)
    assert sorted(rank for members in groups.values() for rank in members) == list(range(size))
    assert all(rank in members for rank, (_, members) in enumerate(first))
    lengths = [len(members) for members in groups.values()]
    assert max(lengths) <= of
    assert max(lengths) - min(lengths) <= 1
    whole = matrix(list(groups.values()), size)
    assert np.allclose(whole.sum(axis=0), 1)
    assert np.allclose(whole.sum(axis=1), 1)


@given(seed=seeds, divides=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_rank_has_its_groups_in_the_order_in_which_they_were_generated(seed: int, divides: bool) -> None:
    generated, draw = generator(5, seed, divides=divides, most=9), np.random.default_rng(seed)
    last = [-1] * 5
    waiting: dict[int, list[int]] = {}
    for rank in draw.integers(5, size=60).tolist():
        number, members = generated.given(rank, TRAINS)
        assert number > last[rank]
        last[rank] = number
        waiting.setdefault(number, members)
        assert waiting[number] == members
        assert rank in members


class Filtering(Generator):
    """A generator that keeps which groups it generated, and for whom."""

    def _generate(self, rank: int) -> None:
        self.idle = [not buffer for buffer in self._buffers]
        self.groups: list[list[int]] = []
        super()._generate(rank)
        joined = sorted(each for members in self.groups for each in members)
        fit = [each for each, count in enumerate(self._asked) if count >= self._asked[rank] - self._most]
        assert rank in joined
        assert set(joined) <= {rank, *fit}
        assert not any(self._ended[each] for each in joined)
        if self._divides:
            assert joined == [each for each in fit if self.idle[each] and not self._ended[each]]

    def _put(self, members: list[int]) -> None:
        self.groups.append(members)
        super()._put(members)


@given(size=st.integers(1, 8), seed=seeds, divides=st.booleans(), of=st.integers(2, 4), threshold=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_who_is_too_far_behind_or_has_ended_joins_no_new_group(
    size: int, seed: int, divides: bool, of: int, threshold: int
) -> None:
    draw = np.random.default_rng(seed)
    generated = Filtering(cast(Worker, Drawing(size, seed)), divides=divides, size=of, most=threshold)
    speeds = draw.choice([1.0, 10.0], size)
    for rank in draw.choice(size, size=80, p=speeds / speeds.sum()).tolist():
        generated.given(rank, ENDED if generated._asked[rank] > 15 or generated._ended[rank] else TRAINS)


class Averages:
    """Averages of all ranks, as they begin and end: (rank, group, whether it begins); ``members``: by group."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int, bool]] = []
        self.members: dict[int, list[int]] = {}

    async def average(self, worker: Worker, group: Sequence[int], number: int) -> None:
        assert self.members.setdefault(number, list(group)) == list(group)
        self.events.append((worker.rank, number, True))
        await AVERAGE(worker, group, number)
        self.events.append((worker.rank, number, False))

    def running(self, number: int) -> range:
        """From where all of a group are there to where the first leaves."""
        of_it = [(place, begins) for place, (_, own, begins) in enumerate(self.events) if own == number]
        return range(max(place for place, begins in of_it if begins), min(p for p, begins in of_it if not begins))


AVERAGE = prague.average


@given(size=st.integers(2, 8), seed=seeds, way=st.sampled_from(["division", "random"]), threshold=st.integers(0, 9))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_that_overlap_run_one_after_the_other_in_one_order(
    monkeypatch: pytest.MonkeyPatch, size: int, seed: int, way: str, threshold: int
) -> None:
    seen = Averages()
    monkeypatch.setattr(prague, "average", seen.average)
    virtual_world.run(
        lambda: Prague(groups=way, threshold=threshold, generator=seed % size), size=size, seed=seed, iterations=9,
        factors=np.random.default_rng(seed).choice([1.0, 3.0, 20.0], size).tolist(), noise=0.3,
    )  # fmt: skip
    for rank in range(size):
        own = [number for each, number, begins in seen.events if each == rank and begins]
        assert own == sorted(number for number, members in seen.members.items() if rank in members)  # each once
    for one, other in combinations(seen.members, 2):
        if set(seen.members[one]) & set(seen.members[other]):
            first, second = sorted([seen.running(one), seen.running(other)], key=lambda each: each.start)
            assert first.stop < second.start


@pytest.mark.parametrize("way", GROUPS)
def test_the_expected_matrix_has_a_spectral_gap(way: str) -> None:
    size, rounds = 16, 400
    if way == "static":
        mean = matrix([group for turn in range(PERIOD) for group in scheduled(size, 3, turn)], size)
    else:
        generated, draw = generator(size, divides=way == "division", most=99), np.random.default_rng(1)
        groups: dict[int, list[int]] = {}
        for _ in range(rounds):
            groups.update([generated.given(rank, TRAINS) for rank in draw.permutation(size).tolist()])
        mean = np.mean([matrix([members], size) for members in groups.values()], axis=0)
    assert np.allclose(mean.sum(axis=0), 1)
    assert np.allclose(mean.sum(axis=1), 1)
    assert np.sort(np.abs(np.linalg.eigvals(mean)))[-2] < 1 - 0.5 / size


def test_the_static_schedule_divides_all_ranks_and_joins_them() -> None:
    for size in range(1, 40):
        for most in range(2, 6):
            turns = [scheduled(size, most, turn) for turn in range(PERIOD)]
            for groups in turns:
                assert sorted(rank for group in groups for rank in group) == list(range(size))
                assert max(map(len, groups)) <= most
            whole = matrix([group for groups in turns for group in groups], size)
            assert size == 1 or np.sort(np.abs(np.linalg.eigvals(whole)))[-2] < 1 - 1e-6
    assert scheduled(9, 3, 0) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert scheduled(9, 3, 1) == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert scheduled(9, 3, 2) == [[1, 2, 3], [4, 5, 6], [0, 7, 8]]


def test_used_links_of_the_static_schedule_are_few() -> None:
    used = Prague(groups="static").used_links(["edge"] * 16)
    assert len(used) <= 6 * 16
    assert len(Prague().used_links(["edge"] * 16)) == 16 * 15


def test_who_is_behind_is_left_out_and_who_has_ended_is_in_no_new_group() -> None:
    generated = generator(3, most=1)
    for _ in range(6):
        for rank in (0, 1):
            generated.given(rank, TRAINS)
    late = generated.given(2, TRAINS)
    assert late[1] == [0, 1, 2]  # it was in the first division, before it was behind
    assert 2 not in generated.given(0, TRAINS)[1]
    assert generated.given(1, ENDED)[1] in ([], [0, 1])
    while generated.given(1, ENDED)[1]:
        pass
    assert [generated.given(0, TRAINS)[1] for _ in range(3)][-1] == [0]


def test_a_slow_rank_holds_back_few() -> None:
    def end_s(**chosen: Setting) -> float:
        run = virtual_world.run(
            lambda: Prague(**chosen), size=8, iterations=20, factors=[1] * 7 + [10],  # type: ignore[arg-type]
            links=virtual_world.everywhere(8, virtual_world.LinkModel()),
        )  # fmt: skip
        return float(np.median([run.spans(rank, Phase.TRAINING)["end_ns"][0] for rank in range(7)]) / 1e9)

    assert end_s() < 0.3 * end_s(groups="static")
    assert end_s() < 0.5 * end_s(threshold=100)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [({"groups": "all"}, "write one of"), ({"group_size": 1}, "write 2 or more"), ({"threshold": -1}, "write 0")],
)
def test_settings_that_cannot_be_are_refused(chosen: dict[str, Setting], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Prague(**chosen)  # type: ignore[arg-type]


def test_a_generator_that_is_no_rank_is_refused() -> None:
    with pytest.raises(InputError, match="write a rank from 0 to 2"):
        Prague(generator=3).used_links(["edge"] * 3)
