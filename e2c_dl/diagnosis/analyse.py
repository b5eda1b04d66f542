"""From a Trace to a Report: one pure function, its steps in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.choices import about_repeating, anew, choices
from e2c_dl.diagnosis.departures import Departure, Judgement, findings, not_of, those_of, uncosted
from e2c_dl.diagnosis.detection.clocks import about_mistimed, about_one_way_times
from e2c_dl.diagnosis.detection.groups import grouped
from e2c_dl.diagnosis.detection.host_series import compute_s, usual_s
from e2c_dl.diagnosis.detection.hosts import host_departures
from e2c_dl.diagnosis.detection.series import WORTH
from e2c_dl.diagnosis.detection.stalls.stalls import with_stalls
from e2c_dl.diagnosis.detection.undelivered import silent_s
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import (
    DESIGN,
    EXPECTED,
    Chance,
    Element,
    ElementKind,
    HostSummary,
    Limitation,
    LinkSummary,
    Report,
)
from e2c_dl.diagnosis.observed import Observed, observe
from e2c_dl.diagnosis.prefix import about_completeness, about_losses
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.replay.whatif import Predictor, WhatIf
from e2c_dl.diagnosis.resimulation.alike import by_other_luck
from e2c_dl.diagnosis.resimulation.luck import averaged
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
from e2c_dl.diagnosis.scripts import about_scripts, flow_summaries, too_few, untraced_ranks
from e2c_dl.diagnosis.speed_ups import speed_ups
from e2c_dl.diagnosis.states import timelines
from e2c_dl.diagnosis.window import CUT_BY_TIME
from e2c_dl.trace.messages import Messages, conservation
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.staleness import staleness
from e2c_dl.trace.warm_up import warm_up

WORTH_UNDESIGNED = 0.03  # of the run, by peers alone: scripts share their machines, and some rank always lost a little
MAX_UNEXPLAINED = 0.1  # of the longest path: twice what makes a departure material
MAX_HALF_ERROR = 0.1
MAX_WORLD_ERROR = 0.05
MOST_WORLD_ERROR = 0.5  # a world that is further off says nothing of this run
DEAF = Limitation(
    sentence="Verdicts changed what this run did, and a run that is simulated again hears none: "
    "savings and bottlenecks are of a replay, in which nobody decides otherwise."
)
TIMED = Limitation(sentence="Time ended this training: savings are of the time that as much training would have taken.")


def analyse(
    trace: Trace, reference: Reference, retraining: Retraining | None = None, observed: Observed | None = None,
    *, speeding_up: bool = True,
) -> Report:  # fmt: skip
    """What slowed the run of ``trace`` down, judged by ``reference``; of an incomplete run, its common prefix.

    ``retraining``: of its training, if that can be simulated again; where a change alters more than a replay does, and
    the trace is whole, what-ifs are simulated: all of them where ranks go at their own pace, else those of
    :mod:`e2c_dl.diagnosis.choices`.
    ``observed``: what ``trace`` shows, if known. ``speeding_up``: whether bottlenecks are wanted, which take longest.

    Raises: AnalysisError, if no iteration was finished by all ranks or the trace contradicts itself.
    """
    observed = observed or observe(trace, reference)
    iterations, prefix, messages = observed.iterations, observed.trace, observed.messages
    design, carried, stalled, links = observed.design, observed.carried, observed.stalled, observed.links
    with ThreadPoolExecutor(1) as beside:  # NumPy works in both
        judging = beside.submit(host_departures, prefix, design, observed.left_out, observed.untrusted.within)
        summing_up = beside.submit(_hosts, prefix, messages, iterations)
        replay = observed.replay
        beside.submit(lambda: replay.replayed_ns)  # every saving is held against it
        half_error = replay.half_error(iterations, warm_up(iterations))
    hosts = judging.result()
    slow = grouped(
        (*hosts.departures, *links.departures), (*links.untold, *links.excused), {**hosts.judged, **links.judged},
        {host.name: host.layer for host in reference.topology.hosts}, looked={**hosts.looked, **links.looked},
        line_of=design.line_of,
    )  # fmt: skip
    few = too_few(observed)
    departures = with_stalls(() if few else slow, stalled.found, observed.windows, design)
    is_undesigned = observed.collectives is not None and not design.some
    own_pace, replaying = observed.own_pace, observed.replaying
    least_s = (WORTH_UNDESIGNED if is_undesigned else WORTH) * replaying.measured_ns / 1e9
    worth, excused = (
        [each for each in of if each.excess_s >= least_s] for of in (departures, not_of(departures, links.excused))
    )
    mistimed_s = observed.mistimed_s
    again, uneven = (None, None) if mistimed_s else anew(retraining, observed, worth)
    deaf = again is not None and again.hears_verdicts
    made = None if again is None or again.in_step or deaf else observed.world(again)
    world = None if made is None or abs(made.error) > MOST_WORLD_ERROR else _less_luck(made, reference, departures)
    laps = None if world is None else averaged(world, [each.restored for each in (*worth, *excused)])
    choosing = choices(observed, again, worth, uneven) if again is not None and again.in_step else None
    predictor: Predictor = laps or world or (replaying if choosing is None else choosing.predictor)
    if mistimed_s:
        found = uncosted(worth)
    else:
        found = (
            findings(worth, predictor, excused) if choosing is None else choosing.findings(worth, departures, excused)
        )
    culprits = tuple(finding for finding in found if finding.material)
    chance = choosing.chance if choosing is not None else laps.chance if laps is not None else None
    missing = reference.missing_in(trace)
    untraced = tuple(missing) or untraced_ranks(observed)
    # What others waited for there is not known: it may be the bottleneck, and the best of the rest be none.
    by_themselves = {each.element for one in departures for each in one.restored.changes if not one.restored.lines}
    asking = speeding_up and not untraced and not mistimed_s
    elements, groups = speed_ups(predictor, carried, design, by_themselves) if asking else ((), ())
    unrepeated = () if CUT_BY_TIME in trace.facts else (*about_repeating(retraining, trace, own_pace=own_pace),)
    limitations: tuple[Limitation, ...] = (
        *about_completeness(trace, iterations, messages, missing, own_pace=own_pace),
        *about_losses(trace),
        *observed.untrusted.limitations,
        *hosts.limitations,
        *links.limitations,
        *(_about_replay(observed, half_error) if world is None else ()),
        *_about_world(made, is_used=world is not None),
        *([DEAF] if deaf else ()),
        *unrepeated,
        *([TIMED] if retraining is not None and retraining.by_time else ()),
        *(choosing.limitations if choosing is not None else ()),
        *_about_chance(chance),
        *about_mistimed(mistimed_s),
        *about_one_way_times(trace, carried),
        *about_scripts(observed),
        *few,
    )
    return Report(
        iterations=iterations,
        run_s=replaying.measured_ns / 1e9,
        iteration_s=_iteration_s(prefix, iterations),
        unexplained=replay.unexplained,
        half_error=half_error,
        hosts=summing_up.result(),
        links=_links(trace, carried)
        or flow_summaries(observed.flows),  # bytes of all that was sent, also after the prefix
        bottlenecks=elements,
        chance=chance,
        groups=groups,
        findings=found,
        culprits=culprits,
        clock_uncertainty_s=max(rank.clock.uncertainty_ns for rank in prefix.ranks) / 1e9,
        least_visible={} if few else _least_visible(hosts, links),
        limitations=tuple(each.sentence for each in limitations),
        reference=EXPECTED if is_undesigned else DESIGN,
        staleness=staleness(trace),
        round_iterations=_round_iterations(messages),
        untraced=untraced,
        together_s=_together_s(those_of(culprits, departures) or worth, predictor) if not mistimed_s else 0.0,
        replayed=bool(unrepeated or deaf or (made and not world) or (choosing and choosing.replayed)),
        unjudged=_unjudged(prefix, [each.element for each in carried or observed.flows], hosts, links),
        mistimed_s=mistimed_s,
        untimed=tuple(str(link.element) for link in carried if link.by_receiver),
        silent_s={f"{src} -> {dst}": seconds for (src, dst), seconds in silent_s(trace, design).items()},
        concerned={each.sentence: each.names for each in limitations if each.names},
        in_common={each.sentence: each.common_s for each in limitations if each.common_s},
    )


def _least_visible(hosts: Judgement, links: Judgement) -> dict[ElementKind, float]:
    """Kind of element -> times slower that each one judged must have been to be seen."""
    known = {ElementKind.HOST: hosts.least_visible, ElementKind.LINK: links.least_visible}
    return {kind: least for kind, least in known.items() if least is not None}


def _together_s(departures: Sequence[Departure], predictor: Predictor) -> float:
    """What the run would save with all of ``departures`` as designed; 0.0 of a single one, which says so itself."""
    if len(departures) < 2:
        return 0.0
    before_ns, after_ns = predictor.laps_ns([WhatIf.together(each.restored for each in departures)])
    return float(np.mean(before_ns) - np.mean(after_ns)) / 1e9


def _unjudged(trace: Trace, carried: Sequence[Element], hosts: Judgement, links: Judgement) -> tuple[str, ...]:
    """Hosts of ``trace`` and links, which ``carried`` something, that no judgement is on."""
    judged = hosts.held | links.held
    judged |= {one for each in (hosts, links) for found in each.departures for one in (found.element, *found.members)}
    took_part = [Element(kind=ElementKind.HOST, src=rank.host) for rank in trace.ranks]
    return tuple(str(each) for each in (*took_part, *carried) if each not in judged)


def _iteration_s(trace: Trace, iterations: int) -> float:
    """Median over iterations of the slowest rank's time."""
    slowest_ns = np.zeros(iterations, dtype=np.int64)
    for rank in trace.ranks:
        spans = rank.of(Phase.ITERATION)
        spans = spans[spans["iteration"] < iterations]
        np.maximum.at(slowest_ns, spans["iteration"], spans["end_ns"] - spans["start_ns"])
    return float(np.median(slowest_ns)) / 1e9


