"""``e2c-dl emulate``: what hosts that are up are asked for, what is in force, and what it measures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from e2c_dl.cli.machine import tell_broken
from e2c_dl.cli.options import PATH, as_json
from e2c_dl.cli.options import SCENARIO as OF_SCENARIO

if TYPE_CHECKING:
    from e2c_dl.campaign.links.in_force import InForce
    from e2c_dl.campaign.links.matrix import Matrix
    from e2c_dl.campaign.links.targets import Target

RUN = click.option("--run", "run_id", metavar="RUN", help="A run that is up [default: the only one].")
INVENTORY = click.option("--inventory", type=PATH, metavar="FILE", help="Or the hosts of an inventory, over SSH.")
SCENARIO = click.option("--scenario", type=PATH, metavar="DIR", help="What was requested [default: the run's own].")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print every command, or what the relay would be told; change nothing."
)


def _target(command: Callable[..., Any]) -> Callable[..., Any]:
    return RUN(INVENTORY(command))  # this order, so that --help shows --run first


@click.group()
def emulate() -> None:
    """Measure, show, apply and clear the emulation of links between hosts that are up.

    \b
    Hosts are up after `e2c-dl deploy --keep`, or stand in an inventory file (see --on static).
      e2c-dl emulate measure --quick
      e2c-dl emulate measure --pairs 'edge-*:cloud-1' --json
      e2c-dl emulate apply my-scenario --inventory hosts.yaml --dry-run
      e2c-dl emulate show
    """
    tell_broken()


@emulate.command()
@_target
@SCENARIO
@click.option("--pairs", multiple=True, metavar="SRC:DST", help="Only these links; * and ? as in a shell; repeatable.")
@click.option("--quick", is_flag=True, help="Two seconds per link and no intervals, as before training.")
@click.option("--strict", is_flag=True, help="Exit code 3 if a link measures differently than requested.")
@as_json("Print the matrix as JSON on standard output, nothing else.")
def measure(
    run_id: str | None,
    inventory: Path | None,
    scenario: Path | None,
    pairs: tuple[str, ...],
    quick: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Measure links beside what was requested, each with its interval; a run's archive and report get it too.

    \b
    Rate (of Ethernet frames), TCP goodput, round trip, spread of delays, loss from 10,000 frames, order: about ten
    seconds per link, one after another where hosts share this machine. Measure while nothing trains.
      e2c-dl emulate measure                           every link that the scenario shapes
      e2c-dl emulate measure --pairs 'fog-1:*' --quick
    """
    from e2c_dl.campaign.links import matrix, requested_links, targets
    from e2c_dl.errors import FidelityError

    target = targets.chosen(run_id, inventory, scenario)
    chosen = matrix.selected(target, pairs)
    how = "quick" if quick else "thorough"
    with _Bar(len(chosen), matrix.SECONDS[how]) as bar:
        found = matrix.measure(target, chosen, how, bar.tell)
    if target.archive is not None:
        requested_links.store(target.archive, found)  # before printing: a broken pipe must not lose what took minutes
    if as_json:
        rows = {name: [row.to_json() for row in getattr(found, name)] for name in ("links", "bottlenecks")}
        click.echo(json.dumps(rows | {"deviations": found.deviations(), "failures": found.failures}, indent=1))
    else:
        _print_matrix(found, target)
    for failure in found.failures:
        click.echo(f"e2c-dl: not measured: {failure}", err=True)
    if strict and found.deviations():  # after all was printed and stored: the exit code is what differs
        raise FidelityError(f"not as requested: {found.deviations()[0]}")
    if found.failures:
        sys.exit(1)


