"""Links of a library that hides its messages: which of them are slower, later or lossier, by their senders' counters.

Each is held to what its peers do, those that carry data in the same run: where a scenario designed rates or delays, to
what they do beside theirs. Peers are links that have a rate by design, or those that have none, beside any line that
several share, or through the same. A link departs where all of these hold:

=============  =========================================================================================================
rate           its delivery rate, a series over iterations (:mod:`..series`), is below LEAST_RATE of the peers' median;
               so are its bytes acknowledged per second busy, below LEAST_BUSY: the one alone also moves with chance
delay          its least round trip, less what was designed, is above MOST_TRIPS times the median of all and LEAST_LATER
               more. A round trip does not say which way is long: both links of the pair are named
loss           as rate, and more than LEAST_LOST of its segments were sent again, MORE_LOST times the peers' median
an end         as rate, nothing was lost, and its kernel waited for the receiver's window, which fills behind what is
               lost too, or for room to send (:mod:`.ends`)
=============  =========================================================================================================

What departs for a part of the run is busy for longer then: of a sender that has little to send at a time, its kernel
goes on telling the rate that it saw once. What stays within one machine crosses no network, and is not judged: its
rates are those of memory, and of whoever had the processor. Fewer than LEAST_LINKS have no peers: then each is held to
its own past, and what is slow all the time is not seen. Those that are asked to lose segments have no rate to be held
to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.departures import Departure, Judgement
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.links.ends import waited_for
from e2c_dl.diagnosis.detection.series import Judged, Levelled, Series
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.model import Element, ElementKind, Limitation, Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import RATE, WAY, Change, WhatIf
from e2c_dl.diagnosis.stretches import throughout
from e2c_dl.topology import Pair
from e2c_dl.trace.warm_up import warm_up

LEAST_RATE = 0.87
LEAST_BUSY = 0.95
MOST_TRIPS, LEAST_LATER_S = 2.0, 0.003
LEAST_LOST, MORE_LOST = 0.002, 5.0
LEAST_LINKS = 3  # of two, neither tells which is normal
LEAST_ITERATIONS = 4
HALF = 0.5
_ENDS = {Part.RECEIVER: "; its receiver's window was full", Part.SENDER: "; its send buffer was full"}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Judged:
    """One link beside its peers."""

    flow: ObservedFlow
    judged: Judged
    busy_bps: Doubles  # (windows,) acknowledged bits per second busy, beside its design
    usual_bps: Doubles  # ... of its peers' median link
    by_peers: bool

    @property
    def is_slow(self) -> bool:
        """Whether both counters tell it, over enough iterations."""
        windows = self.judged.windows
        if windows.sum() < LEAST_ITERATIONS or not (windows.all() or self._is_busier):
            return False
        return not self.by_peers or float(np.median((self.busy_bps / self.usual_bps)[windows])) < LEAST_BUSY

    @property
    def _is_busier(self) -> bool:
        """Whether it is busy for longer while it departs than else, by half of what its rate makes of it at least."""
        windows, rated = self.judged.windows, np.exp(self.judged.levelled.series.values)
        busier, more = (np.median(each[windows]) - np.median(each[~windows]) for each in (1 / self.busy_bps, rated))
        return bool(busier >= HALF * more)


def flow_departures(flows: Sequence[ObservedFlow], windows: Windows, design: Design) -> Judgement:
    """Which of ``flows`` depart, and what could not be judged."""
    across = [flow for flow in flows if not flow.within_machine]
    rated = [flow for flow in across if not design.alone(flow.pair).loses]
    series = {flow: made for flow in rated if (made := _series(flow, windows, design)) is not None}
    judged = _judged(series, design)
    late = _late(across, design)
    slow = {each.flow for each in judged if each.is_slow and each.judged.excess_s > 0}
    departures = [_later(own, design) for own in _pairs(late)]
    departures += [
        _slower(each, _lost(each.flow, rated)) for each in judged if each.flow in slow and each.flow not in late
    ]  # fmt: skip
    told = [each for each in judged if each.by_peers]  # one that is held to its past may have been slow all the time
    return Judgement(
        departures=tuple(departures), limitations=tuple(_unjudged(flows, across, rated, series)),
        least_visible=max((each.judged.resolution for each in told), default=None),
        judged={each.flow.element: each.judged.resolution for each in judged},
        held=frozenset(each.flow.element for each in told),
    )  # fmt: skip


def _unjudged(
    flows: Sequence[ObservedFlow], across: Sequence[ObservedFlow], rated: Sequence[ObservedFlow],
    series: Collection[ObservedFlow],
) -> Iterator[Limitation]:  # fmt: skip
    """Why links of which nothing is said are not judged."""
    why_not = {
        "{}: both ends are on one machine, whose processors alone say how fast they are": {*flows} - {*across},
        "the rate of {}: segments are lost by design, and what TCP makes of that is not known": {*across} - {*rated},
        f"the rate of {{}}: fewer than {LEAST_ITERATIONS} iterations after warm-up tell it": {
            flow for flow in rated if flow not in series and flow.is_usual
        },
    }
    for why, which in why_not.items():
        if names := [str(flow.element) for flow in flows if flow in which]:
            yield Limitation.of(f"No verdict on {why}.", "link", names)


def _series(flow: ObservedFlow, windows: Windows, design: Design) -> Series | None:
    """How long its bits took in each iteration after warm-up; None, if too few tell."""
    begins_s = windows.iterations_begin_s(flow.pair[0])
    count = min(len(begins_s), len(flow.busy_s))
    chosen = (flow.known & (flow.need_s > 0))[:count] & (np.arange(count) >= warm_up(count))
    if chosen.sum() < LEAST_ITERATIONS:
        return None
    took_s = flow.need_s[:count][chosen]
    bits = 8 * flow.acked_bytes[:count][chosen] / _designed_bps(flow, design)
    return Series(
        values=np.log(took_s / bits), iterations=np.flatnonzero(chosen), begins_s=begins_s[:count][chosen],
        until_s=windows.until_s, spent_s=took_s,
    )  # fmt: skip


def _designed_bps(flow: ObservedFlow, design: Design) -> float:
    """The rate that was designed of it, or its share of a line's, mean over the run; 1.0 where none was."""
    own, lines = design.alone(flow.pair).own, [line for line in design.bottlenecks if flow.pair in line.links]
    rates = [_mean(design.capacity(line), design) / len(line.links) for line in lines]
    return min([*rates, *([] if own is None else [_mean(own, design)])], default=1.0)


