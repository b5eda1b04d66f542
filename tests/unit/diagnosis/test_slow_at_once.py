"""Hosts of a class that are slow at the same time: for the machine's doing nobody is blamed, nor who was as ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import virtual_world

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.diagnosis.stretches import When
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel

LINK = LinkModel(rate_bps=1e9, delay_s=0.001)
PROFILE = virtual_world.profile(per_sample_s=5e-3)
ITERATIONS, SLOW_FROM_S = 40, 1.5


def report(layers: Sequence[str], slow: Sequence[int]) -> Report:
    """Of hosts on machines, of which ``slow`` compute at half their speed in the last third of the run."""
    designed = virtual_world.hosts(len(layers), layers=layers, of=PROFILE, noise=0.05)
    twice = Schedule(points=((0.0, 1.0), (SLOW_FROM_S, 2.0)))
    slower = dict.fromkeys((Phase.FORWARD, Phase.BACKWARD), twice)
    built = [replace(host, slower=slower) if rank in slow else host for rank, host in enumerate(designed)]
    run = virtual_world.run(
        Allreduce, size=len(layers), seed=1, iterations=ITERATIONS, on_hosts=built,
        links=virtual_world.everywhere(len(layers), LINK),
    )  # fmt: skip
    return analyse(run.trace, replace(replace(run, hosts=tuple(designed)).reference(), modelled=False))


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
