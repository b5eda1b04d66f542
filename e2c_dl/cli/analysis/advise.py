"""Command ``e2c-dl advise``: strategies and settings tried in the virtual world, ranked."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options
from e2c_dl.cli.telling.console import open_console, stepping

if TYPE_CHECKING:
    from rich.table import Table

    from e2c_dl.campaign.predicting.advice.ranking import Ranking, Row

SHOWN = 10


@click.command()
@click.argument("where", metavar="ARCHIVE|SCENARIO", type=options.PATH)
@click.option(
    "--objective", type=click.Choice(["makespan", "cost", "fairness", "accuracy"]), default="makespan",
    show_default=True, help="What is to be best: time, money, hosts evenly busy and accurate, or time to one loss.",
)  # fmt: skip
@click.option(
    "--real/--shapes-only",
    "computing",
    default=None,
    help="Compute gradients, with torch, and look at what is learned [default: for fairness and accuracy].",
)
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Trials of each candidate.")
@click.option(
    "--try", "more", multiple=True, metavar="STRATEGY[:SETTING=VALUE,...]",
    help="Also try this, such as localsgd:period=8,batching=dynamic; repeatable.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 4096), help="Processes that try [default: one per processor].")
@click.option("--scheduler", metavar="ADDRESS", help="Try on a Dask cluster instead, such as tcp://10.0.0.1:8786.")
@click.option("--write-scenario", type=options.PATH, help="Write the scenario with the winner into this new folder.")
@options.as_json("Print the ranking as JSON on standard output, nothing else.")
def advise(
    where: Path,
    objective: str,
    computing: bool | None,
    seeds: int,
    more: tuple[str, ...],
    workers: int | None,
    scheduler: str | None,
    write_scenario: Path | None,
    as_json: bool,
) -> None:
    """Try strategies and settings on the hosts and links of a run, or of a scenario, and rank them.

    Of an ARCHIVE in the times that were measured, of a SCENARIO by its profile.json. All train on the same number of
    samples. With --objective accuracy or fairness gradients are real, which needs torch and takes as long as training
    does; else what is learned is not looked at.
    """
    options.one_of(workers=workers is not None, scheduler=scheduler is not None)
    from e2c_dl.campaign.predicting.advice.advise import AdviceRequest, write_winner
    from e2c_dl.campaign.predicting.advice.advise import advise as advised
    from e2c_dl.campaign.predicting.advice.ranking import Objective
    from e2c_dl.errors import InputError, TrainingError

    request = AdviceRequest(
        where=Path(os.path.abspath(where)), objective=Objective(objective), seeds=seeds, more=more, workers=workers,
        scheduler=scheduler, computing=computing,
    )  # fmt: skip
    if write_scenario is not None and os.path.lexists(write_scenario):
        raise InputError(f"{write_scenario} is there already; name a new folder with --write-scenario")
    console = open_console(quiet=as_json)
    with stepping(console, "advise", "trying strategies and settings"):
        found, ground = advised(request, console.doing)
        if not found.rows:
            raise TrainingError(f"no candidate could be tried: {next(iter(found.problems.values()), 'there was none')}")
    if as_json:
        click.echo(json.dumps(_plain(found), indent=1))
    else:
        _print(found)
    if write_scenario is not None:
        write_winner(request, ground, found.rows[0].candidate, write_scenario)
        if not as_json:
            _print_commands(write_scenario)
    elif not as_json:
        again = shlex.join(["e2c-dl", *sys.argv[1:], "--write-scenario", "best"])
        click.echo(f"To run the first of them: {again} && e2c-dl deploy best --on local")


def _plain(found: Ranking) -> dict[str, object]:
    return {
        "objective": found.objective.value,
        "ranking": [row.plain() for row in found.rows],
        "own": None if found.own is None else found.own.plain(),
        "problems": found.problems,
        "currency": found.currency,
        "limitations": list(found.limitations),
    }


def _print(found: Ranking) -> None:
    from rich.console import Console

    from e2c_dl.formatting import visible

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=140)
    console.print(_table(found))
    best, own = found.rows[0], found.own
    if own is not None and best.candidate != own.candidate:
        console.print(
            f"as it is: {own.candidate}, place {found.rows.index(own) + 1} of {len(found.rows)}", markup=False
        )
    console.print("No time has evaluations in it: a run that evaluates while it trains takes longer by these.")
    if best.loss is None:
        console.print(
            "Times are to the same samples, not to the same model: --objective accuracy, or --real, looks at what is "
            "learned."
        )
    elif own is not None and own.loss == math.inf:
        console.print("As it is, training diverges: there is no loss that all could come to.")
    for said in (*found.limitations, *(f"not tried: {each}: {problem}" for each, problem in found.problems.items())):
        console.print(visible(said, breaks=""), markup=False)


def _print_commands(written: Path) -> None:
    """What runs the scenario that was ``written``."""
    from e2c_dl.scenario.workflow import PROFILE

    click.echo(f"e2c-dl deploy {written} --on local")
    if (written / PROFILE).is_file():
        click.echo(f"e2c-dl simulate {written}")


def _table(found: Ranking) -> Table:
    from rich.table import Table
    from rich.text import Text

    rows = list(found.rows[:SHOWN])
    if found.own is not None and found.own not in rows:
        rows.append(found.own)
    columns = [each for each in _COLUMNS if any(_COLUMNS[each](row) is not None for row in rows)]
    table = Table(box=None, pad_edge=False)
    for title in ("", "strategy", *columns):
        currency = f" ({found.currency})" if title == MONEY and found.currency else ""
        table.add_column(title + currency, justify="left" if title in ("", "strategy") else "right")
    for row in rows:
        told = [_COLUMNS[each](row) or "-" for each in columns]
        table.add_row(str(found.rows.index(row) + 1), Text(str(row.candidate)), *told)
    return table


def _time(row: Row) -> str:
    from e2c_dl.formatting import seconds

    usual, least, most = seconds(row.run_s), seconds(row.least_s), seconds(row.most_s)
    return usual if least == most else f"{usual} ({least} to {most})"


def _size(row: Row) -> str:
    from e2c_dl.formatting import size

    return size(row.sent_bytes)


def _to_loss(row: Row) -> str | None:
    from e2c_dl.formatting import seconds

    return None if row.loss is None else "never" if row.to_loss_s is None else seconds(row.to_loss_s)


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


MONEY = "money"
_COLUMNS: Mapping[str, Callable[[Row], str | None]] = {
    "time to the same loss": _to_loss,
    "time to the same samples": _time,
    "sent": _size,
    MONEY: lambda row: _number(row.cost, ".4g"),
    "evenly busy": lambda row: _number(row.evenly_busy, ".2f"),
    "loss": lambda row: _number(row.loss, ".3f"),
    "accuracy": lambda row: _number(row.accuracy, ".1%"),
    "evenly accurate": lambda row: _number(row.evenly_accurate, ".3f"),
}
