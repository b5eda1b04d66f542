"""Traces scripts of DDP and Horovod with a slow phase of one rank, or a slow link, and asks who is named.

``python -m benchmarks.collectives [--part phases|ddp|horovod] [--repeats N] [--clean N] [--write]``; links as root.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks import written
from benchmarks.collectives import beds, cases
from benchmarks.collectives.cases import Case, Judged
from benchmarks.script_bed import up

BAR = "every slow phase and every slow link named, and nothing else; no link of a clean run"
KINDS = ("phases", "ddp", "horovod")
OF_HOROVOD = 4  # times fewer than of DDP


@click.command()
@click.option("--part", "chosen", multiple=True, type=click.Choice(KINDS), help="Only this [default: all].")
@click.option("--repeats", default=20, show_default=True, help="Runs of each phase, and with a slow link.")
@click.option("--clean", default=10, show_default=True, help="Runs in which no link is slow.")
@click.option("--iterations", default=16, show_default=True, help="Of each run.")
@click.option("--seed", default=1, show_default=True, help="Of who is slow.")
@written.options(repeats=1, clean=1, chosen=["phases"])
def main(chosen: tuple[str, ...], repeats: int, clean: int, iterations: int, seed: int, write: bool) -> None:
    """Ask the diagnosis of traced scripts who is slow."""
    kinds = chosen or KINDS
    rows: list[Judged] = []
    with tempfile.TemporaryDirectory(prefix="collectives-") as made:
        folder = Path(made)
        if "phases" in kinds:
            for number, case in enumerate(cases.phases(repeats, seed)):
                rows.append(told(cases.of_phase(case, folder / f"phase-{number}", iterations)))
        sides = [side for side in ("ddp", "horovod") if side in kinds and not absent(side)]
        for side in sides:
            few = 1 if side == "ddp" else OF_HOROVOD
            asked = [*cases.links(side, -(-repeats // few), clean if side == "ddp" else 0, seed)]
            rows += [told(row) for row in _of_links(asked, folder / side, iterations)]
    missed = beyond(rows)
    missed += [f"{side}: it is not installed; make setup-horovod" for side in kinds if absent(side)]
    text = table(rows)
    click.echo(text)
    if write:
        written.write(
            "collectives", title="Who is slow, in scripts whose library hides its messages", text=text, missed=missed,
            repeats=repeats, values={"cases": [_plain(row) for row in rows]},
        )  # fmt: skip
    written.conclude(BAR, missed)


def absent(side: str) -> bool:
    """Whether it cannot train here."""
    return side == "horovod" and importlib.util.find_spec("horovod") is None


def _of_links(asked: Sequence[Case], folder: Path, iterations: int) -> Iterator[Judged]:
    if asked:
        with up(beds.HOSTS) as bed:
            for number, case in enumerate(asked):
                yield cases.of_link(case, bed, folder / str(number), iterations, seed=number)


def told(row: Judged) -> Judged:
    """``row``, said as it comes: a run takes half a minute."""
    who = row.case.element or (f"rank {row.case.rank}" if row.case.rank >= 0 else "nobody")
    click.echo(
        f"{'ok  ' if row.held else 'MISS'} {row.case.side} {row.case.what} {who}: {', '.join(row.blamed) or '-'}"
    )
    return row


def beyond(rows: Sequence[Judged]) -> list[str]:
    """What of the bar is missed, a sentence per kind."""
    found = []
    for kind in _kinds(rows):
        own = [row for row in rows if _kind(row) == kind]
        held = sum(row.held for row in own)
        if held < len(own):
            found.append(f"{kind}: {held} of {len(own)}")
    return found


def table(rows: Sequence[Judged]) -> str:
    """Markdown, a row per kind."""
    lines = ["| what | runs | as it is | others named |", "|---|---:|---:|---|"]
    for kind in _kinds(rows):
        own = [row for row in rows if _kind(row) == kind]
        wrong = "; ".join(", ".join(row.blamed) or "nobody" for row in own if not row.held) or "-"
        lines.append(f"| {kind} | {len(own)} | {sum(row.held for row in own)} | {wrong} |")
    return "\n".join(lines)


def _kind(row: Judged) -> str:
    return f"{row.case.side}: {row.case.what}"


def _kinds(rows: Sequence[Judged]) -> list[str]:
    return list(dict.fromkeys(map(_kind, rows)))


def _plain(row: Judged) -> dict[str, object]:
    case = row.case
    return {
        "side": case.side, "what": case.what, "rank": case.rank, "link": case.link, "times": case.times,
        "held": row.held, "blamed": list(row.blamed),
    }  # fmt: skip


if __name__ == "__main__":
    main()