def _mean(value: Piecewise, design: Design) -> float:
    return float(value.total(np.array([design.seconds]))[0] / max(design.seconds, 1e-9))


def _kind(flow: ObservedFlow, design: Design) -> tuple[str | None, bool]:
    """What its peers have in common with it: the line that they share, and whether a rate of their own is designed."""
    return design.line_of.get(flow.pair), design.alone(flow.pair).own is not None


def _judged(series: dict[ObservedFlow, Series], design: Design) -> list[_Judged]:
    own = dict(zip(series, levelled([*series.values()]), strict=True))
    kinds = {flow: _kind(flow, design) for flow in own}
    busy = {flow: _busy_bps(flow, each, design) for flow, each in series.items()}
    found = []
    for flow, one in own.items():
        peers = [other for other in own if other is not flow and kinds[other] == kinds[flow]]
        by_peers = len(peers) + 1 >= LEAST_LINKS
        reference = _usual([own[other] for other in peers]) if by_peers else one.base
        usual = [float(np.median(busy[other])) for other in peers] if by_peers else [1.0]
        found.append(
            _Judged(
                flow=flow, judged=one.judged(reference, -float(np.log(LEAST_RATE)) if by_peers else 0.0),
                busy_bps=busy[flow], usual_bps=np.full(len(busy[flow]), np.median(usual)), by_peers=by_peers,
            )
        )  # fmt: skip
    return found


def _usual(others: Sequence[Levelled]) -> float:
    """The median of ``others``' usual levels."""
    return float(np.median([float(np.median(each.series.values)) for each in others]))


def _busy_bps(flow: ObservedFlow, series: Series, design: Design) -> Doubles:
    bits = 8 * flow.acked_bytes[series.iterations] / _designed_bps(flow, design)
    return np.asarray(bits / flow.busy_s[series.iterations])


def _late(flows: Sequence[ObservedFlow], design: Design) -> dict[ObservedFlow, float]:
    """Those whose round trips are longer, beyond their design, than their peers' -> the usual delay, one way."""
    told = [flow for flow in flows if flow.delay_s > 0 and flow.is_usual]
    trip_s = {flow: _designed_trip_s(flow.pair, design) for flow in told}
    beyond_s = {flow: max(0.0, 2 * flow.delay_s - trip_s[flow]) for flow in told}
    found = {}
    if len(told) >= LEAST_LINKS:
        for flow in told:
            usual_s = float(np.median([beyond_s[other] for other in told if other is not flow]))
            if beyond_s[flow] > MOST_TRIPS * usual_s + LEAST_LATER_S:
                found[flow] = (trip_s[flow] + usual_s) / 2
    return found


