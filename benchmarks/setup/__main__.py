"""Deploys first light on both sides, alternating; medians per step, and the ratio, which has a bar."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import written
from benchmarks.setup.deployment import STEPS, SetUp, deploy
from benchmarks.setup.sides import commit, sides

BEFORE = "5cfbb21"
"""The commit after which setting up was first looked at."""

MOST = 0.5
BAR = "at most half"


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Deployments of each side, alternating.")
@click.option("--before", default=BEFORE, show_default=True, help="The commit to compare with.")
@written.options(repeats=1)
def main(*, repeats: int, before: str, write: bool) -> None:
    """From the start of `e2c-dl deploy` to the first iteration of first light, beside an earlier commit.

    Exit status 1 if the median ratio is above the bar.
    """
    made: list[SetUp] = []
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="e2cdl-setup-") as name, sides(before, Path(name)) as both:
        for repeat in range(repeats):
            # In turns who is first: what warms the machine up, or runs beside it, meets both.
            for side in both if repeat % 2 == 0 else reversed(both):
                loads.append(os.getloadavg()[0])
                made.append(deploy(side, Path(name) / "run"))
                click.echo(json.dumps(asdict(made[-1])), err=True)
    ratio = median_ratio(made)
    text = f"{table(made)}\n\nMedian ratio, of {repeats} pairs: {ratio:.2f} (bar: at most {MOST})"
    click.echo(text)
    if write:
        every = [{**asdict(one), "load_before": round(load, 2)} for one, load in zip(made, loads, strict=True)]
        now = commit()
        values = {"now": now, "before": before, "ratio": ratio, "bar": MOST, "measured": every}
        head = f"* now: commit {now}\n* before: commit {before}\n\n"
        written.write(
            "setup", title="Setting up, measured", text=head + text, values=values, repeats=repeats,
            missed=missed(ratio),
        )  # fmt: skip
    written.conclude(BAR, missed(ratio))


def missed(ratio: float) -> list[str]:
    """What of the bar ``ratio`` misses."""
    return [f"setting up takes {ratio:.2f} of what it took"] if ratio > MOST else []


def median_ratio(made: list[SetUp]) -> float:
    """Of now to before, pair by pair: what two that ran one after the other met was alike."""
    before, now = ([one.total_s for one in made if one.side == side] for side in ("before", "now"))
    return statistics.median(new / old for old, new in zip(before, now, strict=True))


def table(made: list[SetUp]) -> str:
    """Markdown: medians in seconds; and how far the worst link measured from what was requested."""
    of = {side: [one for one in made if one.side == side] for side in ("before", "now")}
    lines = ["| | before s | now s | ratio |", "|---" * 4 + "|"]
    for step in (*STEPS, "all"):
        old, new = (
            statistics.median(one.total_s if step == "all" else one.seconds[step] for one in of[side]) for side in of
        )
        lines.append(f"| {step} | {old:.2f} | {new:.2f} | {new / old:.2f} |")
    lines += ["", "| links, of all deployments | before | now |", "|---" * 3 + "|"]
    for what, worst in (
        ("fewest measured", lambda made: f"{min(one.links for one in made)}"),
        ("furthest rate from what was requested", lambda made: f"{max(one.rate_off for one in made):.2%}"),
        ("furthest round trip, ms", lambda made: f"{max(one.round_trip_off_s for one in made) * 1e3:.2f}"),
    ):
        lines.append(f"| {what} | {worst(of['before'])} | {worst(of['now'])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
