"""Inputs of the virtual world, made from a scenario: a model of every host and of every link.

::

    host of factor f (design x injected), C cores for factor 1    computes c seconds of the profile in c * f / C
    link of the emulated topology (injected slow links included)  LinkModel: rate, delay, jitter, loss, queue, TCP

A live run by calibrated sleep paces gradients and evaluations by the same quotient, and does not slow the optimizer or
sums of vectors; one by CPU quota slows these as well, less by its headroom. ``cores: null`` is a whole core here,
whatever this machine has: a simulated run is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2c_dl.drivers.virtual.changes import CLOCKS
from e2c_dl.emulation.compute import HEADROOM, Method
from e2c_dl.scenario.model import Scenario
from e2c_dl.worlds.virtual.links import link_models
from e2c_dl.worlds.virtual.profile import ComputeProfile, HostModel


def host_models(scenario: Scenario, profile: ComputeProfile) -> tuple[HostModel, ...]:
    """The hosts that train, in rank order."""
    quota = scenario.compute.method == Method.QUOTA.value  # only a quota slows steps and sums, too
    factors = {name: 1 / speed for name, speed in speeds(scenario).items()}
    return tuple(
        HostModel(
            name=host.name, layer=host.layer, profile=profile,
            samples=scenario.training.batch_sizes[host.rank or 0],
            factor=factors[host.name], vector_factor=max(1.0, factors[host.name] / HEADROOM) if quota else 1.0,
        )
        for host in scenario.topology.ranks
    )  # fmt: skip


def speeds(scenario: Scenario) -> Mapping[str, float]:
    """host -> how many times the profile's speed it computes at."""
    base = 1.0 if scenario.compute.cores is None else scenario.compute.cores
    return {host.name: base / scenario.emulated_factor(host.name) for host in scenario.topology.ranks}


def check(scenario: Scenario, profile: ComputeProfile) -> None:
    """Raises: InputError, if ``profile`` cannot tell of a batch size that may come, or TCP has no model."""
    profile.check(scenario.training.batch_sizes, scenario.training.batching)
    link_models(scenario.emulated_topology(), scenario.tcp)


def emulation_facts(scenario: Scenario) -> dict[str, Any]:
    """How network and compute are modelled, for run.json."""
    base = 1.0 if scenario.compute.cores is None else scenario.compute.cores
    return {
        "backend": "virtual",
        "compute": {
            "method": "profile",
            "speed": dict(speeds(scenario)),
            "oversubscribed": False,
            "why": f"a stored profile, at {base:g} of a core's speed for a host of factor 1",
        },
        "tcp": vars(scenario.tcp),
    }


def not_honoured(scenario: Scenario) -> tuple[str, ...]:
    """What of the scenario the virtual world cannot do, in sentences."""
    found = []
    if any(fault.kind in CLOCKS for fault in scenario.injected.faults):
        found.append("clocks that step or drift are not modelled: in the virtual world there is one clock")
    if any(link.reorder for link in scenario.topology.links.values()):
        found.append("reordering is not modelled: messages of a link arrive in order, as TCP hands them over")
    return tuple(found)
