"""Trains every case live and virtual, in turn, and prints how far their iteration times agree.

``python -m benchmarks.agreement [--networks N] [--attempts N] [--write]``, as root.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import written
from benchmarks.agreement import bed, cases, virtual
from benchmarks.agreement.figures import MOST_BUSY, Comparison, compute_s, iteration_s
from e2c_dl.drivers.live.stored import PROFILE
from e2c_dl.scenario.model import Scenario

STORED = Path(__file__).parents[2] / "experiments" / "first-light" / PROFILE
MEDIAN, WORST = 0.05, 0.15
BAR = f"median {written.percent(MEDIAN)} apart, worst {written.percent(WORST)}"
LEAST_COMPUTE_S = 0.02


@click.command()
@click.option("--networks", type=int, help="Only the first so many topologies [default: all].")
@click.option("--only", help="Only topologies whose name contains this.")
@click.option("--strategy", help="Only this strategy [default: all].")
@click.option(
    "--attempts", default=3, show_default=True, help="Passes: a case is made again while its machine was too busy."
)
@written.options(networks=1, strategy="allreduce", attempts=1)
def main(networks: int | None, only: str | None, strategy: str | None, attempts: int, write: bool) -> None:
    """Compare live runs on this machine's namespaces with the virtual world, scenario by scenario."""
    chosen = [network for network in cases.NETWORKS[:networks] if (only or "") in network.name]
    algorithms = [each for each in cases.ALGORITHMS if strategy in (None, each.strategy)]
    compared = _compare(chosen, algorithms, attempts)
    text = f"{table(compared)}\n\n{verdict(compared)}"
    click.echo(text)
    if write:
        rows = [{**asdict(one), "error": one.error, "void": one.void} for one in compared]
        written.write(
            "agreement", title="Live and virtual, compared", text=text, values={"cases": rows}, repeats=1,
            missed=missed(compared),
        )  # fmt: skip
    written.conclude(BAR, missed(compared))


def missed(compared: Sequence[Comparison]) -> list[str]:
    """What of the bar the cases that count miss."""
    errors = [abs(one.error) for one in compared if not one.void]
    if not errors:
        return ["no case counts"]
    found = [("median", statistics.median(errors), MEDIAN), ("worst", max(errors), WORST)]
    return [f"{name} error {error:.1%}" for name, error, most in found if error > most]


def table(compared: Sequence[Comparison]) -> str:
    """Markdown, a row per case."""
    lines = [
        "| topology | strategy | live ms | virtual ms | error | compute ms | processors in use |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        (
            f"| {one.network} | {one.strategy} | {one.live_s * 1e3:.1f} | {one.virtual_s * 1e3:.1f} "
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


def _compare(
    networks: Sequence[cases.Network], algorithms: Sequence[cases.Algorithm], attempts: int
) -> list[Comparison]:
    """One Comparison per case; void ones are made again when all others are done, for a load may have passed."""
    best: dict[tuple[int, int], Comparison] = {}
    with tempfile.TemporaryDirectory(prefix="agreement-") as folder, bed.deployed(cases.HOSTS) as deployment:
        scenarios = {
            (row, column): cases.write(Path(folder) / f"{row}-{column}", network, algorithm, STORED)
            for row, network in enumerate(networks)
            for column, algorithm in enumerate(algorithms)
        }
        for _ in range(attempts):
            for row, network in enumerate(networks):
                pending = [case for case in scenarios if case[0] == row and (case not in best or best[case].void)]
                if not pending:
                    continue
                with deployment.emulated(scenarios[pending[0]]):
                    for case in pending:
                        one = _compared(deployment, network, scenarios[case])
                        best[case] = min(one, best.get(case, one), key=lambda each: each.busy)
                        click.echo(table([one]).splitlines()[-1], err=True)
    return [best[case] for case in scenarios]


def _compared(deployment: bed.Deployment, network: cases.Network, scenario: Scenario) -> Comparison:
    trace, busy = deployment.train(scenario)
    return Comparison(
        network=network.name, strategy=scenario.training.strategy, live_s=iteration_s(trace),
        virtual_s=iteration_s(virtual.train(scenario)), busy=busy, compute_s=compute_s(trace),
    )  # fmt: skip


if __name__ == "__main__":
    main()
