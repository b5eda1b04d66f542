"""``e2c-dl simulate``: a whole run in the virtual world."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from e2c_dl.cli.console import open_console
from e2c_dl.cli.deploy import tell
from e2c_dl.cli.exclusive import one_of


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--archive", type=click.Path(path_type=Path), help="Where the run is kept [default: runs/SCENARIO-TIME-RUN]."
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="How long hosts compute, as `calibrate` measured it [default: SCENARIO/profile.json].",
)
@click.option("--shapes-only", is_flag=True, help="Train nothing: times and bytes alone. Needs no torch, and scales.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Place the injected slow-downs anew, by this seed.")
@click.option("--healthy", is_flag=True, help="Leave the injected slow-downs out.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output, nothing else.")
def simulate(
    scenario: Path,
    archive: Path | None,
    profile: Path | None,
    shapes_only: bool,
    seed: int | None,
    healthy: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO under a virtual clock: the same strategy, real gradients, modelled hosts and links.

    Needs no root and no testbed. Writes the archive that `deploy` writes, so `report`, `export` and `verify` read it.
    """
    one_of(seed=seed is not None, healthy=healthy)
    from e2c_dl.campaign.simulated import Request, run

    request = Request(
        scenario=Path(os.path.abspath(scenario)),
        archive=_absolute(archive),
        profile=_absolute(profile),
        shapes_only=shapes_only,
        seed=seed,
        healthy=healthy,
        command=tuple(sys.argv),
    )
    tell(run(request, open_console(quiet=as_json)), as_json)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else Path(os.path.abspath(path))
