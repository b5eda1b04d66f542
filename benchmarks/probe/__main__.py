"""Probes 16 hosts before training, whole commands: how long it takes, and whether it names what was slowed.

``python -m benchmarks.probe [--write]``, as root: hosts are namespaces of this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks import written
from benchmarks.launched import end_in_order
from benchmarks.probe.scenario import SLOW_HOST, SLOW_LINK, STRATEGIES, write_scenario

HOSTS, MOST_S = 16, 60.0
BAR = f"{HOSTS} hosts in {MOST_S:g} s; the slow host and the slow link are named, and nobody else"
LIMIT_S = 600


@dataclass(frozen=True, kw_only=True)
class Probed:
    """One probe."""

    strategy: str
    hosts: int
    links: int  # that training would use, and so are measured
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
    end_in_order()
    done = []
    for _ in range(repeats):
        for strategy in STRATEGIES:
            done.append(probed(strategy, hosts))
            click.echo(table(done[-1:]).splitlines()[-1], err=True)
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
    late = [f"{one.strategy}: {one.took_s:.0f} s" for one in done if one.took_s > MOST_S]
    wrong = [f"{one.strategy}: {_named(one)} named" for one in done if not one.right]
    return few + late + wrong


def table(done: Sequence[Probed]) -> str:
    """Markdown, a row per probe."""
    lines = ["| strategy | hosts | links measured | the whole command | named |", "|---|---:|---:|---:|---|"]
    lines += [f"| {one.strategy} | {one.hosts} | {one.links} | {one.took_s:.1f} s | {_named(one)} |" for one in done]
    return "\n".join(lines)


def _named(one: Probed) -> str:
    return ", ".join([*one.named_hosts, *one.named_links]) or "nobody"


def probed(strategy: str, hosts: int) -> Probed:
    """One probe. Raises: ClickException with the end of what it said, if it fails."""
    with tempfile.TemporaryDirectory(prefix="probe-") as made:
        folder = Path(made)
        scenario = write_scenario(folder / "scenario", strategy, hosts)
        (folder / "artifacts").mkdir()
        command = [sys.executable, "-m", "e2c_dl", "probe", str(scenario), str(folder / "artifacts"), "--json"]
        begun_s = time.perf_counter()
        done = subprocess.run(
            [*command, "--archive", str(folder / "archive")],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        took_s = time.perf_counter() - begun_s
    if done.returncode:
        raise click.ClickException(f"{strategy}, {hosts} hosts: {done.stderr.strip()[-2000:]}")
    found = json.loads(done.stdout)
    links = {f"{each['src']} -> {each['dst']}": each["departures"] for each in found["links"]}
    return Probed(
        strategy=strategy, hosts=hosts, links=len(links), took_s=round(took_s, 1),
        named_hosts=tuple(each["name"] for each in found["hosts"] if each["slowdown"]),
        named_links=tuple(name for name, departs in links.items() if departs),
    )  # fmt: skip


if __name__ == "__main__":
    main()
