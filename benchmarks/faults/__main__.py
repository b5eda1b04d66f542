"""Puts drawn faults into whole runs on every testbed, and judges how each ended; exit status 1 if one did not hold."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import written
from benchmarks.faults.drawn import campaign, drawn
from benchmarks.faults.kinds import KINDS, TESTBEDS
from benchmarks.faults.lane import side_by_side
from benchmarks.faults.table import described, failures, held, table

BAR = "all"


@click.command()
@click.option("--runs", default=300, show_default=True, help="Runs to draw.")
@click.option("--seed", default=1, show_default=True, help="What they are drawn by.")
@click.option("--run", "number", type=int, help="This run of the campaign alone.")
@click.option("--testbed", multiple=True, type=click.Choice(TESTBEDS), help="Runs on these alone.")
@click.option("--only", multiple=True, type=click.Choice(list(KINDS)), help="Runs that meet one of these alone.")
@click.option("--lanes", default=2, show_default=True, help="Runs side by side.")
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for what runs that did not hold have left.")
@written.options(runs=2, testbed=["local"])
def main(
    *, runs: int, seed: int, number: int | None, testbed: tuple[str, ...], only: tuple[str, ...], lanes: int,
    keep: Path | None, write: bool,
) -> None:  # fmt: skip
    """Faults in whole runs: exit codes, named causes, kept traces, archives that verify, nothing left.

    As root. Runs are of two hosts and 12 iterations that compute nothing; the same seed draws the same faults.
    """
    if os.geteuid() != 0:
        raise click.ClickException("faults: hosts are killed and frozen from outside: run it as root")
    chosen = [*campaign(seed, runs, testbed or TESTBEDS, only or tuple(KINDS))] if number is None else []
    chosen = chosen or [drawn(seed, number or 0)]
    done: list[dict[str, Any]] = []
    for one in side_by_side(chosen, lanes, keep):
        done.append(one)
        click.echo(json.dumps(one), err=True)
        if one["wrong"]:
            click.echo("\n".join(described(one)))
    done.sort(key=lambda one: one["number"])
    count = Counter(one["testbed"] for one in done)
    summary = f"{held(done)} of {len(done)} runs held ({', '.join(f'{bed}: {count[bed]}' for bed in count)})."
    text = f"{summary}\n\n{table(done)}\n\n## Runs that did not hold\n\n{failures(done)}"
    click.echo(text)
    if write:
        written.write(
            "faults", title="Faults in whole runs", text=f"Seed {seed}. {text}", values={"seed": seed, "runs": done},
            repeats=1, missed=missed(done),
        )  # fmt: skip
    written.conclude(BAR, missed(done))


def missed(done: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many runs did not hold, if any."""
    return [f"{len(done) - held(done)} of {len(done)} runs did not hold"] if held(done) < len(done) else []


if __name__ == "__main__":
    main()
