"""Verdict in words: what slowed a run down, what that cost, what else departs. The same on screen and on the page.

Two questions are answered apart. A *culprit* departs from what was designed, and a run without the departure is at
least 5 % faster. The *bottleneck* is where speeding up would save most: it always exists, often by design.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from e2c_dl import formatting
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.diagnosis.model import (
    DESIGN,
    EXPECTED,
    MATERIAL_SPEEDUP,
    MOST_UNKNOWN,
    NAMED,
    Element,
    ElementKind,
    Finding,
    Part,
    Report,
    SpeedUp,
)
from e2c_dl.diagnosis.stretches import When

SAME_PACE = 0.1  # mean and median of iterations that are of one kind are no further apart
LEAST_SAVING = 0.001  # of the run: what saves less holds nothing up
NOTHING = 0.01  # of the run: less is within what a replay can tell
_CARRIES = "carries data", "carry data"
_VERBS = {  # of one element, of a group
    Part.COMPUTE: ("computes", "compute"),
    Part.DATA: ("loads data", "load data"),
    Part.STEP: ("takes its steps", "take their steps"),
    Part.REDUCE: ("sums vectors", "sum vectors"),
    Part.EVALUATION: ("evaluates", "evaluate"),
    Part.CHECKPOINT: ("writes checkpoints", "write checkpoints"),
    Part.COPY: ("copies between memories", "copy between memories"),
    Part.RATE: _CARRIES,
    Part.DELAY: ("delivers later, and so carries data", "deliver later, and so carry data"),
    Part.RATE_OR_DELAY: _CARRIES,
    Part.RATE_DELAY_OR_LOSS: _CARRIES,
    Part.LOSS: ("loses segments, and so carries data", "lose segments, and so carry data"),
    Part.SENDER: ("waits for its sender, and so carries data", "wait for their senders, and so carry data"),
    Part.RECEIVER: ("waits for its receiver, and so carries data", "wait for their receivers, and so carry data"),
    Part.STALLED: _CARRIES,
}


class Tone(Enum):
    """What a verdict means for the reader; the page colours by it."""

    CULPRITS = "culprits"
    HEALTHY = "healthy"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``headline`` is the answer in one or two sentences; ``points`` say what it rests on, one sentence each."""

    tone: Tone
    headline: str
    points: tuple[str, ...]
    asides: tuple[str, ...] = ()  # what departs but cost next to nothing: to be shown dimmed


def iterations(report: Report) -> str:
    """``60``; ``36 to 100 (360 in all)`` where ranks went at their own pace."""
    each = [host.iterations for host in report.hosts if host.complete]
    if not each or max(each) <= report.iterations:
        return str(report.iterations)
    return f"{min(each)} to {max(each)} ({sum(each)} in all)"


def pace(report: Report) -> str:
    """``355 ms each (median)``; of iterations of two kinds ``447 ms each (median 355 ms), 3.58 s per round of 8``."""
    median = formatting.seconds(report.iteration_s)
    own_pace = "(" in iterations(report)
    if not report.iteration_s > 0 or own_pace or abs(report.mean_iteration_s / report.iteration_s - 1) <= SAME_PACE:
        return f"{median} each (median)"
    mean = f"{formatting.seconds(report.mean_iteration_s)} each (median {median})"
    if report.round_iterations == 1:
        return mean
    a_round = formatting.seconds(report.mean_iteration_s * report.round_iterations)
    return f"{mean}, {a_round} per round of {report.round_iterations}"


def stale(report: Report) -> dict[str, str]:
    """Host -> staleness of its updates: ``3, at most 11``; empty where no update can be stale."""
    return {each.host: f"{each.median:g}, at most {each.most}" for each in report.staleness}


def verdict(report: Report, whole: str = "this run", *, links_off: int = 0) -> Verdict:
    """The answer to "what slowed this run down?", or whatever of it the report is on, as ``whole`` says.

    ``links_off``: as many links measured otherwise than requested before training; too fast, they are no culprits, and
    yet the network is not the one that was designed.
    """
    if not report.iterations or not report.hosts:
        headline = "No verdict: the trace holds no complete iteration."
        return Verdict(tone=Tone.UNDECIDED, headline=headline, points=())
    alone = report.bottlenecks[0] if report.bottlenecks else None
    holds_up = alone is not None and alone.saved_s >= LEAST_SAVING * report.run_s
    best = _speed_up(alone, report.run_s) if alone is not None and holds_up else ""
    if report.culprits:
        least = bool(report.untraced)  # what others waited for where there is no trace, no saving holds
        blamed = "; ".join(accusation(each, report.run_s, report.reference, least=least) for each in report.culprits)
        points = tuple(finding.evidence for finding in report.culprits)
        if best:
            points += (f"Where speeding up would save most (the bottleneck): {best}.",)
        if links_off:
            points += (_off(links_off).strip(),)
        headline = f"What slowed {whole} down: {blamed}."
        return Verdict(tone=Tone.CULPRITS, headline=headline, points=points, asides=_asides(report))
    points = tuple(finding.evidence for finding in report.findings)  # none is material, and all are worth reading
    if report.unexplained > MOST_UNKNOWN or (report.untraced and report.findings):
        return Verdict(tone=Tone.UNDECIDED, headline=_untold(report), points=points)
    said = f" {_bottleneck(alone, report)} is {best}." if alone is not None and best else _none_alone(report)
    headline = _no_culprit(report, _off(links_off)) + said
    unknown = links_off or report.untraced or report.untimed or _breaking_off(report)
    tone = Tone.UNDECIDED if unknown else Tone.HEALTHY
    return Verdict(tone=tone, headline=headline, points=points, asides=_asides(report))


