"""Deploys on both sides, alternating, for several numbers of hosts; medians per stage, and what of them is ours."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass

import click

from benchmarks import written
from benchmarks.deploy.sides import SIDES, STAGES

LIMIT_S = 600
MOST = 1.2
BEYOND_S, AT_HOSTS = 5.0, 16
BAR = (
    f"at most {written.percent(round(MOST - 1, 2))} over it; {AT_HOSTS} hosts in {BEYOND_S:g} s beyond Ansible's reach"
)


BEYOND = "all but reach"
"""What is not Ansible reaching the hosts."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One deployment."""

    side: str
    hosts: int
    seconds: dict[str, float]  # stage ->


@click.command()
@click.option("--hosts", default="4,16,32", show_default=True, help="How many, separated by commas.")
@click.option("--repeats", default=3, show_default=True, help="Deployments of each side and size, alternating.")
@written.options(hosts="4", repeats=1)
def main(*, hosts: str, repeats: int, write: bool) -> None:
    """The stages of a deployment on this machine beside the same done with EnOSlib alone."""
    measured: list[Measured] = []
    for size in map(int, hosts.split(",")):
        for _ in range(repeats):
            for side in SIDES:
                measured.append(measure(side, size))
                click.echo(json.dumps(asdict(measured[-1])), err=True)
    text = table(measured)
    click.echo(text)
    if write:
        every = [asdict(one) for one in measured]
        written.write(
            "deploy", title="Deploying, measured", text=text, values={"measured": every}, repeats=repeats,
            missed=missed(measured),
        )  # fmt: skip
    written.conclude(BAR, missed(measured))


def missed(measured: list[Measured]) -> list[str]:
    """The numbers of hosts with which all stages together, or all but reaching them, take longer than asked for."""
    found = []
    for hosts in sorted({one.hosts for one in measured}):
        own, other = (_medians([one for one in measured if (one.side, one.hosts) == (side, hosts)]) for side in SIDES)
        if own["all"] > MOST * other["all"]:
            found.append(f"{hosts} hosts: {own['all'] / other['all'] - 1:.0%} over it")
        if hosts == AT_HOSTS and own[BEYOND] > BEYOND_S:
            found.append(f"{hosts} hosts: {own[BEYOND]:.1f} s beyond Ansible's reach")
    return found


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
        for stage in (*STAGES, BEYOND, "all"):
            own, other = (sides[side][stage] for side in SIDES)
            lines.append(f"| {hosts} | {stage} | {own:.2f} | {other:.2f} | {own / other:.2f} |")
    return "\n".join(lines)


def _medians(measured: list[Measured]) -> dict[str, float]:
    stages = {stage: statistics.median(one.seconds[stage] for one in measured) for stage in STAGES}
    whole = [sum(one.seconds[stage] for stage in STAGES) for one in measured]
    beyond = [all_s - one.seconds["reach"] for all_s, one in zip(whole, measured, strict=True)]
    return stages | {BEYOND: statistics.median(beyond), "all": statistics.median(whole)}


if __name__ == "__main__":
    main()
