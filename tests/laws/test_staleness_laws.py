"""Staleness that a trace tells: none under synchronous strategies, and what the parameters themselves show under
asynchronous ones; the same in both worlds."""

from __future__ import annotations

import threading
from pathlib import Path

import live_world
import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem

from e2c_dl import strategies
from e2c_dl.strategies.adpsgd import neighbours
from e2c_dl.strategies.base import Vector
from e2c_dl.trace.model import Phase, Spans, Trace
from e2c_dl.trace.staleness import applied, staleness
from e2c_dl.worlds.live import IterationDone

ITERATIONS = 8
NEVER_STALE = ("prague",)  # what is computed is applied where it was read from, before anything else
ASYNCHRONOUS = [name for name in strategies.names() if strategies.load(name).asynchronous]
cases = given(size=st.integers(1, 5), seed=st.integers(0, 10_000))


def trace_of(name: str, size: int, seed: int, problem: Problem, **chosen: int) -> Trace:
    return virtual_world.run(
        lambda: strategies.load(name)(**chosen), size=size, seed=seed, iterations=ITERATIONS,
        computes=problem.computes(counted), samples=problem.samples,
        factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
    ).trace  # fmt: skip


def counted(rank: int, iteration: int, w: Vector) -> Vector:
    """A gradient by which each update adds its share of 1 to every parameter: they count the updates that they hold."""
    READ.setdefault(rank, []).append(float(w[0]))
    return np.full_like(w, -1.0)


READ: dict[int, list[float]] = {}


def counting(size: int, seed: int) -> Problem:
    problem = Problem(size, seed)
    problem.rate, problem.samples, problem.start = 1.0, [4] * size, np.zeros_like(problem.start)
    READ.clear()
    return problem


@pytest.mark.parametrize("name", strategies.names())
@cases
@settings(max_examples=4, deadline=None)
def test_every_update_of_asynchronous_strategies_is_told_and_none_of_others(name: str, size: int, seed: int) -> None:
    trace = trace_of(name, size, seed, counting(size, seed))
    told = staleness(trace)
    if name in ASYNCHRONOUS and name not in NEVER_STALE:
        assert [each.updates for each in told] == [ITERATIONS // strategies.load(name)().cycle] * size
    else:
        assert told == ()
        assert not any(rank.spans["staleness"].any() for rank in trace.ranks)


@cases
@settings(max_examples=15, deadline=None)
def test_a_servers_staleness_is_what_the_parameters_show(size: int, seed: int) -> None:
    trace = trace_of("asyncparameterserver", size, seed, counting(size, seed), server=seed % size)
    updates = applied(trace)
    place = dict.fromkeys(range(size), 0)
    for before, update in enumerate(updates[np.argsort(updates["posted_ns"], kind="stable")]):
        rank = int(update["src"])
        read = round(READ[rank][place[rank]] * size)  # how many updates its parameters held
        assert update["staleness"] == before - read
        place[rank] += 1
    assert sum(place.values()) == size * ITERATIONS


@cases
@settings(max_examples=15, deadline=None)
def test_averages_are_counted_once_at_each_end(size: int, seed: int) -> None:
    trace = trace_of("adpsgd", size, seed, counting(size, seed))
    sums = np.bincount(applied(trace)["src"], weights=applied(trace)["staleness"], minlength=size)
    active = [rank for rank in range(0, size, 2) if neighbours(rank, size)]
    assert sums[active].tolist() == [ITERATIONS] * len(active)  # each asks once per iteration, and awaits the answer
    asked = sum(int((rank.spans["phase"] == Phase.RECEIVE).sum()) for rank in trace.ranks if rank.rank % 2)
    assert sums[1::2].sum() <= asked


@pytest.mark.parametrize(
    ("name", "expected"), [("asyncparameterserver", [[0, 0], [2, 0]]), ("adpsgd", [[1, 1], [2, 0]])]
)
def test_both_worlds_tell_the_same(tmp_path: Path, name: str, expected: list[list[int]]) -> None:
    done = threading.Event()  # rank 0 has ended its iterations; rank 1 has not ended its first gradient until then
    problem = Problem(2, 1)

    def late(rank: int, iteration: int, w: Vector) -> Vector:
        if rank == 1:
            done.wait(60)
        return problem.gradient(rank, iteration, w)

    def ended(progress: IterationDone) -> None:
        if (progress.rank, progress.iteration) == (0, 1):
            done.set()

    live = live_world.train(
        tmp_path, strategies.load(name), problem.computes(late), problem.samples, 2, on_progress=ended
    )
    virtual = virtual_world.run(
        strategies.load(name), size=2, iterations=2, computes=problem.computes(), samples=problem.samples,
        factors=[1, 1000], links=virtual_world.everywhere(2, virtual_world.LinkModel()),
    )  # fmt: skip
    assert told(live) == told([rank.spans for rank in virtual.trace.ranks]) == expected


def told(spans: list[Spans]) -> list[list[int]]:
    """Staleness by rank of origin, in order."""
    whole = np.concatenate(spans)
    updates = whole[(whole["phase"] == Phase.REDUCE) & (whole["src"] >= 0)]
    return [updates["staleness"][updates["src"] == rank].tolist() for rank in range(len(spans))]
