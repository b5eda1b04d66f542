"""Links that are slower or later than designed: of which part, by what evidence, and what would restore them.

Which depart :mod:`.judged` says. Those of one shared bottleneck that depart, all that carried anything
meanwhile, are blamed together, as what they share. Links that are asked to lose segments have no rate that is known
beforehand: they are held to themselves by other luck (:mod:`.losing`), as far as that can be simulated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.diagnosis.departures import Departure, Judgement
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.explained import without_explained
from e2c_dl.diagnosis.detection.links.first_bytes import even_delay_ns, first_bytes_late_ns, least_late_ns
from e2c_dl.diagnosis.detection.links.hidden_delays import hidden_delays
from e2c_dl.diagnosis.detection.links.judged import BLIND, JudgedLink, judged_links, slow_together
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, UNTOLD, Kind
from e2c_dl.diagnosis.detection.links.kinds_simulated import kind_told
from e2c_dl.diagnosis.detection.links.lines.carried import slow_by_all
from e2c_dl.diagnosis.detection.links.lines.departure import line_departure, whole_line_departure
from e2c_dl.diagnosis.detection.links.losing.judged import LosingLink, losing_links
from e2c_dl.diagnosis.detection.links.losing.kinds import losing_evidence, losing_kind, worth_trying
from e2c_dl.diagnosis.detection.links.restored import each_by_itself, late_too, restored
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.links.tcp_windows import opens_window, waits_for_window
from e2c_dl.diagnosis.detection.links.told_when import told_when
from e2c_dl.diagnosis.detection.links.way_back import behind_data, not_blamed, with_way_back, with_what_waits
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink, in_service_order
from e2c_dl.diagnosis.model import Limitation, Part
from e2c_dl.diagnosis.replay.whatif import WhatIf, scaled
from e2c_dl.diagnosis.stretches import Stretches
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Pair
from e2c_dl.trace.messages import Messages
from e2c_dl.trace.model import Trace
from e2c_dl.trace.warm_up import warm_up

COMMON_WORTH_SAYING = 1.2
CLOCK_STEPS = 2  # windows that a step of the receiver's clock may touch


def carried_by_link(trace: Trace, messages: Messages, iterations: int, design: Design) -> tuple[ObservedLink, ...]:
    """What every link carried that carried anything, by (src rank, dst rank)."""
    ranks = {rank.rank: rank for rank in trace.ranks}
    found = []
    for (src, dst), rows in messages.by_link().items():
        watched = ranks[src].host in trace.alive and ranks[dst].host in trace.alive
        uncertainty_ns = ranks[src].clock.uncertainty_ns + ranks[dst].clock.uncertainty_ns
        found.append(
            ObservedLink(
                src=ranks[src].host, dst=ranks[dst].host, rows=in_service_order(rows),
                designed=design.alone((ranks[src].host, ranks[dst].host)), began_ns=design.began_ns,
                uncertainty_ns=uncertainty_ns, first_iteration=warm_up(iterations),
                traffic=trace.connections.between(src, dst), may_stall=watched or not design.reference.modelled,
            )
        )  # fmt: skip
    return design.with_shares(found)


def link_departures(
    carried: Sequence[ObservedLink], windows: Windows, design: Design, *, by_luck: bool = True
) -> tuple[Judgement, tuple[ObservedLink, ...]]:
    """The links, and what they share, that are slower than designed, and what could not be judged.

    With them ``carried``, of which those that are later have their added delay. ``by_luck``: links that lose segments
    by design are judged, too, which takes seconds.
    """
    if not design.reference.network_emulated:
        said = Limitation(sentence="No verdict on links: the network is as it is, not by design.")
        return Judgement(limitations=(said,)), tuple(carried)
    as_designed = AsDesigned(carried, design)
    judged, common = judged_links(carried, windows, design, as_designed)
    judged += losing_links(carried, windows, as_designed) if by_luck else []
    limitations = _unjudged(carried, judged)
    if common >= COMMON_WORTH_SAYING:
        slower = f"Most links carry messages {common:.1f} x slower than designed"
        spent_s = max(float(each.of.series.spent_s.sum()) for each in judged if each.is_held)
        of_each_s = (1 - 1 / common) * spent_s
        limitations.append(Limitation(sentence=f"{slower}: no single one is blamed for it.", common_s=of_each_s))
    longer = [each for each in judged if each.departs and each.judged.excess_s > 0]
    late_ns = hidden_delays(judged, carried, design)
    hidden = [*late_ns]
    delayed = {each.link.pair: late_ns[each] for each in hidden}
    slow = [
        without_explained(each, as_designed)
        for each in longer
        if each.link.pair not in delayed and _is_told(each, as_designed)
    ] + hidden
    told = {each.link.pair for each in slow}
    untold = [each for each in longer if each.link.pair not in told]
    by_pair = {each.link.pair: each for each in slow}
    shared = slow_together(judged, by_pair.keys() - delayed.keys(), design)
    whole = {
        line: found
        for line, found in slow_by_all(carried, judged, design, as_designed, common).items()
        if line not in shared
    }
    together = {each.link.pair for own in (*shared.values(), *(own for own, _ in whole.values())) for each in own}
    alone = [each for each in slow if each.link.pair not in together | delayed.keys()]
    told_by = _Told(as_designed=as_designed, hidden=delayed, tried=worth_trying(alone + hidden))
    kinds = {each.link.pair: told_by.kind(each) for each in alone + hidden}
    every = {link.pair: link for link in carried}
    waiting, opening, held_up = behind_data(
        [] if as_designed.exact else [by_pair[each] for each in kinds], every, kinds
    )
    departures = []
    behind, excused = (
        {pair: _departure(by_pair[pair], kinds[pair], as_designed) for pair in pairs} for pairs in (waiting, held_up)
    )
    for pair in (pair for pair in kinds if pair not in {*waiting, *opening, *held_up}):
        made = _departure(by_pair[pair], kinds[pair], as_designed, hidden=pair in delayed)
        back = pair[::-1]
        opens = as_designed.exact and not (back in kinds and kinds[back].delay_ns)
        made = with_way_back(made, by_pair[pair], every.get(back), opens=opens)
        departures.append(with_what_waits(made, behind.get(back)))
    departures += [line_departure(line, own, design) for line, own in shared.items()]
    departures += [whole_line_departure(line, *found, design) for line, found in whole.items()]
    visible = [each.resolution for each in judged if each.is_held and each.of.expected_ns > 2 * GRAIN_NS]
    unknown = together | {each.link.pair for each in untold} | {*waiting, *opening, *held_up}
    judgement = Judgement(
        departures=tuple(departures), excused=tuple(excused.values()),
        untold=(*(_untold(each, as_designed) for each in untold), *_unseen(judged, as_designed)),
        limitations=(*limitations, *not_blamed(waiting, opening, held_up)), least_visible=max(visible, default=None),
        judged={each.link.element: each.resolution for each in judged if each.link.pair not in unknown},
        looked={each.link.element: each.looked for each in (*judged, *slow)},
        held=frozenset(each.link.element for each in judged if each.is_held),
    )  # fmt: skip
    return judgement, tuple(
        _later(by_pair[link.pair], kinds[link.pair], as_designed) if link.pair in kinds else link for link in carried
    )


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What tells the kinds of links that depart: those ``hidden`` are late by a delay, simulation tells ``tried``."""

    as_designed: AsDesigned
    hidden: Mapping[Pair, float]  # ns
    tried: Collection[Pair]

    def kind(self, each: JudgedLink) -> Kind:
        if isinstance(each, LosingLink):
            return losing_kind(each, self.as_designed, tried=each.link.pair in self.tried)
        if each.link.pair in self.hidden:
            return Kind(part=Part.DELAY, delay_ns=self.hidden[each.link.pair])
        return kind_told(each, self.as_designed)


