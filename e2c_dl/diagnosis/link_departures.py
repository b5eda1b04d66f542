"""Verdict on links: the thresholds of :mod:`e2c_dl.diagnosis.links`, applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl.diagnosis.departures import Departure, Judgement, low_median, warm_up
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.links import ObservedLink, in_service_order
from e2c_dl.diagnosis.model import Element, ElementKind, Limitation, some
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf, scaled
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.messages import Messages
from e2c_dl.trace.model import Trace

MIN_SLOWDOWN = 1.5
MIN_EXCESS_NS = 2_000_000  # what a busy receiver's read costs
MIN_ADDED_DELAY_NS = 10_000_000
MIN_LINKS_FOR_COMMON = 3  # of two, neither tells which is normal
COMMON_WORTH_SAYING = 1.2  # what most links share is the machine's doing


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """One link with its two ratios."""

    carried: ObservedLink
    slowdown: float
    slowdown_of_fast: float


def carried_by_link(trace: Trace, messages: Messages, iterations: int, design: Design) -> tuple[ObservedLink, ...]:
    """What every link carried that carried anything, by (src rank, dst rank); added delay is found already."""
    ranks = {rank.rank: rank for rank in trace.ranks}
    found = []
    for (src, dst), rows in messages.by_link().items():
        uncertainty_ns = ranks[src].clock.uncertainty_ns + ranks[dst].clock.uncertainty_ns
        found.append(
            ObservedLink(
                src=ranks[src].host,
                dst=ranks[dst].host,
                rows=in_service_order(rows),
                designed=design.alone((ranks[src].host, ranks[dst].host)),
                began_ns=design.began_ns,
                uncertainty_ns=uncertainty_ns,
                first_iteration=warm_up(iterations),
            )
        )
    return tuple(_with_added_delay(each) if each.judgeable else each for each in design.with_shares(found))


def link_departures(carried: Sequence[ObservedLink], design: Design) -> Judgement:
    """The links, and what they share, that are slower than designed, and what could not be judged."""
    if not design.reference.network_emulated:
        return (), (Limitation(sentence="No verdict on links: the network is as it is, not by design."),)
    limitations = _unjudged(carried)
    judged = [
        _Judged(carried=link, slowdown=link.slowdown(), slowdown_of_fast=link.slowdown_of_fast())
        for link in carried
        if link.judgeable and link.judged.any()
    ]
    lines = _lines(judged, design)
    common = 1.0
    if len(lines) >= MIN_LINKS_FOR_COMMON:
        common = max(1.0, low_median([min(link.slowdown for link in links) for links in lines.values()]))
    if common >= COMMON_WORTH_SAYING:
        slower = f"Most links carry messages {common:.1f} x slower than designed"
        limitations.append(Limitation(sentence=f"{slower}: no single one is blamed for it."))
    slow = {link.carried.pair: link for link in judged if _rate_departs(link, common)}
    several = {line: links for line, links in lines.items() if len(links) > 1}
    shared = {line: links for line, links in several.items() if all(link.carried.pair in slow for link in links)}
    for links in shared.values():
        for link in links:
            del slow[link.carried.pair]  # blamed together, as what they share
    departures = [_departure(link, slow.get(link.pair)) for link in carried if link.pair in slow or link.added_delay_ns]
    departures += [_shared_departure(line, links, design) for line, links in shared.items()]
    return tuple(departures), tuple(limitations)


def _lines(judged: Sequence[_Judged], design: Design) -> dict[Element, list[_Judged]]:
    """Links by what limits them: those of one shared bottleneck together, the others each by itself."""
    shared = {pair: each.name for each in design.bottlenecks for pair in each.links}
    lines: dict[Element, list[_Judged]] = {}
    for link in judged:
        name = shared.get(link.carried.pair)
        line = link.carried.element if name is None else Element(kind=ElementKind.SHARED, src=name)
        lines.setdefault(line, []).append(link)
    return lines


def _with_added_delay(link: ObservedLink) -> ObservedLink:
    late_ns = link.late_ns() - link.uncertainty_ns  # only what misaligned clocks cannot explain
    departs = late_ns > max(MIN_ADDED_DELAY_NS, float(np.median(link.designed_delay_ns)))
    return replace(link, added_delay_ns=round(late_ns)) if departs else link


def _rate_departs(link: _Judged, common: float) -> bool:
    both = min(link.slowdown, link.slowdown_of_fast) / common
    return both >= MIN_SLOWDOWN and link.carried.excess_ns() >= MIN_EXCESS_NS


def _unjudged(carried: Sequence[ObservedLink]) -> list[Limitation]:
    reasons: dict[str, list[str]] = {}
    for link in carried:
        if link.designed.rate is None:
            reason = "no rate was designed"
        elif link.designed.loses:
            reason = "segments are lost by design, so TCP's rate is not known beforehand"
        elif not link.judged.any():
            reason = "no message of 8 KiB or more after warm-up"
        else:
            continue
        reasons.setdefault(reason, []).append(str(link.element))
    said = {f"No verdict on the rate of {{}}: {reason}.": links for reason, links in reasons.items()}
    return [Limitation.of(sentence, "link", links) for sentence, links in said.items()]


def _departure(link: ObservedLink, slow: _Judged | None) -> Departure:
    """The departure of a link whose rate departs (``slow``), or whose delay does, or both."""
    element = link.element
    designed_bps, designed_delay_s = link.designed_bps, float(np.median(link.designed_delay_ns)) / 1e9
    evidence = []
    if slow is not None:
        slowdown, observed, expected = slow.slowdown, designed_bps / slow.slowdown, designed_bps
        evidence.append(
            f"{element} carried {int(link.judged.sum())} messages at {observed / 1e6:.3g} Mbit/s, "
            f"designed for {expected / 1e6:.3g}; the fastest quarter still took {slow.slowdown_of_fast:.1f} x as long."
        )
    else:
        bits = float(np.median(wire_bits_of(link.rows["nbytes"])))
        designed_s = designed_delay_s + bits / designed_bps
        late_s = designed_s + link.added_delay_ns / 1e9
        slowdown, observed, expected = late_s / designed_s, bits / late_s, bits / designed_s
    if link.added_delay_ns:
        evidence.append(
            f"{element} delivers {link.added_delay_ns / 1e6:.0f} ms later than its rate and its delay of "
            f"{designed_delay_s * 1e3:.3g} ms explain, whatever the size."
        )
    return Departure(
        element=element,
        slowdown=slowdown,
        observed=observed,
        expected=expected,
        evidence=" ".join(evidence),
        restored=WhatIf(
            changes=(
                Change(
                    element=element,
                    scale=Piecewise.constant(1 / slow.slowdown if slow is not None else 1.0),
                    less_s=Piecewise.constant(link.added_delay_ns / 1e9),
                ),
            )
        ),
    )


def _shared_departure(line: Element, links: Sequence[_Judged], design: Design) -> Departure:
    """The departure of what ``links`` share: none of them is as fast as its share."""
    slowdown = low_median([link.slowdown for link in links])
    (bottleneck,) = (each for each in design.bottlenecks if each.name == line.src)
    whole_bps = float(np.median(design.capacity(bottleneck).values))
    designed_bps = min(whole_bps, sum(link.carried.designed_bps for link in links))  # less, if they all need less
    names = some("link", [str(link.carried.element) for link in links])
    return Departure(
        element=line, slowdown=slowdown, observed=designed_bps / slowdown, expected=designed_bps,
        evidence=f"All links of {line} ({names}) carry their messages {slowdown:.1f} x slower than their shares allow.",
        restored=WhatIf.together(scaled(link.carried.element, 1 / slowdown) for link in links),
    )  # fmt: skip
