"""``e2c-dl init`` and ``e2c-dl check``: scenarios before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
def init(scenario: Path) -> None:
    """Write a commented scenario into the new folder SCENARIO: edit it, `check` it, `deploy` it."""
    from e2c_dl.scenario.copies import init as write

    for path in write(scenario):
        click.echo(path)
    click.echo(f"next: edit these files, then `e2c-dl check {scenario}`")


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--on", "testbed", default="local", show_default=True, help="Also check what this testbed can honour.")
def check(scenario: Path, testbed: str) -> None:
    """Read and validate SCENARIO as a whole; one line per problem, naming file, key and remedy.

    Remarks are no problems: what they are about holds as it stands.
    """
    from e2c_dl.scenario.load import load, local_problems, problems
    from e2c_dl.testbeds import catalogue

    catalogue.check_name(testbed)
    found = [*problems(scenario)]
    if not found:  # what a testbed lacks matters once the scenario is sound
        found += local_problems(scenario)
    for problem in found:
        click.echo(f"e2c-dl: {problem}", err=True)
    if found:
        sys.exit(2)
    loaded = load(scenario)
    for remark in loaded.remarks:
        click.secho(f"remark: {remark}", dim=True)
    topology = loaded.topology
    layers = list(dict.fromkeys(host.layer for host in topology.hosts))
    training = loaded.training
    click.echo(
        f"{loaded.name}: valid; {len(topology.hosts)} hosts in {', '.join(layers)}; {len(topology.links)} links; "
        f"{training.strategy} over {len(topology.ranks)} ranks for {training.iterations} iterations"
    )
