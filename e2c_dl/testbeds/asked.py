"""Everything that a scenario will ever ask of its links, as one topology: what a back end must be able to do."""

from __future__ import annotations

from dataclasses import replace

from e2c_dl.scenario.model import LinkSchedule, Scenario
from e2c_dl.topology import Link, Pair, Topology


def at_most(scenario: Scenario) -> Topology:
    """The emulated topology, each link with the greatest delay and loss that its schedule ever gives it."""
    topology = scenario.emulated_topology()
    links: dict[Pair, Link] = dict(topology.links)
    for pair, schedule in scenario.schedules.links.items():
        links[pair] = _grown(topology.link(*pair), schedule)
    return replace(topology, links=links)


def _grown(link: Link, schedule: LinkSchedule) -> Link:
    delay_s = link.delay_s if schedule.delay_s is None else max(link.delay_s, schedule.delay_s.greatest)
    loss = link.loss if schedule.loss is None else max(link.loss, schedule.loss.greatest)
    rate_bps = link.rate_bps if schedule.rate_bps is None else schedule.rate_bps.greatest
    return replace(link, rate_bps=rate_bps, delay_s=delay_s, loss=loss)
