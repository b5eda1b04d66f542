"""One designed system of the campaign, and its run in the virtual world, undisturbed or with injections.

::

    Scenario (the design) + profiles by host -- injections put in force --> simulate --> Trace
             '---------------------------------------> reference_of --> Reference: what diagnosis is told
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.diagnosis.injections import Injection, When
from e2c_dl import strategies
from e2c_dl.archive.records import ComputeFacts, HostFacts
from e2c_dl.diagnosis.references import Reference, reference_of
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.dynamics.faults import BegunFaults
from e2c_dl.dynamics.links import LinksInForce
from e2c_dl.dynamics.speed import ChangingSpeed, HostSpeed
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.model import ClockAlignment, Phase, RankTrace, Trace
from e2c_dl.worlds.virtual import (
    ComputeProfile,
    HostModel,
    InMemory,
    LinkModel,
    SharedRate,
    bottlenecks,
    link_model,
    simulate,
)  # fmt: skip
from e2c_dl.worlds.virtual.links import RankPair

_NEVER_BEGUN = BegunFaults()  # injections are put in force here, not as faults of the scenario


@dataclass(frozen=True, kw_only=True)
class System:
    """What is designed: diagnosis is told all of it but ``noise`` and ``profiles``."""

    scenario: Scenario
    profiles: Mapping[str, ComputeProfile]  # host -> how long its hardware takes
    hardware: Mapping[str, str | None]  # host -> class; None: it does not say
    noise: float  # relative, of computing

    @property
    def ranks(self) -> Mapping[str, int]:
        """Host -> rank."""
        return {host.name: rank for rank, host in enumerate(self.scenario.topology.ranks)}

    @property
    def used_links(self) -> tuple[Pair, ...]:
        """The links that its strategy sends over."""
        hosts, training = self.scenario.topology.ranks, self.scenario.training
        strategy = strategies.load(training.strategy)(**training.strategy_settings)
        pairs = strategy.used_links([host.layer for host in hosts])
        return tuple((hosts[src].name, hosts[dst].name) for src, dst in pairs)

    @property
    def loses(self) -> bool:
        """Whether a link loses segments, nothing injected."""
        return any(self.scenario.topology.link(*pair).mean_loss for pair in self.used_links)

    def retraining(self) -> Retraining:
        """What simulates a run of it again where a replay does not tell, as the report of an archive has it."""
        profile = next(iter(self.profiles.values()))
        compute = ComputeFacts.of(profile.slices, profile.tensor_shapes)
        return Retraining.of(self.scenario, {host: HostFacts(compute=compute) for host in self.profiles})

    def reference(self, trace: Trace) -> Reference:
        """What the diagnosis of ``trace`` is told."""
        facts = {
            host: None if hardware is None else HostFacts(cpu_model=hardware, cores=1)
            for host, hardware in self.hardware.items()
        }
        return reference_of(self.scenario, trace, (), {"backend": "virtual model"}, facts)

    def run(self, injections: Sequence[Injection] = (), undisturbed_s: float = 0.0, lap: int = 0) -> Trace:
        """What its ranks trace when ``injections`` are in force; the run without them takes ``undisturbed_s``.

        In laps beyond 0 other noise, jitter and choices of its strategy meet it.
        """
        training = self.scenario.training
        strategy, sink = strategies.load(training.strategy), InMemory()
        hosts = [self._host(host.name, injections, undisturbed_s) for host in self.scenario.topology.ranks]
        simulate(
            lambda: strategy(**training.strategy_settings), hosts=hosts, sink=sink,
            links={self._ranked(pair): self._link(pair, injections, undisturbed_s) for pair in self.used_links},
            bottlenecks=self._shared(injections, undisturbed_s),
            iterations=training.iterations, seed=training.seed + lap, as_seen=training.wrapping,
        )  # fmt: skip
        ranks = tuple(
            RankTrace(rank=rank, host=host.name, layer=host.layer, spans=sink.spans(rank), clock=ClockAlignment())
            for rank, host in enumerate(hosts)
        )
        return Trace(ranks=ranks, facts={})

    def _ranked(self, pair: Pair) -> RankPair:
        return self.ranks[pair[0]], self.ranks[pair[1]]

    def _host(self, name: str, injections: Sequence[Injection], run_s: float) -> HostModel:
        scenario, rank = self.scenario, self.ranks[name]
        factor, schedule = scenario.compute.factor(name), scenario.schedules.compute.get(name)
        speed = None
        if schedule is not None:
            speed = ChangingSpeed(HostSpeed.of(scenario, name, 1 / factor), lambda *_: None, lambda _: None)
            speed.began(0)
        slower: dict[Phase, Schedule] = {}
        for injection in injections:
            if name in injection.hosts:  # of two in one phase the draws take care: there is none
                slower |= dict.fromkeys(injection.what.phases, injection.during(run_s, injection.amount))
        return HostModel(
            name=name, layer=scenario.topology.host(name).layer, profile=self.profiles[name],
            samples=scenario.training.batch_sizes[rank], factor=factor, speed=speed, noise=self.noise, slower=slower,
        )  # fmt: skip

    def _link(self, pair: Pair, injections: Sequence[Injection], run_s: float) -> LinkModel:
        of_link = [each for each in injections if pair in each.links and each.shared is None]
        link = self.scenario.topology.link(*pair)
        if pair not in self.scenario.schedules.links and all(each.when is When.PERSISTENT for each in of_link):
            for each in of_link:
                link = each.changed(link)
            return link_model(link, self.scenario.tcp)
        model = link_model(link, self.scenario.tcp)
        return replace(model, conditions=partial(self._conditions, pair, of_link, run_s))

    def _conditions(self, pair: Pair, of_link: Sequence[Injection], run_s: float) -> Iterator[tuple[float, LinkModel]]:
        design = LinksInForce(self.scenario)
        force = [(each, each.during(run_s, 1.0, 0.0)) for each in of_link]
        at_s, last = 0.0, None
        while at_s < math.inf:
            link: Link = design.link(pair, at_s, _NEVER_BEGUN)
            for injection, in_force in force:
                link = injection.changed(link) if in_force.at(at_s) else link
            if link != last:
                yield at_s, link_model(link, self.scenario.tcp)
            last = link
            changes = [in_force.next_change_s(at_s) for _, in_force in force]
            at_s = min([design.next_change_s([pair], (), at_s, _NEVER_BEGUN), *changes])

    def _shared(self, injections: Sequence[Injection], run_s: float) -> list[SharedRate]:
        topology, found = self.scenario.topology, []
        for designed, model in zip(topology.bottlenecks, bottlenecks(topology), strict=True):  # all links join ranks
            of_line = (each for each in injections if each.shared == designed.name)
            shared = model
            for each in of_line:
                slowed = each.during(run_s, model.rate_bps / each.amount, model.rate_bps)
                shared = replace(model, rates=partial(slowed.steps, math.inf))
            found.append(shared)
        return found


def run_s(trace: Trace) -> float:
    """From the first rank's first iteration to the last rank's end, as a Report counts."""
    spans = [rank.spans[rank.spans["phase"] == Phase.TRAINING] for rank in trace.ranks]
    return float(max(each["end_ns"].max() for each in spans) - min(each["start_ns"].min() for each in spans)) / 1e9
