"""Traces scripts of DDP and Horovod with a slow phase of one rank, or a slow link, and asks who is named.

``python -m benchmarks.collectives [--part phases|ddp|horovod] [--repeats N] [--clean N] [--write] [--resume]``;
links as root.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from benchmarks import written
from benchmarks.collectives import beds, cases
from benchmarks.collectives.cases import Case, Judged
from benchmarks.script_bed import Bed, up

BAR = "every slow phase and every slow link named, and nothing else; no link of a clean run"
KINDS = ("phases", "ddp", "horovod")
OF_HOROVOD = 4  # times fewer than of DDP
PHASE_S, LINK_S = 25.0, 40.0  # of a run, on a calm machine


@click.command()
@click.option("--part", "chosen", multiple=True, type=click.Choice(KINDS), help="Only this [default: all].")
@click.option("--repeats", default=20, show_default=True, help="Runs of each phase, and with a slow link.")
@click.option("--clean", default=10, show_default=True, help="Runs in which no link is slow.")
@click.option("--iterations", default=16, show_default=True, help="Of each run.")
@click.option("--seed", default=1, show_default=True, help="Of who is slow.")
@click.option("--resume", is_flag=True, help="Keep what results/collectives.json has of the same cases; run the rest.")
@written.options(repeats=1, clean=1, chosen=["phases"])
def main(
    chosen: tuple[str, ...], repeats: int, clean: int, iterations: int, seed: int, resume: bool, write: bool
) -> None:
    """Ask the diagnosis of traced scripts who is slow."""
    kinds = chosen or KINDS
    asked = [case for side in kinds if not absent(side) for case in _cases(side, repeats, clean, seed)]
    found = _kept(asked) if resume else [None] * len(asked)
    click.echo(f"{found.count(None)} of {len(asked)} runs to do, about {_minutes(asked, found):.0f} min")
    missing = [f"{side}: it is not installed; make setup-horovod" for side in kinds if absent(side)]
    with tempfile.TemporaryDirectory(prefix="collectives-") as made, Runs(Path(made), iterations) as runs:
        for number, case in enumerate(asked):
            if found[number] is None:
                found[number] = told(runs.judged(case, number))
                if write:
                    _write(found, missing, repeats)
    rows = [row for row in found if row is not None]
    click.echo(table(rows))
    written.conclude(BAR, missed=[*beyond(rows), *missing])


def _cases(side: str, repeats: int, clean: int, seed: int) -> list[Case]:
    if side == "phases":
        return list(cases.phases(repeats, seed))
    few = 1 if side == "ddp" else OF_HOROVOD
    return list(cases.links(side, -(-repeats // few), clean if side == "ddp" else 0, seed))


def _minutes(asked: Sequence[Case], found: Sequence[Judged | None]) -> float:
    left = [case for case, row in zip(asked, found, strict=True) if row is None]
    return sum(PHASE_S if case.rank >= 0 else LINK_S for case in left) / 60


class Runs(ExitStack):
    """Cases one after another; hosts are up from the first that needs them. Leaving it ends them."""

    def __init__(self, folder: Path, iterations: int) -> None:
        super().__init__()
        self._folder, self._iterations = folder, iterations
        self._bed: Bed | None = None

    def judged(self, case: Case, number: int) -> Judged:
        """What diagnosis says of ``case``, run now. Raises: RuntimeError."""
        folder = self._folder / str(number)
        if case.rank >= 0:
            return cases.of_phase(case, folder, self._iterations)
        if self._bed is None:
            self._bed = self.enter_context(up(beds.HOSTS))
        return cases.of_link(case, self._bed, folder, self._iterations, seed=number)


def _kept(asked: Sequence[Case]) -> list[Judged | None]:
    """Of each case the row that was written before, if there is one; of cases alike one row each."""
    path = written.RESULTS / "collectives.json"
    plain = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else []
    rows = [Judged.of(each) for each in plain]
    found: list[Judged | None] = []
    for case in asked:
        row = next((each for each in rows if each.case == case), None)
        if row is not None:
            rows.remove(row)
        found.append(row)
    return found


def _write(found: Sequence[Judged | None], missing: Sequence[str], repeats: int) -> None:
    """After each run: who is interrupted goes on with ``--resume``."""
    rows = [row for row in found if row is not None]
    left = [f"{found.count(None)} of {len(found)} runs are still to do"] if None in found else []
    missed = [*beyond(rows), *missing, *left]
    written.write(
        "collectives", title="Who is slow, in scripts whose library hides its messages", text=table(rows),
        missed=missed, repeats=repeats, values={"cases": [row.plain for row in rows]},
    )  # fmt: skip


def absent(side: str) -> bool:
    """Whether it cannot train here."""
    return side == "horovod" and importlib.util.find_spec("horovod") is None


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


if __name__ == "__main__":
    main()
