"""How processors of machines that are there are made slower: by their workers' pacing, or not at all."""

from __future__ import annotations

from dataclasses import replace

from e2c_dl.emulation import compute
from e2c_dl.scenario.model import FaultKind, Scenario


def plan(scenario: Scenario) -> compute.ComputePlan:
    """By sleep, since a machine's cgroups are not ours; nobody is paced if the scenario slows nobody down."""
    by_sleep = replace(scenario, compute=replace(scenario.compute, method="sleep"))
    planned = compute.of_scenario(len(scenario.topology.hosts) + compute.RELAY_CORES, by_sleep)
    if _slows(scenario):
        return replace(planned, why="calibrated sleep, on a whole core of each machine")
    return replace(planned, speed={}, why="nothing is asked: every machine computes as fast as it is")


def _slows(scenario: Scenario) -> bool:
    factors = [scenario.emulated_factor(name) for name in scenario.topology.names]
    constant = scenario.compute.cores is None and all(factor == 1 for factor in factors)
    schedules, slowed = scenario.schedules, any(f.kind is FaultKind.SLOW_HOST for f in scenario.injected.faults)
    return bool(not constant or schedules.compute or schedules.thermal or slowed)
