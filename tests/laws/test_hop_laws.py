"""The laws of Hop: its average against plain NumPy, how far ranks get ahead of each other, what backup workers,
staleness and jumps do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, difference

from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Pending, Setting, Vector, Worker
from e2c_dl.strategies.collectives.graph import GRAPHS, edges, weights
from e2c_dl.strategies.hop import Hop
from e2c_dl.strategies.seam.wrapped import Wrapped
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel

seeds, graphs = st.integers(0, 10_000), st.sampled_from(sorted(GRAPHS))
FAST = LinkModel(rate_bps=1e9, delay_s=1e-4)


def matrix(graph: str, size: int) -> np.ndarray:
    links = edges(graph, size)
    whole = np.zeros((size, size))
    for rank in range(size):
        for src, weight in weights(links, rank).items():
            whole[rank, src] = weight
    return whole


def gaps(run: virtual_world.Run) -> np.ndarray:
    """[i, j]: how many iterations i was ever ahead of j, where all had as many."""
    size = len(run.hosts)
    begins = [np.sort(run.spans(rank, Phase.ITERATION)["start_ns"]) for rank in range(size)]
    ahead = np.zeros((size, size), dtype=int)
    for i in range(size):
        for j in set(range(size)) - {
            i
        }:  # as each of i's begins, where j is: strictly before, so that what is at once counts
            at = np.searchsorted(begins[j], begins[i], side="left") - 1
            ahead[i, j] = int((np.arange(len(begins[i])) - np.maximum(at, 0)).max())
    return ahead


def paths(graph: str, size: int) -> np.ndarray:
    """[i, j]: links on the shortest path from i to j."""
    lengths = np.full((size, size), size * size)
    np.fill_diagonal(lengths, 0)
    for src, dst in edges(graph, size):
        lengths[src, dst] = 1
    for via in range(size):
        lengths = np.minimum(lengths, lengths[:, [via]] + lengths[[via], :])
    return lengths


def run(size: int, seed: int, iterations: int = 12, **chosen: Setting) -> virtual_world.Run:
    return virtual_world.run(
        lambda: Hop(**chosen), size=size, seed=seed, iterations=iterations,  # type: ignore[arg-type]
        factors=np.random.default_rng(seed).choice([1.0, 2.0, 30.0], size).tolist(), noise=0.2,
    )  # fmt: skip


@pytest.mark.parametrize("graph", sorted(GRAPHS))
def test_weights_are_doubly_stochastic_and_bring_models_together(graph: str) -> None:
    for size in range(1, 18):
        whole = matrix(graph, size)
        assert whole.min() >= 0
        assert np.allclose(whole.sum(axis=0), 1, atol=1e-15 * size)
        assert np.allclose(whole.sum(axis=1), 1, atol=1e-15 * size)
        moduli = np.sort(np.abs(np.linalg.eigvals(whole)))
        assert size == 1 or moduli[-2] < 1 - 1e-3


def test_the_papers_graphs() -> None:
    assert edges("ring", 4) == [(0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2)]
    assert {dst for src, dst in edges("ring-based", 16) if src == 3} == {2, 4, 11}
    assert {dst for src, dst in edges("double-ring", 16) if src == 3} == {2, 4, 7, 11}
    assert len(edges("directed-ring", 16)) == 16


@given(size=st.integers(1, 7), seed=seeds, graph=graphs, tokens=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_without_backup_workers_it_averages_and_steps(size: int, seed: int, graph: str, tokens: int) -> None:
    problem = Problem(size, seed)
    computes = problem.computes()
    virtual_world.run(
        lambda: Hop(graph=graph, backup_workers=0, max_ig=tokens), size=size, seed=seed, iterations=10,
        computes=computes, samples=problem.samples, factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
    )  # fmt: skip
    whole, models = matrix(graph, size), np.tile(problem.start, (size, 1))
    share = size * np.array(problem.samples) / sum(problem.samples)
    for iteration in range(10):
        steps = [problem.gradient(rank, iteration, models[rank]) * share[rank] for rank in range(size)]
        mean = models.mean(axis=0)
        models = whole @ models
        assert difference(models.mean(axis=0), mean) <= size * np.finfo(float).eps * 4
        models = models - problem.rate * np.array(steps)
    for rank, compute in enumerate(computes):
        assert difference(compute.parameters, models[rank]) <= 1e-12


@given(
    size=st.integers(2, 7), seed=seeds, graph=graphs, max_ig=st.integers(1, 4), backup=st.integers(0, 2),
    staleness=st.integers(0, 2), jump=st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_nobody_is_further_ahead_than_tokens_and_models_allow(
    size: int, seed: int, graph: str, max_ig: int, backup: int, staleness: int, jump: int
) -> None:
    ended = run(size, seed, graph=graph, max_ig=max_ig, backup_workers=backup, staleness=staleness, max_jump=jump)
    ahead, along = gaps(ended), paths(graph, size)
    assert np.all(ahead <= max_ig * along)  # of whom it sends to, by tokens
    if not backup:
        assert np.all(ahead <= (staleness + 1) * along.T)  # of whom it hears from, by their models
    assert max(int(ended.spans(rank)["staleness"].max()) for rank in range(size)) <= staleness


@given(size=st.integers(2, 7), seed=seeds, graph=graphs, staleness=st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_without_tokens_paths_bound_the_gap(size: int, seed: int, graph: str, staleness: int) -> None:
    ended = run(size, seed, graph=graph, max_ig=0, backup_workers=0, staleness=staleness)
    assert np.all(gaps(ended) <= (staleness + 1) * paths(graph, size).T)


class Seeing(Wrapped):
    """A worker that keeps what came of others' models, and what each average of them is."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.came: dict[int, dict[int, Vector]] = {}  # source -> tag -> model
        self.averages: list[tuple[Vector, dict[int, int], Vector]] = []  # own model, newest tags by then, average
        self.left: dict[int, tuple[Vector, Vector | None]] = {}  # tag -> model sent; that after the iteration before
        self._own: Vector | None = None
        self._stepped: Vector | None = None

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        if message.kind == "model" and message.step < 0:
            self._own = message.vector.copy()
            self.left[message.iteration] = self._own, self._stepped
        return super().send(dst, message, priority)

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        message = await super().receive_any(kind, sources=sources, timeout_s=timeout_s)
        self._see([message] if message else [])
        return message

    def arrived(self, kind: str) -> Sequence[Message]:
        messages = super().arrived(kind)
        self._see(messages)
        return messages

    async def apply(self, into: Vector, update: Vector, *, src: int, staleness: int) -> None:
        assert self._own is not None
        newest = {each: max(models, default=-1) for each, models in self.came.items()}
        self.averages.append((self._own, newest, into.copy()))
        await super().apply(into, update, src=src, staleness=staleness)
        self._stepped = into.copy()

    def _see(self, messages: Sequence[Message]) -> None:
        for each in messages:
            if each.kind == "model" and each.step < 0:
                self.came.setdefault(each.src, {})[each.iteration] = each.vector.copy()


