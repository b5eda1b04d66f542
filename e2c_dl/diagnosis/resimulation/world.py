"""The measured world of one run, and how long the run takes in it, as it was or with something changed.

::

    world = Retraining.of(scenario, facts).world(trace, join(trace), delays_ns)
    world.error                                         its honesty: how far the unchanged run is off
    world.run_ns(scaled(element, 0.5))                  with a host or link twice as fast
    world.without("edge-2").run_ns()                    with one host less

Gradients, steps and evaluations take what they took, links carry what they carried; who sends what to whom, and when,
is the strategy's to decide. Not in it: what the live world takes for a message beside its links, and stops of hosts but
in the gradients that were computed then, and in what links of theirs carried.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, Change, OneLuck, WhatIf
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace
from e2c_dl.diagnosis.resimulation.lines import changed_line
from e2c_dl.diagnosis.resimulation.links import MeasuredLink
from e2c_dl.diagnosis.resimulation.sinks import TrainingEnds
from e2c_dl.diagnosis.resimulation.stopped import NEVER, Stopped
from e2c_dl.errors import AnalysisError
from e2c_dl.strategies.base import Compute, Strategy
from e2c_dl.strategies.wrappers import Wrapping
from e2c_dl.topology import Pair
from e2c_dl.worlds.allotment import Allotment
from e2c_dl.worlds.virtual import (
    ComputeProfile,
    GradientTimes,
    HostModel,
    LinkModel,
    SharedRate,
    SimulatedIteration,
    simulate,
)
from e2c_dl.worlds.virtual.links import RankPair, event_cost
from e2c_dl.worlds.virtual.sinks import Sink

NO_TIMES = 1
EVENTS = 100_000
"""Messages and gradients that are simulated in some five seconds."""
LEAST_CHEAP = 8  # changes


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What vectors are like: the flat parameters' type, how long each bucket is, in order of backward, of what."""

    dtype: str
    buckets: tuple[int, ...]
    tensor_shapes: tuple[tuple[tuple[int, ...], ...], ...] = ()

    def profile(self, model: str) -> ComputeProfile:
        """A profile of these lengths and of no time."""
        ends = np.cumsum([0, *self.buckets]).tolist()
        times = GradientTimes(data_s=0.0, forward_s=0.0, backward_s=(0.0,) * len(self.buckets))
        bounds = tuple(pairwise(ends))
        return ComputeProfile(
            model=model, dtype=self.dtype, parameters=ends[-1], buckets=bounds, gradients={NO_TIMES: times},
            tensor_shapes=self.tensor_shapes,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MeasuredWorld(OneLuck):
    """A run that can be simulated again. Nothing in it is mutated; every run in it is a function of its values."""

    hosts: tuple[MeasuredHost, ...]  # by rank
    links: Mapping[RankPair, MeasuredLink]
    layout: Layout
    strategy: Callable[[], Strategy]
    wrapping: Wrapping
    allotment: Callable[[], Allotment]  # for one run: what ends it
    evaluate_every: int  # iterations of rank 0
    seed: int
    measured_ns: int
    bottlenecks: tuple[SharedRate, ...] = ()
    tcp: LinkModel = field(default_factory=LinkModel)  # whose congestion control links have
    restored: Mapping[RankPair, tuple[frozenset[Change], MeasuredLink]] = field(default_factory=dict)
    """Link that departs, and shares a line or is nothing but a model -> what restores it, and what it is then."""
    stopped: Stopped = NEVER

    def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
        """Run time after ``change``; laps beyond 0 have other luck. Raises: KeyError, if an element is not in the run.

        TrainingError, InputError: what a strategy raises.
        """
        ends = TrainingEnds()
        self.simulate(ends, change, lap)
        return ends.run_ns

    def simulate(
        self, sink: Sink, change: WhatIf = UNCHANGED, lap: int = 0, paced: Callable[..., MeasuredPace] = MeasuredPace,
        *, computes: Sequence[Compute] | None = None,
        on_progress: Callable[[SimulatedIteration], None] | None = None,
    ) -> None:  # fmt: skip
        """Simulate the run after ``change``; its spans go to ``sink``, and each host's times come from ``paced``.

        With ``computes`` gradients are real, in the same times. Raises: AnalysisError, if such times cannot have been.
        """
        try:
            simulate(
                self.strategy, hosts=self._hosts(change, lap, paced), links=self._links(change),
                bottlenecks=[changed_line(each, change, self._rank) for each in self.bottlenecks], sink=sink,
                iterations=NO_TIMES, allotment=self.allotment(),
                seed=self.seed + lap, evaluate_every=self.evaluate_every, checked=False, computes=computes,
                on_progress=on_progress, as_seen=self.wrapping,
            )  # fmt: skip
        except (OverflowError, struct.error) as error:  # an archive may say anything: a bucket of exabytes
            impossible = "the run cannot be simulated again: vectors or times in its archive are too large to be true"
            raise AnalysisError(f"{impossible}; verify the archive") from error

    def iterations(self, change: WhatIf = UNCHANGED) -> int:
        """How many all ranks have together after ``change``: where time ends training, that is what changes."""
        ends = TrainingEnds()
        self.simulate(ends, change)
        return ends.iterations

    def runs_ns(self, changes: Sequence[WhatIf]) -> list[int]:
        """Run time after each of ``changes``."""
        return [self.run_ns(change) for change in changes]

    def with_unused(self, added: Mapping[RankPair, MeasuredLink], lines: Sequence[SharedRate]) -> MeasuredWorld:
        """This world with those of ``added`` that it lacks, links that carried nothing, and may be used.

        ``lines``: its bottlenecks as designed, in their order: what is added passes them, too. On one that was measured
        no link has a TCP, for its rate has that in it.
        """
        links, bottlenecks = {**added, **self.links}, []
        for own, designed in zip(self.bottlenecks, lines, strict=True):
            new = [pair for pair in designed.links if pair in links and pair not in self.links]
            if any(pair in self.links and self.links[pair].tcp is None for pair in own.links):
                links |= {pair: links[pair].without_tcp for pair in new}
            passing = {*own.links, *new} & links.keys()
            bottlenecks.append(replace(own, links=tuple(pair for pair in designed.links if pair in passing)))
        return replace(self, links=links, bottlenecks=tuple(bottlenecks))

    def without(
        self, names: Collection[str], strategy: Callable[[], Strategy], allotment: Callable[[], Allotment]
    ) -> MeasuredWorld:
        """This world without the hosts ``names``, whose ranks now run ``strategy`` until ``allotment`` is used up."""
        kept = [rank for rank, host in enumerate(self.hosts) if host.name not in names]
        new = {rank: number for number, rank in enumerate(kept)}
        links = {(new[src], new[dst]): link for (src, dst), link in self.links.items() if {src, dst} <= {*kept}}
        shared = [
            replace(each, links=tuple((new[src], new[dst]) for src, dst in each.links if {src, dst} <= {*kept}))
            for each in self.bottlenecks
        ]
        first, *others = (self.hosts[rank] for rank in kept)  # the first rank evaluates
        return replace(
            self, hosts=(first.evaluating_as(self.hosts[0]), *others), links=links, strategy=strategy,
            allotment=allotment, bottlenecks=tuple(each for each in shared if each.links), restored={},
        )  # fmt: skip

    @property
    def cheap(self) -> int:
        """How many changes are simulated without a thought: as many as keep to EVENTS messages and gradients."""
        events = sum(link.messages for link in self.links.values()) + sum(len(host.gradients) for host in self.hosts)
        cost = 1.0 if self.tcp.tcp is not None else event_cost(self.bottlenecks)
        return max(LEAST_CHEAP, int(EVENTS / max(1.0, events * cost)))

    def most_saved_ns(self, whatif: WhatIf) -> float:
        """About the most that ``whatif`` can save: how much less long all that it changes then takes, in sum.

        Infinity, if it changes delays or stalls. An order that a strategy decides anew may save more.
        """
        if whatif.moving or any(each.less_s.values.any() for each in whatif.changes):
            return math.inf
        saved_ns = 0.0
        for each in whatif.changes:
            if each.element.kind is ElementKind.HOST:
                busy_ns: float = self.hosts[self._rank[each.element.src]].busy_ns(each.phases)
            else:
                busy_ns = self.links[self._pair(each.element)].busy_ns
            saved_ns += max(0.0, 1 - float(each.scale.values.min())) * busy_ns
        return saved_ns

    @cached_property
    def replayed_ns(self) -> int:
        """Run time of the run simulated again as it was."""
        return self.run_ns()

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """Hosts in rank order, then links that carried messages."""
        used = sorted(pair for pair, link in self.links.items() if link.messages)
        return (*(_host(each.name) for each in self.hosts), *map(self._element, used))

    @property
    def shares_lines(self) -> bool:
        return bool(self.bottlenecks)

    @property
    def named_links(self) -> Mapping[Pair, MeasuredLink]:
        """Its links by the names of their hosts."""
        return {(self.hosts[src].name, self.hosts[dst].name): link for (src, dst), link in self.links.items()}

    @property
    def error(self) -> float:
        """(simulated again - measured) / measured, of the unchanged run: what the measured world leaves out."""
        return (self.replayed_ns - self.measured_ns) / self.measured_ns

    @cached_property
    def _rank(self) -> Mapping[str, int]:
        return {host.name: rank for rank, host in enumerate(self.hosts)}  # a plain one: worlds are sent to processes

    def _hosts(self, change: WhatIf, lap: int, paced: Callable[..., MeasuredPace]) -> tuple[HostModel, ...]:
        profile = self.layout.profile("measured")
        return tuple(
            HostModel(
                name=host.name, layer=host.layer, profile=profile, samples=host.samples,
                pace=partial(paced, host, of_host(change, host.name), seed=self.seed, lap=lap),
            )
            for host in (each.moving() if _host(each.name) in change.moving else each for each in self.hosts)
        )  # fmt: skip

    def _links(self, change: WhatIf) -> Mapping[RankPair, LinkModel]:
        changes: dict[RankPair, list[Change]] = {}
        by_line = Counter(each for line in change.lines for each in line.instead)  # their own rates are as designed
        for each in change.changes:
            if by_line[each]:
                by_line[each] -= 1
            elif each.element.kind is ElementKind.LINK:
                changes.setdefault(self._pair(each.element), []).append(each)
        found: dict[RankPair, LinkModel] = {}
        made: dict[int, LinkModel] = {}  # of links that are one and the same
        for pair, link in self.links.items():
            if not link.messages and pair not in changes:
                if id(link) not in made:
                    made[id(link)] = model_of(link, self.tcp)
                found[pair] = made[id(link)]
                continue
            own = changes.get(pair, [])
            if pair in self.restored and self.restored[pair][0] <= {*own}:
                needed, link = self.restored[pair]
                own = [each for each in own if each not in needed]
            stalls = self.stopped.left(self._element(pair), link.stalls, change.moving)
            found[pair] = model_of(replace(link, stalls=stalls), self.tcp, own)
        return found

    def _element(self, pair: RankPair) -> Element:
        src, dst = pair
        return Element(kind=ElementKind.LINK, src=self.hosts[src].name, dst=self.hosts[dst].name)

    def _pair(self, element: Element) -> RankPair:
        pair = self._rank[element.src], self._rank[element.dst or ""]
        if pair not in self.links:
            raise KeyError(element)
        return pair


def of_host(change: WhatIf, host: str) -> tuple[Change, ...]:
    """The changes of ``host``'s computing."""
    return tuple(each for each in change.changes if each.element == _host(host))


def _host(name: str) -> Element:
    return Element(kind=ElementKind.HOST, src=name)


def model_of(link: MeasuredLink, like: LinkModel, changes: Sequence[Change] = ()) -> LinkModel:
    """``link``, changed, as the virtual world has it: services ``scale`` times as long are a rate that much lower."""
    stalls = link.stalls
    scales, less_s = [link.served(each.scale) for each in changes], [link.delayed(each.less_s) for each in changes]
    moments = [each.starts_s for each in (link.rate_bps, link.delay_s, link.loss, *scales, *less_s)]
    starts_s = np.unique(np.concatenate([np.ravel(stalls), *moments]))
    rates_bps, delays_s, losses = (each.at(starts_s) for each in (link.rate_bps, link.delay_s, link.loss))
    for scale, less in zip(scales, less_s, strict=True):
        rates_bps = rates_bps / scale.at(starts_s)
        delays_s = delays_s - less.at(starts_s)
    tcp, jitter_s, delays_s = link.tcp or like.tcp, link.jitter_s, np.maximum(0.0, delays_s)

    def steps() -> Iterator[tuple[float, LinkModel]]:  # made when they come: schedules may have many more than are met
        for at_s, bps, delay_s, loss in zip(starts_s, rates_bps, delays_s, losses, strict=True):
            yield float(at_s), replace(
                like, rate_bps=float(bps), delay_s=float(delay_s), jitter_s=jitter_s, loss=float(loss),
                burst=link.burst, down=any(begin_s <= at_s < end_s for begin_s, end_s in stalls), tcp=tcp,
            )  # fmt: skip

    _, first = next(steps())
    return first if len(starts_s) == 1 else replace(first, conditions=steps)
