"""Probes 16 hosts before training, whole commands: how long it takes, and whether it names what was slowed.

``python -m benchmarks.probe [--write]``, as root: hosts are namespaces of this machine.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks import written
from benchmarks.probe.scenario import SLOW_HOST, SLOW_LINK, STRATEGIES, write_scenario
from e2c_dl.cli.probe import found as found_in

HOSTS, MOST_S = 16, 60.0
BAR = f"links and gradients of {HOSTS} hosts in {MOST_S:g} s; the slow host and the slow link named, and nobody else"
BEGINS, ENDS = "measuring links: 0", "train     done"
"""What a probe says as it begins to measure, and when it has."""


@dataclass(frozen=True, kw_only=True)
class Probed:
    """One probe."""

    strategy: str
    hosts: int
    links: int  # that training would use, and so are measured
    measuring_s: float  # of links, then of gradients
    took_s: float  # the whole command
    named_hosts: tuple[str, ...]
    named_links: tuple[str, ...]

    @property
    def right(self) -> bool:
        return (self.named_hosts, self.named_links) == ((SLOW_HOST,), (SLOW_LINK,))


@click.command()
@click.option("--hosts", default=HOSTS, show_default=True, help="How many.")
@click.option("--repeats", default=3, show_default=True, help="Probes of each strategy, in turn.")
@written.options(hosts=4, repeats=1)
def main(*, hosts: int, repeats: int, write: bool) -> None:
    """`e2c-dl probe` of a ring and of a star, in which one host and one link are slower than designed."""
    done = written.in_turn(lambda strategy: probed(strategy, hosts), STRATEGIES, table, repeats)
    click.echo(table(done))
    if write:
        values = {"probes": [asdict(one) for one in done]}
        written.write(
            "probe", title="Who to leave out, before training", text=table(done), values=values, repeats=repeats,
            missed=missed(done),
        )  # fmt: skip
    written.conclude(BAR, missed(done))


def missed(done: Sequence[Probed]) -> list[str]:
    """The probes that took too long, or named others than what is slow; and that there were too few hosts."""
    few = [f"{one.strategy}: {one.hosts} hosts, not {HOSTS}" for one in done if one.hosts < HOSTS]
    late = [f"{one.strategy}: {one.measuring_s:.0f} s" for one in done if one.measuring_s > MOST_S]
    wrong = [f"{one.strategy}: {_named(one)} named" for one in done if not one.right]
    return few + late + wrong


def table(done: Sequence[Probed]) -> str:
    """Markdown, a row per probe."""
    lines = [
        "| strategy | hosts | links measured | measuring links and gradients | the whole command | named |",
        "|---|---:|---:|---:|---:|---|",
    ]
    lines += [
        f"| {one.strategy} | {one.hosts} | {one.links} | {one.measuring_s:.1f} s | {one.took_s:.1f} s | {_named(one)} |"
        for one in done
    ]
    return "\n".join(lines)


def _named(one: Probed) -> str:
    return ", ".join([*one.named_hosts, *one.named_links]) or "nobody"


def probed(strategy: str, hosts: int) -> Probed:
    """One probe. Raises: ClickException with the end of what it said, if it fails."""
    with tempfile.TemporaryDirectory(prefix="probe-") as made:
        folder = Path(made)
        scenario, archive = write_scenario(folder / "scenario", strategy, hosts), folder / "archive"
        (folder / "artifacts").mkdir()
        command = [sys.executable, "-m", "e2c_dl", "probe", str(scenario), str(folder / "artifacts")]
        begun_s = time.perf_counter()
        said = _said([*command, "--on", "local", "--archive", str(archive)])
        took_s = time.perf_counter() - begun_s
        found = found_in(archive)
    begins_s, ends_s = (next(at_s for at_s, line in said if words in line) for words in (BEGINS, ENDS))
    return Probed(
        strategy=strategy, hosts=hosts, links=len(found.links), measuring_s=round(ends_s - begins_s, 1),
        took_s=round(took_s, 1),
        named_hosts=tuple(sorted(found.slow_hosts)),
        named_links=tuple(f"{each.src} -> {each.dst}" for each in found.links if each.departures),
    )  # fmt: skip


def _said(command: Sequence[str]) -> list[tuple[float, str]]:
    """(when, line) of what ``command`` says. Raises: ClickException with the end of it, if it fails."""
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = [(time.perf_counter(), line) for line in process.stdout or ()]
    if process.returncode:
        raise click.ClickException("".join(line for _, line in said[-20:]))
    return said


if __name__ == "__main__":
    main()
