"""Runs both programs on the same traces, alternating, and holds the figures of one against the other's."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import written
from benchmarks.straggler.sides import Measured, Theirs, ours, published

ORACLES = ("shared", "oracles", "straggler")
"""Beside the checkout, or further up: one trace with published results."""

FASTER, SAME = 5.0, 1e-6
BAR = f"{FASTER:g} times faster, figures within {SAME:.0e}".replace("e-0", "e-")


@click.command()
@click.option(
    "--program", type=click.Path(path_type=Path, exists=True), help="A clone of StragglerAnalysis, or its .git."
)
@click.option(
    "--python", type=click.Path(path_type=Path, exists=True), default=sys.executable,
    help="Python that has what their program needs: pandas<3, scipy, tqdm, ujson, pyarrow, pyyaml [default: this one].",
)  # fmt: skip
@click.option("--repeats", default=5, show_default=True, help="Runs of each side on each trace, alternating.")
@written.options(repeats=1)
def main(program: Path | None, python: Path, repeats: int, write: bool) -> None:
    """The straggler metrics of Lin et al.: this program's against theirs, in time and in figures."""
    if write and program is None:
        raise click.UsageError("what is written has times beside their program's: name a clone of it by --program")
    with _cloned(program) as folder:
        theirs = None if folder is None else Theirs(folder=folder, python=python)
        measured, differences = [], {}
        for path in _traces(folder):
            trace = path.stem.removeprefix("trace-")
            of_trace = list(_measured(theirs, path, trace, repeats))
            differences[trace] = _difference(of_trace, path)
            measured += of_trace
    if not measured:
        raise click.ClickException("there is no trace: name a clone of StragglerAnalysis by --program")
    text, met = _table(measured, differences)
    click.echo(text)
    if write:
        runs = [asdict(one) for one in measured]
        values = {"measured": runs, "differences": differences, "met": met}
        written.write(
            "straggler", title="Straggler metrics, beside their authors' program", text=text, values=values,
            repeats=repeats, missed=missed(met, compared=True),
        )  # fmt: skip
    written.conclude(BAR, missed(met, compared=theirs is not None))


def missed(met: bool, *, compared: bool) -> list[str]:
    """What of the bar is missed; the table shows by which trace. ``compared``: their program ran, too."""
    wrong = [] if met else ["a time or a figure of the table"]
    return wrong if compared else [*wrong, "times beside their program were not measured: name a clone by --program"]


@contextmanager
def _cloned(program: Path | None) -> Iterator[Path | None]:
    """A work tree of ``program``, which itself stays as it is; None without it."""
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", str(program.resolve()), folder], check=True)
        yield Path(folder)


def _traces(folder: Path | None) -> list[Path]:
    """Their program's own, else the one beside the checkout."""
    if folder is not None:
        return sorted((folder / "data").glob("trace-*.parquet"))
    found = (parent.joinpath(*ORACLES) for parent in Path(__file__).resolve().parents)
    return sorted(path for place in found for path in place.glob("trace-*.parquet"))


def _measured(theirs: Theirs | None, path: Path, trace: str, repeats: int) -> Iterator[Measured]:
    """Both sides, alternating, after one run of ours that is not counted: it leaves modules compiled, as theirs are."""
    ours(path, trace)
    for _ in range(repeats):
        if theirs is not None:
            with tempfile.TemporaryDirectory() as out:
                yield theirs.measure(trace, Path(out))
        yield ours(path, trace)


def _difference(measured: Sequence[Measured], path: Path) -> float:
    """Largest between a figure of ours and the published one; every run of a side must give the same."""
    expected = published(path.parent, "result-", path.stem.removeprefix("trace-"))
    return max(abs(one.figures[name] - value) for one in measured for name, value in expected.items())


def _table(measured: Sequence[Measured], differences: dict[str, float]) -> tuple[str, bool]:
    """Markdown, medians; and whether the bar is met."""
    lines = [
        "| trace | side | wall s | CPU s | times faster, wall | CPU | largest difference of a figure |",
        "|---" * 7 + "|",
    ]
    met = max(differences.values()) <= SAME
    for trace, difference in differences.items():
        medians = {}
        for side in ("theirs", "ours"):
            runs = [one for one in measured if (one.trace, one.side) == (trace, side)]
            if runs:
                medians[side] = [
                    statistics.median(values) for values in zip(*((r.wall_s, r.cpu_s) for r in runs), strict=True)
                ]
        for side, (wall_s, cpu_s) in medians.items():
            rest = "| | |"
            if side == "ours":
                ratios = [a / b for a, b in zip(medians.get("theirs", ()), medians["ours"], strict=False)]
                met = met and min(ratios, default=FASTER) >= FASTER
                shown = [f"{ratio:.1f}" for ratio in ratios] or ["not measured"] * 2
                rest = f"| {shown[0]} | {shown[1]} | {difference:.1g}"
            lines.append(f"| {trace} | {side} | {wall_s:.2f} | {cpu_s:.2f} {rest} |")
    asked = f"At least {FASTER:g} times faster, figures within {SAME:g}"
    if not any(one.side == "theirs" for one in measured):
        lines += ["", "Times were not compared: no `--program` was named. Figures are held against published ones."]
        asked = f"Figures within {SAME:g}"
    return "\n".join([*lines, "", f"{asked}: {'met' if met else 'missed'}."]), met


if __name__ == "__main__":
    main()