def _designed_trip_s(pair: Pair, design: Design) -> float:
    """What a round trip takes by the delays that were designed of both ways."""
    return sum(_mean(design.alone(way).delay_s, design) for way in (pair, pair[::-1]))


def _lost(flow: ObservedFlow, flows: Sequence[ObservedFlow]) -> float | None:
    """The share of its segments that were sent again, if that explains a rate; else None."""
    shares = {each: float(each.retransmissions.sum() / max(1.0, each.segments.sum())) for each in flows}
    usual = float(np.median([share for each, share in shares.items() if each is not flow] or [0.0]))
    return shares[flow] if shares[flow] > max(LEAST_LOST, MORE_LOST * usual) else None


def _slower(each: _Judged, lost: float | None) -> Departure:
    flow, judged = each.flow, each.judged
    windows = judged.levelled.series.iterations[judged.windows]
    observed_bps = flow.delivered_bps(windows)
    busy = float(np.median((each.busy_bps / each.usual_bps)[judged.windows]))
    held = f"{formatting.times(judged.slowdown)} below what the other links of this run do" if each.by_peers else (
        f"{formatting.times(judged.slowdown)} below its own best"
    )  # fmt: skip
    said = f"{flow.element} delivered {formatting.rate(observed_bps)} {judged.stretches.described()}, {held}"
    if each.by_peers:
        said += f"; while it was busy, {formatting.percent(busy)} of what they carry"
    part = Part.RATE
    if lost is not None:
        part = Part.LOSS
        said += f"; {formatting.percent(lost)} of its segments were sent again"
    elif flow.traffic is not None:
        counted = flow.traffic.per_iteration
        part = waited_for(counted[np.isin(counted["iteration"], windows)]) or part
        said += _ENDS.get(part, "")
    change = Change(element=flow.element, phases=RATE, scale=judged.scale())
    return Departure(
        element=flow.element, part=part, when=judged.stretches, slowdown=judged.slowdown, observed=observed_bps,
        expected=observed_bps * judged.slowdown,
        evidence=f"{said}.", restored=WhatIf(changes=(change,)), excess_s=judged.excess_s,
    )  # fmt: skip


def _pairs(late: dict[ObservedFlow, float]) -> list[dict[ObservedFlow, float]]:
    """``late``, those that are the two ways between the same hosts together: a round trip is of both."""
    found: dict[frozenset[str], dict[ObservedFlow, float]] = {}
    for flow, usual_s in late.items():
        found.setdefault(frozenset(flow.pair), {})[flow] = usual_s
    return [*found.values()]


def _later(own: dict[ObservedFlow, float], design: Design) -> Departure:
    """The departure of both links of a pair: the data of one or both, ``own``, shows that a way between is long."""
    flow, usual_s = max(own.items(), key=lambda each: each[0].total_bytes)
    (src, dst), slowdown = flow.pair, flow.delay_s / usual_s if usual_s else float("inf")
    crossings_s = sum(float(np.median(each.busy_s[each.known])) * len(each.known) for each in own)
    beside = "as designed it would be" if _designed_trip_s(flow.pair, design) else "of other links"
    evidence = (
        f"The least round trip between {src} and {dst} is {formatting.seconds(2 * flow.delay_s)}, {beside} "
        f"{formatting.seconds(2 * usual_s)}; it does not say which way is long."
    )
    rate_bps = flow.carrying_bps
    whole = Piecewise.constant(min(1.0, 1 / slowdown))
    changes = tuple(Change(element=one.element, phases=each, scale=whole) for one in own for each in (WAY, RATE))
    return Departure(
        element=Element(kind=ElementKind.GROUP, src=f"links between {src} and {dst}"),
        members=(flow.element, Element(kind=ElementKind.LINK, src=dst, dst=src)), part=Part.DELAY,
        when=throughout(design.seconds), slowdown=slowdown, observed=rate_bps, expected=rate_bps * slowdown,
        evidence=evidence, restored=WhatIf(changes=changes), excess_s=crossings_s * (1 - 1 / slowdown),
    )  # fmt: skip
