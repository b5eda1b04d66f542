"""Runs the exchange on both sides, alternating, and then at ten thousand ranks in the virtual world alone."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict

import click

from benchmarks import written
from benchmarks.virtual.sides import SIDES, Measured, measure

SAME_END = 1e-9  # relative
MIB = 2**20
MOST, MOST_BYTES = 0.5, 1 << 30
BAR = "at most half, below 1 GiB"


@click.command()
@click.option("--ranks", default=1000, show_default=True)
@click.option("--iterations", default=1000, show_default=True)
@click.option("--repeats", default=2, show_default=True, help="Runs of each side, alternating.")
@click.option("--large-ranks", default=10_000, show_default=True, help="Of the run without a counterpart; 0: none.")
@click.option("--large-iterations", default=100, show_default=True)
@written.options(ranks=20, iterations=20, repeats=1, large_ranks=0)
def main(*, ranks: int, iterations: int, repeats: int, large_ranks: int, large_iterations: int, write: bool) -> None:
    """The virtual world against SimPy: neighbours on a ring exchange messages; spans go to disk."""
    measured: list[Measured] = []
    for _ in range(repeats):
        for side in SIDES:
            measured.append(measure(side, ranks, iterations))
            click.echo(json.dumps(asdict(measured[-1])), err=True)
    check_ends(measured)
    if large_ranks:
        measured.append(measure("virtual", large_ranks, large_iterations))
    text = table(measured)
    click.echo(text)
    if write:
        runs = [asdict(one) for one in measured]
        written.write(
            "virtual", title="The virtual world, measured", text=text, values={"measured": runs}, repeats=repeats,
            missed=missed(measured),
        )  # fmt: skip
    written.conclude(BAR, missed(measured))


def missed(measured: Sequence[Measured]) -> list[str]:
    """What of the bar the virtual world misses: wall time beside SimPy's, and its memory."""
    other = statistics.median(one.wall_s for one in measured if one.side == "simpy")
    ranks = min(one.ranks for one in measured)
    own = statistics.median(one.wall_s for one in measured if one.side == "virtual" and one.ranks == ranks)
    peak = max(one.peak_bytes for one in measured if one.side == "virtual")
    found = [f"{own / other:.2f} of SimPy's wall time"] if own > MOST * other else []
    return found + ([f"{peak / MIB:.0f} MiB"] if peak >= MOST_BYTES else [])


def check_ends(measured: Sequence[Measured]) -> None:
    """Both sides simulated the same. Raises: ClickException otherwise."""
    ends = [one.end_ns for one in measured]
    if max(ends) - min(ends) > SAME_END * max(ends) or len({one.span_bytes for one in measured}) > 1:
        raise click.ClickException(f"the sides differ: they end at {sorted(set(ends))} ns; do not compare their times")


def table(measured: Sequence[Measured]) -> str:
    """Markdown: medians per side and size; ratios are virtual / SimPy."""
    lines = [
        "| side | ranks | iterations | wall s | CPU s | us of CPU per rank and iteration | peak MiB | spans MB "
        "| wall / SimPy's | CPU / SimPy's |",
        "|---" * 10 + "|",
    ]
    groups: dict[tuple[str, int, int], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.side, one.ranks, one.iterations), []).append(one)
    for (side, ranks, iterations), ones in groups.items():
        wall_s, cpu_s = statistics.median(one.wall_s for one in ones), statistics.median(one.cpu_s for one in ones)
        others = groups.get(("simpy", ranks, iterations), [])
        ratios = "- | -"
        if others and side != "simpy":
            ratios = " | ".join((
                f"{wall_s / statistics.median(other.wall_s for other in others):.2f}",
                f"{cpu_s / statistics.median(other.cpu_s for other in others):.2f}",
            ))  # fmt: skip
        peak, spans = max(one.peak_bytes for one in ones) / MIB, ones[0].span_bytes / 1e6
        lines.append(
            f"| {side} | {ranks} | {iterations} | {wall_s:.1f} | {cpu_s:.1f} | {cpu_s / ranks / iterations * 1e6:.1f} "
            f"| {peak:.0f} | {spans:.0f} | {ratios} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
