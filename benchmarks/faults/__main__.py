"""Puts drawn faults into whole runs on every testbed, and judges how each ended; exit status 1 if one did not hold."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click

from benchmarks import written
from benchmarks.faults.drawn import Drawn, campaign, drawn
from benchmarks.faults.kinds import KINDS, TESTBEDS
from benchmarks.faults.lane import results
from benchmarks.faults.table import described, failures, held, table

PIECE = 10  # runs that a lane carries out


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
    for one in _side_by_side(chosen, lanes, keep):
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
        head = f"* commit: {_commit()}\n* seed: {seed}\n\n"
        written.write("faults", title="Faults in whole runs", text=head + text, values={"seed": seed, "runs": done})
    if held(done) < len(done):
        raise click.ClickException(f"{len(done) - held(done)} of {len(done)} runs did not hold")


def _side_by_side(chosen: list[Drawn], lanes: int, keep: Path | None) -> Iterator[dict[str, Any]]:
    """What came of each, as it comes. Those in docker are one lane: its images have one daemon at a time."""
    told: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def carry_out(piece: list[Drawn]) -> None:
        for one in results(piece[0].seed, [each.number for each in piece], keep):
            told.put(one)

    docker = [one for one in chosen if one.testbed == "docker"]
    others = [one for one in chosen if one.testbed != "docker"]
    pieces = [docker] if docker else []
    pieces += [others[begin : begin + PIECE] for begin in range(0, len(others), PIECE)]
    with ThreadPoolExecutor(lanes) as threads:
        for piece in pieces:
            threads.submit(carry_out, piece)
        for _ in chosen:
            yield told.get()


def _commit() -> str:
    argv = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
