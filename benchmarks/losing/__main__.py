"""Draws runs some of whose links lose segments by design, slows one of these links or none, and judges the reports.

``python -m benchmarks.losing [--runs N] [--seed S] [--lanes L] [--write]``

The systems are those of the campaign (benchmarks/diagnosis), which injects nothing into such links.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

import click

from benchmarks import written
from benchmarks.diagnosis.injections import What
from benchmarks.diagnosis.judging import CLEAN, MATERIAL
from benchmarks.losing.run import Judged, losing_run

NAMED, FALSELY, PARTS = 0.9, 0.02, 0.95
BAR = (
    f"named in {written.percent(NAMED)} of the runs in which it matters and the report has a verdict on it, as what it "
    f"is in {written.percent(PARTS)}; false alarms at most {written.percent(FALSELY)}"
)
HELD_OUT = 71


def missed(done: Sequence[Judged]) -> list[str]:
    """What of the bar is missed."""
    material, clean = _of(done, MATERIAL), _of(done, CLEAN)
    seeing = [one for one in material if one.verdict]
    named = [one for one in material if one.named]
    falsely = [one for one in done if one.falsely]
    found = []
    if not seeing or not clean:
        found.append("too few runs to judge by")
    if len(named) < NAMED * len(seeing):
        found.append(f"{len(named)} of {len(seeing)} named")
    if sum(one.part_right for one in named) < PARTS * len(named):
        found.append(f"{sum(one.part_right for one in named)} of {len(named)} as what it is")
    if len(falsely) > FALSELY * len(done):
        found.append(f"{len(falsely)} of {len(done)} false alarms")
    return found


def _of(done: Sequence[Judged], kind: str) -> list[Judged]:
    return [one for one in done if one.kind == kind]


def table(done: Sequence[Judged]) -> str:
    """Markdown: a row for each kind of injection, and what was wrong."""
    lines = [
        "| injected into a losing link | runs | it matters | verdict | named | as what it is | false alarms | error of "
        "the prediction, median |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for what in (*(each.value for each in (What.RATE, What.DELAY, What.LOSS)), ""):
        own = [one for one in done if one.injected.partition(" ")[0] == what]
        material = _of(own, MATERIAL)
        errors = sorted(one.predicted_error for one in material if one.predicted_error is not None)
        error = f"{errors[len(errors) // 2]:.1%}" if errors else "-"
        counts = (
            len(own), len(material), sum(one.verdict for one in material), sum(one.named for one in material),
            sum(one.part_right for one in material), sum(bool(one.falsely) for one in own),
        )  # fmt: skip
        lines.append(f"| {what or 'nothing'} | {' | '.join(str(each) for each in counts)} | {error} |")
    return "\n".join([*lines, "", *_wrong(done)])


def _wrong(done: Sequence[Judged]) -> Iterator[str]:
    for one in done:
        if one.falsely or (one.kind == MATERIAL and one.verdict and not one.part_right):
            said = "named" if one.named else "not named"
            falsely = f"; falsely: {', '.join(one.falsely)}" if one.falsely else ""
            yield (
                f"* `{one.number}`, {one.strategy}, losses of {one.loss:.2%}: {one.injected or 'nothing'} (run "
                f"{one.speedup:.2f} x faster without): {said}{falsely}"
            )


@click.command()
@click.option("--runs", default=100, show_default=True, help="Runs that are drawn.")
@click.option("--seed", default=HELD_OUT, show_default=True, help="What they are drawn by; odd ones are held out.")
@click.option("--lanes", default=2, show_default=True, help="Processes side by side.")
@written.options(runs=4)
def main(*, runs: int, seed: int, lanes: int, write: bool) -> None:
    """Are links that lose segments by design named if they are slow, and left alone if they are not?"""
    done: list[Judged] = []
    context = multiprocessing.get_context("spawn")  # forks of a process with threads may hang
    with ProcessPoolExecutor(lanes, mp_context=context) as pool:
        for found in pool.map(losing_run, [seed] * runs, range(runs)):
            if found is not None:
                done.append(found)
                click.echo(f"{len(done)} runs, {found.seconds:.0f} s for the last", err=True)
    click.echo(table(done))
    if write:
        values = {"seed": seed, "runs": [asdict(one) for one in done]}
        title = "Links that lose segments by design, beside the truth"
        written.write("losing", title=title, text=table(done), values=values, repeats=1, missed=missed(done))
    written.conclude(BAR, missed(done))


if __name__ == "__main__":
    main()
