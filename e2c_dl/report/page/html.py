"""A self-contained page: the verdict, what it rests on, and every figure with its definition. Opens offline.

Nothing is fetched: Plotly's script is embedded once, compressed, and a content policy forbids the page to load
anything. Every string that comes from a scenario or a host is escaped, or drawn as text; figures travel as JSON that
cannot end its script element.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from e2c_dl import codec
from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.records import Progress
from e2c_dl.archive.run import Run
from e2c_dl.archive.write import amend
from e2c_dl.beneath import Place
from e2c_dl.diagnosis.diagnose import Diagnosis
from e2c_dl.diagnosis.model import ElementKind
from e2c_dl.report import words
from e2c_dl.report.page import figures, heat, matrix, schedules, sections, timeline
from e2c_dl.report.page.map import topology
from e2c_dl.report.page.on_purpose import on_purpose
from e2c_dl.report.page.style import css, script
from e2c_dl.report.rows import bottleneck_rows, link_rows, links_off

# Inline: Plotly sets styles as it draws. Images: what its camera button makes.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Everything that a page is built from."""

    run: Run
    diagnosis: Diagnosis
    links: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # rows of links.json
    bottlenecks: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # rows of bottlenecks.json
    progress: Sequence[Progress] = field(default_factory=tuple)  # rows of rank 0's progress.jsonl


def write_report(archive: ReadArchive, diagnosis: Diagnosis) -> Path:
    """Where the page stands; report.json stands beside it. A sealed archive vouches for both from then on.

    Raises: ArchiveError if a piece of the archive is damaged or the files cannot be written.
    """
    # A name that is not UTF-8 is a lone surrogate: it must not be what ends the report.
    page = build(source(archive, diagnosis)).encode(errors="backslashreplace")
    written = {layout.REPORT_JSON: diagnosis.report.to_json(), layout.REPORT_HTML: page}
    for name, content in written.items():  # both are made by now: failing to draw leaves the old
        codec.put(Place(archive.path) / name, content)
    if (Place(archive.path) / layout.MANIFEST).exists():  # else nothing vouches for any file yet
        amend(archive.path, tuple(written))
    return archive.path / layout.REPORT_HTML


def source(archive: ReadArchive, diagnosis: Diagnosis) -> Source:
    """What a page is built from, as ``archive`` holds it. Raises: ArchiveError for a damaged piece."""
    leader = next((host.host for host in diagnosis.report.hosts if host.rank == 0), None)
    return Source(
        run=archive.run, diagnosis=diagnosis, links=archive.links(), bottlenecks=archive.bottlenecks(),
        progress=archive.host(leader).progress() if leader is not None else (),
    )  # fmt: skip


def build(source: Source) -> str:
    """The page's HTML. Raises: ArchiveError for damaged rows of links."""
    run, report = source.run, source.diagnosis.report
    body = [
        sections.header(run),
        sections.verdict(run, report, links_off(link_rows(source.links, report))),
        sections.tiles(report, source.progress),
        *_figures(source),
        on_purpose(run),
        sections.limitations(run, report),
        sections.definitions(),
        sections.reproduce(run),
    ]
    body.append(f'<script type="application/octet-stream" id="plotly-data">{_plotly()}</script>')
    return document(f"{run.scenario or 'run'} – {run.run_id}", body)


def document(title: str, body: Sequence[str], *, every_s: int | None = None) -> str:
    """A page of ``title`` with the sections ``body``; it loads itself anew ``every_s``, if given."""
    again = "" if every_s is None else f'<meta http-equiv="refresh" content="{every_s}">\n'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
{again}<title>{escape(title)}</title>
<style>{css()}</style>
</head>
<body>
<main>
{"".join(body)}
</main>
<script>{script()}</script>
</body>
</html>
"""


@cache
def _plotly() -> str:
    """Plotly's script, a third as long: the page opens it when the first of its figures comes into view."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)).decode()


def _figures(source: Source) -> list[str]:
    report, activity = source.diagnosis.report, source.diagnosis.activity
    hosts = {each.src for each in report.blamed if each.kind is ElementKind.HOST}
    links = {(each.src, each.dst or "") for each in report.blamed if each.kind is ElementKind.LINK}
    rows = link_rows(source.links, report)
    made = []
    if report.hosts:
        time = embedded("states", figures.states(report.hosts, hosts), "Seconds per state and worker")
        made.append(sections.states(report, time, hosts))
        drawn = topology(report.hosts, rows, hosts, links)
        made.append(sections.section(*sections.TOPOLOGY, embedded("topology", drawn, "Hosts and links")))
    made.append(heat.section(source.diagnosis.heat, report.blamed, report.first_iteration))
    if activity is not None and activity.lanes:
        onsets_s = {who: each - source.diagnosis.first_s for who, each in words.onsets_s(report).items()}
        made.append(
            timeline.section(
                timeline.timeline(activity, hosts, links, source.diagnosis.critical, onsets_s),
                whole="What all ranks finished" if words.is_cut(report) else "The run",
            )
        )
    if rows:
        made.append(sections.links(rows, links))
    measured = [row.fidelity for row in rows if row.fidelity is not None]
    made.append(matrix.section(measured, bottleneck_rows(source.bottlenecks), [host.host for host in report.hosts]))
    made.append(schedules.section(source.diagnosis.changed, embedded))
    if report.bottlenecks:
        bars = embedded("bottlenecks", figures.bottlenecks(report), "Seconds saved if twice as fast")
        made.append(sections.section(*sections.SPEED_UPS, bars))
    if any(row.loss is not None or row.accuracy is not None for row in source.progress):  # of shapes there is neither
        curves = embedded("progress", figures.progress(source.progress), "Loss and accuracy")
        made.append(sections.learning(source.progress, curves))
    return made


def embedded(name: str, figure: Any, title: str) -> str:
    """The place where ``figure`` appears, and its data beside it; ``name`` is its id."""
    data = figure.to_json().replace("<", "\\u003c")  # cannot end its script element
    height = int(figure.layout.height)  # kept free, so that nothing jumps when it is drawn
    return (
        f'<div class="figure" id="{name}" role="img" aria-label="{escape(title)}" style="min-height:{height}px"></div>'
        f'<script type="application/json" id="{name}-data">{data}</script>'
    )
