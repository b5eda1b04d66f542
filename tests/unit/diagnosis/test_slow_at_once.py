"""Hosts of a class that are slow at the same time, or as often as each other: nobody is blamed, nor who was as ever."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import virtual_world

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.diagnosis.stretches import When
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import GRADIENT
from e2c_dl.worlds.virtual import HostModel, LinkModel

LINK = LinkModel(rate_bps=1e9, delay_s=0.001)
PROFILE = virtual_world.profile((1500,), per_sample_s=5e-3)
ITERATIONS, SLOW_FROM_S = 40, 1.5


def report(layers: Sequence[str], slow: Sequence[int]) -> Report:
    """Of hosts on machines, of which ``slow`` compute at half their speed in the last third of the run."""
    designed = virtual_world.hosts(len(layers), layers=layers, of=PROFILE, noise=0.05)
    slower = dict.fromkeys(GRADIENT, Schedule(points=((0.0, 1.0), (SLOW_FROM_S, 2.0))))
    return judged([replace(host, slower=slower) if rank in slow else host for rank, host in enumerate(designed)])


def judged(hosts: Sequence[HostModel], iterations: int = ITERATIONS, *, designed: bool = True) -> Report:
    """Of ``hosts`` on machines, held to each other."""
    links = virtual_world.everywhere(len(hosts), LINK)
    run = virtual_world.run(Allreduce, size=len(hosts), seed=1, iterations=iterations, on_hosts=hosts, links=links)
    asked = replace(run.reference(), modelled=False)
    if not designed:
        asked = replace(asked, compute_factors={}, batch_sizes={}, network_emulated=False)
    return analyse(run.trace, asked)


class Work:
    """How much longer each iteration takes, in their order."""

    def __init__(self, times: Sequence[float]) -> None:
        self._times = [*times]

    def at(self, _: float) -> float:
        return self._times.pop(0)

    def next_change_s(self, _: float) -> float:
        return math.inf


def varied(host: HostModel, times: Sequence[float]) -> HostModel:
    return replace(host, slower={phase: Work(times) for phase in GRADIENT})


@pytest.mark.parametrize("edge", [4, 7])
def test_a_layer_that_becomes_slow_is_named_and_not_the_one_host_that_does_not(edge: int) -> None:
    found = report(["edge"] * edge + ["cloud"], range(edge))
    (culprit,) = found.culprits
    assert {each.src for each in culprit.elements} == {f"edge-{rank + 1}" for rank in range(edge)}
    assert culprit.when.when is When.SINCE
    assert culprit.slowdown == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("fine", [0, 1])
def test_for_what_most_of_one_layer_have_at_once_nobody_is_blamed_nor_who_has_not(fine: int) -> None:
    found = report(["edge"] * 6, range(6 - fine))
    assert found.findings == ()
    assert any("slower at the same time" in each for each in found.limitations)


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize(("often", "times"), [(0.25, 1.5), (0.1, 2.0), (0.5, 1.6)])
def test_of_work_that_varies_by_itself_nobody_is_blamed(size: int, often: float, times: float) -> None:
    draw = random.Random(size)
    hosts = [
        varied(host, [times if draw.random() < often else 1.0 for _ in range(100)])
        for host in virtual_world.hosts(size, of=PROFILE, noise=0.05)
    ]
    found = judged(hosts, 100)
    assert found.findings == ()
    assert any("nobody is blamed for work that varies" in each for each in found.limitations)


def test_who_is_slow_more_often_than_its_peers_is_named() -> None:
    draw = random.Random(1)
    hosts = [
        varied(host, [2.0 if draw.random() < (0.4 if rank == 2 else 0.05) else 1.0 for _ in range(100)])
        for rank, host in enumerate(virtual_world.hosts(4, of=PROFILE, noise=0.05))
    ]
    assert {str(each) for each in judged(hosts, 100).blamed} == {"edge-3"}


def test_one_that_is_slow_all_the_time_excuses_no_other_that_is_at_times() -> None:
    first, second = virtual_world.hosts(2, of=PROFILE, noise=0.05)
    at_times = [2.0 if place % 5 == 4 else 1.0 for place in range(60)]
    assert {str(each) for each in judged([varied(first, at_times), varied(second, [1.5] * 60)], 60).blamed} == {
        "edge-1", "edge-2",
    }  # fmt: skip


@pytest.mark.parametrize("designed", [True, False])
def test_where_epochs_begin_two_ranks_are_slow_together_and_none_is_to_blame(designed: bool) -> None:
    begins = [8.0 if place % 12 == 0 else 1.0 for place in range(60)]
    found = judged([varied(host, begins) for host in virtual_world.hosts(2, of=PROFILE)], 60, designed=designed)
    assert found.findings == ()
    assert any("blamed" in each for each in found.limitations)
