"""What a run was like, as far as its trace shows: what every analysis and every prediction of it begins with."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from e2c_dl.diagnosis.departures import Judgement
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.clocks import Untrusted, mistimed_s, untrusted_clocks
from e2c_dl.diagnosis.detection.links.departures import carried_by_link, link_departures
from e2c_dl.diagnosis.detection.links.flows import flow_departures
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.stalls.stalls import stalled_iterations, stalls
from e2c_dl.diagnosis.detection.stalls.stops import with_stops
from e2c_dl.diagnosis.detection.unnamed import with_unnamed
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.flows import ObservedFlow, observed_flows
from e2c_dl.diagnosis.links import Designed, ObservedLink, in_service_order
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.prefix import at_own_pace, common_iterations, common_prefix
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.replay.columns import Longs
from e2c_dl.diagnosis.replay.replay import Replay, Stalls, prepare, prepare_library
from e2c_dl.diagnosis.replay.throughput import Throughput, throughput
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.resimulation.links import MeasuredLink, measured_links
from e2c_dl.diagnosis.resimulation.measure import Changing, Retraining, edges_of
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
from e2c_dl.diagnosis.window import CUT_BY_TIME, so_far
from e2c_dl.topology import Bottleneck, Pair
from e2c_dl.trace.collectives import Collectives, collectives, of_library
from e2c_dl.trace.messages import Messages, join
from e2c_dl.trace.model import Trace

MOST_UNUSED = 40_000  # links: all of 200 hosts
OFF = 0.01  # of a run: a world that is further off has links at the rates that they showed, windows or not
LUCK = 2.0  # times longer than losses by design make it: bad luck, beyond it something else


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The iterations that all ranks of a run finished. Made by :func:`observe`."""

    whole: Trace  # as it was recorded
    trace: Trace  # cut to these iterations
    iterations: int
    messages: Messages
    design: Design  # schedules as they were while this run trained
    windows: Windows
    carried: tuple[ObservedLink, ...]  # with the delays that were found to be added
    links: Judgement
    untrusted: Untrusted  # of clocks
    stalled: Stalls
    collectives: Collectives | None = None  # of a library that hides its messages; None: none hides any
    flows: tuple[ObservedFlow, ...] = ()  # of such a library's links

    @cached_property
    def left_out(self) -> dict[str, list[int]]:
        """Host -> iterations whose lengths say nothing of its speed: it stalled in them, or its clock stepped."""
        found = stalled_iterations(self.trace, self.stalled)
        for host, iterations in self.untrusted.iterations.items():
            found[host] = [*found.get(host, ()), *iterations]
        return found

    @cached_property
    def mistimed_s(self) -> float:
        """By how much messages arrive before they were sent, where that spoils what a replay tells; else 0.0."""
        return mistimed_s(self.trace, self.messages)

    @cached_property
    def delays_ns(self) -> Mapping[tuple[int, int], int | Longs]:
        """(src rank, dst rank) -> one-way delay of each message, in service order."""
        ranks = {rank.host: rank.rank for rank in self.trace.ranks}  # links are told by hosts, replays by ranks
        return {(ranks[link.src], ranks[link.dst]): link.delay_ns for link in self.carried}

    @property
    def own_pace(self) -> bool:
        """Whether ranks went at their own pace, and did not do equally many iterations."""
        return at_own_pace(self.trace) and self.collectives is None

    @cached_property
    def replaying(self) -> Replay | Throughput:
        """What tells by a replay what changes bring: of ranks at their own pace, how much all of them do together."""
        trains = self.trace.facts.get(CUT_BY_TIME)
        return throughput(self.replay, self.trace, trains) if self.own_pace or trains else self.replay

    @cached_property
    def replay(self) -> Replay:
        """The run, to be replayed with changes. Raises: AnalysisError, if the trace contradicts itself."""
        if self.collectives is not None:
            return prepare_library(self.trace, self.collectives, self.flows, self.stalled)
        return prepare(self.trace, self.messages, self.delays_ns, self.stalled)

    @cached_property
    def measured_links(self) -> Mapping[Pair, MeasuredLink]:
        """Every link that carried something, as it was over the seconds of training."""
        if self.collectives is not None:
            return {
                each.pair: MeasuredLink(
                    rate_bps=Piecewise.constant(each.carrying_bps), delay_s=Piecewise.constant(each.delay_s)
                )
                for each in self.flows
            }
        hosts = {rank.rank: rank.host for rank in self.trace.ranks}
        edges_s = edges_of(self._restored, {host: rank for rank, host in hosts.items()})
        rates_bps = self._changing.rates_bps
        found = measured_links(self.messages, self.design.began_ns, self.delays_ns, edges_s, rates_bps)
        return {(hosts[src], hosts[dst]): link for (src, dst), link in found.items()}

    @cached_property
    def _restored(self) -> WhatIf:
        """What makes all links that depart as designed."""
        return WhatIf.together(each.restored for each in self.links.departures)

    @cached_property
    def _simulated(self) -> AsDesigned:
        return AsDesigned(self.carried, self.design)

    def world(self, retraining: Retraining) -> MeasuredWorld:
        """The run, to be simulated again with changes. Raises: AnalysisError, if the trace is not whole."""
        messages, delays_ns = self.messages, self.delays_ns
        if self.trace is not self.whole:  # ranks go at their own pace: nothing is cut off
            messages = join(self.whole)
            delays_ns = self._delays_ns_of(messages)
        designed = self._as_designed(retraining)
        world = retraining.world(
            self.whole, messages, delays_ns, self._restored, designed, self._unused(retraining, designed),
            modelled=self.design.reference.modelled, changing=self._changing, ways_back=self._ways_back,
            hardware=self.design.reference.hardware, stalls=self.stalled,
        )  # fmt: skip
        slowed = self._as_slowed(world)
        if not slowed or abs(world.error) <= OFF:
            return world
        return min((world, replace(world, links={**world.links, **slowed})), key=lambda each: abs(each.error))

    def _as_slowed(self, world: MeasuredWorld) -> Mapping[tuple[int, int], MeasuredLink]:
        """Links of ``world`` that depart by themselves, and are nothing but a model: as designed but for what departs.

        What a link carried while TCP's windows opened tells its rate badly, and how long they take to open not at all.
        """
        ranks = {rank.host: rank.rank for rank in self.trace.ranks}
        by_others = {(ranks[each.src], ranks[each.dst or ""]) for line in self._restored.lines for each in line.links}
        by_others |= self._ways_back
        return {
            pair: designed.slowed_by([*changes], world.links[pair])
            for pair, (changes, designed) in world.restored.items()
            if designed.tcp is not None and pair not in by_others
        }

    @cached_property
    def _ways_back(self) -> frozenset[tuple[int, int]]:
        """(src rank, dst rank) of links that depart by nothing but what the other way, which is late, makes of them."""
        ranks = {rank.host: rank.rank for rank in self.trace.ranks}
        changed = {each.element for each in self._restored.changes}
        by_themselves = {
            link for one in self.links.departures
            for link in ([one.element] if one.element.dst else [each.element for each in one.restored.changes])
        }  # fmt: skip
        return frozenset((ranks[each.src], ranks[each.dst or ""]) for each in changed - by_themselves)

    @cached_property
    def _changing(self) -> Changing:
        """What of the design changes during the run, or would if it took longer."""
        design, ranks = self.design.foreseen, {rank.host: rank.rank for rank in self.trace.ranks}
        names = {rank: host for host, rank in ranks.items()}
        own = {pair: design.alone((names[pair[0]], names[pair[1]])).own for pair in self.messages.by_link()}
        factors = {host: design.factor(host) for host in ranks}
        lines = {
            tuple((ranks[src], ranks[dst]) for src, dst in each.links if {src, dst} <= {*ranks}): design.capacity(each)
            for each in design.bottlenecks
        }
        return Changing(
            rates_bps={pair: rate for pair, rate in own.items() if rate is not None and len(rate.values) > 1},
            capacities={links: capacity for links, capacity in lines.items() if len(capacity.values) > 1},
            factors={host: factor for host, factor in factors.items() if len(factor.values) > 1},
        )

    def _delays_ns_of(self, whole: Messages) -> Mapping[tuple[int, int], Longs]:
        """(src rank, dst rank) -> one-way delay of each of ``whole``'s messages: of the last that is known by then."""
        ranks = {rank.host: rank.rank for rank in self.trace.ranks}
        links, found = whole.by_link(), {}
        for link in self.carried:
            pair = ranks[link.src], ranks[link.dst]
            order = np.argsort(link.rows["send_start_ns"], kind="stable")
            known_ns = link.rows["send_start_ns"][order]
            last = np.searchsorted(known_ns, in_service_order(links[pair])["send_start_ns"], side="right") - 1
            found[pair] = link.delay_ns[order][np.maximum(0, last)]
        return found

    def _as_designed(self, retraining: Retraining) -> Mapping[tuple[int, int], Designed]:
        """(src rank, dst rank) -> its design, of the links that have a rate of their own and do not depart from it,
        nor stalled.

        In a modelled world of those, too, that depart: they are that once they are restored.
        Those that carried something, and their ways back, whose delay is half of a round trip; and all others that the
        strategy may use.
        """
        names, design = {rank.rank: rank.host for rank in self.trace.ranks}, self.design.foreseen
        used = self.messages.by_link().keys()
        pairs = {*used, *((dst, src) for src, dst in used), *self._may_be_used(retraining)}
        departs = {(each.element.src, each.element.dst) for each in self._restored.changes}
        by_line = {(link.src, link.dst) for line in self._restored.lines for link in line.links}
        by_themselves = departs - by_line - {(names[src], names[dst]) for src, dst in self._ways_back}
        stalled = self.stalled.messages.keys()
        as_measured = {
            pair for line in self.design.bottlenecks if not self._is_as_designed(line, by_themselves | stalled)
            for pair in line.links
        } | (stalled - by_themselves)  # fmt: skip
        found = {}
        for src, dst in pairs:
            pair = names[src], names[dst]
            if pair not in as_measured and (pair not in departs or self.design.reference.modelled):
                designed = design.alone(pair)
                if designed.own is not None and (not designed.loses or self._loses_as_designed(pair)):
                    found[src, dst] = designed
        return found

    def _unused(self, retraining: Retraining, known: Container[tuple[int, int]]) -> Mapping[tuple[int, int], Designed]:
        """(src rank, dst rank) -> its design, of the others that the strategy may use, but has not used."""
        used, names = self.messages.by_link().keys(), {rank.rank: rank.host for rank in self.trace.ranks}
        return {
            (src, dst): self.design.foreseen.alone((names[src], names[dst]))
            for src, dst in self._may_be_used(retraining) if (src, dst) not in used and (src, dst) not in known
        }  # fmt: skip

    def _may_be_used(self, retraining: Retraining) -> Collection[tuple[int, int]]:
        found = retraining.strategy().used_links([rank.layer for rank in self.trace.ranks])
        return found if len(found) <= MOST_UNUSED else ()

    def _is_as_designed(self, line: Bottleneck, departs: Collection[tuple[str, str | None]]) -> bool:
        """Whether what a line and its links are like is known: a model's, of whose links none ``departs`` or loses."""
        reference = self.design.reference
        if not reference.modelled or reference.tcp is None or line.name in reference.schedules.bottlenecks:
            return False
        links = {pair: self.design.alone(pair) for pair in line.links}
        return not any(pair in departs or own.own is None or own.loses for pair, own in links.items())

    def _loses_as_designed(self, pair: Pair) -> bool:
        """Whether a link that loses segments is nothing but a model, and about as slow as its losses explain."""
        link = next((each for each in self.carried if each.pair == pair), None)
        if link is None or not self._simulated.exact:
            return self._simulated.exact
        would_ns = self._simulated.would_ns(link)
        return would_ns is not None and float(link.services_ns.sum()) <= LUCK * float(would_ns.sum())


