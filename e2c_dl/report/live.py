"""The verdict while a run trains, for a terminal and as a page that loads itself anew; both replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from e2c_dl import formatting
from e2c_dl.archive.run import Run
from e2c_dl.atomic_write import written
from e2c_dl.diagnosis.diagnose import Diagnosis
from e2c_dl.diagnosis.model import Element
from e2c_dl.report import terminal, words
from e2c_dl.report.page.live import build
from e2c_dl.report.verdict import verdict_of

PAGE_EVERY_S = 3


@dataclass(frozen=True, kw_only=True)
class Now:
    """What is known of a run now; iterations ``first`` to ``stop - 1`` were judged, none if there is no diagnosis."""

    run: Run
    first: int = 0
    stop: int = 0
    diagnosis: Diagnosis | None = None
    since: Mapping[Element, int] = field(default_factory=dict)  # culprit -> when it was named: iterations finished
    not_yet: tuple[str, ...] = ()  # what could not be judged, in sentences
    over: bool = False  # it trains no more
    own_pace: bool = False  # each rank goes at its own: ``first`` and ``stop`` are those of who is behind
    standstill: str = ""  # in sentences, that it goes no further


def headline(now: Now) -> str:
    """The verdict in a sentence or two: of which iterations, and since when its culprits are named."""
    still = f"{now.standstill} " if now.standstill else ""
    if now.diagnosis is None:
        return f"{still}No verdict yet."
    said = verdict_of(now.diagnosis.report, "these iterations")
    since = [f"{words.named(element)} since iteration {stop}" for element, stop in now.since.items()]
    named = f" Named: {', '.join(since)}." if since else ""
    judged = f"Iterations {now.first} to {now.stop - 1}"
    if now.own_pace:
        judged = f"The last {formatting.seconds(now.diagnosis.report.run_s)}, each at its own pace"
    return f"{still}{judged}. {said.headline}{named}"


def as_json(now: Now) -> dict[str, object]:
    """All of it, for programs; iterations ``first`` to ``stop`` - 1 were judged, both are 0 where none was.

    ``judged_s``: how long these took, of which is saved what culprits cost: ``saved_s`` of one alone, ``joint_saved_s``
    with all else as designed.
    """
    report = None if now.diagnosis is None else now.diagnosis.report
    named = [
        {
            "element": str(finding.element), "kind": finding.element.kind.value, "part": finding.part.value,
            "slowdown": finding.slowdown, "stalled_s": finding.stalled_s, "saved_s": finding.saved_s,
            "joint_saved_s": finding.joint_saved_s, "named_since": now.since.get(finding.element),
        }
        for finding in (() if report is None else report.culprits)
    ]  # fmt: skip
    return {
        "run": now.run.run_id, "scenario": now.run.scenario, "first": now.first, "stop": now.stop,
        "judged": report is not None, "judged_s": None if report is None else report.run_s,
        "headline": headline(now), "culprits": named, "not_judged": list(now.not_yet), "over": now.over,
    }  # fmt: skip


def on_terminal(now: Now) -> RenderableType:
    """All of it, for a terminal."""
    ended = ", trains no more" if now.over else ""
    parts: list[RenderableType] = [
        Text(f"{now.run.scenario}, run {now.run.run_id}: {formatting.count(now.stop, 'iteration')} finished{ended}"),
        Text(""),
    ]
    if now.diagnosis is None:
        parts.append(Text(headline(now), style="bold yellow"))
    else:
        said = verdict_of(now.diagnosis.report)
        style = "bold yellow" if now.standstill else terminal.TONES[said.tone]
        parts += [Text(headline(now), style=style), *terminal.bullets(said.points)]
        parts += [Text(""), terminal.states(now.diagnosis.report)]
    if now.not_yet:
        parts += [Text(""), Text("Not judged yet", style="bold"), *terminal.bullets(now.not_yet)]
    return terminal.Visible(Group(*parts))


def write_page(now: Now, path: Path) -> None:
    """The page at ``path``, replaced in one step. Raises: ArchiveError if it cannot be written."""
    every_s = None if now.over else PAGE_EVERY_S  # of a run that is over nothing new will come
    text = build(now.run, now.diagnosis, headline(now), now.not_yet, 0 if now.own_pace else now.first, every_s)
    with written(path) as place:
        place.write_bytes(text.encode(errors="backslashreplace"))
