"""Simulates runs of which reports were silent or wrong at 5cfbb21, and judges what they say now.

``python -m benchmarks.earlier [--only TEXT] [--write]``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from benchmarks import written
from benchmarks.diagnosis.judging import judged as judged_beside
from benchmarks.diagnosis.truth import truth
from benchmarks.earlier.cases import CASES, Case
from e2c_dl.diagnosis.analyse import analyse

LARGEST_ERROR = 0.05
BAR = (
    "every one names who is slow, as what it is, and nobody else, and foretells the run without it to "
    f"{written.percent(LARGEST_ERROR)}"
)


@dataclass(frozen=True, kw_only=True)
class Now:
    """What a report says of one case."""

    name: str
    said: str  # at 5cfbb21
    run_s: float
    without_s: float  # run again without what was injected
    named: tuple[str, ...]  # and as what
    right: bool
    error: float | None  # of the time without it, as part of the run; None: nobody is named


@click.command()
@click.option("--only", default="", help="Cases whose name contains this.")
@written.options(only="1.5 x")
def main(*, only: str, write: bool) -> None:
    """What reports said of these runs at 5cfbb21, and say now."""
    done = written.in_turn(judged, [case for case in CASES if only in case.name], table)
    click.echo(table(done))
    if write:
        values = {"cases": [asdict(one) for one in done]}
        title = "Runs of which reports were silent or wrong"
        written.write("earlier", title=title, text=table(done), values=values, repeats=1, missed=missed(done))
    written.conclude(BAR, missed(done))


def judged(case: Case) -> Now:
    """``case``, simulated with and without what slows it down, and its report."""
    drawn = case.drawn()
    told = truth(drawn)
    report = analyse(told.trace, drawn.system.reference(told.trace), drawn.system.retraining())
    outcome = judged_beside(drawn, told, report, {}, 0.0)
    errors = [each.predicted_error for each in outcome.culprits if each.predicted_error is not None]
    return Now(
        name=case.name, said=case.said, run_s=told.run_s,
        without_s=told.costs[0].without_s if told.costs else told.run_s,
        named=tuple(f"{each.element}: {each.part.value} x {each.slowdown:.2f}" for each in report.culprits),
        right=outcome.right, error=max(errors, default=None),
    )  # fmt: skip


def missed(done: Sequence[Now]) -> list[str]:
    """The cases whose report is wrong, or foretells too badly; and how many were left out."""
    wrong = [f"{one.name}: wrong" for one in done if not one.right]
    far = [f"{one.name}: {one.error:.1%} off" for one in done if one.error is not None and one.error > LARGEST_ERROR]
    few = [f"{len(CASES) - len(done)} of {len(CASES)} cases not simulated"] if len(done) < len(CASES) else []
    return wrong + far + few


def table(done: Sequence[Now]) -> str:
    """Markdown, a row per case."""
    lines = [
        "| run | the report at 5cfbb21 | takes | without | the report now names | | time without it foretold to |",
        "|---|---|---:|---:|---|---|---:|",
    ]
    for one in done:
        error = "" if one.error is None else f"{one.error:.1%}"
        named, right = "; ".join(one.named) or "nobody", "right" if one.right else "WRONG"
        times = f"{one.run_s:.2f} s | {one.without_s:.2f} s"
        lines.append(f"| {one.name} | {one.said} | {times} | {named} | {right} | {error} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