def _is_told(each: JudgedLink, as_designed: AsDesigned) -> bool:
    """Whether it may not be the clock's, one of which steps within a window or two, nor the wait for TCP's window.

    Of a link that loses segments by design the wait is part of what luck makes of it.
    """
    if each.link.designed.loses:
        return True
    if each.link.by_receiver:
        return int(each.judged.windows.sum()) > CLOCK_STEPS
    departs = each.of.messages(each.judged.windows)
    explained = as_designed.explains(each.link, departs)
    if explained is not None and as_designed.exact:
        return not explained
    if even_delay_ns(each.link, each.judged.slowdown):
        return True
    return not (explained or waits_for_window(each.link, departs) or opens_window(each.link, departs))


def _unseen(judged: Sequence[JudgedLink], as_designed: AsDesigned) -> list[Departure]:
    """Those of ``judged`` of which little would have been seen, as if all of their messages departed."""
    blind = [each for each in judged if not each.departs and each.resolution > BLIND]
    everywhere = [replace(each.judged, departs=np.ones_like(each.judged.departs)) for each in blind]
    found = [replace(each, judged=all_of_it) for each, all_of_it in zip(blind, everywhere, strict=True)]
    few = Kind(part=Part.RATE_DELAY_OR_LOSS)
    return [
        _departure(each, replace(few, rate=each.judged.slowdown), as_designed, luck=True)
        for each in found
        if each.judged.excess_s > 0
    ]


