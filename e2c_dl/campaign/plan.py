"""What a run would do, in words and commands, without doing it."""

from __future__ import annotations

from e2c_dl import units
from e2c_dl.campaign.checks import checked
from e2c_dl.campaign.request import Request
from e2c_dl.campaign.steps import STEPS
from e2c_dl.emulation import tc
from e2c_dl.emulation.compute import ComputePlan
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds.local_run import BACKENDS, compute_plan, data_addresses, data_network
from e2c_dl.topology import Link


def plan(request: Request) -> str:
    """The whole plan as text. Raises: InputError as a run would."""
    scenario = checked(request)
    backend, compute = BACKENDS[data_network()], compute_plan(scenario)
    hosts = [f"  {host.name:<12} {host.role:<24} {_compute(compute, host.name)}" for host in scenario.topology.hosts]
    lines = [f"scenario {scenario.name} on {request.testbed}", "", "hosts", *hosts]
    lines += ["", f"links, shaped by {backend}", *_links(scenario)]
    if backend == "tc":
        lines += ["", "commands on the hosts", *_commands(scenario)]
    lines += ["", "steps", *(f"  {step.name:<9} {step.what}" for step in STEPS)]
    return "\n".join(lines)


def _compute(plan: ComputePlan, host: str) -> str:
    share = {**plan.cores, **plan.speed}[host]
    return f"{share:.3f} of a core, by {plan.method.value}"


def _links(scenario: Scenario) -> list[str]:
    asked = scenario.emulated_topology().links
    return [
        f"  {src} -> {dst}: {_quality(asked[src, dst])}"
        + (f" (injected; designed {_quality(link)})" if asked[src, dst] != link else "")
        for (src, dst), link in sorted(scenario.topology.links.items())
    ]


def _quality(link: Link) -> str:
    rate = "unlimited" if link.rate_bps is None else units.format_rate(link.rate_bps)
    return f"{rate}, {units.format_delay(link.delay_s)}, loss {units.format_loss(link.loss)}"


def _commands(scenario: Scenario) -> list[str]:
    topology, addresses = scenario.emulated_topology(), data_addresses(scenario.topology)
    return [
        f"  {host.name}: {' '.join(command)}"
        for host in scenario.topology.hosts
        for command in tc.commands(topology, host.name, "eth1", addresses)
    ]
