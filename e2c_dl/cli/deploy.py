"""``e2c-dl deploy``: a whole run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options
from e2c_dl.cli.console import open_console
from e2c_dl.cli.machine import tell_broken
from e2c_dl.errors import Interrupted

if TYPE_CHECKING:
    from e2c_dl.campaign.request import Request


@click.command()
@options.SCENARIO
@options.ARTIFACTS
@options.on("local")
@options.KEPT_IN
@click.option("--strict", is_flag=True, help="Stop, with exit code 3, if a link measures differently than requested.")
@options.SEED
@options.HEALTHY
@click.option(
    "--keep", is_flag=True, help="Leave the hosts up afterwards, for `shell` and `logs`; `destroy RUN` ends them."
)
@click.option("--detach", is_flag=True, help="Return when the run has begun; it goes on by itself, see `attach`.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, with every command; start nothing.")
@options.as_json("Print the report as JSON on standard output, nothing else.")
def deploy(
    scenario: Path,
    artifacts: Path | None,
    testbed: str,
    archive: Path | None,
    strict: bool,
    seed: int | None,
    healthy: bool,
    keep: bool,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    **said: str | None,
) -> None:
    """Deploy SCENARIO's layers, emulate its network, train, collect everything, and say what slowed it down.

    ARTIFACTS is E2Clab's folder of things that the workflow copies to hosts; leave it out where it takes nothing.
    A scenario is code: what its workflow says runs on the hosts and on this machine, with your rights.
    """
    from e2c_dl.testbeds import catalogue

    options.one_of(json=as_json, dry_run=dry_run)
    options.one_of(detach=detach, dry_run=dry_run)
    options.one_of(json=as_json, detach=detach)
    request = requested(
        scenario, artifacts, testbed, archive, said, seed=seed, healthy=healthy, strict=strict, keep=keep
    )
    if dry_run:
        from e2c_dl.campaign.run import plan

        click.echo(plan(request))
        return
    tell_broken()
    catalogue.enter(testbed)  # before anything exists: it may start this program again, inside namespaces
    from e2c_dl.campaign.run import run
    from e2c_dl.cli.detached import Transcript, detached

    if detach:
        detached(lambda console: run(request, console, Transcript()))
        return
    path = run(request, open_console(quiet=as_json), Transcript())  # quiet: who wants JSON reads failures alone
    tell(path, as_json)


def requested(
    scenario: Path, artifacts: Path | None, testbed: str, archive: Path | None, said: dict[str, str | None], *,
    seed: int | None, healthy: bool, strict: bool = False, keep: bool = False, only_probe: bool = False,
) -> Request:  # fmt: skip
    """What was typed, with paths as seen from here. Raises: UsageError if some of it excludes the rest."""
    from e2c_dl.campaign.request import Request

    options.one_of(seed=seed is not None, healthy=healthy)
    return Request(
        scenario=Path(os.path.abspath(scenario)),
        artifacts=options.absolute(artifacts),
        testbed=testbed,
        options=options.given(said),
        archive=options.absolute(archive),
        strict=strict,
        seed=seed,
        healthy=healthy,
        keep=keep,
        only_probe=only_probe,
        command=tuple(sys.argv),  # kept in the archive, so that the run can be repeated
    )


@click.command()
@click.argument("run")
@options.as_json("Print the report as JSON on standard output in the end; nothing else there.")
def attach(run: str, as_json: bool) -> None:
    """Show what RUN, a run's id or its archive, told from its beginning, and follow it until it ends.

    Ends with the run's exit code. Ctrl-C ends this alone; the run goes on.
    """
    from e2c_dl.cli import detached

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
    if as_json:
        from e2c_dl.archive.read import open_archive
        from e2c_dl.diagnosis.diagnose import read_report

        report = json.loads(read_report(open_archive(path)).to_json())
        click.echo(json.dumps(report | {"archive": str(path)}, indent=1))
        return
    from e2c_dl.cli.archives import print_report  # here: --help need not load what draws

    print_report(path)
