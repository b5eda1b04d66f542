"""Commands ``e2c-dl stragglers | compare | plot``, for runs that are over."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli.options import PATH, FiniteRange, as_json
from e2c_dl.cli.telling.progress import underway
from e2c_dl.cli.telling.streams import say

METRICS = ("makespan", "iteration", "time-to-accuracy", "bytes")
"""As diagnosis.comparing.compare.Metric has them, which --help does not import."""

FIGURES = ("states", "timeline", "heatmap", "cdf", "time-to-accuracy")

if TYPE_CHECKING:
    from rich.console import RenderableType

    from e2c_dl.diagnosis.straggler.metrics import Operations


@click.command()
@click.argument("source", metavar="ARCHIVE|TRACE.parquet", type=PATH)
@as_json("Print all figures as JSON, nothing else.")
def stragglers(source: Path, as_json: bool) -> None:
    """Say how much slower ARCHIVE's run is than if all its workers were alike, and whose doing that is.

    The metrics S, S_t, S_w, M_W and M_S of Lin et al. (OSDI'25); TRACE.parquet is a job trace as they publish them.
    """
    import msgspec

    from e2c_dl.diagnosis.straggler.metrics import stragglers

    with underway("running the job again with workers alike"):
        found = stragglers(_operations(source))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    from e2c_dl.report.stragglers import summary

    _print(summary(found))


@click.command()
@click.argument("archives", nargs=-1, type=PATH, metavar="ARCHIVE...")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME=DIR,DIR...",
    help="Runs that were made alike, instead of ARCHIVEs; the first group is the baseline.",
)  # fmt: skip
@click.option(
    "--metric", "metrics", multiple=True, type=click.Choice(METRICS), help="Of these alone, one or more [default: all]."
)
@click.option(
    "--accuracy",
    type=FiniteRange(0, 1),
    help="For time-to-accuracy [default: the highest that every run reached].",
)
@click.option("--anyway", is_flag=True, help="Also runs of different models or datasets.")
@as_json("Print the comparison as JSON, nothing else.")
def compare(
    archives: tuple[Path, ...],
    groups: tuple[str, ...],
    metrics: tuple[str, ...],
    accuracy: float | None,
    anyway: bool,
    as_json: bool,
) -> None:
    """Compare runs with the first ARCHIVE: by how much they differ, how sure that is, and where the time went.

    Intervals are of 95 %: over iterations where a side has one run, over runs where both have several.
    """
    import msgspec

    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.comparing.archives import run_of
    from e2c_dl.diagnosis.comparing.compare import Metric, compare
    from e2c_dl.diagnosis.comparing.figures import Group, Run

    if archives and groups:
        raise click.UsageError("ARCHIVEs and --group exclude each other; name groups alone, or archives alone")
    if accuracy is not None and metrics and "time-to-accuracy" not in metrics:
        raise click.UsageError("--accuracy is of --metric time-to-accuracy; name that metric, too, or none")
    if len({text.partition("=")[0] for text in groups}) < len(groups):
        raise click.UsageError("--group: two have one name; give each its own")
    named = [_group(text) for text in groups] or list(zip(_names(archives), ([path] for path in archives), strict=True))
    names = iter(_names(tuple(path for _, paths in named for path in paths)))

    def read(path: Path) -> Run:
        return replace(run_of(open_archive(path)), name=next(names))

    with underway("comparing the runs"):
        found = compare(
            [Group(name=name, runs=tuple(map(read, paths))) for name, paths in named],
            [Metric(metric) for metric in metrics] or tuple(Metric),
            accuracy=accuracy, anyway=anyway,
        )  # fmt: skip
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    from e2c_dl.report.comparison import summary

    _print(summary(found))


@click.command()
@click.argument("archives", nargs=-1, type=PATH, required=True, metavar="ARCHIVE...")
@click.option("--figure", "kind", type=click.Choice(FIGURES), required=True, help="What to draw.")
@click.option("--out", type=PATH, required=True, help="The file to write: .pdf, .svg or .png.")
@click.option("--width", type=FiniteRange(2, 12), default=3.33, show_default=True, help="Inches; 7 are two columns.")
@click.option("--iterations", type=click.IntRange(1), help="Of a timeline [default: 3].")
def plot(archives: tuple[Path, ...], kind: str, out: Path, width: float, iterations: int | None) -> None:
    """Draw a figure for a paper: one column wide, vector, no title, safe for colour-blind readers.

    states, cdf and time-to-accuracy take several ARCHIVEs, timeline and heatmap one.
    """
    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.comparing.archives import damage, run_of
    from e2c_dl.diagnosis.diagnose import activity_of, heat_in
    from e2c_dl.diagnosis.prefix import most_iterations
    from e2c_dl.report.plots import curves, heat, lanes, paper

    if iterations is not None and kind != "timeline":
        raise click.UsageError("--iterations is of --figure timeline; the others show all of them")
    paper.check(out)
    opened = [open_archive(path) for path in archives]
    if kind in ("timeline", "heatmap"):
        if len(opened) > 1:
            raise click.UsageError(f"--figure {kind} shows one run; name one ARCHIVE")
        with underway(f"drawing {archives[0]}"):
            trace = opened[0].trace()
            if kind == "timeline":
                figure = lanes.timeline(activity_of(trace), width, iterations or 3)
            else:
                figure = heat.heatmap(heat_in(opened[0], trace), width)
        damages = [damage(opened[0], trace)]
        most = [most_iterations(trace) if kind == "heatmap" else 0]
    else:
        draw = {"states": lanes.states, "cdf": curves.cdf, "time-to-accuracy": curves.time_to_accuracy}[kind]
        with underway("reading what the runs left"):
            runs = [replace(run_of(each), name=name) for each, name in zip(opened, _names(archives), strict=True)]
        damages = [run.damage for run in runs]
        most = [run.most_iterations if kind == "cdf" else 0 for run in runs]
        figure = draw(runs, width)
    paper.save(figure, out)
    for path, hosts, trained in zip(archives, damages, most, strict=True):
        if hosts:
            say(f"{path}: traces are not whole, and neither is the figure: {', '.join(hosts)}")
        if trained:
            say(f"{path}: ranks trained up to {trained} iterations; drawn are as many as the slowest did")
    click.echo(out)


def _group(text: str) -> tuple[str, list[Path]]:
    """``name=DIR,DIR`` -> its name and directories."""
    name, equals, folders = text.partition("=")
    paths = [Path(folder) for folder in folders.split(",") if folder]
    if not (name and equals and paths):
        raise click.UsageError(f"--group {text}: write NAME=DIR,DIR")
    if len({path.resolve() for path in paths}) < len(paths):
        raise click.UsageError(f"--group {text}: a run is named twice, and would count as two")
    return name, paths


def _names(archives: tuple[Path, ...]) -> list[str]:
    """What tells ``archives`` apart: their folders' names, or where these are alike, as typed; numbered, if twice."""
    names = [path.resolve().name for path in archives]
    if len(set(names)) < len(names):
        names = [str(path) for path in archives]
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, before, strict=True)]


def _operations(source: Path) -> Operations:
    from e2c_dl.diagnosis.straggler.job_trace import is_job_trace, read_job_trace

    if is_job_trace(source):
        return read_job_trace(source)
    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.diagnose import read_run
    from e2c_dl.diagnosis.straggler.run_trace import operations_of

    trace, _, reference = read_run(open_archive(source))
    return operations_of(trace, reference.missing_in(trace))


def _print(content: RenderableType) -> None:
    """``content`` on standard output; a pipe has no width: rich would take 80."""
    from rich.console import Console

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=100)
    console.print(content)
