"""The verdict: who slowed a run down, or that nobody did, and what that silence covers. On screen and page the same.

Two questions are answered apart. A *culprit* departs from what was designed, and a run without the departure is at
least 5 % faster. The *bottleneck* is where speeding up would save most: it always exists, often by design.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from e2c_dl import formatting
from e2c_dl.diagnosis.detection.clocks import arriving
from e2c_dl.diagnosis.model import (
    DESIGN,
    EXPECTED,
    MATERIAL_SPEEDUP,
    MOST_UNKNOWN,
    NAMED,
    ElementKind,
    Report,
    SpeedUp,
    some,
)
from e2c_dl.diagnosis.states import State
from e2c_dl.report import words

LEAST_SAVING = 0.001  # of the run: what saves less holds nothing up
MOST_OTHER, FAR_MORE = 0.25, 3.0  # of an iteration, in what no phase names; times what others have of it
NOTHING = 0.01  # of the run: less is within what a replay can tell


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


def verdict_of(report: Report, whole: str = "this run", *, links_off: int = 0) -> Verdict:
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
        accused = (words.accusation(each, report.run_s, report.reference, least=least) for each in report.culprits)
        blamed = "; ".join(accused)
        points = tuple(finding.evidence for finding in report.culprits)
        points += tuple(_together(report, least=least))
        if best:
            points += (f"Where speeding up would save most (the bottleneck): {best}.",)
        if links_off:
            points += (_off(links_off).strip(),)
        if report.silent_s:
            points += (f"But {_silent(report)}.",)
        headline = f"What slowed {whole} down: {blamed}."
        return Verdict(tone=Tone.CULPRITS, headline=headline, points=points, asides=_asides(report))
    points = tuple(finding.evidence for finding in report.findings)  # none is material, and all are worth reading
    if report.undecided:
        return Verdict(tone=Tone.UNDECIDED, headline=_untold(report, whole), points=points)
    named = None if alone is None or not best else _Bottleneck.of(alone, report)
    said = _none_alone(report) if named is None else f" {named.called} is {best}."
    headline = _no_culprit(report, _off(links_off)) + said
    blind = report.untimed or (named is not None and not named.judged)
    much = report.run_s >= MATERIAL_SPEEDUP * (report.run_s - report.together_s)  # of all that departs
    unknown = (
        links_off or report.untraced or report.mistimed_s or blind or much or _breaking_off(report) or report.silent_s
        or report.slowed_in_common or (report.replayed and report.findings)
    )  # fmt: skip
    tone = Tone.UNDECIDED if unknown else Tone.HEALTHY
    return Verdict(tone=tone, headline=headline, points=points, asides=_asides(report))


def _together(report: Report, *, least: bool) -> Iterator[str]:
    """``Both together would save 18.4 s of 38.6 s``, which is not the sum: where one waits the other costs nothing."""
    if report.together_s > max(each.saved_s for each in report.culprits):
        many = len(report.culprits)
        saved, of = formatting.seconds(report.together_s), formatting.seconds(report.run_s)
        who = "Both" if many == 2 else f"All {many}"
        yield f"{who} together would save {'at least ' if least else ''}{saved} of {of}."


def _asides(report: Report) -> tuple[str, ...]:
    """``also departs, costs nothing: link fog-2 -> cloud-1, 2.9 × slower, 200 ms``, one per immaterial departure."""
    said = []
    for finding in report.findings:
        if not finding.material:
            costs = "next to nothing" if finding.saved_s < NOTHING * report.run_s else "little"
            departs = [words.slower(finding).removeprefix("carries data ")] if finding.slowdown > 1 else []
            departs += [f"stalled for {formatting.seconds(finding.stalled_s)}"] if finding.stalled_s else []
            saving = formatting.seconds(max(0.0, finding.saved_s))  # a replay may even end a little later
            said.append(f"also departs, costs {costs}: {', '.join([words.named(finding.element), *departs, saving])}")
    return tuple(said)


def _breaking_off(report: Report) -> list[str]:
    """Hosts whose traces break off, where others' do not: a run that was ended has none that goes on."""
    broken = [host.host for host in report.hosts if not host.complete]
    return broken if len(broken) < len(report.hosts) else []


