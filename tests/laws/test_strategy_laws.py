"""What every strategy must obey, looped over all there are: a new file is held to it with no edit here.

Each runs in the virtual world, over random topologies, delays, losses and layers, with a rank that is slow, a link that
is slow, and a rank that is killed; with real mathematics and with shapes alone.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, difference

from e2c_dl import strategies
from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Setting
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.trained import TrainedModel

SETTINGS: dict[str, list[dict[str, Setting]]] = {
    "allreduce": [{"tree_below_bytes": 30}, {"tree_below_bytes": 1 << 30}],
    "adpsgd": [{"route_around": True}],
    "butterfly": [{"period": 1}],
    "fastlinks": [{"period": 2, "gap": 0.5}],
    "powersgd": [{"rank": 1}],
    "ako": [{"partitions": 1}, {"partitions": 3}],
    "dlion": [{"max_n": False, "transfer_period": 2}, {"residuals": False}, {"weighting": "printed"}],
    "fedat": [{"tiers": 2, "period": 1}, {"tiers": 1, "period": 2}, {"tiers": 3, "period": 3, "retier": 1.0}],
    "gaia": [{"threshold": 0.5, "slack": 2}, {"slack": 1, "selective_barrier": False}],
    "diloco": [{"period": 3}, {"period_within": 1, "period_between": 3}],
    "hop": [
        {"backup_workers": 0},
        {"backup_workers": 0, "max_ig": 0, "graph": "ring"},
        {"graph": "double-ring", "max_ig": 1},
        {"graph": "directed-ring", "staleness": 2, "backup_workers": 0},
        {"max_jump": 3, "graph": "ring"},
    ],
    "prague": [{"groups": "random", "threshold": 100}, {"groups": "static", "group_size": 2}],
    "localsgd": [{"period": 2}, {"period_within": 2, "period_between": 4}, {"period": 2, "weights": "equal"}],
}
"""More than the defaults, for those who have more."""

CASES = [(name, chosen) for name in strategies.names() for chosen in [{}, *SETTINGS.get(name, [])]]
EXACT = [name for name in strategies.names() if strategies.load(name).exact_with is not None]
SYNCHRONOUS = [(name, chosen) for name, chosen in CASES if not strategies.load(name)(**chosen).asynchronous]
WHATEVER_SPEEDS = [
    (name, chosen) for name, chosen in SYNCHRONOUS if not strategies.load(name)(**chosen).adapts_to_links
]
UNSIZED: dict[str, dict[str, Setting]] = {"gaia": {"selectivity": 0.3}}
"""What a run of shapes alone must be told, as it depends on values."""

LAYERS = ("edge", "fog", "cloud")
ITERATIONS = 6

worlds = given(
    size=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    slow=st.sampled_from(["nobody", "rank", "link"]),
    real=st.booleans(),
)


def run(name: str, chosen: dict[str, Setting], size: int, seed: int, slow: str, real: bool) -> virtual_world.Run:
    draw = np.random.default_rng([seed, size])
    problem = Problem(size, seed, dtype=np.float32)
    links = virtual_world.random_links(size, seed)
    factors = [1.0] * size
    if slow == "rank":
        factors[int(draw.integers(size))] = 20.0
    if slow == "link" and links:
        pair = list(links)[int(draw.integers(len(links)))]
        links[pair] = replace(links[pair], rate_bps=2e4, delay_s=0.2)
    told = chosen if real else {**UNSIZED.get(name, {}), **chosen}
    return virtual_world.run(
        lambda: strategies.load(name)(**told), size=size, seed=seed, iterations=ITERATIONS, links=links,
        computes=problem.computes() if real else None, samples=problem.samples, factors=factors,
        layers=[LAYERS[int(each)] for each in draw.integers(3, size=size)],
    )  # fmt: skip


@pytest.mark.parametrize(("name", "chosen"), CASES, ids=str)
@worlds
@settings(max_examples=12, deadline=None)
def test_all_ranks_finish_and_all_that_was_sent_is_received(
    name: str, chosen: dict[str, Setting], size: int, seed: int, slow: str, real: bool
) -> None:
    ended = run(name, chosen, size, seed, slow, real)
    used = set(strategies.load(name)(**chosen).used_links([host.layer for host in ended.hosts]))
    for rank in range(size):
        iterations = ended.spans(rank, Phase.ITERATION)
        assert iterations["iteration"].tolist() == list(range(ITERATIONS))
        assert len(ended.spans(rank, Phase.TRAINING)) == 1
        sent, came = ended.spans(rank, Phase.SEND), ended.spans(rank, Phase.RECEIVE)
        awaited = ended.spans(rank, Phase.AWAIT_MESSAGE)
        assert {(rank, int(dst)) for dst in sent["dst"]} <= used
        assert sorted(awaited[["src", "seq"]].tolist()) == sorted(came[["src", "seq"]].tolist())
        for dst in range(size):
            there = ended.spans(dst, Phase.RECEIVE)
            there = there[there["src"] == rank]
            here = sent[sent["dst"] == dst]
            assert sorted(here[["seq", "nbytes"]].tolist()) == sorted(there[["seq", "nbytes"]].tolist())


@pytest.mark.parametrize(("name", "chosen"), CASES, ids=str)
@worlds
@settings(max_examples=3, deadline=None)
def test_the_same_run_twice_is_the_same_to_the_byte(
    name: str, chosen: dict[str, Setting], size: int, seed: int, slow: str, real: bool
) -> None:
    first, second = (run(name, chosen, size, seed, slow, real) for _ in range(2))
    assert first.result == second.result
    for one, other in zip(first.trace.ranks, second.trace.ranks, strict=True):
        assert one.spans.tobytes() == other.spans.tobytes()


@pytest.mark.parametrize("name", EXACT)
@given(size=st.integers(1, 6), seed=st.integers(0, 10_000))
@settings(max_examples=6, deadline=None)
def test_equals_sgd_on_all_batches_together(name: str, size: int, seed: int) -> None:
    problem = Problem(size, seed)
    computes = problem.computes()
    strategy = strategies.load(name)
    virtual_world.run(
        lambda: strategy(**(strategy.exact_with or {})), size=size, seed=seed, iterations=100, computes=computes,
        samples=problem.samples,
    )  # fmt: skip
    expected = problem.sgd(100)
    for compute in computes:
        assert difference(compute.parameters, expected) <= 1e-9
        assert np.array_equal(compute.parameters, computes[0].parameters)


@pytest.mark.parametrize(("name", "chosen"), CASES, ids=str)
@given(size=st.integers(2, 6), seed=st.integers(0, 10_000), at_s=st.floats(0.0, 0.05))
@settings(max_examples=10, deadline=None)
def test_a_killed_rank_leaves_nobody_hanging(
    name: str, chosen: dict[str, Setting], size: int, seed: int, at_s: float
) -> None:
    problem = Problem(size, seed)
    victim = seed % size
    hosts = list(virtual_world.hosts(size, of=virtual_world.profile_of(problem.computes()[0])))
    hosts[victim] = replace(hosts[victim], killed_at_s=at_s)

    def train() -> None:
        virtual_world.run(
            lambda: strategies.load(name)(**chosen), size=size, seed=seed, iterations=50, computes=problem.computes(),
            on_hosts=hosts,
        )  # fmt: skip

    if (name, chosen) in SYNCHRONOUS:
        with pytest.raises(PeerLost):
            train()
    else:
        with suppress(PeerLost):  # of those to whom nobody is left
            train()


def computed_alike(name: str, chosen: dict[str, Setting], size: int, seed: int) -> bool:
    """Whether runs of unlike speeds compute the same to the bit."""

    def trained(factors: list[float], links: int) -> list[bytes]:
        problem = Problem(size, seed)
        computes = problem.computes()
        virtual_world.run(
            lambda: strategies.load(name)(**chosen), size=size, seed=seed, iterations=8, computes=computes,
            samples=problem.samples, factors=factors, links=virtual_world.random_links(size, links),
        )  # fmt: skip
        return [compute.parameters.tobytes() for compute in computes]

    return trained([1.0] * size, seed) == trained([9.0] + [1.0] * (size - 1), seed + 1)


@pytest.mark.parametrize(("name", "chosen"), WHATEVER_SPEEDS, ids=str)
@given(size=st.integers(2, 5), seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_speeds_do_not_matter_to_what_is_computed(name: str, chosen: dict[str, Setting], size: int, seed: int) -> None:
    assert computed_alike(name, chosen, size, seed)


@pytest.mark.parametrize(("name", "chosen"), [case for case in CASES if case not in SYNCHRONOUS], ids=str)
def test_speeds_decide_what_is_computed_of_asynchronous_strategies(name: str, chosen: dict[str, Setting]) -> None:
    assert not all(computed_alike(name, chosen, 5, seed) for seed in range(3))  # by chance, one may be alike


@pytest.mark.parametrize(("name", "chosen"), CASES, ids=str)
@given(size=st.integers(1, 6), seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_the_trained_model_is_where_the_strategy_says(
    name: str, chosen: dict[str, Setting], size: int, seed: int
) -> None:
    problem = Problem(size, seed)
    computes = problem.computes()
    virtual_world.run(
        lambda: strategies.load(name)(**chosen), size=size, seed=seed, iterations=ITERATIONS + 1, computes=computes,
        samples=problem.samples, factors=np.random.default_rng(seed).uniform(1, 9, size).tolist(),
    )  # fmt: skip
    model = TrainedModel.of(strategies.load(name)(**chosen), problem.samples)
    if model.weights is None:
        assert all(np.array_equal(compute.parameters, computes[0].parameters) for compute in computes)
    else:
        assert len(model.weights) == size
        assert min(model.weights) >= 0
        assert sum(model.weights) == pytest.approx(1.0)
    expected = np.average([compute.parameters for compute in computes], axis=0, weights=model.weights)
    assert np.allclose(model.assembled(lambda rank: computes[rank].parameters), expected, rtol=1e-12)
    assert model.holders[0] >= 0
    assert model.described()
