"""From a run's trace to its measured world: what its hosts and links took, and what its vectors cost.

A trace does not tell how many bytes a copy or sum has written. So the run is simulated once as it was, with vectors
that cost 1 ns per byte: what they then take is what each rank has written, and the measured time over that is its cost.
Of how many samples each gradient was a trace tells; of an earlier one, that does not, this simulation: a controller of
batches, which sees the gradients take what they took, asks for those that it asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from e2c_dl import strategies
from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.links import Designed
from e2c_dl.diagnosis.model import ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise, multiplied
from e2c_dl.diagnosis.prefix import lacks_iterations
from e2c_dl.diagnosis.replay.columns import Longs
from e2c_dl.diagnosis.replay.replay import NO_STALLS, Stalls
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, Change, WhatIf
from e2c_dl.diagnosis.resimulation.batches import by_changes, recorded_batches
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace, SecondsOf, buckets_of
from e2c_dl.diagnosis.resimulation.lines import known_line, lines_of, measured_line
from e2c_dl.diagnosis.resimulation.links import MeasuredLink, designed_link, measured_links
from e2c_dl.diagnosis.resimulation.sinks import Spent
from e2c_dl.diagnosis.resimulation.stopped import Stopped
from e2c_dl.diagnosis.resimulation.world import Layout, MeasuredWorld
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.errors import AnalysisError
from e2c_dl.scenario.model import Scenario, Tcp
from e2c_dl.strategies.base import Strategy
from e2c_dl.strategies.wrappers import FIXED, Wrapping
from e2c_dl.trace.messages import Messages
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.worlds.allotment import Allotment, allotted
from e2c_dl.worlds.virtual.capacity import UNLIMITED_BPS
from e2c_dl.worlds.virtual.links import RankPair, SharedRate, bottlenecks
from e2c_dl.worlds.virtual.pace import Segment


@dataclass(frozen=True, kw_only=True)
class Changing:
    """What changes by design, over seconds of training, far beyond those that were measured; no more than that."""

    rates_bps: Mapping[RankPair, Piecewise] = field(default_factory=dict)  # of links
    capacities: Mapping[tuple[RankPair, ...], Piecewise] = field(default_factory=dict)  # of lines, by all their links
    factors: Mapping[str, Piecewise] = field(default_factory=dict)  # host -> times slower


UNCHANGING = Changing()


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """What of a run's training decides who sends what to whom, and when."""

    strategy: Callable[[], Strategy]
    samples: Sequence[int]  # by rank, per iteration, to begin with
    allotment: Callable[[], Allotment]  # for one run: what ends it
    seed: int
    layout: Layout
    wrapping: Wrapping = Wrapping()  # noqa: RUF009 - frozen
    evaluate_every: int = 0
    bottlenecks: tuple[SharedRate, ...] = ()  # as designed
    own_bps: Mapping[RankPair, float] = field(default_factory=dict)  # of links that pass one, as designed
    seconds_of: SecondsOf = float  # what a gradient of so many samples takes, in any unit
    tcp: Tcp | None = None  # what sends over links that are as designed; None: nothing but their rates count
    in_step: bool = False  # who sends to whom does not hang on who is faster
    chooses: bool = False  # it hangs on rates of links, which ranks measure
    changes: bool = False  # links or hosts do by design, at moments of the run
    by_time: bool = False  # time ended the run; simulated again, as many iterations do
    hears_verdicts: bool = False  # while it trains; nobody tells any to a run that is simulated again

    @classmethod
    def of(cls, scenario: Scenario, facts: Mapping[str, HostFacts | None], seconds_of: SecondsOf = float) -> Retraining:
        """That of a run of ``scenario``, whose hosts recorded ``facts``. Raises: AnalysisError, InputError."""
        training, topology = scenario.training, scenario.topology
        rank = {host.name: host.rank or 0 for host in topology.ranks}
        shared = [pair for each in topology.bottlenecks for pair in each.links if {*pair} <= {*rank}]
        strategy = partial(strategies.load(training.strategy), **training.strategy_settings)
        schedules = scenario.schedules
        return cls(
            strategy=strategy, in_step=not strategy().asynchronous, chooses=strategy().chooses_by_links,
            hears_verdicts=strategy().hears_verdicts,
            changes=any((schedules.links, schedules.bottlenecks, schedules.compute)),
            samples=training.batch_sizes, allotment=partial(allotted, training), seed=training.seed,
            layout=layout_of(scenario, facts), wrapping=training.wrapping, evaluate_every=training.evaluate_every,
            bottlenecks=bottlenecks(topology), tcp=scenario.tcp,
            own_bps={(rank[src], rank[dst]): topology.link(src, dst).rate_bps or UNLIMITED_BPS for src, dst in shared},
            seconds_of=seconds_of,
        )  # fmt: skip

    @property
    def decides(self) -> bool:
        """Whether ranks decide, by what they meet, who sends what to whom."""
        return self.chooses or not self.in_step

    @property
    def batches_change(self) -> bool:
        """Whether a controller divides samples by the hosts' speed."""
        return self.wrapping.batching != FIXED

    @property
    def decided_anew(self) -> bool:
        """Whether a change alters more of a run than a replay does: who sends what to whom, or how long it takes.

        Links may share a line, on which each message takes as long as others let it. Batches may follow the hosts'
        speed: one that is restored gets larger ones. And what changes by design does so at moments of the run, of which
        one that is restored has done more by then.
        """
        shared = any(len(line.links) > 1 for line in self.bottlenecks)
        return self.decides or self.changes or self.batches_change or shared

    def problem(self, trace: Trace) -> str | None:
        """Why ``trace`` is no whole run of this training, in words; None if it is."""
        if len(trace.ranks) != len(self.samples):
            return f"trace holds {len(trace.ranks)} of {len(self.samples)} ranks"
        wanted = self.allotment().iterations  # None: each rank's own
        for rank in trace.ranks:
            iterations = int((rank.spans["phase"] == Phase.ITERATION).sum())
            if not rank.complete or iterations != (wanted or iterations):
                if lacks_iterations(rank):
                    return f"trace of {rank.host} lacks iterations before its last"
                return f"trace of {rank.host} ends after {iterations} of {wanted or 'its'} iterations"
            if buckets_of(rank) != len(self.layout.buckets):
                return f"trace of {rank.host} has not the {len(self.layout.buckets)} buckets of gradients it names"
        return None

    def world(
        self, trace: Trace, messages: Messages, delays_ns: Mapping[RankPair, int | Longs],
        restored: WhatIf = UNCHANGED, designed: Mapping[RankPair, Designed] = MappingProxyType({}),
        unused: Mapping[RankPair, Designed] = MappingProxyType({}), *,
        modelled: bool = False, changing: Changing = UNCHANGING, ways_back: Set[RankPair] = frozenset(),
        hardware: Mapping[str, str] = MappingProxyType({}), stalls: Stalls = NO_STALLS,
    ) -> MeasuredWorld:  # fmt: skip
        """The measured world of ``trace``, which must be whole.

        ``delays_ns``: one-way delay of each link, 0 where absent; of all its messages, or of each in service order.
        ``restored``: what makes links that depart as designed, which tells when their rates changed. ``designed``:
        links that are as designed, as far as anybody knows, and have a rate: what carried too little to show that, and
        what carried nothing; in a ``modelled`` world all of them, for nothing else but a model slowed them, and what
        those that depart are once they are restored. ``unused``: others that carried nothing, and may be used.
        ``changing``: what else changes by design. ``ways_back``: links that depart by nothing but what the other way,
        which is late, makes of them; in a modelled world they are as designed, and simulated acknowledgements are late.
        ``hardware``: host -> class, of which what a batch takes goes by its samples alike. ``stalls``: of the run.

        Raises: AnalysisError if the trace lacks what a run needs; InputError, TrainingError from the strategy.
        """
        problem = self.problem(trace)
        if problem is not None:
            raise AnalysisError(f"{problem}; a run is simulated again if all ranks finished")
        intervals = [training_ns(rank) for rank in trace.ranks]
        origin_ns = min(start for start, _ in intervals)
        ranks = {rank.host: rank.rank for rank in trace.ranks}
        stopped = Stopped.of(stalls, ranks, origin_ns)
        changes = _changes(restored, ranks)
        edges_s = edges_of(restored, ranks)
        in_lines = {(ranks[link.src], ranks[link.dst or ""]) for line in restored.lines for link in line.links}
        departing = changes.keys() - ways_back - in_lines if modelled else changes.keys()
        alone = {pair: own for pair, own in changes.items() if pair not in in_lines}  # not slow by the line they pass
        links = self._links(
            messages, origin_ns, delays_ns, edges_s, alone,
            {pair: of for pair, of in designed.items() if pair not in departing},
            stopped, modelled=modelled, rates=changing.rates_bps,
        )  # fmt: skip
        slowest_bps = {pair: float(links[pair].rate_bps.values.min()) for pair in alone if pair in self.own_bps}
        own_bps = {**self.own_bps, **slowest_bps}  # beside one that is slow by itself a line is not full
        world = MeasuredWorld(
            hosts=tuple(
                replace(
                    MeasuredHost.of(rank, samples, origin_ns), seconds_of=self.seconds_of,
                    factor=changing.factors.get(rank.host), stops=stopped.hosts.get(rank.host, ()),
                )
                for rank, samples in zip(trace.ranks, self.samples, strict=True)
            ),
            links={**self._alike(unused), **links},
            restored={
                pair: (frozenset(own), links[pair].restored_by(own, self._own(pair, changing.rates_bps)))
                for pair, own in alone.items() if pair in slowest_bps
            } | {
                pair: (frozenset(changes[pair]), designed_link(of, self.tcp))
                for pair, of in designed.items() if pair in changes and modelled
            },
            bottlenecks=tuple(
                known_line(each, {*designed})
                if modelled and not designed.keys().isdisjoint(each.links) and not lines_of(each, restored, ranks)
                else measured_line(
                    each, messages, origin_ns, edges_s, own_bps, lines_of(each, restored, ranks),
                    changing.capacities.get(each.links),
                    most_bps=each.rate_bps if self.in_step else UNLIMITED_BPS,  # else TCP's bursts share it unevenly
                )
                for each in self.bottlenecks
            ),
            layout=self.layout, strategy=self.strategy, wrapping=self.wrapping, allotment=self.allotment,
            evaluate_every=self.evaluate_every, seed=self.seed,
            measured_ns=max(end for _, end in intervals) - origin_ns, stopped=stopped,
        )  # fmt: skip
        world = replace(world, hosts=_rehearsed(world, trace, origin_ns))
        return replace(world, hosts=by_changes(world.hosts, hardware)) if self.seconds_of is float else world

    def _links(
        self, messages: Messages, origin_ns: int, delays_ns: Mapping[RankPair, int | Longs],
        edges_s: Mapping[RankPair, Sequence[float]], changes: Mapping[RankPair, Sequence[Change]],
        designed: Mapping[RankPair, Designed], stopped: Stopped, *, modelled: bool, rates: Mapping[RankPair, Piecewise],
    ) -> Mapping[RankPair, MeasuredLink]:  # fmt: skip
        """Every link that is known; one that passes a shared bottleneck has its own designed rate, where not slower."""
        found = {pair: designed_link(of, self.tcp) for pair, of in designed.items()}
        for pair, link in measured_links(messages, origin_ns, delays_ns, edges_s, rates).items():
            if pair in self.own_bps:  # its share was measured, which depends on what others do
                slower = (link.served(each.scale) for each in changes.get(pair, ()))
                slowed = multiplied(Piecewise.constant(1.0), *slower)
                link = link.slower_by_itself(self._own(pair, rates), slowed, stopped.sure(pair, link.stalls))
            if pair in designed:
                link = link.or_designed(found[pair], surely=modelled)
            found[pair] = link
        return found

    def _alike(self, unused: Mapping[RankPair, Designed]) -> dict[RankPair, MeasuredLink]:
        """Links that carried nothing, those of one design one and the same. On a measured line none has a TCP."""
        on_lines = {pair for line in self.bottlenecks for pair in line.links}
        kinds = {pair: (of, None if pair in on_lines else self.tcp) for pair, of in unused.items()}
        made = {kind: designed_link(*kind) for kind in {*kinds.values()}}
        return {pair: made[kind] for pair, kind in kinds.items()}

    def _own(self, pair: RankPair, rates: Mapping[RankPair, Piecewise]) -> Piecewise:
        """Rate of a link that passes a shared bottleneck, as designed; ``rates``: of those that change by design."""
        return rates.get(pair, Piecewise.constant(self.own_bps[pair]))


