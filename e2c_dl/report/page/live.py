"""The page of a run that goes on: the verdict on its last iterations, their heat map and timeline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from e2c_dl.archive.run import Run
from e2c_dl.diagnosis.diagnose import Diagnosis
from e2c_dl.diagnosis.model import ElementKind, Report
from e2c_dl.report.page import heat, sections, timeline
from e2c_dl.report.page.html import document
from e2c_dl.report.verdict import verdict_of


def build(
    run: Run, diagnosis: Diagnosis | None, headline: str, not_yet: Sequence[str], first: int, every_s: int | None
) -> str:
    """The page's HTML; ``first`` is the first iteration that was judged. Loads itself anew ``every_s``, if at all."""
    body = [sections.header(run)]
    if diagnosis is None:
        body.append(f'<section class="verdict undecided"><p class="headline">{escape(headline)}</p></section>')
    else:
        body += _judged(diagnosis, headline, first)
    if not_yet:
        body.append(sections.section("Not judged yet", "What the verdict does not cover.", sections.bullets(not_yet)))
    return document(f"{run.scenario} – {run.run_id}", body, every_s=every_s)


def _judged(diagnosis: Diagnosis, headline: str, first: int) -> list[str]:
    report = diagnosis.report
    said = verdict_of(report)
    verdict = f'<p class="headline">{escape(headline)}</p>{sections.bullets(said.points)}'
    hosts, links = culprits(report)
    made = [f'<section class="verdict {said.tone.value}">{verdict}</section>', sections.states(report, "", hosts)]
    made.append(heat.section(diagnosis.heat, report.blamed, first))
    if diagnosis.activity is not None:
        made.append(
            timeline.section(
                timeline.timeline(diagnosis.activity, hosts, links, diagnosis.critical), whole="These iterations"
            )
        )
    return made


def culprits(report: Report) -> tuple[set[str], set[tuple[str, str]]]:
    """Names of the hosts, and pairs of the links, that are culprits, a group's members among them."""
    hosts = {element.src for element in report.blamed if element.kind is ElementKind.HOST}
    return hosts, {(element.src, element.dst or "") for element in report.blamed if element.kind is ElementKind.LINK}
