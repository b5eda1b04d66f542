"""Trains every case live and virtual, in turn, and prints how far their iteration times agree.

``python -m benchmarks.agreement [--kind KIND] [--only TEXT] [--strategy NAME] [--attempts N] [--write]``, as root.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import click

from benchmarks import written
from benchmarks.agreement import bed, cases, virtual
from benchmarks.agreement.figures import MOST_BUSY, Comparison, compute_s, iteration_s
from e2c_dl.drivers.live.stored import PROFILE
from e2c_dl.scenario.model import Scenario
from e2c_dl.worlds.virtual import ComputeProfile

STORED = Path(__file__).parents[2] / "experiments" / "first-light" / PROFILE
MEDIAN, WORST = 0.05, 0.15
BAR = f"median {written.percent(MEDIAN)} apart, worst {written.percent(WORST)}"
LEAST_COMPUTE_S = 0.02
KINDS = tuple(dict.fromkeys(case.kind for case in cases.CASES))


@click.command()
@click.option("--kind", type=click.Choice(KINDS), help="Only cases of this kind [default: all].")
@click.option("--only", default="", help="Only topologies whose name contains this.")
@click.option("--strategy", help="Only this strategy [default: all].")
@click.option(
    "--attempts", default=3, show_default=True, help="Passes: a case is made again while its machine was too busy."
)
@written.options(only="fast", strategy="allreduce", attempts=1)
def main(kind: str | None, only: str, strategy: str | None, attempts: int, write: bool) -> None:
    """Compare live runs on this machine's namespaces with the virtual world, scenario by scenario."""
    chosen = [
        case
        for case in cases.CASES
        if kind in (None, case.kind) and only in case.network.name and strategy in (None, case.algorithm.strategy)
    ]
    compared = _compare(chosen, attempts)
    text = f"{summary(compared)}\n\n{verdict(compared)}\n\n{table(compared)}"
    click.echo(text)
    if write:
        rows = [{**asdict(one), "error": one.error, "void": one.void} for one in compared]
        written.write(
            "agreement", title="Live and virtual, compared", text=text, values={"cases": rows}, repeats=1,
            missed=missed(compared),
        )  # fmt: skip
    written.conclude(BAR, missed(compared))


def missed(compared: Sequence[Comparison]) -> list[str]:
    """What of the bar the cases that count miss; one that does not count, or was left out, holds nothing."""
    errors = [abs(one.error) for one in compared if not one.void]
    if not errors:
        return ["no case counts"]
    found = [("median", statistics.median(errors), MEDIAN), ("worst", max(errors), WORST)]
    absent = len(cases.CASES) - len(errors)
    few = [f"{absent} of {len(cases.CASES)} cases not measured"] if absent else []
    return [f"{name} error {error:.1%}" for name, error, most in found if error > most] + few


def summary(compared: Sequence[Comparison]) -> str:
    """Markdown, a row per kind of case and per strategy, of those that count."""
    lines = ["| | cases | median error | worst |", "|---|---:|---:|---:|"]
    by: tuple[Callable[[Comparison], str], ...] = (
        lambda one: one.kind, lambda one: f"`{one.strategy}`", lambda _: "all",
    )  # fmt: skip
    for key in by:
        names = dict.fromkeys(map(key, compared))
        for name in names:
            errors = [abs(one.error) for one in compared if key(one) == name and not one.void]
            if errors:
                lines.append(f"| {name} | {len(errors)} | {statistics.median(errors):.1%} | {max(errors):.1%} |")
    return "\n".join(lines)


def table(compared: Sequence[Comparison]) -> str:
    """Markdown, a row per case."""
    lines = [
        "| kind | topology | strategy | live ms | virtual ms | error | compute ms | processors in use |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        (
            f"| {one.kind} | {one.network} | {one.strategy} | {one.live_s * 1e3:.1f} | {one.virtual_s * 1e3:.1f} "
            f"| {one.error:+.1%} | {one.compute_s * 1e3:.0f} | {one.busy:.0%}{' (void)' if one.void else ''} |"
        )
        for one in compared
    ]
    return "\n".join(lines)


def verdict(compared: Sequence[Comparison]) -> str:
    """A sentence: the errors of the cases that count, beside what is asked for."""
    counted = [one for one in compared if not one.void]
    if not counted:
        return f"No case counts: more than {MOST_BUSY:.0%} of the processors were in use in every one."
    errors = [abs(one.error) for one in counted]
    median, worst = statistics.median(errors), max(errors)
    held = "not held" if missed(compared) else "held"
    computing = min(one.compute_s for one in counted)
    return (
        f"{len(counted)} of {len(compared)} cases count: median error {median:.1%} (asked: {MEDIAN:.0%}), worst "
        f"{worst:.1%} (asked: {WORST:.0%}): {held}. Compute per iteration is {computing * 1e3:.0f} ms or more (asked: "
        f"{LEAST_COMPUTE_S * 1e3:.0f})."
    )


def _compare(chosen: Sequence[cases.Case], attempts: int) -> list[Comparison]:
    """One Comparison per case; void ones are made again when all others are done, for a load may have passed."""
    best: dict[int, Comparison] = {}
    profile = ComputeProfile.from_json(STORED.read_text(), str(STORED))
    with tempfile.TemporaryDirectory(prefix="agreement-") as folder:
        scenarios = [cases.write(Path(folder) / str(number), case, profile) for number, case in enumerate(chosen)]
        for _ in range(attempts):
            pending = [number for number in range(len(chosen)) if number not in best or best[number].void]
            for hosts, of_hosts in groupby(pending, key=lambda number: chosen[number].network.hosts):
                with bed.deployed(hosts) as deployment:
                    for _, numbers in groupby(of_hosts, key=lambda number: chosen[number].network.name):
                        for number, one in _on_one_network(deployment, chosen, scenarios, list(numbers)):
                            best[number] = min(one, best.get(number, one), key=lambda each: each.busy)
                            click.echo(table([one]).splitlines()[-1], err=True)
    return [best[number] for number in range(len(chosen))]


def _on_one_network(
    deployment: bed.Deployment, chosen: Sequence[cases.Case], scenarios: Sequence[Scenario], numbers: Sequence[int]
) -> Iterator[tuple[int, Comparison]]:
    """(number, comparison) of the cases ``numbers``, whose links are the same."""
    with deployment.emulated(scenarios[numbers[0]]):
        for number in numbers:
            yield number, _compared(deployment, chosen[number], scenarios[number])


def _compared(deployment: bed.Deployment, case: cases.Case, scenario: Scenario) -> Comparison:
    trace, busy = deployment.train(scenario)
    virtual_s = [iteration_s(virtual.train(scenario, seed), case.warm_up) for seed in range(1, case.seeds + 1)]
    return Comparison(
        kind=case.kind, network=case.network.name, strategy=case.algorithm.strategy,
        live_s=iteration_s(trace, case.warm_up), virtual_s=statistics.mean(virtual_s), busy=busy,
        compute_s=compute_s(trace),
    )  # fmt: skip


if __name__ == "__main__":
    main()
