"""The sections of the page as HTML strings; whatever comes from a scenario, a host or a message is escaped here."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from html import escape
from types import MappingProxyType

from e2c_dl import formatting
from e2c_dl.archive.records import Progress
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.diagnosis.model import Report
from e2c_dl.diagnosis.states import State
from e2c_dl.report import words
from e2c_dl.report.rows import MOST_IDLE, LinkRow, unused_words
from e2c_dl.report.verdict import verdict_of
from e2c_dl.topology import Pair

UNFOLDED = 12  # sentences that are shown without a click
Cell = tuple[str, str]
"""(text, CSS class)."""

DEFINITIONS: Mapping[str, str] = MappingProxyType(
    {
        "Run time": "From the start of the first worker's first iteration to the end of the last worker's last one.",
        "Iteration": "Median over iterations of the slowest worker's time.",
        "Compute": "The worker draws data, runs forward or backward, adds vectors, steps the optimizer, or evaluates.",
        "Exposed propagate": "No computation, and a message from or to this worker is on its way: communication that "
        "computation does not hide.",
        "Wait": "No computation, nothing on its way from or to this worker, and its tasks wait for others.",
        "Other": "None of these: the time the program itself takes. The four states sum to the worker's wall time.",
        "Designed": "What the scenario says of a link. Delays are one way; rates count Ethernet frames with headers.",
        "Requested": "What the emulator was told: the design, plus departures injected on purpose.",
        "Measured": "What a probe measured on the idle link before training; the round trip covers both directions.",
        "Used": "Median over training's messages of bits per second while the message was on the link.",
        "Slow-down": "Observed over designed: of a host the time of its median iteration's computation, of a link the "
        "time its messages took, at the rate designed at that moment beside whoever else was busy. 1.0: as designed.",
        "Stalled": "Of a link: a message took 2 s and ten times longer than designed. Of a host: its process was not "
        "seen to run meanwhile, or a gradient took that much longer than usual.",
        "Saving": "The run replayed from its trace, now minus with that element as designed (culprits; where others "
        "hide it, with those as designed already) or twice as fast (bottlenecks).",
        "Bottleneck": "The host, link or rate shared by links whose speed-up would save most. It always exists and is "
        "often slow by design.",
        "Culprit": "An element that departs from what the scenario designed, where a run without the departure is at "
        "least 5 % faster.",
        "Not explained": "Share of the run's longest chain of events that is gaps and waking up, which no what-if "
        "changes.",
        "Halves": "How far the second half of the run is from what the durations of its first half predict: savings "
        "are hardly better than this.",
        "Clock uncertainty": "Half the best round trip of the clock exchange, of the worst worker: times of different "
        "workers compare no better than this.",
    }
)


TOPOLOGY = (
    "Topology",
    "Links that training used. Beside each: measured rate of designed rate; at each host: its computation per "
    "iteration. The wider, the faster. Point at a link for all its figures.",
)
SPEED_UPS = (
    "What speeding up would bring",
    "Replayed from the trace: seconds saved if that one element, or all of that group, were twice as fast. At most: "
    "not replayed, the longest chain of events loses no more. Red: a culprit too.",
)
"""Titles and captions of the sections that are one figure."""


def learning(progress: Sequence[Progress], figure: str) -> str:
    """Loss and accuracy over time, and whose they are."""
    said = "Training loss and test accuracy, as the worker of rank 0 reported them."
    whose = [row.model for row in progress if row.model is not None]
    if whose:
        last = "" if whose[0] == whose[-1] else f" while training, and of {whose[-1]} at the end"
        said += f" Accuracy is of {whose[0]}{last}."
    return section("Learning", escape(said), figure)  # an archive says whose


def table(head: Sequence[Cell], rows: Sequence[tuple[str, Sequence[Cell]]]) -> str:
    """An HTML table; a row is (CSS class, cells). Texts are escaped."""
    top = "".join(f'<th class="{css}">{escape(text)}</th>' for text, css in head)
    body = "".join(
        f'<tr class="{css}">' + "".join(f'<td class="{c}">{escape(text)}</td>' for text, c in cells) + "</tr>"
        for css, cells in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def bullets(
    sentences: Sequence[str], css: str = "", concerned: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str:
    """A list of escaped sentences; nothing for none. ``concerned``: sentence -> all names of which it says some."""
    items = "".join(f"<li>{escape(sentence)}{_all(concerned.get(sentence, ()))}</li>" for sentence in sentences)
    return f'<ul class="{css}">{items}</ul>' if items else ""


def _all(names: Sequence[str]) -> str:
    return f"<details><summary>all {len(names)}</summary>{escape(', '.join(names))}</details>" if names else ""


def folded(content: str, number: int, what: str) -> str:
    """``content``, behind a click if it has more than UNFOLDED lines."""
    return f"<details><summary>{number} {what}</summary>{content}</details>" if number > UNFOLDED else content


def section(title: str, caption: str, content: str) -> str:
    """A card; ``title`` and ``caption`` are this module's own text."""
    return f'<section><h2>{title}</h2><p class="caption">{caption}</p>{content}</section>'


