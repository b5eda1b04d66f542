"""Makes a process k times slower by quota and by sleep, alternating with k = 1; compares iteration times.

``python -m benchmarks.compute [--write]``: about 4 minutes. Needs root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import IO, Any, cast

import click

from benchmarks import written
from e2c_dl.emulation import compute
from e2c_dl.emulation.compute import Method
from e2c_dl.testbeds.this_machine import cpu

ROOT = Path(__file__).resolve().parents[2]
FACTORS = (1.25, 2.0, 4.0, 10.0)
BASE = 0.5  # of a core, for k = 1
TURN = 25  # iterations
MOST_OFF = 0.05
BAR = f"within {written.percent(MOST_OFF)}"
GROUP, HOST = f"bench-{os.getpid()}", "slower"


@dataclass(frozen=True, kw_only=True)
class Row:
    """``got``: times slower than k = 1, or than the schedule says (k then is the schedule's slower half)."""

    method: str
    asked: float
    got: float
    at_1_ms: float  # an iteration at k = 1
    iterations: int

    @property
    def off(self) -> float:
        return self.got / self.asked - 1 if self.method != "changing" else self.got - 1


class Side:
    """The process that is made slower."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.compute.side"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.cpu_s = float(self._out.readline())

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, **what: Any) -> Any:
        stdin = cast("IO[str]", self._process.stdin)
        stdin.write(json.dumps(what) + "\n")
        stdin.flush()
        return json.loads(self._out.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def _out(self) -> IO[str]:
        return cast("IO[str]", self._process.stdout)


@click.command()
@click.option("--iterations", default=200, show_default=True, help="Of each k; in turns of 25.")
@written.options(iterations=TURN)
def main(iterations: int, write: bool) -> None:
    """Both methods at every k, and a schedule; exit code 1 if any is off by more than 5 %."""
    side = Side()
    try:
        rows = [said(row) for row in measured(side, iterations)]
    finally:
        side.end()
    text = table(rows)
    click.echo(f"\n{text}")
    if write:
        values = {"rows": [{**asdict(row), "off": row.off} for row in rows]}
        written.write(
            "compute", title="Slower hosts, measured", text=text, values=values, repeats=iterations // TURN,
            missed=missed(rows),
        )  # fmt: skip
    written.conclude(BAR, missed(rows))


def missed(rows: Iterable[Row]) -> list[str]:
    """The rows that are further off than asked for."""
    return [f"{row.method}, k = {row.asked:g}: {row.off:+.1%}" for row in rows if abs(row.off) > MOST_OFF]


def measured(side: Side, iterations: int) -> Iterator[Row]:
    """Every method at every k."""
    with quota(side) as set_cores:
        for factor in FACTORS:
            yield by_quota(side, set_cores, factor, iterations)
        set_cores(float(os.cpu_count() or 1))
        for factor in FACTORS:
            yield by_sleep(side, factor, iterations)
        for factor in FACTORS:
            yield on_schedule(side, factor, iterations)


@contextmanager
def quota(side: Side) -> Iterator[Any]:
    """A function that sets the cores of ``side``; its cgroup is removed at the end."""
    hierarchy = cpu.controller()
    if hierarchy is None:
        raise click.ClickException("this machine has no cgroup cpu controller")
    cpu.make_group(GROUP, HOST, BASE, side.pid)
    group = hierarchy.group(GROUP, HOST)
    for each in (group, group.parent):  # what else the machine does is not what is measured
        name, most = ("cpu.weight", "10000") if hierarchy.version == 2 else ("cpu.shares", "262144")
        (each / name).write_text(most)
    try:
        yield lambda cores: cpu.set_cores(GROUP, HOST, cores)
    finally:
        (hierarchy.root / "cgroup.procs").write_text(str(side.pid))
        group.rmdir()
        group.parent.rmdir()


def by_quota(side: Side, set_cores: Any, factor: float, iterations: int) -> Row:
    """``side`` as a plan by quota has it: bounded by its cgroup, and paced within."""

    def turn(share: float) -> list[float]:
        chosen = compute.plan(compute.RELAY_CORES + 1, {HOST: BASE / share}, Method.QUOTA.value, BASE)
        set_cores(chosen.cores[HOST])
        return cast("list[float]", side.ask(speed=chosen.speed[HOST], iterations=TURN))

    return alternating("quota", turn, factor, iterations)


def by_sleep(side: Side, factor: float, iterations: int) -> Row:
    """``side`` paced at BASE and BASE / ``factor``."""

    def turn(speed: float) -> list[float]:
        return cast("list[float]", side.ask(speed=speed, iterations=TURN))

    return alternating("sleep", turn, factor, iterations)


def alternating(method: str, turn: Any, factor: float, iterations: int) -> Row:
    """Turns at k = 1 and at k = ``factor``, until each has had ``iterations``."""
    whole: list[float] = []
    slow: list[float] = []
    while len(slow) < iterations:
        whole += turn(BASE)
        slow += turn(BASE / factor)
    got = fmean(slow) / fmean(whole)
    return Row(method=method, asked=factor, got=got, at_1_ms=fmean(whole) * 1e3, iterations=len(slow))


def on_schedule(side: Side, factor: float, iterations: int) -> Row:
    """Half of each 0.37 s at k = 1, half at k = ``factor``."""
    schedule = [[0.0, 1.0], [0.185, factor]]
    seen = side.ask(schedule=schedule, period_s=0.37, base=BASE, iterations=iterations)
    got = seen["took_s"] / seen["asked_s"]
    return Row(method="changing", asked=factor, got=got, at_1_ms=side.cpu_s / BASE * 1e3, iterations=iterations)


def said(row: Row) -> Row:
    """``row``, once it is printed."""
    click.echo(line(row))
    return row


def line(row: Row) -> str:
    """One line of the table."""
    return f"| {row.method} | {row.asked:g} | {row.got:.3f} | {row.off:+.1%} | {row.at_1_ms:.1f} | {row.iterations} |"


def table(rows: list[Row]) -> str:
    """All rows in Markdown, and the worst."""
    head = ["| method | k | got | off | k = 1, ms | iterations |", "|---|---|---|---|---|---|"]
    worst = max(abs(row.off) for row in rows)
    return "\n".join([*head, *map(line, rows), "", f"Worst: {worst:.1%} off; the bar is {written.percent(MOST_OFF)}."])


if __name__ == "__main__":
    main()