def _changes(restored: WhatIf, ranks: Mapping[str, int]) -> Mapping[RankPair, Sequence[Change]]:
    """What restores each link that departs."""
    found: dict[RankPair, list[Change]] = {}
    for each in restored.changes:
        if each.element.kind is ElementKind.LINK:
            found.setdefault((ranks[each.element.src], ranks[each.element.dst or ""]), []).append(each)
    return found


def edges_of(restored: WhatIf, ranks: Mapping[str, int]) -> Mapping[RankPair, Sequence[float]]:
    """Of each link that departs when its rate changed, as far as what restores it tells: in seconds, rising."""
    return {
        pair: np.unique(np.concatenate([one.scale.starts_s for one in own])).tolist()
        for pair, own in _changes(restored, ranks).items()
    }


def layout_of(scenario: Scenario, facts: Mapping[str, HostFacts | None]) -> Layout:
    """How the vectors of a run of ``scenario`` were cut, by what its hosts recorded. Raises: AnalysisError."""
    for each in facts.values():
        if each is not None and each.compute.bucket_sizes:
            own = each.compute
            return Layout(dtype=scenario.training.dtype, buckets=own.bucket_sizes, tensor_shapes=own.tensor_shapes)
    raise AnalysisError(
        "no host's facts.json says how long the gradient's buckets are, so nothing can be simulated again"
    )


