"""``e2c-dl deploy``: a whole run."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.archive import layout
from e2c_dl.cli import options
from e2c_dl.cli.asked import Asked, of_run
from e2c_dl.cli.machine import tell_broken
from e2c_dl.cli.telling.console import open_console
from e2c_dl.errors import InputError, Interrupted
from e2c_dl.formatting import count
from e2c_dl.scenario.services import IMAGE

if TYPE_CHECKING:
    from e2c_dl.campaign.request import Request


@click.command()
@of_run(strict="Stop, with exit code 3, if a link measures differently than requested.")
@click.option(
    "--app_conf", "app_confs", metavar="A,B", help="The workflow's configurations, as for E2Clab: a run for each."
)
@click.option(
    "--duration",
    type=options.FiniteRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long between launch and finalize, as E2Clab does: for what the workflow starts and leaves.",
)
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="How often to run each.")
@click.option(
    "--keep", is_flag=True, help="Leave the hosts up afterwards, for `shell` and `logs`; `destroy RUN` ends them."
)
@click.option("--detach", is_flag=True, help="Return when the run has begun; it goes on by itself, see `attach`.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, with every command; start nothing.")
@options.as_json("Print the report as JSON on standard output, nothing else.")
def deploy(
    asked: Asked, *, app_confs: str | None, duration: float, repeat: int, keep: bool, detach: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Deploy SCENARIO's layers, emulate its network, train, collect everything, and say what slowed it down.

    ARTIFACTS is E2Clab's folder of things that the workflow copies to hosts; leave it out where it takes nothing.
    A scenario is code: what its workflow says runs on the hosts and on this machine, with your rights.
    """
    from e2c_dl.testbeds import catalogue

    options.one_of(json=as_json, dry_run=dry_run)
    options.one_of(detach=detach, dry_run=dry_run)
    options.one_of(json=as_json, detach=detach)
    image = None if asked.testbed == "docker" else asked.image  # there, it is the hosts'
    if image is not None:
        asked, image = replace(asked, image=None), _image(image)
    request = replace(asked.request(keep=keep), image=image, duration_s=duration)
    each = several(request, app_confs, repeat)
    if len(each) > 1 and (as_json or detach or keep):
        raise click.UsageError(f"{len(each)} runs: --json, --detach and --keep are for one; name one configuration")
    if dry_run:
        from e2c_dl.campaign.run import plan

        click.echo(plan(each[0]))
        return
    tell_broken()
    catalogue.enter(asked.testbed)  # before anything exists: it may start this program again, inside namespaces
    from e2c_dl.campaign.run import run
    from e2c_dl.cli.telling.detached import Transcript, detached

    if detach:
        detached(lambda console: run(each[0], console, Transcript()))
        return
    for one in each:
        tell(run(one, open_console(quiet=as_json), Transcript()), as_json)  # quiet: who wants JSON reads failures alone


def _image(said: str) -> str:
    """Of the services' containers: a file's path, absolute, or a name. Raises: InputError."""
    if os.path.isfile(said):
        return os.path.abspath(said)
    if not re.fullmatch(IMAGE, said):
        raise InputError(
            f"--image: {said!r} is neither a file nor an image's name; write e.g. registry.example/name:1.0"
        )
    return said


def several(request: Request, app_confs: str | None, repeat: int) -> tuple[Request, ...]:
    """The runs that were asked for: one per configuration, ``repeat`` times, in the order in which E2Clab has them.

    Raises: UsageError if a configuration has no name, or one is named twice.
    """
    names: list[str | None] = [None] if app_confs is None else [name.strip() for name in app_confs.split(",")]
    if "" in names or len(set(names)) < len(names):
        raise click.UsageError(f"--app_conf {app_confs!r}: name each configuration once, with commas in between")
    found = [(name, number) for number in range(1, repeat + 1) for name in names]
    requests = [replace(request, app_conf=name, current_repeat=number) for name, number in found]
    if request.archive is None or len(requests) == 1:
        return tuple(requests)
    of = ["-".join(filter(None, (one.app_conf, f"repeat-{one.current_repeat}"))) for one in requests]
    return tuple(replace(one, archive=request.archive / name) for one, name in zip(requests, of, strict=True))


@click.command()
@click.argument("run")
@options.as_json("Print the report as JSON on standard output in the end; nothing else there.")
def attach(run: str, as_json: bool) -> None:
    """Show what RUN, a run's id or its archive, told from its beginning, and follow it until it ends.

    Ends with the run's exit code. Ctrl-C ends this alone; the run goes on.
    """
    from e2c_dl.cli.telling import detached

    found = detached.find(run)
    try:
        for text in detached.lines(found.archive):
            click.echo(text, nl=False, err=True)
    except KeyboardInterrupt:
        click.echo(f"run {found.run_id} goes on: {found.ending}", err=True)
        sys.exit(Interrupted.exit_code)
    tell(detached.ended(found), as_json)


def tell(path: Path, as_json: bool) -> None:
    """What a run's archive says, on standard output: as JSON, or for people."""
    from e2c_dl.cli import archives  # here: --help need not load what draws

    if as_json:
        archives.print_json(path)
    elif (path / layout.REPORT_JSON).is_file():
        archives.print_report(path)
    else:  # a program of the user's that nobody traced
        where, files = archives.fetched(path)
        click.echo(f"{path}: the run is kept; no report, as nothing was traced")
        click.echo(f"{count(files, 'file')} that the workflow fetched: {where}" if where else "nothing was fetched")