def _round_iterations(messages: Messages) -> int:
    """What lies between the iterations in which anything was sent, where that is always the same; else 1."""
    sent_in = np.unique(messages.joined["iteration"][messages.joined["iteration"] >= 0])
    apart = np.unique(np.diff(sent_in))
    return int(apart[0]) if len(apart) == 1 else 1


def _hosts(trace: Trace, messages: Messages, iterations: int) -> tuple[HostSummary, ...]:
    summaries = []
    for rank, states in zip(trace.ranks, timelines(trace, messages), strict=True):
        summaries.append(
            HostSummary(
                host=rank.host,
                rank=rank.rank,
                layer=rank.layer,
                states_s={state: ns / 1e9 for state, ns in states.totals_ns().items()},
                wall_s=states.wall_ns / 1e9,
                compute_per_iteration_s=usual_s(compute_s(rank, iterations)[warm_up(iterations) :]),
                complete=rank.complete,
                iterations=int(rank.of(Phase.ITERATION)["iteration"].max(initial=-1)) + 1,
            )
        )
    return tuple(summaries)


def _links(trace: Trace, carried: Sequence[ObservedLink]) -> tuple[LinkSummary, ...]:
    """One summary per link that carried a whole message in the prefix; bytes are of the whole trace."""
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    totals = {(hosts[row.src], hosts[row.dst]): row for row in conservation(trace)
              if row.src in hosts and row.dst in hosts}  # fmt: skip
    return tuple(
        LinkSummary(
            src=link.src,
            dst=link.dst,
            messages=totals[link.src, link.dst].received_messages,
            sent_bytes=totals[link.src, link.dst].sent_bytes,
            received_bytes=totals[link.src, link.dst].received_bytes,
            rate_bps=link.rate_bps,
            transfer_s=link.transfer_s,
        )
        for link in carried
    )


