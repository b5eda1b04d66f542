"""The fastest links: connected, with the gap that was asked, and none slower than need be; or all, and it is said. In a
run, all ranks use the same, those that fit the links' rates."""

from __future__ import annotations

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.strategies import fastlinks
from e2c_dl.strategies.base import Message, Pending, Worker
from e2c_dl.strategies.collectives.fastest import fastest, mixing, slower_ways, spectral_gap
from e2c_dl.strategies.collectives.rates import measured_rates
from e2c_dl.strategies.fastlinks import FastLinks
from e2c_dl.strategies.seam.wrapped import Wrapped


@st.composite
def topologies(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], float]]:
    """Some links among some ranks, connected or not."""
    size = draw(st.integers(1, 9))
    pairs = [(one, other) for one in range(size) for other in range(one + 1, size)]
    rates = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, 10.0]), min_size=len(pairs), max_size=len(pairs)))
    return size, {pair: rate for pair, rate in zip(pairs, rates, strict=True) if rate}


def connected(size: int, links: tuple[tuple[int, int], ...]) -> bool:
    reached, found = {0}, True
    while found:
        found = {other for link in links for other in link if set(link) & reached} - reached
        reached |= found
    return len(reached) == size


@given(topology=topologies(), gap=st.floats(0.01, 1.0))
@settings(max_examples=150, deadline=None)
def test_connected_with_the_gap_or_all_links(topology: tuple[int, dict[tuple[int, int], float]], gap: float) -> None:
    size, rates = topology
    chosen = fastest(size, rates, gap)
    assert chosen.gap == spectral_gap(size, chosen.links)
    assert chosen.enough == (chosen.gap >= gap)
    if chosen.enough:
        assert connected(size, chosen.links)
    else:
        assert chosen.links == tuple(sorted(rates))


@given(topology=topologies())
@settings(max_examples=100, deadline=None)
def test_no_connected_graph_has_a_faster_slowest_link(topology: tuple[int, dict[tuple[int, int], float]]) -> None:
    size, rates = topology
    chosen = fastest(size, rates, 1e-9)
    if chosen.enough and chosen.links:
        slowest = min(rates[link] for link in chosen.links)
        assert not connected(size, tuple(link for link, rate in rates.items() if rate > slowest))


@given(topology=topologies())
@settings(max_examples=50, deadline=None)
def test_averages_preserve_the_mean(topology: tuple[int, dict[tuple[int, int], float]]) -> None:
    size, rates = topology
    matrix = mixing(size, rates)
    assert np.allclose(matrix.sum(axis=0), 1) and np.allclose(matrix.sum(axis=1), 1)
    assert (matrix >= -1e-12).all() and np.array_equal(matrix, matrix.T)


def test_a_complete_graph_of_equal_links_has_any_gap() -> None:
    rates = {(one, other): 1.0 for one in range(5) for other in range(one + 1, 5)}
    assert fastest(5, rates, 0.999).enough


@given(size=st.integers(3, 6), seed=st.integers(0, 10_000), gap=st.sampled_from([0.05, 0.3, 0.9]))
@settings(max_examples=10, deadline=None)
def test_in_a_run_all_use_the_same_links_fast_ones_with_the_gap_that_was_asked(
    size: int, seed: int, gap: float
) -> None:
    draw = np.random.default_rng(seed)
    ranks = range(size)
    used: dict[int, set[tuple[int, int]]] = {}
    told: dict[int, list[list[list[float]]]] = {}

    async def telling(worker: Worker, iteration: int) -> list[list[float]]:
        rows = await measured_rates(worker, iteration)
        told.setdefault(iteration, []).append(rows)
        return rows

    class Watching(Wrapped):
        def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
            if message.kind == "model":
                used.setdefault(message.iteration, set()).add((self.rank, dst))
            return super().send(dst, message, priority)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fastlinks, "measured_rates", telling)
        virtual_world.run(
            lambda: FastLinks(gap=gap, period=3), size=size, seed=seed, iterations=6, wrapping=Watching,
            of=virtual_world.profile((200_000,)),
            links={
                (src, dst): virtual_world.LinkModel(rate_bps=float(draw.choice([20e6, 100e6, 500e6])))
                for src in ranks for dst in ranks if src != dst
            },
        )  # fmt: skip
    assert len(used) == 6
    for iteration in (0, 3):
        assert used[iteration] == {(src, dst) for src in ranks for dst in ranks if src != dst}
        rows = told[iteration][0]
        assert told[iteration] == [rows] * size
        assert np.isfinite(rows).all()  # of so large models every link has a rate
        chosen = fastest(size, slower_ways(rows), gap)
        assert chosen.gap >= gap
        for after in (iteration + 1, iteration + 2):
            assert used[after] == set(chosen.directed)


def test_the_slower_way_counts_and_what_has_no_rate_is_left_out() -> None:
    assert slower_ways([[0, 5, 1], [3, 0, 0], [4, 9, 0]]) == {(0, 1): 3, (0, 2): 1}