@given(size=st.integers(2, 7), seed=seeds, graph=graphs, staleness=st.integers(0, 3), backup=st.integers(0, 1))
@settings(max_examples=15, deadline=None)
def test_an_average_weighs_the_newest_models_by_freshness(
    size: int, seed: int, graph: str, staleness: int, backup: int
) -> None:
    problem, seen = Problem(size, seed), []

    def seeing(worker: Worker) -> Worker:
        seen.append(Seeing(worker))
        return seen[-1]

    virtual_world.run(
        lambda: Hop(graph=graph, staleness=staleness, backup_workers=backup), size=size, seed=seed, iterations=10,
        computes=problem.computes(), wrapping=seeing, noise=0.2,
        factors=np.random.default_rng(seed).choice([1.0, 2.0, 5.0], size).tolist(),
    )  # fmt: skip
    for worker in seen:
        own = weights(edges(graph, size), worker.rank)
        for k, (model, newest, average) in enumerate(worker.averages):
            least = k - staleness
            taken = {src: min(tag, k) if not staleness else tag for src, tag in newest.items() if tag >= least}
            assert len(taken) >= len(own) - 1 - backup
            shares = {src: own[src] * (tag - least + 1) for src, tag in taken.items()}
            shares[worker.rank] = own[worker.rank] * (staleness + 1)
            models = {src: worker.came[src][tag] for src, tag in taken.items()} | {worker.rank: model}
            assert difference(average, mean(models, shares)) <= 1e-12


