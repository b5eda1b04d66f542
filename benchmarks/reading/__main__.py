"""Reads a large archive's tables up to a first summary, beside pandas; and says how large the files are."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks import written
from benchmarks.reading.made import LAYOUT, Sizes, make
from benchmarks.reading.sides import SIDES, asked

MOST_S, MOST_BYTES, MOST_BYTES_PER_ITERATION = 3.0, 2 * 2**30, 10_000
BAR = "10 million spans summed up in 3 s and 2 GiB; 10 kB per iteration and rank on disk, recording and table together"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One side: medians, and the most memory that it ever held."""

    side: str
    wall_s: float
    cpu_s: float
    peak_bytes: float


@click.command()
@click.option("--spans", default=10_000_000, show_default=True, help="Of all ranks together.")
@click.option("--ranks", default=60, show_default=True)
@click.option("--repeats", default=5, show_default=True, help="Of each side, alternating, after one that warms up.")
@written.options(spans=100_000, ranks=4, repeats=1)
def main(*, spans: int, ranks: int, repeats: int, write: bool) -> None:
    """The first summary of a trace: seconds by rank and phase, beside pandas doing the same group-by.

    Exit status 1 if the bar is missed.
    """
    with tempfile.TemporaryDirectory(prefix="e2c_dl-reading-") as folder:
        sizes = make(Path(folder), spans=spans, ranks=ranks)
        measured = measure(Path(folder), repeats)
    missed = misses(measured[0], sizes)
    text = table(measured, sizes)
    click.echo(text)
    if write:
        values = {"measured": [asdict(one) for one in measured], "sizes": asdict(sizes)}
        written.write("reading", title="The first summary", text=text, values=values, repeats=repeats, missed=missed)
    written.conclude(BAR, missed)


def measure(folder: Path, repeats: int) -> list[Measured]:
    """Both sides over ``folder``, in turns; they must agree on every sum."""
    with asked("summary", folder) as summary, asked("pandas", folder) as pandas:
        sides = dict(zip(SIDES, (summary, pandas), strict=True))
        first = {name: side.run()["seconds"] for name, side in sides.items()}
        ours, theirs = first["summary"], first["pandas"]
        if ours.keys() != theirs.keys() or not all(math.isclose(ours[key], theirs[key]) for key in ours):
            raise click.ClickException("the two sides add up to different sums: one of them is wrong")
        runs = [{name: side.run() for name, side in sides.items()} for _ in range(repeats)]
    return [
        Measured(
            side=name,
            wall_s=statistics.median(run[name]["wall_s"] for run in runs),
            cpu_s=statistics.median(run[name]["cpu_s"] for run in runs),
            peak_bytes=max(run[name]["peak_bytes"] for run in runs),
        )
        for name in SIDES
    ]


def misses(summary: Measured, sizes: Sizes) -> list[str]:
    """What of the bar is missed."""
    found = []
    if summary.wall_s > MOST_S:
        found.append(f"{sizes.spans:,} spans take {summary.wall_s:.1f} s")
    if summary.peak_bytes > MOST_BYTES:
        found.append(f"they take {summary.peak_bytes / 2**30:.1f} GiB")
    each = (sizes.raw_bytes + sizes.table_bytes) / sizes.iterations
    if each > MOST_BYTES_PER_ITERATION:
        found.append(f"an iteration takes {each:.0f} bytes per rank")
    return found


def table(measured: Sequence[Measured], sizes: Sizes) -> str:
    """Markdown: both sides, then the sizes."""
    lines = ["| side | wall s | CPU s | peak MiB |", "|---" * 4 + "|"]
    lines += [f"| {one.side} | {one.wall_s:.2f} | {one.cpu_s:.2f} | {one.peak_bytes / 2**20:.0f} |" for one in measured]
    raw, tables = (size / sizes.iterations for size in (sizes.raw_bytes, sizes.table_bytes))
    lines += ["", "| spans | per iteration and rank | recorded, bytes | table, bytes | both |", "|---" * 5 + "|"]
    lines.append(f"| {sizes.spans:,} | {len(LAYOUT)} | {raw:.0f} | {tables:.0f} | {raw + tables:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
