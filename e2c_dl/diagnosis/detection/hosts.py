"""Hosts that compute slower than designed: each phase against peers, against what they were paced by, against its past.

Hosts of one hardware class and batch size would take equally long but for the factor that the scenario slows each by.
Their reference, the first that applies:

=============================  ========================================================================================
in a modelled world            what the host is modelled to take: whole layers, and the only one of a class, are judged
several of one class           the fastest among them (:mod:`e2c_dl.diagnosis.detection.peers`), or their pace if more
alone, or of unknown hardware  how it was itself while it was fastest: slower all the time can not be told
=============================  ========================================================================================

Where gradients are paced, a host's factor slows neither steps nor sums. Otherwise a phase beside the gradient may
follow the factor, as under a quota: it does if most hosts of greater factors are slower in it by at least HALF of
theirs, and may then be slower by all of it.
Peers in REDUCE may sum vectors of different lengths: only one that takes TWICE as long departs. Of two hosts of a class
the slower one must be PAIR times as slow.

Hosts whose batches follow their speed while they run make themselves smaller ones: no verdict on what takes longer of
larger ones. What all of a class share at the same time is the machine's doing, where they run on machines: it is said,
and taken off before judging.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.departures import Departure, Judgement, Looked
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles, noise_of
from e2c_dl.diagnosis.detection.host_series import PHASES, HostSeries, host_series
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.noise import in_common
from e2c_dl.diagnosis.detection.peers import Peers, peers_by_layers
from e2c_dl.diagnosis.detection.series import WORTH, Judged, Levelled, Series
from e2c_dl.diagnosis.detection.together import levelled_together
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, ElementKind, Limitation, Part, some
from e2c_dl.diagnosis.references import UNKNOWN
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf
from e2c_dl.trace.model import Trace

TWICE = float(np.log(2.0))
PAIR = float(np.log(1.3))
MIN_PEERS = 3  # what two hosts share may be each one's own
CLEARLY = 0.1  # more, of a factor: less tells nothing of whether a phase follows it
HALF = 0.5
FACTOR_CHANGES = 0.01  # of a factor: by more it changes
MATTERS = 1 - 1 / MATERIAL_SPEEDUP  # of the run: even all of a phase that takes less is no material loss
BY_BATCH = frozenset({Part.COMPUTE, Part.DATA})  # what takes longer of larger ones
ITSELF = "at its fastest it took"
ALONE = "no other host of that hardware and batch size to compare it with"
SHARED_BY = 0.75  # of a class: so many slow at the same time are slow for a common reason


@dataclass(frozen=True, kw_only=True, eq=False)
class _Verdict:
    """One part of one host, judged."""

    of: HostSeries
    judged: Judged
    compared: str  # with what, for people


def host_departures(
    trace: Trace, design: Design, stalled: Mapping[str, Sequence[int]] | None = None, untrusted: Collection[str] = ()
) -> Judgement:
    """The hosts that compute slower than designed, in rank order, and what could not be judged.

    ``stalled``: host -> iterations in which its process stalled; ``untrusted``: hosts whose clocks tell no lengths.
    """
    if not design.reference.compute_valid:
        oversubscribed = "No verdict on compute: the hosts were given more cores than the machine has."
        return Judgement(limitations=(Limitation(sentence=oversubscribed),))
    verdicts: list[_Verdict] = []
    limitations: list[Limitation] = []
    data_s: dict[str, float] = {}
    parts = (Part.DATA, *(each for each in PHASES if each is not Part.DATA))
    if design.reference.batches_change:
        parts = tuple(each for each in parts if each not in BY_BATCH)
        limitations.append(Limitation(sentence="No verdict on gradients and loading of data: batches changed."))
    for part in parts:
        every = (
            host_series(rank, part, design, (stalled or {}).get(rank.host, ()))
            for rank in trace.ranks if rank.host not in untrusted
        )  # fmt: skip
        known = [each for each in every if each is not None]
        values = [each.series.values for each in known]
        noise = in_common([noise_of(each) for each in values], [len(each) for each in values])
        for alike in _classes(known, design).values():
            if part is Part.DATA:  # the fastest's: of a slow loader the median would be its own
                fastest_s = min(float(np.median(each.series.spent_s)) / each.factor for each in alike)
                data_s |= {each.host: fastest_s for each in alike}
            found, said = _in_class(alike, part, design, data_s, noise)
            verdicts += found
            limitations += said
    departures = [
        made for rank in trace.ranks
        if (made := _departure([each for each in verdicts if each.of.host == rank.host], design)) is not None
    ]  # fmt: skip
    computing = [each for each in verdicts if each.of.part is Part.COMPUTE]
    visible = [each.judged.resolution for each in computing]
    return Judgement(
        departures=tuple(departures), limitations=_together(limitations), least_visible=max(visible, default=None),
        judged=_seen_at(verdicts), looked=_looked(verdicts),
        held=frozenset(_host(each.of.host) for each in computing if each.compared != ITSELF),
    )  # fmt: skip


def _seen_at(verdicts: Sequence[_Verdict]) -> dict[Element, float]:
    """Each host that was judged -> times slower that it must have been to be seen, in the part that tells most."""
    found: dict[Element, float] = {}
    for each in verdicts:
        host = _host(each.of.host)
        found[host] = min(found.get(host, np.inf), each.judged.resolution)
    return found


def _looked(verdicts: Sequence[_Verdict]) -> dict[Element, Looked]:
    """Each host that was judged -> its windows, by the part that departs, or was looked at last."""
    found: dict[Element, Looked] = {}
    for each in sorted(verdicts, key=lambda one: (one.judged.departs.any(), one.of.series.begins_s[-1])):
        series = each.of.series
        ends_s = np.append(series.begins_s[1:], series.until_s)
        found[_host(each.of.host)] = Looked(begins_s=series.begins_s, ends_s=ends_s, departs=each.judged.windows)
    return found


def _host(name: str) -> Element:
    return Element(kind=ElementKind.HOST, src=name)


def _classes(every: Sequence[HostSeries], design: Design) -> dict[tuple[str, ...], list[HostSeries]]:
    """Comparable ones together: hosts that do not say what they are, each by itself."""
    found: dict[tuple[str, ...], list[HostSeries]] = {}
    for each in every:
        hardware = design.reference.hardware.get(each.host, "")
        batch = design.reference.batch_sizes.get(each.host, 1)
        same: tuple[str, ...] = (hardware,)
        if hardware == UNKNOWN:
            same = (hardware, each.host)
        elif each.part in (Part.COMPUTE, Part.DATA):
            same = (hardware, str(batch))
        elif each.part is Part.REDUCE:
            same = (hardware, str(each.spans))
        found.setdefault(same, []).append(each)
    return found


def _in_class(
    alike: Sequence[HostSeries], part: Part, design: Design, data_s: Mapping[str, float], noise: float | None
) -> tuple[list[_Verdict], list[Limitation]]:
    """What is to be said of hosts that are comparable in ``part``; ``noise``: that they have in common with others."""
    own = levelled_together([each.series for each in alike], _layers(alike, design), turns=True, known_noise=noise)
    limitations: list[Limitation] = []
    known_s = design.reference.normal_s
    if part is Part.COMPUTE and design.reference.modelled and all(each.host in known_s for each in alike):
        modelled_s = [known_s[each.host] - data_s.get(each.host, 0.0) for each in alike]  # it is told with its data
        return [
            _Verdict(of=each, judged=one.judged(float(np.log(seconds))).clear, compared="it is modelled to take")
            for each, one, seconds in zip(alike, own, modelled_s, strict=True)
        ], []
    if len(alike) >= MIN_PEERS and not design.reference.modelled:
        own, limitations = _without_common(alike, own, part)
    if len(alike) == 1:
        known = design.reference.hardware.get(alike[0].host, UNKNOWN) != UNKNOWN
        if part is Part.COMPUTE:
            limitations.append(Limitation(sentence=f"{alike[0].host}\0computes slower all the time\0{ALONE}"))
        elif known and alike[0].series.spent_s.sum() >= MATTERS * alike[0].series.until_s:
            alone = f"no other host of that hardware has a like {part.value}"
            what = f"is slower in its {part.value} all the time"
            limitations.append(Limitation(sentence=f"{alike[0].host}\0{what}\0{alone}"))
        (one,) = own
        if part is not Part.COMPUTE and np.ptp(alike[0].factors) > FACTOR_CHANGES * alike[0].factor:
            (one,) = levelled([alike[0].at_least(one)], turns=True)
        return [_Verdict(of=alike[0], judged=one.judged(one.base).clear, compared=ITSELF)], limitations
    paced_s = (known_s[each.host] - data_s.get(each.host, 0.0) for each in alike if each.host in known_s)
    least_s = max(paced_s, default=0.0) if part is Part.COMPUTE else 0.0
    return _among_peers(alike, own, part, design, least_s), limitations


def _layers(alike: Sequence[HostSeries], design: Design) -> list[str]:
    layers = {host.name: host.layer for host in design.reference.topology.hosts}
    return [layers[each.host] for each in alike]


def _among_peers(
    alike: Sequence[HostSeries], own: Sequence[Levelled], part: Part, design: Design, least_s: float
) -> list[_Verdict]:
    group = peers_by_layers([each.base for each in own], [each.base_error for each in own], _layers(alike, design))
    least = min(float(alike[place].factors.min()) for place in group.fastest)
    if part is not Part.COMPUTE and _follows(alike, group, least):
        own = levelled_together([each.lenient(least) for each in alike], _layers(alike, design), turns=True)
    apart = max(group.apart, PAIR if len(alike) == 2 else 0.0, TWICE if part is Part.REDUCE else 0.0)
    reference, compared = group.reference, _compared(alike, group)
    if least_s > np.exp(reference):  # that it is paced to take: what drawing takes longer, a gradient makes up for
        reference, compared = float(np.log(least_s)), "it is paced to take"
    return [
        _Verdict(of=each, judged=one.judged(reference, apart).clear, compared=compared)
        for each, one in zip(alike, own, strict=True)
    ]


def _follows(alike: Sequence[HostSeries], group: Peers, least: float) -> bool:
    """Whether hosts of greater factors are slower by them in this part, too, as most of those show."""
    apart = []
    for each in alike:
        clear = each.factors > (1 + CLEARLY) * least  # windows: a factor may change
        if clear.any():
            beyond = each.series.values[clear] - group.reference
            apart.append(float(np.median(beyond / np.log(each.factors[clear] / least))))
    return bool(apart) and float(np.median(apart)) >= HALF


def _compared(alike: Sequence[HostSeries], group: Peers) -> str:
    fastest = [alike[place].host for place in group.fastest]
    if group.settled and len(alike) > 2:
        return f"{len(fastest)} of {len(alike)} alike take"
    few = f"only {some('host', fastest)}"
    return f"{few} of {len(alike)} alike, of which it is not known whether they are the normal ones, take"


def _without_common(
    alike: Sequence[HostSeries], own: Sequence[Levelled], part: Part
) -> tuple[list[Levelled], list[Limitation]]:
    """``own`` without what most of them were slower by at the same time, and that said."""
    count = min(len(each.series) for each in alike)
    beyond = np.stack([each.series.values[:count] - one.base for each, one in zip(alike, own, strict=True)])
    shared = np.quantile(beyond, 1 - SHARED_BY, axis=0, method="lower")
    judged = levelled([_first(alike[0].series, count, shared)])[0].judged(0.0)
    if not judged.departs.any():
        return list(own), []
    steps = np.where(judged.windows, judged.beyond, 0.0)
    taken = [
        replace(each.series, values=each.series.values - np.append(steps, np.full(len(each.series) - count, steps[-1])))
        for each in alike
    ]
    if judged.excess_s < WORTH * alike[0].series.until_s:
        return levelled(taken, turns=True), []
    slower = f"{judged.slowdown:.1f} x slower at the same time, since second {judged.stretches.onset_s:.3g}"
    sentence = f"Most of {{}} were {slower}, in {part.value}: none of them is blamed for it."
    return levelled(taken, turns=True), [Limitation.of(sentence, "host", [each.host for each in alike])]


def _first(series: Series, count: int, values: Doubles) -> Series:
    """The first ``count`` windows, with other ``values``."""
    return replace(
        series, values=values, iterations=series.iterations[:count], begins_s=series.begins_s[:count],
        spent_s=series.spent_s[:count],
    )  # fmt: skip


def _together(limitations: Sequence[Limitation]) -> tuple[Limitation, ...]:
    """Those that differ by the host alone as one; of each of these, the host, what of it and why between zeros."""
    names: dict[tuple[str, str], list[str]] = {}
    others = []
    for each in limitations:
        if "\0" in each.sentence:
            host, what, why = each.sentence.split("\0")
            names.setdefault((what, why), []).append(host)
        else:
            others.append(each)
    told = [
        Limitation.of(f"No verdict on whether {{}} {what}: {why}.", "host", own) for (what, why), own in names.items()
    ]
    return (*told, *others)


def _departure(verdicts: Sequence[_Verdict], design: Design) -> Departure | None:
    """The departure of one host, of whose parts these are; None if it is as it should be."""
    depart = [each for each in verdicts if each.judged.departs.any() and each.judged.excess_s > 0]
    worth = [each for each in depart if each.judged.excess_s >= WORTH * design.seconds] or depart
    if not worth:
        return None
    worth.sort(key=lambda each: -each.judged.excess_s)
    most = worth[0]
    element = _host(most.of.host)
    changes = tuple(Change(element=element, phases=PHASES[each.of.part], scale=each.judged.scale()) for each in worth)
    observed_s, expected_s = most.judged.usual_s
    return Departure(
        element=element, part=most.of.part, when=most.judged.stretches, slowdown=most.judged.slowdown,
        observed=observed_s, expected=expected_s, evidence=" ".join(_evidence(each, design) for each in worth),
        restored=WhatIf(changes=changes), excess_s=sum(each.judged.excess_s for each in worth),
    )  # fmt: skip


def _evidence(verdict: _Verdict, design: Design) -> str:
    of, judged = verdict.of, verdict.judged
    observed_s, expected_s = judged.usual_s
    doing = {Part.COMPUTE: "computes", Part.DATA: "loads data for", Part.STEP: "steps for"}
    verb = doing.get(of.part, f"is in {of.part.value} for")
    batches = design.reference.batch_sizes if of.part is Part.COMPUTE else {}
    batch = f" for a batch of {batches[of.host]}" if of.host in batches else ""
    designed = f", its designed factor of {of.factor:.4g} included" if abs(of.factor - 1) > 1e-6 else ""
    return (
        f"{of.host} {verb} {formatting.seconds(observed_s)} per iteration{batch} {judged.stretches.described()}; "
        f"{verdict.compared} {formatting.seconds(expected_s)}{designed}."
    )
