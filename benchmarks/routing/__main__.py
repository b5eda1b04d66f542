"""Does a training that hears verdicts lose less by a slow link? ``python -m benchmarks.routing [--write]``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from benchmarks import written
from benchmarks.routing.worlds import LIVE, Compared, live, simulated

SHARE = 0.5
LEAST_LOST = 0.02  # of the run: of less, a share says nothing
BAR = f"at most {written.percent(SHARE)} of what is lost without verdicts"


@click.command()
@click.option("--seeds", default=8, show_default=True, help="Simulated comparisons, seeds 1 to this.")
@click.option("--live", "lives", default=1, show_default=True, help="Live comparisons, as root: four runs each.")
@written.options(seeds=1, lives=0)
def main(seeds: int, lives: int, write: bool) -> None:
    """Time to the same number of updates, one link cut to a tenth for a third of the run."""
    done = []
    for one in [lambda seed=seed: simulated(seed) for seed in range(1, seeds + 1)] + [live] * lives:
        done.append(one())
        click.echo(row(done[-1]))
    text = table(done)
    click.echo(f"\n{text}")
    if write:
        values = {"runs": [asdict(one) | {"share": one.share} for one in done]}
        written.write("routing", title="Around a slow link", text=text, values=values, repeats=1, missed=missed(done))
    written.conclude(BAR, missed(done))


def missed(done: Sequence[Compared]) -> list[str]:
    """The comparisons that miss the bar; those in which too little was lost show nothing, and do not hold it."""
    void = [one for one in done if one.lost_s < LEAST_LOST * one.healthy_s]
    judged = [one for one in done if one not in void]
    few = [] if any(one.run == LIVE for one in done) else ["live: not compared"]
    few += [f"{one.run}: not judged, {one.lost_s:.1f} s of {one.healthy_s:.1f} s were lost" for one in void]
    return few + [f"{one.run}: {one.share:.0%}" for one in judged if one.share > SHARE]


def row(one: Compared) -> str:
    """One line of the table."""
    seconds = (one.healthy_s, one.healthy_hearing_s, one.slow_s, one.slow_hearing_s)
    return f"| {one.run} | {one.way} | {' | '.join(f'{each:.1f}' for each in seconds)} | {one.share:.0%} |"


def table(done: Sequence[Compared]) -> str:
    """All comparisons in Markdown."""
    lines = [
        "Seconds to the same number of updates; the last column: of what is lost without verdicts, what is lost with.",
        "",
        "| run | slow link | healthy | healthy, hearing | slow | slow, hearing | lost |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(row, done)])


if __name__ == "__main__":
    main()