def _asides(report: Report) -> tuple[str, ...]:
    """``also departs, costs nothing: link fog-2 -> cloud-1, 2.9 × slower, 200 ms``, one per immaterial departure."""
    said = []
    for finding in report.findings:
        if not finding.material:
            costs = "nothing" if finding.saved_s < NOTHING * report.run_s else "little"
            departs = [_slower(finding).removeprefix("carries data ")] if finding.slowdown > 1 else []
            departs += [f"stalled for {formatting.seconds(finding.stalled_s)}"] if finding.stalled_s else []
            saving = formatting.seconds(max(0.0, finding.saved_s))  # a replay may even end a little later
            said.append(f"also departs, costs {costs}: {', '.join([named(finding.element), *departs, saving])}")
    return tuple(said)


def _breaking_off(report: Report) -> list[str]:
    """Hosts whose traces break off, where others' do not: a run that was ended has none that goes on."""
    broken = [host.host for host in report.hosts if not host.complete]
    return broken if len(broken) < len(report.hosts) else []


def accusation(finding: Finding, run_s: float, reference: str = DESIGN, *, least: bool = False) -> str:
    """``host fog-2 computes 3.0 × slower than designed since iteration 20 (second 4.3) (would save 21.0 s of 52.0 s)``.

    Of departures that hide each other: ``(would save 7.1 s of 30.9 s with all else as designed, 0 s by itself)``.
    """
    would = "would save at least" if least else "would save"
    saving = f"{would} {formatting.seconds(saved_s(finding))} of {formatting.seconds(run_s)}"
    if _is_hidden(finding):
        saving += f" with all else as {reference}, {formatting.seconds(max(0.0, finding.saved_s))} by itself"
    return f"{_departure(finding, reference)} ({saving})"


def _departure(finding: Finding, reference: str) -> str:
    """``host fog-2 computes 3.0 × slower than designed since iteration 20 (second 4.3) and stalled for 3.2 s``."""
    said = []
    if finding.slowdown > 1:
        when = "" if finding.when.when is When.PERSISTENT else f" {finding.when.described()}"
        said.append(f"{_slower(finding)} than {reference}{when}")
    if finding.stalled_s:
        said.append(f"stalled for {formatting.seconds(finding.stalled_s)}")
    return f"{named(finding.element)} {' and '.join(said)}"


def _slower(finding: Finding) -> str:
    """``computes 3.0 × slower``; of a group ``compute 3.0 × slower``."""
    verb = _VERBS[finding.part][finding.element.kind is ElementKind.GROUP]
    return f"{verb} {formatting.times(finding.slowdown)} slower"


def onsets_s(report: Report) -> dict[str, float]:
    """Culprit that does not depart all the time -> second of training at which it began to; the first few."""
    found = [each for each in report.culprits if each.when.when is not When.PERSISTENT]
    return {str(each.element): each.when.onset_s for each in found[:NAMED]}


def saved_s(finding: Finding) -> float:
    """What it would save, with all else as designed if other departures hide it."""
    return finding.joint_saved_s if _is_hidden(finding) else finding.saved_s


def named(element: Element) -> str:
    """``host fog-2``, ``link cloud-1 -> cloud-2``, ``shared bottleneck campus`` or ``5 hosts of edge``."""
    return str(element) if element.kind is ElementKind.GROUP else f"{element.kind.value} {element}"


def outcome(run: Run) -> str:
    """How the run ended, in one sentence, with the first thing that happened if it did not finish."""
    happened = f"{run.what_happened[0].rstrip('.')}." if run.what_happened else ""  # with its full stop or without
    said = {
        Outcome.FINISHED: "The run finished.",
        Outcome.FAILED: "The run failed.",
        Outcome.INTERRUPTED: "The run was interrupted.",
        Outcome.RUNNING: "The run is not over, or its process was killed.",
    }[run.outcome]
    return f"{said} {happened}".strip()


