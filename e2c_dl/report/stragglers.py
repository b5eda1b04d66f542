"""Straggler metrics on a terminal: each with its symbol in the paper, its figure, and what that says."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from e2c_dl import formatting
from e2c_dl.diagnosis.straggler.metrics import Stragglers

SHOWN = 8
"""Rows of a table: the slowest; --json has all."""


def summary(found: Stragglers) -> RenderableType:
    """What ``found`` says, in a screenful."""
    of_what = "step" if len(found.slowdown_by_step) > 1 else "run"
    parts: list[RenderableType] = [_figures(found, of_what)]
    parts += [Text(""), _slowdowns("S_w", "worker", found.slowdown_by_worker)]
    if found.slowdown_by_stage:
        stages = {f"stage {stage}": slowdown for stage, slowdown in found.slowdown_by_stage.items()}
        parts += [Text(""), _slowdowns("", "pipeline stage", stages)]
    parts += [Text(""), _slowdowns("S_t", "operations", found.slowdown_by_kind)]
    parts += [Text(""), *(Text(f"- {formatting.visible(sentence)}") for sentence in _about(found, of_what))]
    return Group(*parts)


def _figures(found: Stragglers, of_what: str) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    replayed, ideal = formatting.seconds(found.replayed_s), formatting.seconds(found.ideal_s)
    table.add_row("S", f"{found.slowdown:.3f}", f"a {of_what} takes {replayed}, and {ideal} if all workers were alike")
    if found.slowest_share is None:
        longer = "alike, they would take no less for what each did"
        table.add_row(
            "M_W", formatting.DASH, longer if found.slowdown < 1 else "nothing is slower than it would be then"
        )
        return table
    workers = "worker " + ", ".join(found.slowest_workers[:SHOWN])
    whose = Text(formatting.visible(f"of the difference goes with the slowest: {workers}"))
    table.add_row("M_W", formatting.percent(found.slowest_share), whose)
    if found.last_stage_share is not None:
        last = formatting.percent(found.last_stage_share)
        table.add_row("M_S", last, "of the difference goes with the last pipeline stage")
    return table


def _slowdowns(symbol: str, what: str, values: Mapping[str, float]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column(what, min_width=20)
    table.add_column(symbol or "S", justify="right")
    for name, slowdown in list(values.items())[:SHOWN]:
        table.add_row(Text(formatting.visible(name)), f"{slowdown:.3f}")  # in a str, rich takes brackets for markup
    if len(values) > SHOWN:
        table.add_row(f"and {len(values) - SHOWN} more", "", style="dim")
    return table


def _about(found: Stragglers, of_what: str) -> list[str]:
    measured, share = formatting.seconds(found.measured_s), formatting.percent(abs(found.unexplained))
    than = "less" if found.unexplained >= 0 else "more"
    recorded = f"As recorded, a {of_what} takes {measured}; its replay takes {share} {than}."
    return [recorded, *found.limitations]
