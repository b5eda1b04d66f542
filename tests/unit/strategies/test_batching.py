"""Batch controllers: division of samples, and what wraps a worker."""

from __future__ import annotations

import inspect
import math
from itertools import combinations, pairwise
from operator import truediv
from typing import Any, cast

import pytest
import virtual_world
from hypothesis import given
from hypothesis import strategies as st
from virtual_world import scripted

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.strategies.base import Worker
from e2c_dl.strategies.batching import CONTROLLERS, controlled, divided
from e2c_dl.strategies.seam.wrapped import Wrapped

SPEEDS = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12)


def test_proportional_to_speed() -> None:
    assert divided(84, [4, 4, 2, 2, 1, 1]) == [24, 24, 12, 12, 6, 6]


def test_largest_remainders_are_rounded_up() -> None:
    assert divided(10, [1, 1, 1]) == [4, 3, 3]
    assert divided(10, [2.6, 1.3, 1.1]) == [5, 3, 2]  # quotas 5.2, 2.6, 2.2


def test_nobody_is_left_without_a_sample() -> None:
    assert divided(10, [1000, 1, 1]) == [8, 1, 1]
    assert divided(3, [5, 1, 1e-9]) == [1, 1, 1]


@given(speeds=SPEEDS, more=st.integers(0, 1000))
def test_total_is_kept_and_shares_are_within_one_of_proportional(speeds: list[float], more: int) -> None:
    total = len(speeds) + more
    shares = divided(total, speeds)
    assert sum(shares) == total
    assert min(shares) >= 1
    quotas = [total * speed / math.fsum(speeds) for speed in speeds]
    if min(quotas) >= 1:
        assert all(abs(share - quota) < 1 + 1e-6 for share, quota in zip(shares, quotas, strict=True))
    faster = sorted(range(len(speeds)), key=lambda rank: speeds[rank])
    assert all(shares[slow] <= shares[fast] + 1 for slow, fast in pairwise(faster))


@given(speeds=st.lists(st.floats(0.1, 10), min_size=1, max_size=4), more=st.integers(0, 9))
def test_no_division_is_faster_but_by_what_a_sample_takes_the_slowest(speeds: list[float], more: int) -> None:
    total = len(speeds) + more
    cuts = combinations(range(1, total), len(speeds) - 1)  # of a row of samples: every division, none below 1
    divisions = [[end - begin for begin, end in pairwise((0, *cut, total))] for cut in cuts]
    best = min(max(map(truediv, shares, speeds)) for shares in divisions)
    took, speed = max(zip(map(truediv, divided(total, speeds), speeds), speeds, strict=True))
    assert took <= (best + 1 / speed) * (1 + 1e-9)


@pytest.mark.parametrize("speeds", [[1.0, 0.0], [1.0, -1.0], [1.0, math.inf], [1.0, math.nan], [1.0] * 11])
def test_what_cannot_be_divided_is_refused(speeds: list[float]) -> None:
    with pytest.raises(TrainingError, match="10 samples cannot be divided .* at least one sample"):
        divided(10, speeds)


def test_iterations_that_are_left_out_tell_no_speed() -> None:
    batches: dict[int, list[int]] = {0: [], 1: []}

    async def script(worker: Worker) -> None:
        async for iteration in worker.iterations():
            batches[worker.rank].append(worker.samples)
            if iteration not in (3, 4):  # the first of other batches
                async for _ in worker.gradient():
                    pass

    virtual_world.run(
        scripted(script), size=2, iterations=9, samples=8, factors=[1, 3], links={}, batching="dynamic",
        of=virtual_world.profile(fixed_s=0.0),
    )  # fmt: skip
    assert batches == {0: [8] * 3 + [12] * 6, 1: [8] * 3 + [4] * 6}


def test_unknown_controller_is_refused() -> None:
    with pytest.raises(InputError, match="batching 'dynamc' does not exist; write dynamic"):
        controlled(cast(Worker, object()), "dynamc")
    assert set(CONTROLLERS) == {"dynamic", "fixed", "proportional"}


def test_wrapped_hands_on_every_verb_as_it_is() -> None:
    def signatures(of: type[Any]) -> dict[str, object]:
        members = {name: value for name, value in vars(of).items() if not name.startswith("_")}
        return {
            name: "property" if isinstance(value, property) else inspect.signature(value).parameters.keys()
            for name, value in members.items()
        }

    assert signatures(Wrapped) == signatures(Worker)
