"""Deploys on both sides, alternating, for several numbers of hosts; medians per stage, and what of them is ours."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.deploy.sides import SIDES, STAGES

RESULTS = Path(__file__).parents[1] / "results"
LIMIT_S = 600


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One deployment."""

    side: str
    hosts: int
    seconds: dict[str, float]  # stage ->


@click.command()
@click.option("--hosts", default="4,16,32", show_default=True, help="How many, separated by commas.")
@click.option("--repeats", default=3, show_default=True, help="Deployments of each side and size, alternating.")
@click.option("--quick", is_flag=True, help="4 hosts, once: to see that it works.")
@click.option("--write", is_flag=True, help="Put table, command and date into benchmarks/results/.")
def main(*, hosts: str, repeats: int, quick: bool, write: bool) -> None:
    """The stages of a deployment on this machine beside the same done with EnOSlib alone."""
    sizes = [4] if quick else [int(size) for size in hosts.split(",")]
    measured: list[Measured] = []
    for size in sizes:
        for _ in range(1 if quick else repeats):
            for side in SIDES:
                measured.append(measure(side, size))
                click.echo(json.dumps(asdict(measured[-1])), err=True)
    text = table(measured)
    click.echo(text)
    if write:
        _write(text, measured)


def measure(side: str, hosts: int) -> Measured:
    """One deployment, in a process of its own. Raises: ClickException with what it said if it fails."""
    argv = [sys.executable, "-m", "benchmarks.deploy.sides", side, str(hosts)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise click.ClickException(f"{side} with {hosts} hosts: {done.stderr.strip()[-2000:]}")
    return Measured(side=side, hosts=hosts, seconds=json.loads(done.stdout.splitlines()[-1]))


def table(measured: list[Measured]) -> str:
    """Markdown: medians in seconds; the ratio is ours to EnOSlib's."""
    lines = ["| hosts | stage | e2c_dl s | EnOSlib s | ratio |", "|---" * 5 + "|"]
    for hosts in sorted({one.hosts for one in measured}):
        sides = {side: _medians([one for one in measured if (one.side, one.hosts) == (side, hosts)]) for side in SIDES}
        for stage in (*STAGES, "all"):
            own, other = (sides[side][stage] for side in SIDES)
            lines.append(f"| {hosts} | {stage} | {own:.2f} | {other:.2f} | {own / other:.2f} |")
    return "\n".join(lines)


def _medians(measured: list[Measured]) -> dict[str, float]:
    stages = {stage: statistics.median(one.seconds[stage] for one in measured) for stage in STAGES}
    return stages | {"all": statistics.median(sum(one.seconds[stage] for stage in STAGES) for one in measured)}


def _write(text: str, measured: list[Measured]) -> None:
    facts = {
        "command": " ".join(["python -m benchmarks.deploy", *sys.argv[1:]]),
        "date": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load_at_end": os.getloadavg()[0],
    }
    content = {**facts, "measured": [asdict(one) for one in measured]}
    (RESULTS / "deploy.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    said = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    (RESULTS / "deploy.md").write_text(f"# Deploying, measured\n\n{said}\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
