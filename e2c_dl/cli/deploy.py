"""``e2c-dl deploy``: a whole run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from e2c_dl.cli import testbeds
from e2c_dl.cli.console import open_console
from e2c_dl.cli.exclusive import one_of


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.argument("artifacts", type=click.Path(path_type=Path))
@testbeds.on("local")
@click.option(
    "--archive", type=click.Path(path_type=Path), help="Where the run is kept [default: runs/SCENARIO-TIME-RUN]."
)
@click.option("--strict", is_flag=True, help="Stop, with exit code 3, if a link measures differently than requested.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Place the injected slow-downs anew, by this seed.")
@click.option("--healthy", is_flag=True, help="Leave the injected slow-downs out.")
@click.option(
    "--keep", is_flag=True, help="Leave the hosts up afterwards, for `shell` and `logs`; `destroy RUN` ends them."
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, with every command; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output, nothing else.")
def deploy(
    scenario: Path,
    artifacts: Path,
    testbed: str,
    inventory: Path | None,
    image: str | None,
    memory: str | None,
    archive: Path | None,
    strict: bool,
    seed: int | None,
    healthy: bool,
    keep: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Deploy SCENARIO's layers, emulate its network, train, collect everything, and say what slowed it down.

    ARTIFACTS is E2Clab's folder of things that the workflow copies to hosts; first light needs none, but it must exist.
    """
    from e2c_dl.campaign.request import Request
    from e2c_dl.testbeds import catalogue

    one_of(seed=seed is not None, healthy=healthy)
    one_of(json=as_json, dry_run=dry_run)

    request = Request(
        scenario=Path(os.path.abspath(scenario)),
        artifacts=Path(os.path.abspath(artifacts)),
        testbed=testbed,
        options=testbeds.options(inventory, image, memory),
        archive=None if archive is None else Path(os.path.abspath(archive)),
        strict=strict,
        seed=seed,
        healthy=healthy,
        keep=keep,
        command=tuple(sys.argv),
    )
    if dry_run:
        from e2c_dl.campaign.run import plan

        click.echo(plan(request))
        return
    catalogue.enter(testbed)
    from e2c_dl.campaign.run import run

    path = run(request, open_console(quiet=as_json))
    tell(path, as_json)


def tell(path: Path, as_json: bool) -> None:
    """What a run's archive says, on standard output: as JSON, or for people."""
    if as_json:
        from e2c_dl.archive.read import open_archive
        from e2c_dl.diagnosis.diagnose import read_report

        report = json.loads(read_report(open_archive(path)).to_json())
        click.echo(json.dumps(report | {"archive": str(path)}, indent=1))
        return
    from e2c_dl.cli.archives import print_report

    print_report(path)