@given(size=st.integers(3, 6), seed=seeds, graph=st.sampled_from(["ring", "ring-based"]), jump=st.integers(1, 9))
@settings(max_examples=15, deadline=None)
def test_who_jumps_first_averages_with_models_of_the_last_iteration_that_it_skips(
    size: int, seed: int, graph: str, jump: int
) -> None:
    problem, seen = Problem(size, seed), []

    def seeing(worker: Worker) -> Worker:
        seen.append(Seeing(worker))
        return seen[-1]

    virtual_world.run(
        lambda: Hop(graph=graph, max_ig=5, max_jump=jump), size=size, seed=seed, iterations=25,
        computes=problem.computes(), wrapping=seeing, factors=[1.0] * (size - 1) + [6.0],
        links=virtual_world.everywhere(size, FAST),
    )  # fmt: skip
    slow = seen[-1]
    jumps = [(last, tag) for last, tag in pairwise(sorted(slow.left)) if tag > last + 1]
    assert jumps
    own = weights(edges(graph, size), slow.rank)
    for last, tag in jumps:
        assert tag - last - 1 <= jump
        refreshed, stepped = slow.left[tag]
        models = {src: came[tag - 1] for src, came in slow.came.items() if tag - 1 in came}
        assert any(
            difference(refreshed, mean({slow.rank: stepped, **{src: models[src] for src in chosen}}, own)) <= 1e-12
            for count in range(len(own) - 2, len(models) + 1)
            for chosen in combinations(models, count)
        )


def mean(models: Mapping[int, Vector], shares: Mapping[int, float]) -> Vector:
    """By ``shares``, of those that there are."""
    total: Vector = sum(shares[rank] * model for rank, model in models.items())  # type: ignore[assignment]
    return total / sum(shares[rank] for rank in models)


@pytest.mark.parametrize("max_ig", [1, 2, 5])
def test_a_rank_gets_as_far_ahead_as_tokens_allow(max_ig: int) -> None:
    ended = virtual_world.run(
        lambda: Hop(graph="ring", max_ig=max_ig, backup_workers=2), size=4, iterations=20, factors=[1, 1, 1, 50],
        links=virtual_world.everywhere(4, FAST),
    )  # fmt: skip
    assert gaps(ended)[[0, 2], 3].tolist() == [max_ig, max_ig]
    assert gaps(ended)[1, 3] == 2 * max_ig  # two links away


def test_a_backup_worker_is_not_waited_for() -> None:
    def end_s(**chosen: Setting) -> float:
        ended = virtual_world.run(
            lambda: Hop(graph="ring-based", max_ig=50, **chosen),  # type: ignore[arg-type]
            size=8, iterations=20, factors=[1] * 7 + [10], links=virtual_world.everywhere(8, FAST),
        )  # fmt: skip
        return float(ended.spans(0, Phase.TRAINING)["end_ns"][0] / 1e9)

    assert end_s(backup_workers=1) < 0.2 * end_s(backup_workers=0)


def test_who_is_behind_jumps_ahead_and_holds_nobody_back() -> None:
    def ended(jump: int) -> tuple[float, int]:
        run = virtual_world.run(
            lambda: Hop(graph="ring", max_ig=4, max_jump=jump), size=6, iterations=40, factors=[1] * 5 + [5],
            links=virtual_world.everywhere(6, FAST),
        )  # fmt: skip
        spans = run.spans(5)
        return float(run.spans(2, Phase.TRAINING)["end_ns"][0]), int((spans["phase"] == Phase.FORWARD).sum())

    (whole_ns, all_of_them), (sooner_ns, some) = ended(0), ended(10)
    assert all_of_them == 40
    assert some < 20
    assert sooner_ns < 0.5 * whole_ns


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"graph": "star"}, "write one of ring, directed-ring"),
        ({"staleness": -1}, "staleness is -1"),
        ({"max_ig": 0}, "without tokens"),
        ({"max_ig": 0, "backup_workers": 0, "max_jump": 1}, "without tokens"),
    ],
)
def test_settings_that_cannot_be_are_refused(chosen: dict[str, Setting], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Hop(**chosen)  # type: ignore[arg-type]
