"""The same file in both worlds: over real sockets every strategy ends, and what does not depend on timing is the same
to the bit as in the virtual world."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import live_world
import numpy as np
import pytest
import virtual_world
from quadratic import Problem, Quadratic

from e2c_dl import strategies
from e2c_dl.drivers.live.budget.account import CountAccount
from e2c_dl.drivers.live.budget.shares import GrantedShare
from e2c_dl.strategies.base import Setting
from e2c_dl.trace.model import Phase

SIZE, ITERATIONS = 4, 9
LAYERS = ("edge", "edge", "fog", "fog")
MORE: list[tuple[str, dict[str, Setting]]] = [
    ("allreduce", {"tree_below_bytes": 1 << 20}),
    ("diloco", {"period": 3}),
    ("fastlinks", {"gap": 1.0}),  # all links, however fast
    ("fedat", {"tiers": 1, "period": 2}),
    ("gaia", {"threshold": 0.2, "slack": 2, "selective_barrier": False}),
    ("hop", {"backup_workers": 0}),
    ("localsgd", {"period_within": 1, "period_between": 3}),
    ("parameterserver", {"server": 2}),
    ("prague", {"groups": "static"}),
]


def decided_by_speeds(name: str) -> bool:
    """Whether what a strategy computes is not the same in every run."""
    return strategies.load(name).asynchronous or strategies.load(name).adapts_to_links


OWN = [(name, dict(strategies.load(name).exact_with or {})) for name in strategies.names()]
SYNCHRONOUS = [(name, chosen) for name, chosen in OWN if not decided_by_speeds(name)] + MORE


def live(path: Path, name: str, chosen: dict[str, Setting], batching: str = "fixed") -> list[Quadratic]:
    problem = Problem(SIZE, 1, dtype=np.float32)
    computes = problem.computes()
    live_world.train(
        path, strategies.load(name), computes, problem.samples, ITERATIONS, settings=chosen, layers=LAYERS,
        batching=batching,
    )  # fmt: skip
    return computes


@pytest.mark.parametrize(("name", "chosen"), SYNCHRONOUS, ids=str)
def test_live_and_virtual_are_the_same_to_the_bit(tmp_path: Path, name: str, chosen: dict[str, Setting]) -> None:
    problem = Problem(SIZE, 1, dtype=np.float32)
    virtual = problem.computes()
    virtual_world.run(
        lambda: strategies.load(name)(**chosen), size=SIZE, iterations=ITERATIONS, computes=virtual,
        samples=problem.samples, layers=LAYERS,
    )  # fmt: skip
    for here, there in zip(live(tmp_path, name, chosen), virtual, strict=True):
        assert not np.array_equal(here.parameters, problem.start)
        assert np.array_equal(here.parameters, there.parameters)


@pytest.mark.parametrize(
    ("name", "chosen"), [case for case in OWN if not strategies.load(case[0]).fixed_batches], ids=str
)
def test_batches_by_speed_over_sockets(tmp_path: Path, name: str, chosen: dict[str, Setting]) -> None:
    computes = live(tmp_path, name, chosen, "dynamic")
    by_iteration = np.array([compute.history for compute in computes])
    assert np.all(by_iteration.sum(axis=0) == sum(Problem(SIZE, 1).samples))


@pytest.mark.parametrize("name", [name for name in strategies.names() if strategies.load(name).asynchronous])
def test_ranks_share_a_budget_over_sockets(tmp_path: Path, name: str) -> None:
    problem = Problem(SIZE, 1, dtype=np.float32)
    computes = problem.computes()

    def shares() -> list[GrantedShare]:
        loop, account = asyncio.get_running_loop(), CountAccount(40, [1] * SIZE)

        def heard(rank: int, said: dict[str, Any]) -> None:
            for ranks, answer in account.hear(rank, said):
                for each in ranks:
                    loop.call_soon(made[each].hear, answer)

        made = [GrantedShare(partial(loop.call_soon, heard, rank)) for rank in range(SIZE)]
        return made

    traces = live_world.train(tmp_path, strategies.load(name), computes, problem.samples, 0, shares=shares)
    counts = [int((spans["phase"] == Phase.ITERATION).sum()) for spans in traces]
    assert sum(counts) == 40
    assert min(counts) >= 1
    assert [len(compute.history) for compute in computes] == counts
