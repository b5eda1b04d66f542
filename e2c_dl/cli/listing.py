"""Commands ``e2c-dl runs | completion | config``: the runs there are, what a shell needs, defaults of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options

if TYPE_CHECKING:
    from e2c_dl.archive.run import Run
    from e2c_dl.testbeds.registry import RegisteredRun

_KEPT = Path("runs")
_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("folder", type=options.PATH, default=_KEPT)
@options.as_json("Print them as JSON: run, scenario, testbed, started, outcome, archive, up.")
def runs(folder: Path, as_json: bool) -> None:
    """List the archives in FOLDER [default: runs, where runs are kept], newest first, and what is up on this machine.

    What cannot be read is named on standard error.
    """
    from e2c_dl.errors import InputError
    from e2c_dl.testbeds import registry

    if not folder.is_dir() and folder != _KEPT:
        raise InputError(f"{folder}: there is no such directory; name the one that archives are in")
    up = {run.id: run for run in registry.runs()}
    found: dict[str, dict[str, object]] = {}
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        run = _read(place)
        if run is not None:
            found[run.run_id] = _archived(run, place, run.run_id in up)
    for each in up.values():
        found.setdefault(each.id, _registered(each))
    rows = sorted(found.values(), key=lambda row: str(row["started"]), reverse=True)
    for name, why in registry.broken().items():
        click.echo(f"{name}: {why}", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif rows:
        _print(rows)
    else:
        click.echo(f"no archive in {folder}, and nothing is up on this machine")


def _read(place: Path) -> Run | None:
    from e2c_dl.archive import layout
    from e2c_dl.archive.run import read_run
    from e2c_dl.errors import ArchiveError

    if not (place / layout.RUN).is_file():
        return None
    try:
        return read_run(place)
    except ArchiveError as error:
        click.echo(f"e2c-dl: {error}", err=True)
        return None


def _archived(run: Run, place: Path, up: bool) -> dict[str, object]:
    return {
        "run": run.run_id, "scenario": run.scenario, "testbed": run.testbed, "started": run.started,
        "outcome": run.outcome.value, "archive": str(place), "up": up,
    }  # fmt: skip


def _registered(run: RegisteredRun) -> dict[str, object]:
    from datetime import datetime, timezone

    started = datetime.fromtimestamp(run.begun_s, timezone.utc).isoformat(timespec="seconds")
    return {
        "run": run.id, "scenario": run.scenario, "testbed": run.testbed, "started": started,
        "outcome": "running", "archive": run.archive, "up": True,
    }  # fmt: skip


def _print(rows: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from e2c_dl.formatting import visible

    table = Table(box=None, pad_edge=False)
    names = ("run", "scenario", "testbed", "started", "outcome", "archive")
    for name in names:
        table.add_column(name, no_wrap=name != "archive", overflow="fold")
    for row in rows:
        outcome = f"{row['outcome']}, up" if row["up"] else str(row["outcome"])
        told = {**row, "outcome": outcome, "started": str(row["started"]).replace("T", " ")[:16]}
        table.add_row(*(escape(visible(str(told[name]))) for name in names))
    Console(highlight=False).print(table)


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands and options of e2c-dl.

    \b
      bash  e2c-dl completion bash > ~/.local/share/bash-completion/completions/e2c-dl
      zsh   e2c-dl completion zsh > a folder of $fpath, as _e2c-dl
      fish  e2c-dl completion fish > ~/.config/fish/completions/e2c-dl.fish
    """
    from click.shell_completion import get_completion_class

    from e2c_dl.cli.main import COMPLETE_VARIABLE, cli

    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(f"click knows no completion for {shell}")
    click.echo(made(cli, {}, "e2c-dl", COMPLETE_VARIABLE).source())


@click.command()
@options.as_json("Print them as JSON: the file, and command, option, value and where of each.")
def config(as_json: bool) -> None:
    """Show the defaults of your own for options of commands, and where each stands.

    \b
    In a file of the configuration folder, keys as they are typed:
      deploy: {on: static, inventory: hosts.yaml}
    or in the environment: E2CDL_DEPLOY_ON=static. What is typed wins, then the environment.
    """
    from e2c_dl.cli import settings
    from e2c_dl.cli.main import COMMANDS, find

    said = list(settings.told(list(COMMANDS), find))
    if as_json:
        rows = [{"command": c, "option": o, "value": v, "where": w} for c, o, v, w in said]
        click.echo(json.dumps({"file": str(settings.config_file()), "defaults": rows}, indent=1, default=str))
        return
    there = "" if settings.config_file().exists() else " (not there)"
    click.echo(f"{settings.config_file()}{there}")
    for command, option, value, where in said:
        click.echo(f"  {command} --{option} {value}    {where}")
    if not said:
        click.echo("  nothing is said there or in the environment: all options are as --help has them")
