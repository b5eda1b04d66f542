"""Runs first light with the slowed host and link placed at random, and without; compares what the report names.

``python -m benchmarks.verdicts [--write]``: 10 runs with, 5 without, some 20 minutes. Needs root.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks import written

ROOT = Path(__file__).resolve().parents[2]
BAR = "all right"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One run: what was slowed, what was named, both as sorted names."""

    run: str
    injected: tuple[str, ...]
    named: tuple[str, ...]
    speedups: tuple[float, ...]  # of the named, in the same order: run time now / without
    bottleneck: str
    run_s: float

    @property
    def right(self) -> bool:
        return self.injected == self.named


@click.command()
@click.option("--slowed", default=10, show_default=True, help="Runs with a slowed host and link, seeds 1 to this.")
@click.option("--healthy", default=5, show_default=True, help="Runs without.")
@written.options(slowed=1, healthy=0)
def main(slowed: int, healthy: int, write: bool) -> None:
    """Ten runs with a slowed host and link, five without; exit code 1 if any verdict is wrong."""
    plans = [(f"seed {seed}", ["--seed", str(seed)]) for seed in range(1, slowed + 1)]
    plans += [(f"healthy {number}", ["--healthy"]) for number in range(1, healthy + 1)]
    verdicts = []
    for name, chosen in plans:
        verdicts.append(deployed(name, chosen))
        click.echo(row(verdicts[-1]))
    text = table(verdicts)
    click.echo(f"\n{text}")
    if write:
        values = {"verdicts": [asdict(one) for one in verdicts]}
        written.write("verdicts", title="Verdicts", text=text, values=values, repeats=1, missed=missed(verdicts))
    written.conclude(BAR, missed(verdicts))


def missed(verdicts: Sequence[Verdict]) -> list[str]:
    """The runs whose verdict is wrong."""
    return [f"{verdict.run} is wrong" for verdict in verdicts if not verdict.right]


def deployed(name: str, options: Sequence[str]) -> Verdict:
    """One run of first light. Raises: CalledProcessError if it fails."""
    with tempfile.TemporaryDirectory(prefix="verdicts-") as folder:
        archive = Path(folder) / "run"
        command = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "deploy"]
        command += [str(ROOT / "experiments/first-light"), str(ROOT / "artifacts"), "--archive", str(archive), "--json"]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        report = json.loads((archive / "report.json").read_text())
        injected = json.loads((archive / "run.json").read_text())["injected"]
    found = sorted(report["culprits"], key=lambda finding: element(finding["element"]))
    return Verdict(
        run=name,
        injected=tuple(sorted([*injected["compute"], *injected["links"]])),
        named=tuple(element(finding["element"]) for finding in found),
        speedups=tuple(round(max(finding["speedup"], finding["joint_speedup"]), 3) for finding in found),
        bottleneck=element(report["bottlenecks"][0]["element"]),
        run_s=round(report["run_s"], 1),
    )


def element(value: dict[str, str | None]) -> str:
    """A host's name, or ``src -> dst``."""
    return f"{value['src']}" if value["dst"] is None else f"{value['src']} -> {value['dst']}"


def row(verdict: Verdict) -> str:
    """One line of the table."""
    named = ", ".join(f"{name} ({gain:.2f} x)" for name, gain in zip(verdict.named, verdict.speedups, strict=True))
    slowed, right = ", ".join(verdict.injected) or "-", "right" if verdict.right else "WRONG"
    return f"| {verdict.run} | {slowed} | {named or '-'} | {right} | {verdict.bottleneck} | {verdict.run_s} |"


def table(verdicts: Sequence[Verdict]) -> str:
    """All verdicts in Markdown, and how many are right."""
    right = sum(verdict.right for verdict in verdicts)
    lines = [
        "| run | slowed on purpose | named (run time / without) | verdict | bottleneck | s |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(row, verdicts), "", f"{right} of {len(verdicts)} verdicts are right."])


if __name__ == "__main__":
    main()
