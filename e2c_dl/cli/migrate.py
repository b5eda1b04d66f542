"""``e2c-dl migrate OLD NEW``: a scenario of an earlier E2Clab made into one of today."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import click

from e2c_dl.cli import options


def _services(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    for word in words:
        if not re.fullmatch(r"[^=]+=\w+", word):
            raise click.BadParameter(f"{word!r}: write OLD=NEW, two names of services")
    return dict(word.split("=") for word in words)


@click.command()
@click.argument("old", type=options.PATH)
@click.argument("new", type=options.PATH)
@click.option(
    "--loss", type=click.Choice(["percent", "fraction", "none"]),
    help="What a bare number at default_loss means; percent is taken, and told as a guess.",
)  # fmt: skip
@click.option("--environment", help="The testbed of an environment that names none; g5k is taken, and told as a guess.")
@click.option("--env-name", help="The image to deploy in place of one in a user's folder.")
@click.option(
    "--service", "services", multiple=True, metavar="OLD=NEW", callback=_services,
    help="What a service of the scenario is called today, such as Server=FLServer; once for each.",
)  # fmt: skip
@click.option("--fix", is_flag=True, help="Also repair defects of the workflow, such as `cp` of a folder without -r.")
@options.as_json("Print what was changed as JSON: kind, file, line, what, why; and what is refused still.")
def migrate(
    old: Path,
    new: Path,
    loss: str | None,
    environment: str | None,
    env_name: str | None,
    services: dict[str, str],
    fix: bool,
    as_json: bool,
) -> None:
    """Write the scenario OLD, of an earlier version of E2Clab, to the new folder NEW, as today's accepts it.

    Every change is told with its file, its line in OLD and the reason, every guess with the option that decides it. OLD
    stays as it is; comments and order are kept. A file that is not understood is refused, and nothing is written.
    Exit code 1: it was written, and E2Clab or `e2c-dl check` still refuse it, for what no migration can know.
    """
    from e2c_dl.migration.migrate import migrate as migrated
    from e2c_dl.migration.model import Asked, Loss
    from e2c_dl.scenario.folder.secret_values import remarks
    from e2c_dl.scenario.load import load, local_problems, problems
    from e2c_dl.testbeds.e2clab.schemas import refusals

    meant = Loss(loss) if loss else None
    asked = Asked(loss=meant, environment=environment, env_name=env_name, fix=fix, services=services)
    said = migrated(old, new, asked)
    schemas = refusals(new)
    found = problems(new) or local_problems(load(new), elsewhere=True)
    refused = [*(schemas or ()), *map(str, found)]
    if as_json:
        lines = [{**asdict(each), "kind": each.kind.value} for each in said]
        click.echo(json.dumps({"said": lines, "refused": refused, "schemas": schemas is not None}, indent=1))
    else:
        for each in said:
            click.echo(str(each))
        for line in remarks(new):
            click.echo(f"note: {line}")
        if schemas is None:
            click.echo("note: E2Clab is not installed here, so its schemas were not asked")
        for line in refused:
            click.echo(f"e2c-dl: still refused: {line}", err=True)
        click.echo(f"{new}: {'written, and refused still' if refused else 'valid'}; {len(said)} things told")
    if refused:
        sys.exit(1)
