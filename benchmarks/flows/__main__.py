"""Trains on six shaped hosts, and holds what the ranks' sockets counted per link against what the relay carried.

``python -m benchmarks.flows [--side ddp|horovod] [--iterations N] [--write]``, as root.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import written
from benchmarks.flows import sides
from benchmarks.flows.counted import Counted, counted

MOST = 0.01
BAR = f"every link that carries gradients within {written.percent(MOST)}"


@click.command()
@click.option(
    "--side", "chosen", multiple=True, type=click.Choice(sorted(sides.SIDES)), help="Only this [default: all]."
)
@click.option("--iterations", default=30, show_default=True, help="Iterations of each.")
@click.option("--repeats", default=3, show_default=True, help="Runs of each.")
@written.options(iterations=5, repeats=1, chosen=["ddp"])
def main(chosen: tuple[str, ...], iterations: int, repeats: int, write: bool) -> None:
    """Compare bytes per link: the kernel's, as the ranks' sockets tell them, and the relay's."""
    rows: list[Counted] = []
    missed = []
    for side in chosen or tuple(sides.SIDES):
        reason = sides.missing(side)
        if reason is not None:
            missed.append(reason)
            continue
        for run in range(repeats):
            with tempfile.TemporaryDirectory(prefix="flows-") as folder:
                report = sides.train(side, Path(folder), iterations=iterations, seed=run)
                rows += counted(side, Path(folder), report)
    missed = [*missed, *beyond(rows)]
    text = table(rows)
    click.echo(text)
    if write:
        written.write(
            "flows", title="Bytes per link, from sockets and from the relay", text=text, missed=missed, repeats=repeats,
            values={"links": [{**asdict(row), "error": row.error} for row in rows]},
        )  # fmt: skip
    written.conclude(BAR, missed)


def beyond(rows: Sequence[Counted]) -> list[str]:
    """What of the bar the links miss."""
    data = [row for row in rows if row.is_data]
    found = [f"{row.side}: {row.src} -> {row.dst} {row.error:+.2%}" for row in data if not abs(row.error) <= MOST]
    return found if data else ["no link carried gradients"]


def table(rows: Sequence[Counted]) -> str:
    """Markdown: per side the links that carry gradients, and the worst error; of the others, the error of their sum."""
    lines = [
        "| ranks of | links | | MB, by the sockets | by the relay | error | segments sent again |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for side in dict.fromkeys(row.side for row in rows):
        for is_data, name in ((True, "gradients"), (False, "replies and set-up alone")):
            its = [row for row in rows if row.side == side and row.is_data == is_data]
            if its:
                told, carried = (sum(getattr(row, of) for row in its) / 1e6 for of in ("told_bytes", "carried_bytes"))
                errors = [row.error for row in its] if is_data else [told / carried - 1]  # a few frames have no error
                worst, again = max(errors, key=abs), sum(row.retransmissions for row in its)
                lines.append(
                    f"| {side} | {name} | {len(its)} | {told:.1f} | {carried:.1f} | {worst:+.3%} | {again:.0f} |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
