"""Command ``e2c-dl summary``: what a trace holds, before it is diagnosed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from e2c_dl.cli.options import ARCHIVE, as_json

if TYPE_CHECKING:
    from rich.table import Table

    from e2c_dl.trace.summary import RankTimes

SHOWN = 20  # hosts; --json has all


@click.command()
@ARCHIVE
@as_json("Print all figures of all ranks as JSON, nothing else.")
def summary(archive: Path, as_json: bool) -> None:
    """Time by host and phase in ARCHIVE, in seconds where `report` takes minutes; nothing is diagnosed.

    Durations are summed, overlapping or not; left out are iterations of the warm-up, and what is of none that has
    ended, as a last evaluation.
    """
    from e2c_dl.archive.read import open_archive
    from e2c_dl.beneath import Place
    from e2c_dl.formatting import visible
    from e2c_dl.trace.summary import summarize

    open_archive(archive)  # is one
    ranks, problems = summarize(Place(archive))
    left_out = [visible(problem, breaks="") for problem in problems]
    if as_json:
        click.echo(json.dumps({"ranks": [_values(rank) for rank in ranks], "left_out": left_out}, indent=1))
        return
    _print(ranks)
    for problem in left_out:
        click.echo(f"{problem}; left out")


def _values(rank: RankTimes) -> dict[str, Any]:
    values = asdict(rank)
    if math.isnan(rank.iteration_s):
        values["iteration_s"] = None  # JSON has no NaN
    return values


def _print(ranks: Sequence[RankTimes]) -> None:
    from rich.console import Console

    from e2c_dl.formatting import count

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=100)
    spans = sum(rank.spans for rank in ranks)
    console.print(f"{count(len(ranks), 'rank')}, {count(spans, 'span')}\n")
    console.print(_phases(ranks))
    console.print()
    console.print(_hosts(ranks))
    for rank in ranks:
        for line in _missing(rank):
            console.print(line, markup=False)


def _phases(ranks: Sequence[RankTimes]) -> Table:
    """Per phase: the mean rank's seconds per iteration, and the rank that spends most."""
    from rich.table import Table
    from rich.text import Text

    from e2c_dl.formatting import seconds, visible

    table = Table(box=None, pad_edge=False)
    for name in ("per iteration", "mean of ranks", "most", "at"):
        table.add_column(name, justify="left" if name in ("per iteration", "at") else "right")
    for phase in sorted({phase for rank in ranks for phase in rank.phase_s}):
        each = [(rank.phase_s.get(phase, 0.0) / max(1, rank.judged), rank.host) for rank in ranks]
        most_s, host = max(each)
        mean_s = sum(one_s for one_s, _ in each) / len(each)
        table.add_row(Text(visible(phase)), seconds(mean_s), seconds(most_s), Text(visible(host)))
    return table


def _hosts(ranks: Sequence[RankTimes]) -> Table:
    """Per host, the slowest first."""
    from rich.table import Table
    from rich.text import Text

    from e2c_dl.formatting import seconds, visible

    table = Table(box=None, pad_edge=False)
    for name in ("host", "layer", "rank", "iterations", "one takes", "spans"):
        table.add_column(name, justify="left" if name in ("host", "layer") else "right")
    slowest = sorted(ranks, key=lambda rank: -rank.iteration_s if rank.judged else math.inf)
    for rank in slowest[:SHOWN]:
        took = seconds(rank.iteration_s) if rank.judged else "-"
        names = Text(visible(rank.host)), Text(visible(rank.layer))
        table.add_row(*names, str(rank.rank), str(rank.iterations), took, str(rank.spans))
    if len(ranks) > SHOWN:
        table.add_row(f"and {len(ranks) - SHOWN} faster ones; --json has all")
    return table


def _missing(rank: RankTimes) -> list[str]:
    from e2c_dl.codec import ALTERED
    from e2c_dl.formatting import count, size, visible

    host, lost = visible(rank.host), rank.lost
    lines = [] if rank.complete else [f"The trace of {host} breaks off."]
    if lost.spans or lost.damaged_bytes:
        damage = f"{count(lost.spans, 'span is', 'spans are')} missing, {size(lost.damaged_bytes)} could not be read"
        lines.append(f"The trace of {host} is damaged: {damage}; {ALTERED}.")
    if lost.dropped:
        dropped = count(lost.dropped, f"span of {host} was", f"spans of {host} were")
        lines.append(f"For lack of room, {dropped} dropped, those of slow iterations last.")
    return lines
