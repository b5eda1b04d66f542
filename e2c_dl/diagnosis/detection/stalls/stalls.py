"""Stalls of seconds: of a link that carried nothing, of a host whose process did not run.

Medians do not see one long pause, so stalls are found by themselves::

    link a -> b    |=|  |=|  |==================|  |=|      a message's service beyond what is expected is a stall if it
                             |-- stall ---------|           is at least 2 s, and the service 10 times as expected
    alive, b       .    .    .                  .    .      once a second; more than 1.5 s without: b was stopped, and
                                                            the stall is b's, not the link's

Where a tenth of an element's messages or segments take so long, it is slow, and judged as that.

A gradient's segment that takes that much longer than its median, at the speed designed for the moment, is a stall of
its host, but for the first iterations'; of a batch some times as large as the usual one, as many times longer is
expected. So is what else it computes, if the host was not alive meanwhile: the first batch of an epoch takes long, too,
and nothing has stopped. Nor has it, on machines, where most ranks take so long in one iteration, as when a graph is
compiled again. What a host that stopped for less long, or that nobody watched, held up of what its links carried
(:mod:`.stops`) is a stall of that host.

Links without expected rate, or with many losses by design, and links of hosts whose clock or signs of life are not
known, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.blameless import SHARED_BY
from e2c_dl.diagnosis.detection.hosts import MIN_PEERS
from e2c_dl.diagnosis.detection.stalls.stops import (
    SILENCE_NS,
    Doubles,
    Longs,
    alike,
    beside_usual_ns,
    silences,
    times_larger,
)
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import BY_DESTINATION, BY_SOURCE, MIN_RATIO, MIN_STALL_NS, ObservedLink, few
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.replay.program import SpanKey
from e2c_dl.diagnosis.replay.replay import Stall, Stalls
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.stretches import at_moments
from e2c_dl.trace.model import COMPUTE, GRADIENT, Phase, RankTrace, Trace
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS


def stalls(trace: Trace, carried: Sequence[ObservedLink], design: Design) -> Stalls:
    """The stalls of ``trace``, whose links carried ``carried``."""
    watched = {host: alive for host, alive in trace.alive.items() if len(alive)}
    unaligned = trace.facts.get("hosts_without_clock", ())
    messages = {}
    for link in carried:
        told = link.designed.may_stall and all(host in watched and host not in unaligned for host in link.pair)
        if told or link.held_up.any():
            messages[link.pair] = [*_of_link(link, watched if told else {})]
    segments = dict(each for rank in trace.ranks for each in _of_computing(rank, design, watched.get(rank.host)))
    segments = segments if design.reference.modelled else _not_of_most(segments, trace, design)
    of_links = [stall for each in messages.values() for stall in each if stall is not None]
    return Stalls(
        found=(*of_links, *segments.values()),
        messages={pair: each for pair, each in messages.items() if any(each)},
        segments=segments,
    )


def _not_of_most(segments: Mapping[SpanKey, Stall], trace: Trace, design: Design) -> dict[SpanKey, Stall]:
    """``segments`` without those of an iteration in which most ranks stalled in the same phase.

    No host stalled by itself there: it took longer for all, which :mod:`..blameless` says.
    """
    stalled: dict[tuple[int, int], set[int]] = {}
    for rank, phase, iteration, _ in segments:
        stalled.setdefault((phase, iteration), set()).add(rank)
    least = MIN_PEERS if design.of_hosts else 2
    most = {
        (phase, iteration) for (phase, iteration), ranks in stalled.items()
        if len(ranks) >= max(least, SHARED_BY * sum(bool(len(rank.rows(Phase(phase)))) for rank in trace.ranks))
    }  # fmt: skip
    return {key: stall for key, stall in segments.items() if key[1:3] not in most}


def stalled_iterations(trace: Trace, found: Stalls) -> dict[str, list[int]]:
    """Host -> iterations in whose computing it stalled."""
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    made: dict[str, list[int]] = {}
    for rank, _, iteration, _ in found.segments:
        made.setdefault(hosts[rank], []).append(iteration)
    return made


def with_stalls(
    departures: Sequence[Departure], found: Sequence[Stall], windows: Windows, design: Design
) -> tuple[Departure, ...]:
    """``departures``, and what stalled: as one of its own, or with that of its element, or of its group."""
    by_element: dict[Element, list[Stall]] = {}
    for stall in found:
        by_element.setdefault(stall.element, []).append(stall)
    made = {departure.element: departure for departure in departures}
    within = {member: departure.element for departure in departures for member in departure.members}
    for element, own in by_element.items():
        stalled = _stalled(element, own, windows, design)
        of = element if element in made else within.get(element, element)
        made[of] = _with(made[of], stalled) if of in made else stalled
    return tuple(made.values())


def _with(other: Departure, stalled: Departure) -> Departure:
    """``other``, of an element or its group, which ``stalled`` as well."""
    restored = replace(other.restored, moving=other.restored.moving | stalled.restored.moving)
    return replace(
        other, restored=restored, evidence=f"{other.evidence} {stalled.evidence}",
        stalled_s=max(other.stalled_s, stalled.stalled_s), excess_s=other.excess_s + stalled.excess_s,
    )  # fmt: skip


def _stalled(element: Element, own: Sequence[Stall], windows: Windows, design: Design) -> Departure:
    longest_s = max(stall.length_ns for stall in own) / 1e9
    apart = [((begin - design.began_ns) / 1e9, (end - design.began_ns) / 1e9) for begin, end in _merged(own)]
    total_s = sum(end_s - begin_s for begin_s, end_s in apart)
    what = "carried nothing" if element.kind is ElementKind.LINK else "did nothing"
    when = at_moments(apart, windows.iteration_of(element.src, apart[0][0]))
    return Departure(
        element=element, part=Part.STALLED, when=when, slowdown=1.0, observed=0.0, expected=0.0,
        evidence=f"{element} {what} for {total_s:.3g} s in all, for {longest_s:.3g} s at a stretch, "
        f"from second {when.onset_s:.3g} on.",
        restored=WhatIf(moving=frozenset({element})), stalled_s=total_s, excess_s=total_s,
    )  # fmt: skip


def _merged(own: Sequence[Stall]) -> list[tuple[int, int]]:
    """(begin, end) in ns of the times in which at least one of them lasted, rising."""
    found: list[tuple[int, int]] = []
    for stall in sorted(own, key=lambda one: one.begin_ns):
        end_ns = stall.begin_ns + stall.length_ns
        if found and stall.begin_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(end_ns, found[-1][1]))
        else:
            found.append((stall.begin_ns, end_ns))
    return found


def _of_link(link: ObservedLink, watched: Mapping[str, Longs]) -> Iterator[Stall | None]:
    """Of each message; a host that was not seen alive for half of it stopped the link, whatever that could have done.

    ``watched``: of both hosts; empty: of none.
    """
    silent = {host: silences(watched[host]) for host in link.pair if host in watched}
    excess_ns = np.rint(link.services_ns - link.expected_ns - link.uncertainty_ns).astype(np.int64)
    hosts = {BY_SOURCE: link.src, BY_DESTINATION: link.dst}
    whose = np.broadcast_to(link.stopped, link.rows.shape).tolist()
    rows = zip(excess_ns.tolist(), link.rows["recv_end_ns"].tolist(), whose, link.stalled_long, strict=True)
    for length_ns, end_ns, stopped_by, is_long in rows:
        begin_ns = end_ns - length_ns
        if stopped_by in hosts:
            yield Stall(element=_host(hosts[stopped_by]), begin_ns=begin_ns, length_ns=length_ns)
        elif is_long and silent and all(_was_watched(watched[host], begin_ns, end_ns) for host in link.pair):
            stopped = [host for host in link.pair if _overlap_ns(silent[host], begin_ns, end_ns) >= length_ns / 2]
            element = _host(stopped[0]) if stopped else link.element
            yield Stall(element=element, begin_ns=begin_ns, length_ns=length_ns)
        else:
            yield None


def _was_watched(alive_ns: Longs, begin_ns: int, end_ns: int) -> bool:
    return bool(alive_ns[0] <= begin_ns + SILENCE_NS and alive_ns[-1] >= end_ns - SILENCE_NS)


def _overlap_ns(silences: Longs, begin_ns: int, end_ns: int) -> int:
    together = np.minimum(silences[:, 1], end_ns) - np.maximum(silences[:, 0], begin_ns)
    return int(np.maximum(together, 0).sum())  # those apart overlap by less than 0


def _host(name: str) -> Element:
    return Element(kind=ElementKind.HOST, src=name)


def _median(took_s: Doubles) -> Doubles:
    return np.full(len(took_s), np.median(took_s))


def _of_computing(rank: RankTrace, design: Design, alive_ns: Longs | None) -> Iterator[tuple[SpanKey, Stall]]:
    silent = None if alive_ns is None else silences(alive_ns)
    spans, larger = rank.of(*(GRADIENT if silent is None else COMPUTE)), times_larger(rank, design)
    for same in alike(spans[spans["iteration"] >= WARM_UP_ITERATIONS]):
        lengths_ns = same["end_ns"] - same["start_ns"]
        if lengths_ns.max() < MIN_STALL_NS:
            continue
        longer_ns, usual_ns = beside_usual_ns(same, _median, rank.host, design, larger)
        excess_ns = longer_ns - rank.clock.uncertainty_ns
        is_stalled = few((excess_ns >= MIN_STALL_NS) & (lengths_ns >= MIN_RATIO * usual_ns))
        for span, excess in zip(same[is_stalled], excess_ns[is_stalled].tolist(), strict=True):
            begin_ns, end_ns, phase = int(span["start_ns"]), int(span["end_ns"]), int(span["phase"])
            if phase in GRADIENT or (silent is not None and _overlap_ns(silent, begin_ns, end_ns) >= excess / 2):
                key = (rank.rank, phase, int(span["iteration"]), end_ns)
                yield key, Stall(element=_host(rank.host), begin_ns=begin_ns, length_ns=round(excess))