@emulate.command()
@OF_SCENARIO
@_target
@DRY_RUN
def apply(scenario: Path, run_id: str | None, inventory: Path | None, dry_run: bool) -> None:
    """Put the links of SCENARIO in force at once: for hosts of plain `e2clab deploy`, and for the curious.

    Schedules and faults are left out: they belong to training. What stood there goes, also on links that SCENARIO does
    not name. What training of this run measures afterwards is no longer what its archive asked for.

    \b
      e2c-dl emulate apply experiments/first-light --dry-run
      e2c-dl emulate apply my-scenario --inventory hosts.yaml
    """
    from e2c_dl import formatting
    from e2c_dl.campaign.links import in_force, targets

    target = targets.chosen(run_id, inventory, scenario)
    if dry_run:
        _print_commands(in_force.commands(target, target.requested))
        return
    for limitation in in_force.apply(target, target.requested):
        click.echo(f"not honoured: {limitation}", err=True)
    links = formatting.count(len(target.requested.links), "link")
    click.echo(f"{target.name}: {links} in force; `e2c-dl emulate clear` takes them away")


@emulate.command()
@_target
@SCENARIO
@as_json("Print it as JSON on standard output, nothing else.")
def show(run_id: str | None, inventory: Path | None, scenario: Path | None, as_json: bool) -> None:
    """Show what is in force, as the kernels or the relay say it themselves, beside what was requested.

    Exit code 1 if something differs.
    """
    from e2c_dl.campaign.links import in_force, targets

    rows = in_force.show(targets.chosen(run_id, inventory, scenario))
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=1))
    else:
        _print_in_force(rows)
    if not all(row.same for row in rows):
        sys.exit(1)


@emulate.command()
@_target
@DRY_RUN
def clear(run_id: str | None, inventory: Path | None, dry_run: bool) -> None:
    """Take all emulation of links away: from then on nothing is shaped."""
    from e2c_dl.campaign.links import in_force, targets

    target = targets.chosen(run_id, inventory, None)
    if dry_run:
        _print_commands(in_force.commands(target, None))
        return
    in_force.clear(target)
    click.echo(f"{target.name}: nothing is shaped any more")


class _Bar:
    """How far measuring is: a bar at a terminal, else a line per link, on standard error."""

    def __init__(self, links: int, seconds: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        # on standard error: standard output may be JSON
        self._console, self._links, self._seconds, self._done = Console(stderr=True), links, seconds, 0
        columns = (TextColumn("measuring"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, TextColumn("{task.description}"), console=self._console, transient=True)
        self._task = self._progress.add_task("", total=links)

    def __enter__(self) -> _Bar:
        if self._console.is_terminal:
            self._progress.start()
        else:
            self._line(f"measuring {self._links} links, at most about {self._links * self._seconds:.0f} s")
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._progress.stop()  # else the cursor stays hidden

    def tell(self, what: str, links: float) -> None:
        self._done += int(links)
        if self._console.is_terminal:
            self._progress.update(self._task, advance=links, description=what)
        else:
            self._line(f"measured {self._done}/{self._links}: {what}")

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)  # brackets are no markup here


def _print_matrix(found: Matrix, target: Target) -> None:
    from rich.console import Console

    from e2c_dl.report.page.matrix import terminal_tables

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=160)
    for table in terminal_tables(found.links, found.bottlenecks):
        console.print(table)
    for sentence in (*found.deviations(), *found.limitations()):
        console.print(sentence, markup=False, soft_wrap=True)
    measured = sum(row.measured is not None for row in found.links)
    console.print(
        f"{target.name}: {measured} of {len(found.links)} links measured, {len(found.deviations())} not as requested",
        markup=False,
    )


def _print_in_force(rows: tuple[InForce, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("link", "requested", "in force"):
        table.add_column(name)
    for row in rows:
        found = "nothing" if row.in_force is None else row.in_force.described()
        table.add_row(
            Text(f"{row.src} → {row.dst}"),
            Text(row.requested.described()),
            Text(found) if row.same else Text(f"{found}, not as requested", style="yellow"),
        )
    Console(highlight=False).print(table)


def _print_commands(commands: dict[str, tuple[str, ...]]) -> None:
    for heading, lines in commands.items():
        click.echo("\n  ".join([heading, *lines]))