def _silent(report: Report) -> str:
    """``after the 20 iterations that all finished, link a -> b carried nothing for 19 s, to the end of the trace``."""
    links = [*report.silent_s]
    who = some("link", links)
    if len(links) <= NAMED:
        who = f"{'link' if len(links) == 1 else 'links'} {who}"
    least, most = (formatting.seconds(of(report.silent_s.values())) for of in (min, max))
    lasted = most if least == most else f"{least} to {most}"
    after = f"after the {formatting.count(report.iterations, 'iteration')} that all finished"
    return f"{after}, {who} carried nothing for {lasted}, to the end of the trace"


def _off(links: int) -> str:
    """What is to say where ``links`` measured otherwise than requested; nothing where none did."""
    if not links:
        return ""
    measured = f"before training {formatting.count(links, 'link')} measured otherwise than requested"
    return f" But {measured}: the network was not the one that was designed."


def _first_words(report: Report) -> str:
    """Of a run without culprits: what slowed it down and is nobody's, if anything did."""
    if not report.slowed_in_common:
        return "No culprit:"
    slow = " ".join(report.slowed_in_common)
    return f"No culprit, and yet slow: {slow[:1].lower()}{slow[1:]} Beside that,"


def _no_culprit(report: Report, off: str) -> str:
    first_words = _first_words(report)
    asked = "what was designed" if report.reference == DESIGN else f"what was {report.reference} of it"
    if report.untraced:
        off = f"{off} {_unknown(report).capitalize()}."
    if broken := _breaking_off(report):
        first = formatting.count(report.iterations, "iteration")
        traces = "the trace of 1 host breaks" if len(broken) == 1 else f"traces of {len(broken)} hosts break"
        off = f"{off} That is of the first {first}: {traces} off."
    if report.silent_s:
        off = f"{off} But {_silent(report)}."
    if report.findings:
        departures = formatting.count(len(report.findings), "departure")
        least = f"{(MATERIAL_SPEEDUP - 1) * 100:.0f} %"
        alone = f"none costs {least} or more{' by itself' if len(report.findings) > 1 else ''}"
        alone += " as far as a replay tells, in which nobody decides otherwise" if report.replayed else ""
        cost = f"{formatting.seconds(report.together_s)} of {formatting.seconds(report.run_s)}"
        together = f"; together they cost {cost}" if report.together_s >= NOTHING * report.run_s else ""
        return f"{first_words} {departures} from {asked}, {alone}{together}.{off}"
    if report.limitations:  # some of it was not judged
        return f"{first_words} nothing that could be judged departs from {asked}.{off}" + _unseen(report)
    if off:
        return f"{first_words} nothing ran slower than {report.reference}.{off}" + _unseen(report)
    return f"{first_words} nothing was seen to depart from {asked}." + _unseen(report)


def _unknown(report: Report) -> str:
    what = "rank" if report.reference == EXPECTED else "host"  # of a script no more is known
    return f"nothing is known of {formatting.count(len(report.untraced), what)} without a trace"


def _untold(report: Report, whole: str) -> str:
    """Where nobody can say what anything costs: a rank's trace is missing, or its clock was wrong."""
    share = _unknown(report)
    if report.mistimed_s:
        share = arriving(report.mistimed_s)
    elif report.unexplained > MOST_UNKNOWN:
        what = "of the run's longest path has no known cause in the trace"
        share = f"{report.unexplained * 100:.0f} % {what}{_where(report)}"
    asked = "what was designed" if report.reference == DESIGN else f"what was {report.reference} of it"
    if not report.findings:
        return f"No verdict: nothing that could be judged departs from {asked}, but {share}."
    who = "; ".join(words.departure(finding, report.reference) for finding in report.findings[:NAMED])
    more = f"; and {len(report.findings) - NAMED} more" if len(report.findings) > NAMED else ""
    return f"No verdict on what slowed {whole} down: {share}. What departs, at a cost that is not known: {who}{more}."