def _rehearsed(world: MeasuredWorld, trace: Trace, origin_ns: int) -> tuple[MeasuredHost, ...]:
    """The hosts of ``world``, with what a byte of a vector costs each, and of how many samples its gradients were."""
    spent = Spent(Phase.REDUCE, len(world.hosts))
    asked: dict[str, list[int]] = {host.name: [] for host in world.hosts}
    alike = tuple(replace(host, vector_ns_per_byte=1.0, seconds_of=_unknown) for host in world.hosts)
    replace(world, hosts=alike).simulate(spent, paced=partial(_NotedPace, asked))
    found = []
    for host, rank, written in zip(world.hosts, trace.ranks, spent.by_rank_ns, strict=True):
        spans = rank.spans[rank.spans["phase"] == Phase.REDUCE]
        taken_ns = int(np.maximum(0, spans["end_ns"] - spans["start_ns"]).sum())
        recorded = recorded_batches(rank, [origin_ns + begun_ns for begun_ns in host.begun_ns])
        batches = recorded or [*asked[host.name], *[host.samples] * len(host.gradients)]
        batches = batches[: len(host.gradients)]
        gradients = tuple((batch, gradient) for batch, (_, gradient) in zip(batches, host.gradients, strict=True))
        per_byte = taken_ns / written if written else 0.0
        found.append(replace(host, gradients=gradients, vector_ns_per_byte=per_byte, vectors_ns=taken_ns))
    return tuple(found)


def _unknown(samples: int) -> float:
    """What a gradient of ``samples`` takes while it is not known of how many the measured ones were: as measured."""
    return 1.0


class _NotedPace(MeasuredPace):
    """Notes in ``asked``, by host, of how many samples each gradient is asked for."""

    def __init__(self, asked: Mapping[str, list[int]], host: MeasuredHost, *rest: Any, **more: Any) -> None:
        super().__init__(host, *rest, **more)
        self._asked = asked[host.name]

    def gradient(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        self._asked.append(samples)
        return super().gradient(samples, begin_ns)