def observed(finding: Finding) -> tuple[str, str]:
    """(observed, asked for) of a finding, with units."""
    if finding.slowdown <= 1:  # it only stalled: it has no rate or time of its own
        return f"stalled for {formatting.seconds(finding.stalled_s)}", "never"
    if finding.elements[0].kind is ElementKind.HOST:
        return (
            f"{formatting.seconds(finding.observed)} / iteration",
            f"{formatting.seconds(finding.expected)} / iteration",
        )
    return formatting.rate(finding.observed), formatting.rate(finding.expected)


def _is_hidden(finding: Finding) -> bool:
    return finding.material and finding.speedup < MATERIAL_SPEEDUP  # by itself it saves too little to be blamed for


def _off(links: int) -> str:
    """What is to say where ``links`` measured otherwise than requested; nothing where none did."""
    if not links:
        return ""
    measured = f"before training {formatting.count(links, 'link')} measured otherwise than requested"
    return f" But {measured}: the network was not the one that was designed."


def _no_culprit(report: Report, off: str) -> str:
    asked = "what was designed" if report.reference == DESIGN else f"what was {report.reference} of it"
    if report.untraced:
        off = f"{off} {_unknown(report).capitalize()}."
    if broken := _breaking_off(report):
        first, hosts = formatting.count(report.iterations, "iteration"), formatting.count(len(broken), "host")
        off = f"{off} That is of the first {first}: traces of {hosts} break off."
    if report.findings:
        departures = formatting.count(len(report.findings), "departure")
        least = f"{(MATERIAL_SPEEDUP - 1) * 100:.0f} %"
        return f"No culprit: {departures} from {asked}, none costs {least} or more.{off}"
    if report.limitations:  # "everything" would cover what was not judged
        return f"No culprit: nothing that could be judged departs from {asked}.{off}" + _unseen(report)
    if off:
        return f"No culprit: nothing ran slower than {report.reference}.{off}" + _unseen(report)
    return f"No culprit: everything ran as {report.reference}." + _unseen(report)


def _unknown(report: Report) -> str:
    what = "rank" if report.reference == EXPECTED else "host"  # of a script no more is known
    return f"nothing is known of {formatting.count(len(report.untraced), what)} without a trace"


def _untold(report: Report) -> str:
    """Of a trace that lacks so much that nobody can say what anything costs, as where a rank's is missing."""
    share = f"{report.unexplained * 100:.0f} % of the run's longest path has no known cause in the trace"
    if report.unexplained <= MOST_UNKNOWN:
        share = _unknown(report)
    asked = "what was designed" if report.reference == DESIGN else f"what was {report.reference} of it"
    if not report.findings:
        return f"No verdict: nothing that could be judged departs from {asked}, but {share}."
    who = "; ".join(_departure(finding, report.reference) for finding in report.findings[:NAMED])
    more = f"; and {len(report.findings) - NAMED} more" if len(report.findings) > NAMED else ""
    return f"No verdict on what slowed this run down: {share}. What departs, at a cost that is not known: {who}{more}."


def _unseen(report: Report) -> str:
    """`` A link slower by less than 1.2 × or a host by less than 1.15 × would not have been seen.``, and what more."""
    known = [(kind, report.least_visible[kind]) for kind in (ElementKind.LINK, ElementKind.HOST)
             if kind in report.least_visible]  # fmt: skip
    said = [f"a {kind.value} slower by less than {least:.2f} ×" for kind, least in known]
    unseen = f" {' or '.join(said).capitalize()} all the time would not have been seen." if said else ""
    if report.untimed:
        untimed = formatting.count(len(report.untimed), "link")
        unseen += f" Nor would any longer delay of {untimed}: clocks do not tell."
    return unseen


def _none_alone(report: Report) -> str:
    """Where all are alike, one that is faster waits for the others; nothing, if nobody asked what would save."""
    if not report.bottlenecks:
        return ""
    least = formatting.percent(LEAST_SAVING)
    said = f" No host or link by itself, twice as fast, would save {least}."
    if not report.groups or report.groups[0].saved_s < LEAST_SAVING * report.run_s:
        return said
    who = named(report.groups[0].element)
    saving = f"{formatting.seconds(report.groups[0].saved_s)} of {formatting.seconds(report.run_s)}"
    return f"{said} {who[:1].upper()}{who[1:]}, all twice as fast, would save {saving}."


def _bottleneck(bottleneck: SpeedUp, report: Report) -> str:
    """What the bottleneck is called: ``slow by design`` is what departs in nothing, and was judged by all."""
    if report.reference != DESIGN:
        return "The bottleneck"
    known = "whose delay could not be judged" if str(bottleneck.element) in report.untimed else "slow by design"
    return f"The bottleneck, {known},"


def _speed_up(bottleneck: SpeedUp, run_s: float) -> str:
    saving = f"twice as fast, it would save {formatting.seconds(bottleneck.saved_s)} of {formatting.seconds(run_s)}"
    return f"{named(bottleneck.element)}: {saving}"
