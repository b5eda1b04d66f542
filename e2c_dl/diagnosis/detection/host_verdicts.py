"""From verdicts on the parts of hosts to departures: what is said of each, and what could not be judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.departures import Departure, Looked
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.edges import Edge, edges, with_edges
from e2c_dl.diagnosis.detection.host_series import PHASES, HostSeries
from e2c_dl.diagnosis.detection.series import WORTH, Judged
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, ElementKind, Limitation, Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf
from e2c_dl.diagnosis.stretches import Stretches
from e2c_dl.trace.model import Phase, RankTrace, Trace
from e2c_dl.trace.warm_up import warm_up

LEAST_USUAL = 3  # iterations


@dataclass(frozen=True, kw_only=True, eq=False)
class HostVerdict:
    """One part of one host, judged."""

    of: HostSeries
    judged: Judged
    compared: str  # with what, for people

    @property
    def scale(self) -> Piecewise:
        """Over seconds of training: what the part is to be multiplied by to be as its reference has it."""
        return self.judged.scale_of_each() if self.of.part is Part.PROCESSOR else self.judged.scale()


def element_of(name: str) -> Element:
    """The host called ``name``."""
    return Element(kind=ElementKind.HOST, src=name)


def seen_at(verdicts: Sequence[HostVerdict]) -> dict[Element, float]:
    """Each host that was judged -> times slower that it must have been to be seen, in the part that tells most."""
    found: dict[Element, float] = {}
    for each in verdicts:
        host = element_of(each.of.host)
        found[host] = min(found.get(host, np.inf), each.judged.resolution)
    return found


def looked(verdicts: Sequence[HostVerdict]) -> dict[Element, Looked]:
    """Each host that was judged -> its windows, by the part that departs, or was looked at last."""
    found: dict[Element, Looked] = {}
    for each in sorted(verdicts, key=lambda one: (one.judged.departs.any(), one.of.series.begins_s[-1])):
        series = each.of.series
        ends_s = np.append(series.begins_s[1:], series.until_s)
        found[element_of(each.of.host)] = Looked(begins_s=series.begins_s, ends_s=ends_s, departs=each.judged.windows)
    return found


def unjudged(host: str, what: str, why: str) -> Limitation:
    """That it is not known whether ``host`` does ``what``, and why: for :func:`together`."""
    return Limitation(sentence=f"{host}\0{what}\0{why}")


def about_warm_up(trace: Trace, design: Design) -> Iterator[Limitation]:
    """That the first iterations took longer, where that is material: nobody is judged by them.

    Not of a run's last iterations, of which the first have warmed up.
    """
    if design.judged_s < design.seconds:
        return
    lost_s, first = 0.0, 0
    for rank in trace.ranks:
        spans = rank.of(Phase.ITERATION)
        took_s = (spans["end_ns"] - spans["start_ns"])[np.argsort(spans["iteration"], kind="stable")] / 1e9
        first = warm_up(len(took_s))
        if len(took_s) >= first + LEAST_USUAL:
            usual_s = max(np.median(took_s[first:]), np.median(took_s[first : first + LEAST_USUAL]))  # slow until later
            lost_s = max(lost_s, float(took_s[:first].sum() - first * usual_s))
    if lost_s >= (1 - 1 / MATERIAL_SPEEDUP) * design.judged_s:
        longer = f"{formatting.seconds(lost_s)} longer than as many usual ones"
        share = f"{formatting.percent(lost_s / design.judged_s)} of the run"
        began = f"the first {formatting.count(first, 'iteration')} took {longer}, {share}"
        yield Limitation(sentence=f"Of warm-up nobody is judged: {began}.")


def together(limitations: Sequence[Limitation]) -> tuple[Limitation, ...]:
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
        Limitation.of(f"No verdict on whether {'any of ' * (len(own) > 1)}{{}} {what}: {why}.", "host", own)
        for (what, why), own in names.items()
    ]  # fmt: skip
    return (*told, *others)


def departure(
    verdicts: Sequence[HostVerdict], rank: RankTrace, design: Design, ran: Doubles | float = 1.0
) -> Departure | None:
    """The departure of the host of ``rank``, of whose parts these are; None if it is as it should be.

    ``ran``: share of each iteration's gradient for which it had a processor.
    """
    depart = [each for each in verdicts if each.judged.departs.any() and each.judged.excess_s > 0]
    worth = [each for each in depart if each.judged.excess_s >= WORTH * design.judged_s] or depart
    if not worth:
        return None
    worth.sort(key=lambda each: -each.judged.excess_s)
    most = worth[0]
    element = element_of(most.of.host)
    at_edges = [edges(rank, each.judged, design, ran) if each.of.part is Part.COMPUTE else [] for each in worth]
    changes = tuple(
        Change(element=element, phases=PHASES[each.of.part], scale=with_edges(each.scale, own) if own else each.scale)
        for each, own in zip(worth, at_edges, strict=True)
    )
    when = [_when(each.judged.stretches, own) for each, own in zip(worth, at_edges, strict=True)]
    observed_s, expected_s = most.judged.usual_s
    return Departure(
        element=element, part=most.of.part, when=when[0], slowdown=most.judged.slowdown,
        observed=observed_s, expected=expected_s,
        evidence=" ".join(_evidence(each, own, design) for each, own in zip(worth, when, strict=True)),
        restored=WhatIf(changes=changes),
        excess_s=sum(each.judged.excess_s for each in worth) + sum(each.excess_s for own in at_edges for each in own),
    )  # fmt: skip


def _when(found: Stretches, at_edges: Sequence[Edge]) -> Stretches:
    """``found``, which begin and end with the edges that they have."""
    begins_s, ends_s = list(found.begins_s), list(found.ends_s)
    onset_iteration = found.onset_iteration
    for each in at_edges:
        if not each.opens:
            ends_s[each.stretch] = each.end_s
            continue
        begins_s[each.stretch] = each.begin_s
        if each.stretch == 0:
            onset_iteration = each.iteration
    return replace(
        found, begins_s=tuple(begins_s), ends_s=tuple(ends_s), onset_s=begins_s[0], onset_iteration=onset_iteration
    )


def _evidence(verdict: HostVerdict, when: Stretches, design: Design) -> str:
    of, judged = verdict.of, verdict.judged
    observed_s, expected_s = judged.usual_s
    doing = {
        Part.COMPUTE: "computes", Part.DATA: "loads data for", Part.STEP: "steps for",
        Part.PROCESSOR: "computes, or waits for a processor that others have, for",
    }  # fmt: skip
    verb = doing.get(of.part, f"is in {of.part.value} for")
    unseen = " (its own, as data that are loaded by hand, or a wait that no hook sees)" if of.part is Part.OTHER else ""
    designed = f", its designed factor of {of.factor:.4g} included" if abs(of.factor - 1) > 1e-6 else ""
    return (
        f"{of.host} {verb} {formatting.seconds(observed_s)} per iteration{_batch(verdict, design)}{unseen} "
        f"{when.described()}; {verdict.compared} {formatting.seconds(expected_s)}{designed}."
    )


def _batch(verdict: HostVerdict, design: Design) -> str:
    """Of what batches it is, for people."""
    of = verdict.of
    if of.samples is not None:
        ends = np.quantile(of.samples[verdict.judged.windows], (0.1, 0.9), method="nearest")
        least, most = (int(end) for end in ends)
        return f" for batches of {least}" + (f" to {most}" if most > least else "")
    batches = design.reference.batch_sizes if of.part is Part.COMPUTE else {}
    return f" for a batch of {batches[of.host]}" if of.host in batches else ""