def _where(report: Report) -> str:
    """Which hosts most of that is on, and how much, where it is what no phase names."""
    per_iteration_s = {
        host.host: host.states_s[State.OTHER] / (host.iterations or report.iterations) for host in report.hosts
    }
    least_s = min(per_iteration_s.values())
    most = [name for name, seconds in per_iteration_s.items() if seconds >= MOST_OTHER * report.mean_iteration_s]
    if not most:
        return ""
    spent = f"{formatting.seconds(max(per_iteration_s.values()))} per iteration in what no phase names"
    if min(per_iteration_s[name] for name in most) < FAR_MORE * least_s:
        return f" ({some('host', most)}: up to {spent}, such as data that are loaded by hand)"
    return f" ({some('host', most)}: {spent}, others from {formatting.seconds(least_s)} on)"


def _unseen(report: Report) -> str:
    """`` A link slower by less than 1.2 × or a host by less than 1.15 × would not have been seen.``, and what more."""
    known = [(kind, report.least_visible[kind]) for kind in (ElementKind.LINK, ElementKind.HOST)
             if kind in report.least_visible]  # fmt: skip
    said = [f"a {kind.value} slower by less than {least:.2f} ×" for kind, least in known]
    hidden = [f"{' or '.join(said)} all the time"] if said else []
    if report.untimed:
        hidden.append(
            f"any longer delay of {formatting.count(len(report.untimed), 'link')}, of which clocks do not tell"
        )
    hidden += _never_judged(report)
    first = [f" {each[:1].upper()}{each[1:]} would not have been seen." for each in hidden[:1]]
    return "".join([*first, *(f" Nor would {each}." for each in hidden[1:])])


def _never_judged(report: Report) -> list[str]:
    """``2 hosts that are slower all the time, as nobody knows how fast they should be``."""
    hosts = {host.host for host in report.hosts}
    counts = {"host": len(hosts & {*report.unjudged}), "link": len({*report.unjudged} - hosts)}
    who = " and ".join(formatting.count(count, what) for what, count in counts.items() if count)
    if not who:
        return []
    one = sum(counts.values()) == 1
    verb, they = ("is", "it") if one else ("are", "they")
    return [f"{who} that {verb} slower all the time, as nobody knows how fast {they} should be"]


def _none_alone(report: Report) -> str:
    """Where all are alike, one that is faster waits for the others; nothing, if nobody asked what would save."""
    if not report.bottlenecks:
        return ""
    least = formatting.percent(LEAST_SAVING)
    said = f" No host or link by itself, twice as fast, would save {least}."
    if not report.groups or report.groups[0].saved_s < LEAST_SAVING * report.run_s:
        return said
    who = words.named(report.groups[0].element)
    saving = f"{formatting.seconds(report.groups[0].saved_s)} of {formatting.seconds(report.run_s)}"
    return f"{said} {who[:1].upper()}{who[1:]}, all twice as fast, would save {saving}."


def _speed_up(bottleneck: SpeedUp, run_s: float) -> str:
    saving = f"twice as fast, it would save {formatting.seconds(bottleneck.saved_s)} of {formatting.seconds(run_s)}"
    return f"{words.named(bottleneck.element)}: {saving}"


@dataclass(frozen=True, kw_only=True)
class _Bottleneck:
    """What the bottleneck of a run without culprits is ``called``; whether it was ``judged`` by all it does."""

    called: str
    judged: bool = True

    @classmethod
    def of(cls, bottleneck: SpeedUp, report: Report) -> _Bottleneck:
        """``slow by design`` is what was judged, and departs in nothing."""
        name = str(bottleneck.element)
        departing = {str(each) for finding in report.findings for each in (finding.element, *finding.elements)}
        if name in report.unjudged:
            return cls(called="The bottleneck, of which nobody knows how fast it should be,", judged=False)
        if name in report.untimed:
            return cls(called="The bottleneck, whose delay could not be judged,", judged=False)
        if report.reference != DESIGN or name in departing or report.slowed_in_common:
            return cls(called="The bottleneck")
        return cls(called="The bottleneck, slow by design,")