def observe(trace: Trace, reference: Reference, *, by_luck: bool = True) -> Observed:
    """What ``trace`` shows of a run that ``reference`` designed; of one that broke off, its common prefix, or what each
    rank has finished where they go at their own pace.

    ``by_luck``: as :func:`link_departures` has it. Raises: AnalysisError, if no iteration was finished by all ranks.
    """
    iterations = common_iterations(trace)  # where a rank was killed, the others went on
    broke_off = not any(rank.complete for rank in trace.ranks)
    # A rank that was killed early must not look like one that waits.
    prefix = so_far(trace) if broke_off and reference.own_pace else common_prefix(trace)
    messages = join(prefix)
    design = Design.of(prefix, reference)
    windows = Windows.of(prefix, design.began_ns)
    if of_library(prefix):
        return _of_library(trace, prefix, iterations, design, windows)
    carried = carried_by_link(prefix, messages, iterations, design)
    untrusted = untrusted_clocks(prefix, carried, windows)
    believed = [replace(link, by_receiver=True) if {*link.pair} & untrusted.between else link for link in carried]
    stopped = with_stops(prefix, believed, design)
    links, carried = link_departures(stopped, windows, design, by_luck=by_luck)
    return Observed(
        whole=trace, trace=prefix, iterations=iterations, messages=messages, design=design, windows=windows,
        carried=carried, links=links, untrusted=untrusted,
        stalled=stalls(prefix, carried, design),
    )  # fmt: skip


def _of_library(trace: Trace, prefix: Trace, iterations: int, design: Design, windows: Windows) -> Observed:
    """What ``trace``, cut to ``prefix``, shows of a run whose library hides its messages."""
    flows = observed_flows(prefix, iterations)
    prefix = prefix if design.reference.on_gpu else with_unnamed(prefix)
    return Observed(
        whole=trace, trace=prefix, iterations=iterations, messages=join(prefix), design=design, windows=windows,
        carried=(), links=flow_departures(flows, windows, design), untrusted=untrusted_clocks(prefix, (), windows),
        stalled=stalls(prefix, (), design), collectives=collectives(prefix), flows=flows,
    )  # fmt: skip