def header(run: Run) -> str:
    """Scenario, outcome, date, testbed, versions."""
    chips = {
        "outcome": run.outcome.value,
        "started": run.started,
        "ended": run.ended,
        "testbed": run.testbed,
        "run": run.run_id,
        "network": str(run.emulation.get("backend", "")),
        "mathematics": str(run.facts.get("mathematics", "")),
        **{name: str(version) for name, version in run.versions.items()},
    }
    shown = "".join(f"<span>{escape(name)} <b>{escape(text)}</b></span>" for name, text in chips.items() if text)
    themes = "".join(
        f'<button type="button" data-theme-is="{name}" aria-pressed="false">{name}</button>'
        for name in ("auto", "light", "dark")
    )
    title = f"<h1>{escape(run.scenario or 'Run ' + run.run_id)}</h1>"
    switch = f'<div class="themes" role="group" aria-label="Theme">{themes}</div>'
    return f'<div class="top">{title}{switch}</div><div class="chips">{shown}</div>'


def verdict(run: Run, report: Report, links_off: int = 0) -> str:
    """The answer in words, the culprits as a table, and first of all whether the run finished."""
    said = verdict_of(report, links_off=links_off)
    notice = ""
    if run.outcome is not Outcome.FINISHED:
        notice = f'<section class="notice"><b>{escape(words.outcome(run))}</b> What was traced until then:</section>'
    head = [("culprit", ""), ("observed", "n"), (report.reference, "n"), ("slow-down", "n"), ("saving", "n")]
    rows = []
    for finding in report.culprits:
        now, asked = words.observed(finding)
        slower = formatting.times(finding.slowdown) if finding.slowdown > 1 else "–"  # what only stalled is not slower
        cells = [now, asked, slower, formatting.seconds(words.saved_s(finding))]
        rows.append(("", [(words.named(finding.element), ""), *((text, "n") for text in cells)]))
    figures = table(head, rows) if rows else ""
    asides = folded(bullets(said.asides, "soft"), len(said.asides), "departures that cost next to nothing")
    headline = f'<p class="headline">{escape(said.headline)}</p>'
    content = headline + bullets(said.points) + figures + asides
    return f'{notice}<section class="verdict {said.tone.value}">{content}</section>'


def tiles(report: Report, progress: Sequence[Progress]) -> str:
    """The key figures."""
    accuracy = next((row.accuracy for row in reversed(progress) if row.accuracy is not None), None)  # not each has one
    loss = next((row.loss for row in reversed(progress) if row.loss is not None), None)
    sent = sum(link.sent_bytes for link in report.links)
    least = f"≥ {formatting.size(sent)}" if sent else formatting.DASH  # messages of whole traces alone are known
    took, how = words.pace(report).split(" each ", 1)
    figures = {
        "time of what all finished" if words.is_cut(report) else "run time": formatting.seconds(report.run_s),
        "iterations": words.iterations(report),
        f"iteration {how}": took,
        "sent over links": least if report.untraced else formatting.size(sent),
        "final loss": formatting.DASH if loss is None else f"{loss:.3g}",
        "accuracy": formatting.percent(accuracy),
    }
    made = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in figures.items()
    )
    return f'<div class="tiles">{made}</div>'


