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
the slower one must be PAIR times as slow, and so must one in what no phase names (:mod:`.unnamed`), or in its waits for
a processor (:mod:`.processors`).

Hosts whose batches follow their speed while they run make themselves smaller ones: gradients and loading of data are
held to what batches of so many samples take, as far as their changes tell (:mod:`.batches`). What most of a class share
at the same time is the machine's doing, where they run on machines: it is said, and taken off before judging
(:mod:`.blameless`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.departures import Judgement
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.blameless import without_common, without_usual
from e2c_dl.diagnosis.detection.change_points import noise_of
from e2c_dl.diagnosis.detection.host_classes import ITSELF, HostClass, classes
from e2c_dl.diagnosis.detection.host_series import BY_BATCH, PHASES, HostSeries, host_series, is_at_once
from e2c_dl.diagnosis.detection.host_verdicts import (
    HostVerdict,
    about_warm_up,
    departure,
    element_of,
    looked,
    seen_at,
    together,
    unjudged,
)
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.noise import in_common
from e2c_dl.diagnosis.detection.peers import Peers, peers_by_layers
from e2c_dl.diagnosis.detection.processors import Kept, processor_series
from e2c_dl.diagnosis.detection.series import FLOOR, Levelled
from e2c_dl.diagnosis.detection.together import levelled_together
from e2c_dl.diagnosis.detection.unnamed import unnamed_series
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Element, Limitation, Part, some
from e2c_dl.trace.model import Phase, RankTrace, Trace

TWICE = float(np.log(2.0))
PAIR = float(np.log(1.3))
MIN_PEERS = 3  # what two hosts share may be each one's own
CLEARLY = 0.1  # more, of a factor: less tells nothing of whether a phase follows it
HALF = 0.5
FACTOR_CHANGES = 0.01  # of a factor: by more it changes
MATTERS = 1 - 1 / MATERIAL_SPEEDUP  # of the run: even all of a phase that takes less is no material loss
UNSURE = float(np.log(1.5))  # so far apart as batches alone may make hosts, it is said
ONCE = float(np.log(1.5))  # four standard deviations of what varies by 10 %
SELDOM = frozenset({Part.EVALUATION, Part.CHECKPOINT})
OTHER_SIZES = "its batches are of another size than {}, and their changes tell too little of samples"
OF_PEERS, OF_FIRST = "those of its peers", "its first ones"
ALONE = "no other host of that hardware and batch size to compare it with"


def host_departures(
    trace: Trace, design: Design, stalled: Mapping[str, Sequence[int]] | None = None, untrusted: Collection[str] = ()
) -> Judgement:
    """The hosts that compute slower than designed, in rank order, and what could not be judged.

    ``stalled``: host -> iterations in which its process stalled; ``untrusted``: hosts whose clocks tell no lengths.
    """
    if not design.reference.compute_valid:
        oversubscribed = "No verdict on compute: the hosts were given more cores than the machine has."
        return Judgement(limitations=(Limitation(sentence=oversubscribed),))
    verdicts: list[HostVerdict] = []
    limitations = [*about_warm_up(trace, design)]
    data_s: dict[str, float] = {}
    parts = (Part.DATA, *(each for each in PHASES if each is not Part.DATA))
    if design.reference.batches_change and not all(_tells_samples(rank) for rank in trace.ranks):
        parts = tuple(each for each in parts if each not in BY_BATCH)
        untold = "batches changed, and the trace does not tell of how many samples each was"
        limitations.append(Limitation(sentence=f"No verdict on gradients and loading of data: {untold}."))
    left_out = stalled or {}
    trusted = [rank for rank in trace.ranks if rank.host not in untrusted]
    kept = {rank.host: waits for rank in trusted if (waits := Kept.of(rank, design)) is not None}
    for part in parts:
        known = _series(part, trusted, kept, design, left_out)
        comparable = classes(known, design, [each.host for each in trusted if is_at_once(each, part)])
        of_host = {each.host: each.series.values for of in comparable for each in of.alike}
        values = [of_host[each.host] for each in known]
        noise = in_common([noise_of(each) for each in values], [len(each) for each in values])
        for of in comparable:
            if part is Part.DATA:  # the fastest's: of a slow loader the median would be its own
                data_s |= of.fastest_s
            found, said = _in_class(of, part, design, data_s, noise)
            verdicts += found
            limitations += said
    ran = {host: each.ran[Part.COMPUTE] for host, each in kept.items()}
    own_of = {rank.host: [each for each in verdicts if each.of.host == rank.host] for rank in trace.ranks}
    made = [departure(own_of[rank.host], rank, design, ran.get(rank.host, 1.0)) for rank in trace.ranks]
    computing = [each for each in verdicts if each.of.part is Part.COMPUTE]
    visible = [each.judged.resolution for each in computing if each.compared != ITSELF]
    return Judgement(
        departures=tuple(each for each in made if each is not None), limitations=together(limitations),
        least_visible=max(visible, default=None), judged=seen_at(verdicts), looked=looked(verdicts),
        held=_held(verdicts, design),
    )  # fmt: skip


def _held(verdicts: Sequence[HostVerdict], design: Design) -> frozenset[Element]:
    """Hosts whose computing was held to another's or a model's, and so was all that they do for long."""
    by_past = [each for each in verdicts if each.compared == ITSELF]
    never = {each.of.host for each in by_past if each.of.part is Part.COMPUTE or _matters(each.of, design)}
    return frozenset(element_of(each.of.host) for each in verdicts
                     if each.of.part is Part.COMPUTE and each.of.host not in never)  # fmt: skip


def _matters(of: HostSeries, design: Design) -> bool:
    return bool(of.series.spent_s.sum() >= MATTERS * design.judged_s)


def _series(
    part: Part, ranks: Sequence[RankTrace], kept: Mapping[str, Kept], design: Design,
    left_out: Mapping[str, Collection[int]],
) -> list[HostSeries]:  # fmt: skip
    """That of ``part`` of each host that has one, without what it waited for a processor, if that is ``kept``."""
    if part is Part.PROCESSOR:
        return [*processor_series(ranks, kept, design, left_out)]
    ran = {host: each.ran[part] for host, each in kept.items()}
    if part is Part.OTHER:
        return unnamed_series(ranks, design, left_out, ran)
    every = (host_series(each, part, design, left_out.get(each.host, ()), ran.get(each.host, 1.0)) for each in ranks)
    return [each for each in every if each is not None]


def _tells_samples(rank: RankTrace) -> bool:
    """Whether its trace tells of how many samples its gradients are."""
    return bool((rank.of(Phase.FORWARD)["seq"] > 0).all())


def _in_class(
    of: HostClass, part: Part, design: Design, data_s: Mapping[str, float], noise: float | None
) -> tuple[list[HostVerdict], list[Limitation]]:
    """What is to be said of hosts that are comparable in ``part``; ``noise``: that they have in common with others."""
    alike = of.alike
    if part is Part.PROCESSOR:
        return _kept_waiting(of, design), []
    own = levelled_together([each.series for each in alike], _layers(alike, design), turns=True, known_noise=noise)
    limitations: list[Limitation] = []
    known_s = design.reference.normal_s
    if part is Part.COMPUTE and design.reference.modelled and all(each.host in known_s for each in alike):
        modelled_s = [known_s[each.host] - data_s.get(each.host, 0.0) for each in alike]  # it is told with its data
        references = [
            float(np.log(seconds)) - of.of_first(each.host) for each, seconds in zip(alike, modelled_s, strict=True)
        ]
        found = [
            HostVerdict(
                of=each,
                judged=one.judged(reference, max(of.unsure_of_first(each), _by_chance(each))).clear,
                compared="it is modelled to take",
            )
            for each, one, reference in zip(alike, own, references, strict=True)
        ]
        return found, [*_unsure(of, found, part, OF_FIRST, design)]
    if len(alike) >= (MIN_PEERS if design.of_hosts else 2) and not design.reference.modelled:
        own, limitations = without_common(of, own, part, design, _layers(alike, design))
    if len(alike) == 1 and not of.usually_at_once:
        if part is Part.COMPUTE:
            limitations.append(unjudged(alike[0].host, "computes slower all the time", ALONE))
        elif of.known and _matters(alike[0], design):
            alone = f"no other host of that hardware has a like {part.value}"
            limitations.append(unjudged(alike[0].host, f"is slower in its {part.value} all the time", alone))
    if len(alike) == 1 or of.usually_at_once:
        return [_by_itself(of, each, one) for each, one in zip(alike, own, strict=True)], limitations
    paced_s = (
        (known_s[each.host] - data_s.get(each.host, 0.0)) * float(np.exp(-of.of_first(each.host)))
        for each in alike if each.host in known_s
    )  # fmt: skip
    least_s = max(paced_s, default=0.0) if part is Part.COMPUTE else 0.0
    found = _among_peers(of, own, part, design, least_s)
    if not design.reference.modelled:
        found, usual = without_usual(found, part, design, _layers(alike, design))
        limitations += usual
    return found, [*limitations, *_unsure(of, found, part, OF_PEERS, design)]


def _by_itself(of: HostClass, each: HostSeries, one: Levelled) -> HostVerdict:
    if each.part is not Part.COMPUTE and np.ptp(each.factors) > FACTOR_CHANGES * each.factor:
        (one,) = levelled([each.at_least(one)], turns=True)
    held_to, compared = of.held_to(one.base)
    return HostVerdict(of=each, judged=one.judged(held_to, of.unsure(each)).clear, compared=compared)


def _kept_waiting(of: HostClass, design: Design) -> list[HostVerdict]:
    """Of hosts that wait for processors: who waits for longer than peers; one without, than who has it to itself.

    Turns are not asked for: a scheduler takes them.
    """
    own = levelled_together([each.series for each in of.alike], _layers(of.alike, design))
    if len(of.alike) > 1:
        return _among_peers(of, own, Part.PROCESSOR, design, 0.0)
    alone = "with a processor to itself it would take"
    return [HostVerdict(of=of.alike[0], judged=own[0].judged(0.0, PAIR).clear, compared=alone)]


def _unsure(
    of: HostClass, verdicts: Sequence[HostVerdict], part: Part, others: str, design: Design
) -> Iterator[Limitation]:
    """Hosts that may be clearly slower, whose batches are of other sizes than ``others``, and it cannot be told."""
    for each in verdicts:
        apart = each.judged.apart if of.per_sample is not None else 0.0
        if apart >= UNSURE and _matters(each.of, design) and not each.judged.departs.any():
            what = f"is slower in its {part.value} all the time, if by less than {np.exp(apart):.1f} x"
            yield unjudged(each.of.host, what, OTHER_SIZES.format(others))


def _by_chance(each: HostSeries) -> float:
    """How far from others what is in every iteration may be by chance, of a single one: nothing tells how far."""
    return ONCE if len(each.series) == 1 and each.part not in SELDOM else 0.0


def _layers(alike: Sequence[HostSeries], design: Design) -> list[str]:
    layers = {host.name: host.layer for host in design.reference.topology.hosts}
    return [layers[each.host] for each in alike]


def _among_peers(
    of: HostClass, own: Sequence[Levelled], part: Part, design: Design, least_s: float
) -> list[HostVerdict]:
    alike = of.alike
    errors = [float(np.hypot(one.base_error, of.error(each))) for each, one in zip(alike, own, strict=True)]
    group = peers_by_layers([each.base for each in own], errors, _layers(alike, design))
    least = min(float(alike[place].factors.min()) for place in group.fastest)
    if part is not Part.COMPUTE and _follows(alike, group, least):
        own = levelled_together([each.lenient(least) for each in alike], _layers(alike, design), turns=True)
    pair = PAIR if len(alike) == 2 or part in (Part.OTHER, Part.PROCESSOR) else 0.0
    apart = max(group.apart, pair, TWICE if part is Part.REDUCE else 0.0)
    reference, compared = group.reference, _compared(alike, group)
    if least_s > np.exp(reference):  # that it is paced to take: what drawing takes longer, a gradient makes up for
        reference, compared = float(np.log(least_s)), "it is paced to take"
    aparts = [max(apart, _by_chance(each), _apart_by_batches(of, own, group, at)) for at, each in enumerate(alike)]
    judged = [one.judged(reference, far).clear for one, far in zip(own, aparts, strict=True)]
    errors = [_reference_error(own, group, place) for place in range(len(own))]
    return [
        HostVerdict(of=each, judged=replace(one, reference_error=error), compared=compared)
        for each, one, error in zip(alike, judged, errors, strict=True)
    ]


def _reference_error(own: Sequence[Levelled], group: Peers, place: int) -> float:
    """Standard error of what the others of the fastest ``group`` tell, if the host at ``place`` were slower than they.

    Of one whose others are unknown, that of itself: they are as uncertain as it is.
    """
    others = [own[other] for other in group.fastest if other != place] or [own[place]]
    errors = [other.noise / np.sqrt(len(other.series)) for other in others]
    return float(np.median(errors) / np.sqrt(len(others)))


def _apart_by_batches(of: HostClass, own: Sequence[Levelled], group: Peers, place: int) -> float:
    """How far above the reference of ``group`` the sizes of batches alone may have the host at ``place``.

    As far as others of the group whose batches are the nearest to its own in size, and what is unsure beside them.
    """
    each, others = of.alike[place], [other for other in group.fastest if other != place]
    if of.per_sample is None or not others:
        return of.unsure(each)
    near = [others[near] for near in of.nearest(each, [of.alike[other] for other in others])]
    beyond = max(0.0, float(np.median([own[other].base for other in near])) - group.reference)
    return beyond + max(of.unsure(each, [of.alike[other] for other in near]), FLOOR if beyond else 0.0)


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
