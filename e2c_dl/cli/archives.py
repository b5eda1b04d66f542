"""Commands ``e2c-dl report | export | verify | collect``, for runs that are over."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from e2c_dl.cli.options import ARCHIVE, PATH, absolute, as_json, one_of
from e2c_dl.cli.telling.progress import underway
from e2c_dl.cli.telling.streams import say
from e2c_dl.errors import ArchiveError, InputError
from e2c_dl.trace.export.formats import FORMATS

if TYPE_CHECKING:
    from e2c_dl.archive.read import ReadArchive
    from e2c_dl.diagnosis.model import Report
    from e2c_dl.trace.export.formats import Events
    from e2c_dl.trace.model import Trace

DASHBOARDS = {
    "tensorboard": "losses and accuracies as TensorBoard's events, a folder per host",
    "mlflow": "the same as a run of MLflow's, to --tracking-uri or a folder",
}
_ABOUT = {**{name: each.about for name, each in FORMATS.items()}, **DASHBOARDS}


@click.command()
@ARCHIVE
@as_json("Print the report as JSON, nothing else; write nothing.")
@click.option("--picture", type=PATH, help="Also draw states and topology there (PNG).")
@click.option("--figure", type=PATH, help="Also plot what changed or was shared there (PNG).")
def report(archive: Path, as_json: bool, picture: Path | None, figure: Path | None) -> None:
    """Analyse ARCHIVE again, write its page anew, and print the summary."""
    from e2c_dl.archive.read import open_archive
    from e2c_dl.archive.verify import altered
    from e2c_dl.diagnosis.diagnose import diagnose
    from e2c_dl.report.page.html import write_report

    one_of(json=as_json, picture=picture is not None)  # standard output would be more than JSON
    one_of(json=as_json, figure=figure is not None)
    for option, file in {"--picture": picture, "--figure": figure}.items():
        if file is not None and file.suffix != ".png":
            raise click.UsageError(f"{option} {file}: pictures are PNG; write {file.stem or 'picture'}.png")
    read = open_archive(archive)
    with underway("asking the trace what slowed the run down"):
        diagnosis = diagnose(read)
    if changed := altered(archive):
        limitations = (*diagnosis.report.limitations, changed)
        diagnosis = replace(diagnosis, report=replace(diagnosis.report, limitations=limitations))
    found = diagnosis.report
    if as_json:
        click.echo(found.to_json())
        return
    try:
        write_report(read, diagnosis)  # after the JSON: with --json nothing is written
    except ArchiveError:  # what was found out is said all the same
        print_report(archive, found)
        raise
    print_report(archive, found)
    if picture is not None:
        from e2c_dl.report import images  # only if asked for: matplotlib is slow to import, and optional
        from e2c_dl.report.rows import link_rows

        images.picture(found, link_rows(read.links(), found), f"{read.run.scenario}, run {read.run.run_id}", picture)
        click.echo(picture)
    if figure is not None:
        from e2c_dl.report.page import schedules

        schedules.write_png(diagnosis.changed, figure)
        click.echo(figure)


@click.command()
@ARCHIVE
@click.option(
    "--format", "form", type=click.Choice([*FORMATS, *DASHBOARDS]), default="perfetto", show_default=True,
    help="; ".join(f"{name}: {about}" for name, about in _ABOUT.items()) + ".",
)  # fmt: skip
@click.option("--output", type=PATH, help="The file or folder to write [default: ARCHIVE.perfetto.json, .csv, ...].")
@click.option(
    "--tracking-uri", envvar="MLFLOW_TRACKING_URI", metavar="URI",
    help="With mlflow: the server, such as http://127.0.0.1:5000 [default: MLFLOW_TRACKING_URI, else the folder].",
)  # fmt: skip
def export(archive: Path, form: str, output: Path | None, tracking_uri: str | None) -> None:
    """Write ARCHIVE's trace, or its losses and accuracies, for another program, beside the archive.

    perfetto and chrome also have what a traced script itself recorded: Horovod's timeline, torch.profiler's traces.
    """
    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.comparing.archives import damage
    from e2c_dl.trace.export import formats

    typed = click.get_current_context().get_parameter_source("tracking_uri") is ParameterSource.COMMANDLINE
    if typed and (form != "mlflow" or output):
        raise click.UsageError("--tracking-uri is of --format mlflow, and without --output; leave one of them out")
    read = open_archive(archive)
    suffix = FORMATS[form].suffix if form in FORMATS else f".{form}"
    target = output or Path(os.path.abspath(archive) + suffix)  # not in it: a sealed archive knows its files
    if form in DASHBOARDS:
        click.echo(_to_dashboard(form, read, target, None if output else tracking_uri))
        return
    trace = read.trace()
    formats.write(form, trace, target, _of_script(read, trace) if FORMATS[form].merges else None)
    if hosts := damage(read, trace):
        say(f"{archive}: traces are not whole, and neither is what was written: {', '.join(hosts)}")
    click.echo(target)


def _of_script(read: ReadArchive, trace: Trace) -> Events:
    """What the traced script itself recorded; what of it cannot be merged is said."""
    from e2c_dl.archive import script_traces
    from e2c_dl.beneath import Place
    from e2c_dl.formatting import visible

    traces, problems = script_traces.found(Place(read.path), trace)
    for problem in problems:
        click.echo(f"e2c-dl: {visible(problem)}", err=True)
    return script_traces.merged(traces)


def _to_dashboard(form: str, read: ReadArchive, folder: Path, uri: str | None) -> str:
    """Where the curves went. Raises: InputError, if the library is not installed."""
    from e2c_dl.archive.dashboards import events, tracking

    try:
        if form == "mlflow":
            where = uri or str(folder)
            return f"{where}: run {tracking.write(read, where)}"
        events.write(read, folder)
        return str(folder)
    except ModuleNotFoundError as error:
        raise InputError(f"--format {form}: {error.name} is not installed; pip install 'e2c_dl[{form}]'") from error


@click.command()
@ARCHIVE
@click.option("--seal", is_flag=True, help="Close an archive that was left open: report, metadata, checksums.")
@as_json("Print what was found as JSON: whole, problems.")
def verify(archive: Path, seal: bool, as_json: bool) -> None:
    """Check ARCHIVE against its checksums: one line per file that is missing, altered or new.

    With --seal: an archive that has none yet, of a run that was killed while it reported or had no room for it, is
    reported as far as that is possible, and sealed.
    """
    from e2c_dl.archive.verify import verify as problems
    from e2c_dl.formatting import visible

    if seal:
        from e2c_dl.campaign import finish
        from e2c_dl.cli.telling.console import open_console

        finish.seal(Path(os.path.abspath(archive)), open_console())
    found = problems(archive)
    if as_json:
        click.echo(json.dumps({"whole": not found, "problems": list(found)}, indent=1))
        sys.exit(1 if found else 0)
    for problem in found:
        click.echo(f"e2c-dl: {visible(problem, breaks='')}", err=True)
    if found:
        sys.exit(1)  # for scripts
    click.echo(f"{archive}: whole and unaltered")


@click.command()
@click.argument("where", nargs=-1, required=True, metavar="RUN|DIR...")
@click.option("--archive", type=PATH, help="Where it is, or where to make it [default: RUN's own; DIR itself].")
@click.option("--scenario", type=PATH, help="Of traces: the scenario that designed the network, to compare with.")
@as_json("Print the report as JSON, nothing else.")
def collect(where: tuple[str, ...], archive: Path | None, scenario: Path | None, as_json: bool) -> None:
    """Make, or finish, the archive of a run that has none.

    RUN: collect what hosts still hold of a run whose controller was killed, or whose archive had no room, or was moved
    or removed (then --archive names it, or a new one), end it, and seal the archive.

    DIR ...: what `e2c-dl trace` left, one folder per host; they become one archive.

    OUTPUT_DIR SCENARIO: what plain `e2clab deploy` left in OUTPUT_DIR (SCENARIO's folder named by date and time); its
    archive is OUTPUT_DIR-archive.
    """
    from e2c_dl.campaign import traced
    from e2c_dl.campaign.plain import collect_plain
    from e2c_dl.testbeds.registry import is_run_id
    from e2c_dl.tracing import left

    folders = [Path(each) for each in where]
    if any(left.is_trace(folder) for folder in folders):
        target = _traced_target(folders, archive)
        print_archive(traced.collected(folders, target, scenario, say=say), as_json)
        return
    if len(where) == 2 and scenario is None:
        target = archive or Path(where[0].rstrip("/") + "-archive")  # its slash would put it inside
        collect_plain(folders[0], folders[1], target)
        print_archive(target, as_json)
        return
    if len(where) > 1 or not is_run_id(where[0]):
        wrong = where[1] if len(where) > 1 else where[0]
        raise click.UsageError(
            f"{wrong} is no run's id (8 hexadecimal digits), nor a folder that `e2c-dl trace` left; "
            "for a folder of E2Clab's name its SCENARIO, too"
        )
    from e2c_dl.campaign import finish
    from e2c_dl.cli.telling.console import open_console

    print_archive(finish.finish(where[0], open_console(quiet=as_json), absolute(archive)), as_json)


def _traced_target(folders: Sequence[Path], archive: Path | None) -> Path:
    if archive is None and len(folders) > 1:
        raise click.UsageError("name the archive to make of several folders with --archive")
    return archive or folders[0]


def print_archive(archive: Path, as_json: bool = False) -> None:
    """The summary of ``archive``, or why there is none."""
    from e2c_dl.archive import layout
    from e2c_dl.archive.read import open_archive

    if as_json:
        print_json(archive)
        return
    if (archive / layout.REPORT_JSON).is_file():
        print_report(archive)
        return
    run = open_archive(archive).run
    why = [sentence for sentence in run.limitations if sentence.startswith("there is no report")]
    click.echo(f"{archive}: {run.outcome.value}; {why[0] if why else 'there was nothing to report on'}")


def print_json(archive: Path) -> None:
    """The report of ``archive`` on standard output, with the archive's place; its report null, if it has none."""
    from e2c_dl.archive import layout
    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.diagnose import read_report

    said: dict[str, object] = {"report": None, "fetched": fetched(archive)[0]}
    if (archive / layout.REPORT_JSON).is_file():
        said = json.loads(read_report(open_archive(archive)).to_json())
    click.echo(json.dumps(said | {"archive": str(archive)}, indent=1))


def fetched(archive: Path) -> tuple[str | None, int]:
    """(where the workflow's files are, None without any; how many files)."""
    from e2c_dl.archive import layout

    folder = archive / layout.FETCHED
    files = sum(1 for each in folder.rglob("*") if each.is_file())
    return (str(folder) if files else None), files


def print_report(archive: Path, found: Report | None = None) -> None:
    """The terminal summary of ``archive`` on standard output; without ``found``, of the report that it holds."""
    from rich.console import Console

    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.diagnose import read_report
    from e2c_dl.diagnosis.shown.changes import sentences
    from e2c_dl.report.terminal import summary

    read = open_archive(archive)
    # a pipe has no width: rich would take 80
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=100)
    console.print(summary(found or read_report(read), read.run, read.links(), archive, sentences(read.changes())))
