"""Commands ``e2c-dl init | check | strategies``: scenarios, and what can stand in one, before anything runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from e2c_dl.cli import options


@click.command()
@options.SCENARIO
def init(scenario: Path) -> None:
    """Write a commented scenario into the new folder SCENARIO: edit it, `check` it, `deploy` it."""
    from e2c_dl.scenario.copies import init as write

    for path in write(scenario):
        click.echo(path)
    click.echo(f"next: edit these files, then `e2c-dl check {scenario}`")


@click.command()
@options.SCENARIO
@click.option("--on", "testbed", default="local", show_default=True, help="Also check what this testbed can honour.")
def check(scenario: Path, testbed: str) -> None:
    """Read and validate SCENARIO as a whole; one line per problem, naming file, key and remedy.

    Remarks are no problems: what they are about holds as it stands.
    """
    from e2c_dl.scenario.load import load, local_problems, problems
    from e2c_dl.testbeds import catalogue

    catalogue.check_name(testbed)  # first: a wrong name would be found only after the scenario's own problems
    found = [*problems(scenario)]
    if not found:  # what a testbed lacks matters once the scenario is sound
        found += local_problems(scenario)
    for problem in found:
        click.echo(f"e2c-dl: {problem}", err=True)
    if found:
        sys.exit(2)  # wrong input, nothing was started: as deploy would say
    loaded = load(scenario)
    for remark in loaded.remarks:  # on standard output: no problems
        click.secho(f"remark: {remark}", dim=True)
    topology = loaded.topology
    layers = list(dict.fromkeys(host.layer for host in topology.hosts))  # in order, which a set would lose
    training = loaded.training
    click.echo(
        f"{loaded.name}: valid; {len(topology.hosts)} hosts in {', '.join(layers)}; {len(topology.links)} links; "
        f"{training.strategy} over {len(topology.ranks)} ranks for {training.ends.described()}"
    )


@click.command()
@options.as_json("Print them as JSON: name, title, whether asynchronous, settings with defaults.")
def strategies(as_json: bool) -> None:
    """List the strategies: the name for `strategy:`, what it does, and its `strategy_settings:` with their defaults."""
    from dataclasses import asdict

    from e2c_dl.strategies import describe, names

    found = [describe(name) for name in names()]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        click.echo(f"{each.name}{' (asynchronous)' if each.asynchronous else ''}\n    {each.title}")
        for key, default in each.settings.items():
            click.echo(f"    {key}: {json.dumps(default)}")  # as YAML has it, too
