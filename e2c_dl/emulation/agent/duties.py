"""Duties of the agent of one host: what of a scenario it carries out on outgoing links, bottlenecks, its worker. Pure.

A bottleneck whose rate changes is carried out once: by the relay for the host that comes first among its links'
sources, of those that train, as others have no agent; under tc by whichever of its hosts has it in its kernel, so that
all of them are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from e2c_dl.dynamics.faults import NumberedFault, faults_of_kind
from e2c_dl.dynamics.links import LinksInForce
from e2c_dl.scenario.model import FaultKind, Scenario
from e2c_dl.topology import Bottleneck, Pair


@dataclass(frozen=True, kw_only=True)
class Duties:
    """One host's. Faults are numbered as in ``Injected.faults``."""

    links: tuple[Pair, ...]
    bottlenecks: tuple[str, ...]
    pauses: tuple[NumberedFault, ...]
    kills: tuple[NumberedFault, ...]
    link_faults: tuple[NumberedFault, ...]

    @classmethod
    def of(cls, scenario: Scenario, host: str, *, relay: bool) -> Duties:
        """What the agent of ``host`` has to do; ``relay``: a relay carries the links."""
        in_force = LinksInForce(scenario)
        links = tuple(sorted(pair for pair in in_force.changing if pair[0] == host))
        train = {each.name for each in scenario.topology.ranks}
        changing = [each for each in scenario.topology.bottlenecks if each.name in in_force.changing_bottlenecks]
        return cls(
            links=links,
            bottlenecks=tuple(each.name for each in changing if host in _hosts(each, train, relay=relay)),
            pauses=faults_of_kind(scenario, FaultKind.PAUSE, host=host),
            kills=faults_of_kind(scenario, FaultKind.KILL, host=host),
            link_faults=in_force.faults_of(links),
        )

    @property
    def any(self) -> bool:
        """Whether there is anything to do, so that an agent is worth starting."""
        return bool(self.links or self.bottlenecks or self.pauses or self.kills)

    @property
    def faults(self) -> tuple[NumberedFault, ...]:
        return (*self.link_faults, *self.pauses, *self.kills)

    def concerns(self, numbers: Iterable[int]) -> bool:
        """Whether any of the faults of these ``numbers`` is the agent's to carry out."""
        return not {number for number, _ in self.faults}.isdisjoint(numbers)


def _hosts(bottleneck: Bottleneck, train: set[str], *, relay: bool) -> set[str]:
    sources = {src for src, _ in bottleneck.links}
    # One relay carries all: one agent tells it. A kernel has its own part, and who has it is not known here.
    return {min(sources & train or train)} if relay else sources | {dst for _, dst in bottleneck.links}