def _later(each: JudgedLink, kind: Kind, as_designed: AsDesigned) -> ObservedLink:
    """The link with the delay that was added to it while it departed."""
    if not kind.delay_ns:
        return each.link
    late = each.judged.windows[each.of.windows] | late_too(each, kind, as_designed.exactly_ns(each.link))
    added_ns = np.where(late, round(kind.delay_ns), 0)
    return replace(each.link, added_delay_ns=added_ns)


def _unjudged(carried: Sequence[ObservedLink], judged: Sequence[JudgedLink]) -> list[Limitation]:
    """Why links of which ``judged`` says nothing are not judged."""
    told = {each.link.pair for each in judged if each.is_held or (each.departs and each.link.designed.loses)}
    known = {each.link.pair for each in judged}
    reasons: dict[str, list[str]] = {}
    for link in carried:
        if link.pair in told:
            continue
        if link.designed.rate is None:
            reason = "no rate was designed"
        elif link.designed.loses and link.pair in known:
            reason = f"segments are lost by design, and by luck alone it may be more than {BLIND:g} x slower"
        elif link.designed.loses:
            reason = "segments are lost by design, and what TCP makes of that is not simulated for it"
        else:
            reason = (
                "no message after warm-up, and slower by less than what warming up may cost would not have been seen"
            )
        reasons.setdefault(reason, []).append(str(link.element))
    said = {f"No verdict on the rate of {{}}: {reason}.": links for reason, links in reasons.items()}
    return [Limitation.of(sentence, "link", links) for sentence, links in said.items()]


def _departure(
    each: JudgedLink, kind: Kind, as_designed: AsDesigned, *, hidden: bool = False, luck: bool = False
) -> Departure:
    """The departure of one link; of one whose services do not show it each message may be why it was waited for.

    ``luck``: it may be why, so that each message is restored by itself: what it took from one is none of the others'.
    """
    link, judged = each.link, each.judged
    departs = each.of.messages(judged.windows)
    bits = float(wire_bits_of(link.rows["nbytes"][departs]).sum())
    slowdown = kind.rate if kind.part is Part.RATE and not kind.delay_ns else judged.slowdown  # as evidence has it
    usual_ns = float(each.designed_ns[departs].sum())
    if link.designed.left is not None:  # what others leave it they would not, were it faster: what it carried is known
        usual_ns = float(link.services_ns[departs].sum()) / slowdown
    expected_bps = bits / usual_ns * 1e9
    would_ns = as_designed.exactly_ns(link)
    when = told_when(each, kind, would_ns, measured=not as_designed.exact)
    of = (kind, expected_bps, when)
    evidence = losing_evidence(each, *of) if isinstance(each, LosingLink) else _evidence(each, *of)
    return Departure(
        element=link.element, part=kind.part, when=when, slowdown=slowdown,
        observed=expected_bps / slowdown, expected=expected_bps, evidence=evidence,
        restored=WhatIf(changes=(each_by_itself(link) if luck else restored(each, kind, would_ns),)),
        excess_s=kind.delay_ns / 1e9 * int(departs.sum()) if hidden else judged.excess_s,
        later_s=_later_s(each, kind, departs), on_time=luck and _some_on_time(link),
        as_others=judged.levelled.as_others,
    )  # fmt: skip


