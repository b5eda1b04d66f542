"""Diagnoses traces of three sizes, and one of a thousand ranks; beside it Polars adds up their states."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from benchmarks import written
from benchmarks.analysis.sides import SIDES, asked
from benchmarks.analysis.traces import TIMES_SLOWER, Case

MILLION_S, TEN_MILLION_S, THOUSAND_RANKS_S = 2.0, 20.0, 60.0
MOST_BYTES = 4 * 2**30
LINEAR = 1.5  # times as long per span, at most, where there are ten times as many
RANKS, MANY_RANKS = 60, 1000
SLOWED = 8  # iterations at least of a run with somebody slow: of fewer nobody is judged
BAR = "1 million spans in 2 s, 10 million in 20 s and 4 GiB, 1,000 ranks in 60 s; per span at most 1.5 times as long"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One case: medians of both sides, and how much the diagnosis took at most."""

    case: str
    ranks: int
    spans: int
    diagnosis_s: float
    diagnosis_cpu_s: float
    polars_s: float
    peak_bytes: float

    @property
    def us_per_span(self) -> float:
        return self.diagnosis_s / self.spans * 1e6


@click.command()
@click.option("--iterations", default=14, show_default=True, help="Of 60 ranks: 14 leave a million spans.")
@click.option("--ranks", default=MANY_RANKS, show_default=True, help="Of the run of many ranks.")
@click.option("--repeats", default=5, show_default=True, help="Of each side, alternating, after one that warms up.")
@written.options(iterations=1, ranks=20, repeats=1)
def main(*, iterations: int, ranks: int, repeats: int, write: bool) -> None:
    """The diagnosis of a trace, from its files to the report, beside Polars grouping its states.

    Ring all-reduce of 60 ranks over a tenth of --iterations, --iterations and ten times as many (one tenth is at least
    one); neighbours' exchange of --ranks; and --iterations again with a host that is slow, and a link. Exit status 1 if
    the bar is missed.
    """
    lengths = (max(1, iterations // 10), iterations, 10 * iterations)
    cases = [Case(strategy="allreduce", ranks=RANKS, iterations=length) for length in lengths]
    cases.append(Case(strategy="exchange", ranks=ranks, iterations=max(3, iterations * 6)))
    slowed = max(SLOWED, iterations)
    cases += [Case(strategy="allreduce", ranks=RANKS, iterations=slowed, departs=kind) for kind in TIMES_SLOWER]
    measured = [measure(case, repeats) for case in cases]
    text = table(measured)
    click.echo(text)
    if write:
        values = {"measured": [asdict(one) for one in measured]}
        title = "The diagnosis, timed"
        written.write("analysis", title=title, text=text, values=values, repeats=repeats, missed=missed(measured))
    written.conclude(BAR, missed(measured))


def measure(case: Case, repeats: int) -> Measured:
    """Both sides of ``case``, in turns."""
    case.folder()
    with asked("diagnosis", case) as diagnosis, asked("polars", case) as polars:
        sides = dict(zip(SIDES, (diagnosis, polars), strict=True))
        for side in sides.values():
            side.run()
        runs = [{name: side.run() for name, side in sides.items()} for _ in range(repeats)]
    first = runs[0]["diagnosis"]
    return Measured(
        case=case.name, ranks=case.ranks, spans=int(first["spans"]),
        diagnosis_s=statistics.median(run["diagnosis"]["wall_s"] for run in runs),
        diagnosis_cpu_s=statistics.median(run["diagnosis"]["cpu_s"] for run in runs),
        polars_s=statistics.median(run["polars"]["wall_s"] for run in runs),
        peak_bytes=max(run["diagnosis"]["peak_bytes"] for run in runs),
    )  # fmt: skip


def missed(measured: Sequence[Measured]) -> list[str]:
    """What of the bar is missed; the first three are of rising length, the fourth of many ranks, in others someone is
    slow."""
    _, million, ten_million, many, *slowed = measured
    late = [
        f"{one.case} takes {one.diagnosis_s:.1f} s"
        for one, most_s in (
            (million, MILLION_S),
            (ten_million, TEN_MILLION_S),
            (many, THOUSAND_RANKS_S),
            *((each, MILLION_S) for each in slowed),
        )
        if one.diagnosis_s > most_s
    ]
    if ten_million.peak_bytes > MOST_BYTES:
        late.append(f"{ten_million.case} takes {ten_million.peak_bytes / 2**30:.1f} GiB")
    if ten_million.us_per_span > LINEAR * million.us_per_span:
        late.append(f"{ten_million.us_per_span / million.us_per_span:.1f} times as long per span")
    return late


def table(measured: Sequence[Measured]) -> str:
    """Markdown: medians; the ratio is of wall times."""
    lines = [
        "| run | ranks | spans | diagnosis s | CPU s | us per span | peak MiB | Polars s | diagnosis / Polars |",
        "|---" * 9 + "|",
    ]
    lines += [
        f"| {one.case} | {one.ranks} | {one.spans:,} | {one.diagnosis_s:.2f} | {one.diagnosis_cpu_s:.2f} "
        f"| {one.us_per_span:.2f} | {one.peak_bytes / 2**20:.0f} | {one.polars_s:.3f} "
        f"| {one.diagnosis_s / one.polars_s:.1f} |"
        for one in measured
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