def _about_replay(observed: Observed, half_error: float) -> Iterator[Limitation]:
    replay = observed.replay
    if replay.unexplained > MAX_UNEXPLAINED:
        what, unless = "gaps, waking up and waits without a known cause", ""
        if observed.collectives is not None:
            what, unless = f"work that no phase names, {what}", ", unless a host is named for it"
        share = f"{_percent(replay.unexplained)} of the longest path is {what}"
        yield Limitation(sentence=f"{share}, which no what-if changes{unless}: savings may be more.")
    if half_error > MAX_HALF_ERROR:
        off = f"The second half of the run is {_percent(half_error)} off what the first half's durations predict"
        yield Limitation(sentence=f"{off}: savings hold for this run, and less for another.")
    if replay.uncaused:
        waits = f"{formatting.count(replay.uncaused, 'wait or task has', 'waits or tasks have')} no cause in the trace"
        yield Limitation(sentence=f"{waits}: savings are lower bounds.")
    if replay.early and not observed.mistimed_s:
        early = formatting.count(replay.early, "message arrives before it is", "messages arrive before they are")
        yield Limitation(sentence=f"{early} sent, as the clocks have it.")


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _less_luck(world: MeasuredWorld, reference: Reference, departures: Sequence[Departure]) -> MeasuredWorld:
    """``world``, in other laps of which hosts that do not depart have not the run's luck beside their own."""
    elements = (element for each in departures for element in (each.element, *each.members))
    departing = {element.src for element in elements if element.kind is ElementKind.HOST}
    return replace(world, hosts=by_other_luck(world.hosts, reference.hardware, departing))


def _about_world(world: MeasuredWorld | None, *, is_used: bool) -> Iterator[Limitation]:
    if world is not None and abs(world.error) > MAX_WORLD_ERROR:
        off = f"Simulated again as it was, the run is {world.error:+.1%} off"
        replayed = "savings and bottlenecks are of a replay, in which nobody decides otherwise"
        yield Limitation(sentence=f"{off}: {'savings and bottlenecks may be as far off' if is_used else replayed}.")


def _about_chance(chance: Chance | None) -> Iterator[Limitation]:
    if chance is not None and chance.is_steady:
        again = f"simulated again {chance.runs} times, by other seeds, the run takes as long only as it was"
        yield Limitation(sentence=f"What a change saves hangs on chance: {again}. Savings are means of these runs.")
    elif chance is not None:
        took = f"{formatting.seconds(chance.least_s)} to {formatting.seconds(chance.most_s)}"
        again = f"simulated again {chance.runs} times, by other seeds, it takes {took}"
        yield Limitation(sentence=f"How long this run takes hangs on chance: {again}. Savings are means of these runs.")
