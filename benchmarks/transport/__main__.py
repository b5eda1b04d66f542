"""Measures the live transport beside iperf3 on emulated links and beside gloo on loopback, alternating.

``python -m benchmarks.transport [--repeats N] [--seconds S] [--part emulated|loopback|both] [--write]``. The emulated
part needs root, iperf3 and iproute2.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import click

from benchmarks import written
from benchmarks.relay import bed
from benchmarks.transport import sides

MBIT = 125_000.0  # bytes per second
MIB = 1 << 20
LINKS = ((1, 0.0), (1, 0.025), (10, 0.0), (10, 0.025), (100, 0.0), (100, 0.025), (1000, 0.0), (1000, 0.025))
"""Mbit/s, and seconds one way."""
SIZES_BYTES = (MIB, 16 * MIB, 64 * MIB)
LOOPBACK_BYTES = 2 << 30
CONGESTION_CONTROL = "cubic"
LEAST = {"iperf3": 0.97, "gloo": 0.8}
BAR = f"at least {LEAST['iperf3']:g}; {LEAST['gloo']:g}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """Bytes per second of both sides, in each repetition."""

    what: str
    other: str
    live_bytes_per_s: list[float]
    other_bytes_per_s: list[float]

    @property
    def ratio(self) -> float:
        """The median over pairs of runs that followed each other."""
        pairs = zip(self.live_bytes_per_s, self.other_bytes_per_s, strict=True)
        return statistics.median(own / other for own, other in pairs)

    def __str__(self) -> str:
        sides_bytes_per_s = (self.live_bytes_per_s, self.other_bytes_per_s)
        own, other = (f"{statistics.median(side) * 8 / 1e6:.2f}" for side in sides_bytes_per_s)
        return f"| {self.what} | {own} | {other} ({self.other}) | {self.ratio:.3f} |"


def emulated(repeats: int, seconds: int) -> list[Row]:
    """One row per link."""
    rows = []
    for rate_mbit, delay_s in LINKS:
        messages = max(4, round((seconds + 1) * rate_mbit * MBIT / MIB))
        own: list[float] = []
        other: list[float] = []
        with bed.relay(rate_mbit * 1e6, delay_s, []) as hosts:
            sides.prepare(hosts)
            for _ in range(repeats):
                own.append(sides.live(hosts, size_bytes=MIB, repeats=messages, congestion_control=CONGESTION_CONTROL))
                other.append(sides.iperf3(hosts, seconds=seconds, congestion_control=CONGESTION_CONTROL))
        what = f"{rate_mbit} Mbit/s, {2e3 * delay_s:.0f} ms, 1 MiB"
        rows.append(Row(what=what, other="iperf3", live_bytes_per_s=own, other_bytes_per_s=other))
        click.echo(rows[-1], err=True)
    return rows


def loopback(repeats: int) -> list[Row]:
    """One row per size of message."""
    rows = []
    for size_bytes in SIZES_BYTES:
        messages = max(20, LOOPBACK_BYTES // size_bytes)
        own: list[float] = []
        other: list[float] = []
        for _ in range(repeats):
            own.append(sides.live(None, size_bytes=size_bytes, repeats=messages, congestion_control=None))
            other.append(sides.gloo(size_bytes=size_bytes, repeats=messages))
        what = f"loopback, {size_bytes // MIB} MiB"
        rows.append(Row(what=what, other="gloo", live_bytes_per_s=own, other_bytes_per_s=other))
        click.echo(rows[-1], err=True)
    return rows


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Alternations of both sides.")
@click.option("--seconds", default=6, show_default=True, help="Length of one measurement on an emulated link.")
@click.option("--part", type=click.Choice(["emulated", "loopback", "both"]), default="both", help="What to measure.")
@written.options(repeats=1, seconds=1, part="loopback")
def main(repeats: int, seconds: int, part: str, write: bool) -> None:
    """Measure the live transport beside iperf3 and gloo."""
    rows = (emulated(repeats, seconds) if part != "loopback" else []) + (
        loopback(repeats) if part != "emulated" else []
    )
    table = "\n".join(["| link, message | live Mbit/s | other Mbit/s | ratio |", "|---|---|---|---|", *map(str, rows)])
    click.echo(table)
    if write:
        values = {"rows": [asdict(row) for row in rows]}
        written.write(
            "transport", title="The live transport, measured", text=table, values=values, repeats=repeats,
            missed=missed(rows),
        )  # fmt: skip
    written.conclude(BAR, missed(rows))


def missed(rows: Iterable[Row]) -> list[str]:
    """The rows whose ratio is below what is asked for beside that side."""
    return [f"{row.what}: {row.ratio:.3f} of {row.other}" for row in rows if row.ratio < LEAST[row.other]]


if __name__ == "__main__":
    main()
