"""A report in words: what departs and by how much, how long iterations took, how a run ended."""

from __future__ import annotations

from e2c_dl import formatting
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.diagnosis.model import (
    DESIGN,
    MATERIAL_SPEEDUP,
    NAMED,
    Element,
    ElementKind,
    Finding,
    Part,
    Report,
)
from e2c_dl.diagnosis.shown import verbs
from e2c_dl.diagnosis.stretches import When

SAME_PACE = 0.1  # mean and median of iterations that are of one kind are no further apart


def iterations(report: Report) -> str:
    """``60``; ``36 to 100 (360 in all)`` where ranks went at their own pace."""
    each = [host.iterations for host in report.hosts if host.complete]
    if not each or max(each) <= report.iterations:
        return str(report.iterations)
    if len(each) == len(report.hosts) and min(each) == max(each):  # the trace of some host lacks a few
        return str(max(each))
    told = f"{min(each)} to {max(each)}" if min(each) < max(each) else f"{max(each)}"
    return f"{told} ({sum(each)} in all)"


def pace(report: Report) -> str:
    """``355 ms each (median)``; of ranks at their own pace ``355 ms each (median of the slowest)``; of two kinds of
    iterations ``447 ms each (median 355 ms), 3.58 s per round of 8``.
    """
    median = formatting.seconds(report.iteration_s)
    told = iterations(report)
    if "(" in told:  # at their own pace
        return f"{median} each (median of the slowest)"
    lacks = told != str(report.iterations)  # so that nobody knows how long all of them took
    if lacks or not report.iteration_s > 0 or abs(report.mean_iteration_s / report.iteration_s - 1) <= SAME_PACE:
        return f"{median} each (median)"
    mean = f"{formatting.seconds(report.mean_iteration_s)} each (median {median})"
    if report.round_iterations == 1:
        return mean
    a_round = formatting.seconds(report.mean_iteration_s * report.round_iterations)
    return f"{mean}, {a_round} per round of {report.round_iterations}"


def is_cut(report: Report) -> bool:
    """Whether figures are of a part of the run: every trace breaks off, or what was before is lost."""
    return report.first_iteration > 0 or (bool(report.hosts) and not any(host.complete for host in report.hosts))


def stale(report: Report) -> dict[str, str]:
    """Host -> staleness of its updates: ``3, at most 11``; empty where no update can be stale."""
    return {each.host: f"{each.median:g}, at most {each.most}" for each in report.staleness}


def accusation(finding: Finding, run_s: float, reference: str = DESIGN, *, least: bool = False) -> str:
    """``host fog-2 computes 3.0 × slower than designed since iteration 20 (second 4.3) (would save 21.0 s of 52.0 s)``.

    Of departures that hide each other: ``(would save 7.1 s of 30.9 s with all else as designed, 0 s by itself)``.
    """
    would = "would save at least" if least else "would save"
    saving = f"{would} {formatting.seconds(saved_s(finding))} of {formatting.seconds(run_s)}"
    if _is_hidden(finding):
        saving += f" with all else as {reference}, {formatting.seconds(max(0.0, finding.saved_s))} by itself"
    return f"{departure(finding, reference)} ({saving})"


def departure(finding: Finding, reference: str) -> str:
    """``host fog-2 computes 3.0 × slower than designed since iteration 20 (second 4.3) and stalled for 3.2 s``."""
    said = []
    if finding.part is not Part.STALLED:
        when = "" if finding.when.when is When.PERSISTENT else f" {finding.when.described()}"
        said.append(f"{slower(finding)} than {reference}{when}")
    if finding.stalled_s:
        said.append(f"stalled for {formatting.seconds(finding.stalled_s)}")
    return f"{named(finding.element)} {' and '.join(said)}"


def slower(finding: Finding) -> str:
    """``computes 3.0 × slower``; of a group ``compute 3.0 × slower``."""
    # At most 1: its messages took no longer in all, but each of them was waited for.
    times = formatting.times(finding.slowdown) if finding.slowdown > 1 else ""
    return verbs.slower(finding.part, times, many=finding.element.kind is ElementKind.GROUP)


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
    if finding.part is Part.STALLED:  # it has no rate or time of its own
        return f"stalled for {formatting.seconds(finding.stalled_s)}", "never"
    if finding.elements[0].kind is ElementKind.HOST:
        return (
            f"{formatting.seconds(finding.observed)} / iteration",
            f"{formatting.seconds(finding.expected)} / iteration",
        )
    return formatting.rate(finding.observed), formatting.rate(finding.expected)


def _is_hidden(finding: Finding) -> bool:
    return finding.material and finding.speedup < MATERIAL_SPEEDUP  # by itself it saves too little to be blamed for
