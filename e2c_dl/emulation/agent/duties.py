"""What of a scenario the agent of one host has to carry out: its outgoing links, its bottlenecks, its own worker. Pure.

A bottleneck whose rate changes is carried out once: by the relay for the host that comes first among its links'
sources; under tc by whichever of its hosts has it in its kernel, so that all of them are asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from e2c_dl.dynamics.links import Effective
from e2c_dl.scenario.model import Fault, FaultKind, Scenario
from e2c_dl.topology import Bottleneck, Pair


@dataclass(frozen=True, kw_only=True)
class Duties:
    """One host's. Faults are numbered as in ``Injected.faults``."""

    links: tuple[Pair, ...]
    bottlenecks: tuple[str, ...]
    pauses: tuple[tuple[int, Fault], ...]
    kills: tuple[tuple[int, Fault], ...]
    link_faults: tuple[tuple[int, Fault], ...]

    @classmethod
    def of(cls, scenario: Scenario, host: str, *, relay: bool) -> Duties:
        """What the agent of ``host`` has to do; ``relay``: a relay carries the links."""
        effective = Effective(scenario)
        links = tuple(sorted(pair for pair in effective.changing if pair[0] == host))
        changing = [each for each in scenario.topology.bottlenecks if each.name in effective.changing_bottlenecks]
        return cls(
            links=links,
            bottlenecks=tuple(each.name for each in changing if host in _hosts(each, relay=relay)),
            pauses=_own(scenario, FaultKind.PAUSE, host),
            kills=_own(scenario, FaultKind.KILL, host),
            link_faults=effective.faults_of(links),
        )

    @property
    def any(self) -> bool:
        """Whether there is anything to do, so that an agent is worth starting."""
        return bool(self.links or self.bottlenecks or self.pauses or self.kills)

    @property
    def faults(self) -> tuple[tuple[int, Fault], ...]:
        return (*self.link_faults, *self.pauses, *self.kills)


def _hosts(bottleneck: Bottleneck, *, relay: bool) -> set[str]:
    sources = {src for src, _ in bottleneck.links}
    return {min(sources)} if relay else sources | {dst for _, dst in bottleneck.links}


def _own(scenario: Scenario, kind: FaultKind, host: str) -> tuple[tuple[int, Fault], ...]:
    numbered = enumerate(scenario.injected.faults)
    return tuple((number, fault) for number, fault in numbered if fault.kind is kind and fault.host == host)