def _some_on_time(link: ObservedLink) -> bool:
    """Whether the first byte of some message was not late: the link is late by no delay that is always there."""
    return not link.by_receiver and bool(first_bytes_late_ns(link).min() <= least_late_ns(link))


def _later_s(each: JudgedLink, kind: Kind, departs: npt.NDArray[np.bool_]) -> float:
    """By how much its messages are late, if it is by a delay, as it is or may be; else 0."""
    if kind.part is Part.DELAY:
        return kind.delay_ns / 1e9
    if kind.part not in UNTOLD or each.link.by_receiver:
        return 0.0
    return max(0.0, float(np.median((each.link.services_ns - each.designed_ns)[departs]))) / 1e9


def _untold(each: JudgedLink, as_designed: AsDesigned) -> Departure:
    """The same, which may be TCP's learning: of a layer that is slow it is slow by all that its messages took."""
    found = _departure(each, kind_told(each, as_designed), as_designed)
    if not each.of.warming:
        return found
    took_ns, expected_ns = (float(of[each.of.judged].sum()) for of in (each.link.services_ns, each.link.expected_ns))
    slowdown = max(1.0, took_ns / max(1.0, expected_ns))
    return replace(found, slowdown=slowdown, restored=scaled(found.element, 1 / slowdown))


def _evidence(each: JudgedLink, kind: Kind, expected_bps: float, when: Stretches) -> str:
    link, judged = each.link, each.judged
    count = int(each.of.messages(judged.windows).sum())
    delay_s = float(np.median(link.designed_delay_ns)) / 1e9
    carried = f"{link.element} carried {formatting.count(count, 'message')} {when.described()}"
    times = judged.slowdown if kind.part in UNTOLD else max(kind.rate, 1e-9)  # untold, all of it may be a rate
    rate = f"{formatting.rate(expected_bps / times)}, designed for {formatting.rate(expected_bps)}"
    later = f"{formatting.seconds(kind.delay_ns / 1e9)} later than its rate and its delay of {delay_s * 1e3:.3g} ms"
    longer = f"each {judged.slowdown:.2f} x as long as designed for: at {rate}, or later by a delay"
    match kind.part:
        case Part.LOSS if kind.recovers or kind.scatter:
            uneven = f"each {formatting.percent(kind.scatter)} more or less"
            how = "each later by less than the one before" if kind.recovers else uneven
            return f"{carried} at {rate}, {how}: as TCP carries what it has to send again."
        case Part.LOSS:
            late = f"{formatting.percent(kind.late_share)} of them {formatting.seconds(kind.late_ns / 1e9)} later"
            return f"{carried}, {late} than the others, as lost segments are that are sent again."
        case Part.RATE_OR_DELAY:
            return f"{carried}, {longer}; few, or alike in size and apart in time, they do not tell which."
        case Part.RATE_DELAY_OR_LOSS:
            return f"{carried}, {longer}, or by what TCP sends again; they do not tell which."
        case Part.RECEIVER:
            return f"{carried} at {rate}, while {link.dst} had some there to read: its program reads too slowly."
        case Part.SENDER:
            return f"{carried} at {rate}, while {link.src} gave it little at a time: its program, or its send buffer."
        case Part.DELAY if kind.rate <= 1.0:
            return f"{carried}, each {later} explain, whatever the size."
    both = f", each {later} explain" if kind.delay_ns else ""
    return f"{carried} at {rate}{both}."