def states(report: Report, figure: str, culprits: Collection[str]) -> str:
    """Where each worker's time went: figure and table."""
    head = [("worker", ""), ("layer", ""), *((state.value, "n") for state in State), ("compute / iteration", "n")]
    stale, rows = words.stale(report), []
    if stale:
        head.append(("staleness (median)", "n"))
    for host in report.hosts:
        spent = [_state(host.states_s.get(state, 0.0), host.wall_s) for state in State]
        per_iteration = formatting.seconds(host.compute_per_iteration_s)
        name = host.host if host.complete else f"{host.host} (trace breaks off)"  # its figures are of a part
        figures = [*spent, per_iteration, *([stale.get(host.host, formatting.DASH)] if stale else [])]
        cells = [(name, ""), (host.layer, ""), *((text, "n") for text in figures)]
        rows.append(("marked" if host.host in culprits else "", cells))
    caption = "Each worker is in exactly one state at any time. Culprits are red."
    if stale:
        caption += " Staleness: updates that were applied between the reading of parameters and what came of them."
    return section("Where the time went", caption, figure + table(head, rows))


def _state(spent_s: float, wall_s: float) -> str:
    share = formatting.percent(spent_s / wall_s) if wall_s else formatting.DASH
    return f"{formatting.seconds(spent_s)} · {share}"


def links(rows: Sequence[LinkRow], culprits: Collection[Pair]) -> str:
    """Every link as designed, requested, measured, used; of many that told nothing, behind a click."""
    head = [("link", ""), *((name, "n") for name in ("designed", "requested", "measured", "measured / requested"))]
    head += [(name, "n") for name in ("round trip requested", "measured", "used", "sent")]
    caption = (
        "Designed by the scenario, requested of the emulator (departures injected on purpose included), measured "
        "before training, used by training; sent bytes and messages. Yellow: not as requested (rate more than 5 % off, "
        "round trip more than max(1 ms, 5 %), or loss)."
    )
    telling = [_link(row, culprits) for row in rows if row.used or row.deviates]
    others = [row for row in rows if not (row.used or row.deviates)]
    idle = [_link(row, culprits) for row in others[:MOST_IDLE]]
    if len(others) <= UNFOLDED:
        return section("Links", caption, table(head, [*telling, *idle]))
    here = f" (here the first {MOST_IDLE}, in links.json all)" if len(others) > MOST_IDLE else ""
    rest = folded(table(head, idle), len(others), f"links more {unused_words(others)}{here}")
    return section("Links", caption, (table(head, telling) if telling else "") + rest)


def _link(row: LinkRow, culprits: Collection[Pair]) -> tuple[str, Sequence[Cell]]:
    sent = f"{formatting.size(row.used.sent_bytes)} · {row.used.messages}" if row.used else row.unused
    off = "n off" if row.deviates else "n"
    cells = [
        (f"{row.src} → {row.dst}", ""),
        (row.designed_rate, "n"),
        (row.requested_rate, "n"),
        (row.measured_rate, "n"),
        (formatting.percent(row.against_requested), off),
        (row.requested_round_trip, "n"),
        (row.measured_round_trip, off),
        (formatting.rate(row.used.rate_bps if row.used else None), "n"),
        (sent, "n"),
    ]
    return "marked" if row.pair in culprits else "", cells


def _halves(error: float) -> str:
    if math.isnan(error):
        return "The run is too short to predict its second half from its first."
    return f"Its second half is {formatting.percent(error)} from what the durations of its first half predict."


def limitations(run: Run, report: Report) -> str:
    """Limitations, and what was requested and not given."""
    figures = (
        f"{formatting.percent(report.unexplained)} of the run's longest chain of events is gaps and waking up.",
        _halves(report.half_error),
        f"Clocks of different workers agree within {formatting.seconds(report.clock_uncertainty_s)}.",
    )
    caption = "Read this before believing a figure."
    items = [*report.limitations, *run.limitations, *figures]
    return section("Limitations", caption, bullets(items, concerned=report.concerned))


def definitions() -> str:
    """Every number's definition."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in DEFINITIONS.items())
    return f"<section><details><summary>What the numbers mean</summary><dl>{items}</dl></details></section>"


def reproduce(run: Run) -> str:
    """The commands that make and check such a run."""
    typed = shlex.join(run.command) or "(the command was not recorded)"
    seeds = ", ".join(f"{name} {seed}" for name, seed in run.seeds.items()) or "none recorded"
    commands = f"{typed}\n\ne2c-dl verify ARCHIVE      # are its files as they were sealed?\ne2c-dl report ARCHIVE"
    caption = f"The scenario as it ran stands in the archive's scenario/. Seeds: {escape(seeds)}."
    return section("How to reproduce", caption, f"<pre>{escape(commands)}</pre>")
