"""Runs equal, proportional and dynamic batches, alternating, in the virtual world and live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

import click

from benchmarks import written
from benchmarks.batching.workload import BOUND, Measured
from benchmarks.batching.worlds import WORLDS

CONTROLLERS = ("fixed", "proportional", "dynamic")
OF_BOUND, ITERATIONS = 0.95, 5
BAR = f"{written.percent(OF_BOUND)} of the bound {BOUND:.2f}, fit again within {ITERATIONS} iterations"


@click.command()
@click.option("--world", "worlds", multiple=True, type=click.Choice(list(WORLDS)), default=list(WORLDS))
@click.option("--repeats", default=4, show_default=True, help="Runs of each controller, alternating.")
@click.option("--iterations", type=click.IntRange(min=40), default=40, show_default=True)
@written.options(repeats=1)
def main(*, worlds: Sequence[str], repeats: int, iterations: int, write: bool) -> None:
    """Batch controllers against equal batches: six ranks of speeds 4:4:2:2:1:1, turned round half way."""
    measured: list[Measured] = []
    for repeat in range(repeats):
        for world in worlds:
            for controller in CONTROLLERS:
                changed = iterations // 2 + repeat % 2  # speeds are exchanged every second iteration: try both
                measured.append(WORLDS[world](controller, repeat, iterations, changed))
                click.echo(f"{repeat + 1}/{repeats} {world} {controller}", err=True)
    text = table(measured)
    click.echo(text)
    if write:
        runs = [asdict(one) for one in measured]
        written.write(
            "batching", title="Batch controllers, measured", text=text, values={"measured": runs}, repeats=repeats,
            missed=missed(measured),
        )  # fmt: skip
    written.conclude(BAR, missed(measured))


def missed(measured: Sequence[Measured]) -> list[str]:
    """What of the bar dynamic batches miss, before and after the change, by world."""
    found = []
    for world in dict.fromkeys(one.world for one in measured):
        equal, dynamic = (
            [one for one in measured if (one.world, one.controller) == (world, controller)]
            for controller in ("fixed", "dynamic")
        )
        for name, seconds in (("before", lambda one: one.before_s), ("after", lambda one: one.after_s)):
            of_bound = median(map(seconds, equal)) / median(map(seconds, dynamic)) / BOUND
            if of_bound < OF_BOUND:
                found.append(f"{world}, {name} the change: {of_bound:.1%} of the bound")
        slowest = max(ITERATIONS + 1 if one.converged_after is None else one.converged_after for one in dynamic)
        if slowest > ITERATIONS:
            found.append(f"{world}: batches fit again after more than {ITERATIONS} iterations")
    return found


def table(measured: Sequence[Measured]) -> str:
    """Markdown: medians over runs; how much faster than equal batches, and how much of the bound that is."""
    lines = [
        f"| world | batches | iteration ms | times faster | of {BOUND:.2f} | after the change ms | times faster "
        f"| of {BOUND:.2f} | iterations until batches fit again, median | worst |",
        "|---" * 10 + "|",
    ]
    for world in dict.fromkeys(one.world for one in measured):
        equal = [one for one in measured if (one.world, one.controller) == (world, "fixed")]
        for controller in CONTROLLERS:
            ones = [one for one in measured if (one.world, one.controller) == (world, controller)]
            before_s, after_s = median(one.before_s for one in ones), median(one.after_s for one in ones)
            gain = median(one.before_s for one in equal) / before_s
            gain_after = median(one.after_s for one in equal) / after_s
            converged = [one.converged_after for one in ones]
            fitted = sorted(each for each in converged if each is not None)
            never = len(fitted) < len(converged)
            lines.append(
                f"| {world} | {controller} | {before_s * 1e3:.1f} | {gain:.2f} | {gain / BOUND:.1%} "
                f"| {after_s * 1e3:.1f} | {gain_after:.2f} | {gain_after / BOUND:.1%} "
                f"| {'never | never' if never else f'{median(fitted):g} | {fitted[-1]}'} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
