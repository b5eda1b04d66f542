"""The report on a terminal: the answer, where the time went, the links, the limitations, and where to read on.

Good in colour and without: tables have no frames, so that logs and pipes get plain columns of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from e2c_dl import formatting
from e2c_dl.archive import layout
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.diagnosis.model import ElementKind, HostSummary, Report
from e2c_dl.diagnosis.states import State
from e2c_dl.report import words
from e2c_dl.report.rows import MOST_IDLE, LinkRow, link_rows, links_off, unused_words
from e2c_dl.report.verdict import Tone, verdict_of

TONES = {Tone.CULPRITS: "bold red", Tone.HEALTHY: "bold green", Tone.UNDECIDED: "bold yellow"}
UNUSED_LINKS = (
    6  # as many links that training did not use are listed at most: of those as asked for none, if it used any
)
NAME_WIDTH = 32  # of a terminal's 80 or more
TABLE_WORKERS = 40  # a screenful; the page has all
CHANGES = 20  # lines about what changed
ASIDES = 5  # lines about departures that cost next to nothing


def summary(
    report: Report,
    run: Run,
    links: Sequence[Mapping[str, Any]] = (),
    archive: Path | None = None,
    changes: Sequence[str] = (),
) -> RenderableType:
    """What to print at the end of a run; ``links`` are rows of links.json. Raises: ArchiveError for damaged rows.

    ``archive`` is where the run is kept, to be named last; ``changes`` are sentences: what changed while it trained.
    """
    rows = link_rows(links, report)
    said = verdict_of(report, links_off=links_off(rows))
    parts: list[RenderableType] = []
    if run.outcome is not Outcome.FINISHED:
        parts += [Text(words.outcome(run), style="bold yellow"), *bullets(run.what_happened[1:])]
        parts += [Text("What was traced until then:"), Text("")]
    parts += [Text(said.headline, style=TONES[said.tone]), *bullets(said.points)]
    parts += [*bullets(_first(said.asides, ASIDES, "departure"), "dim"), Text("")]
    parts.append(_totals(report))
    if report.hosts:
        parts += [Text(""), states(report)]
    if rows:
        parts += [Text(""), _links(rows, report)]
    if changes:
        parts += [Text(""), Text("What changed while it trained", style="bold")]
        parts += bullets(_first(changes, CHANGES, "element"))
    limitations = [*report.limitations, *run.limitations]
    if limitations:
        parts += [Text(""), Text("Limitations", style="bold"), *bullets(limitations)]
    if archive is not None:
        parts += [Text(""), *_places(archive)]
    return Visible(Group(*parts))


@dataclass(frozen=True)
class Visible:
    """``content`` with control characters spelled out: what an archive holds, anybody may have written."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self.content, options):
            yield Segment(text if control else formatting.visible(text), style, control)


def bullets(sentences: Sequence[str], style: str = "") -> list[RenderableType]:
    """One sentence after the other, hanging behind a dash."""
    made: list[RenderableType] = []
    for sentence in sentences:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("-", style=style), Text(sentence, style=style))
        made.append(Padding(grid, (0, 0, 0, 2), expand=False))
    return made


def _first(sentences: Sequence[str], most: int, what: str) -> list[str]:
    """At most so many, and how many more there are."""
    hidden = len(sentences) - most
    more = [f"... and {formatting.count(hidden, what)} more, on the page"] if hidden > 0 else []
    return [*sentences[:most], *more]


def _totals(report: Report) -> Text:
    iterations = words.iterations(report)
    lost = formatting.count(len(report.untraced), "worker")
    untraced = f", and {lost} without a trace" if report.untraced else ""
    return Text(
        f"{iterations} iteration{'s' * (iterations != '1')} in {formatting.seconds(report.run_s)}, "
        f"{words.pace(report)}, on {formatting.count(len(report.hosts), 'worker')}{untraced}."
    )


def states(report: Report) -> Table:
    """Seconds and share of each state, a row per worker in rank order; the slowest to compute first if too many."""
    culprits = {each.src for each in report.blamed if each.kind is ElementKind.HOST}
    table = _table("Where the time went")
    add_names(table, "worker", (host.host for host in report.hosts[:TABLE_WORKERS]))
    for state in State:
        table.add_column(state.value, justify="right", overflow="fold")
    table.add_column("compute / iteration", justify="right", overflow="fold")
    stale = words.stale(report)
    if stale:
        table.add_column("staleness (median)", justify="right", overflow="fold")
    for host in report.hosts[:TABLE_WORKERS]:
        table.add_row(
            Text(host.host if host.complete else f"{host.host} (breaks off)"),  # Text, as brackets in a str are markup
            *(_spent(host, state) for state in State),
            formatting.seconds(host.compute_per_iteration_s),
            *([stale.get(host.host, formatting.DASH)] if stale else []),
            style="red" if host.host in culprits else None,
        )
    hidden = len(report.hosts) - TABLE_WORKERS
    if hidden > 0:
        table.caption = f"... and {formatting.count(hidden, 'worker')} more, on the page"
    return table


def _spent(host: HostSummary, state: State) -> str:
    spent_s = host.states_s.get(state, 0.0)
    share = formatting.percent(spent_s / host.wall_s) if host.wall_s else formatting.DASH
    return f"{formatting.seconds(spent_s)} {share:>7}"


def _links(rows: Sequence[LinkRow], report: Report) -> Table:
    """Links that training used, and a few others that are not as they were asked to be."""
    culprits = {(each.src, each.dst) for each in report.blamed if each.kind is ElementKind.LINK}
    used = [row for row in rows if row.used]
    others = [row for row in rows if not row.used]
    table = _table("Links")
    shown = [*used, *[row for row in others if row.deviates][:UNUSED_LINKS]] or others[:UNUSED_LINKS]
    add_names(table, "link", (f"{row.src} -> {row.dst}" for row in shown))
    for name in ("designed", "requested", "measured", "used", "round trip requested", "measured"):
        table.add_column(name, justify="right", overflow="fold")
    for row in shown:
        table.add_row(
            Text(f"{row.src} -> {row.dst}"),  # as Text: in a str, rich takes brackets for markup
            row.designed_rate,
            row.requested_rate,
            row.measured_rate,
            formatting.rate(row.used.rate_bps) if row.used else row.unused,
            row.requested_round_trip,
            row.measured_round_trip,
            style="red" if row.pair in culprits else "yellow" if row.deviates else None,
        )
    hidden = len(rows) - len(shown)
    if hidden > 0:
        where = "on the page" if len(others) <= MOST_IDLE else f"in {layout.LINKS}"
        table.caption = f"... and {formatting.count(hidden, 'link')} more {unused_words(others)}, {where}"
    return table


def add_names(table: Table, title: str, names: Iterable[str]) -> None:
    """A first column, for hosts or links: whole, unless one is so long that figures would have no room beside it."""
    long = max((len(name) for name in names), default=0) > NAME_WIDTH
    table.add_column(title, no_wrap=not long, max_width=NAME_WIDTH if long else None, overflow="fold")


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.caption_justify = "left"
    return table


def _places(archive: Path) -> list[Text]:
    """Where the archive and the page are: whole, however narrow the terminal."""
    page = archive / layout.REPORT_HTML
    places = [("archive", archive)] + ([("page", page)] if page.is_file() else [])  # the page may not be made yet
    return [Text(f"{name:<8} {place}", overflow="fold") for name, place in places]
