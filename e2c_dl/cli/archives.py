"""Commands ``e2c-dl report | export | verify | collect``, for runs that are over."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli.options import ARCHIVE, PATH, absolute, as_json, one_of
from e2c_dl.trace.export.formats import FORMATS

if TYPE_CHECKING:
    from e2c_dl.diagnosis.model import Report


@click.command()
@ARCHIVE
@as_json("Print the report as JSON, nothing else; write nothing.")
@click.option("--picture", type=PATH, help="Also draw states and topology there (PNG).")
@click.option("--figure", type=PATH, help="Also plot what changed or was shared there (PNG).")
def report(archive: Path, as_json: bool, picture: Path | None, figure: Path | None) -> None:
    """Analyse ARCHIVE again, write its page anew, and print the summary."""
    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.diagnose import diagnose
    from e2c_dl.report.page.html import write_report

    one_of(json=as_json, picture=picture is not None)  # standard output would be more than JSON
    one_of(json=as_json, figure=figure is not None)
    read = open_archive(archive)
    diagnosis = diagnose(read)
    found = diagnosis.report
    if as_json:
        click.echo(found.to_json())
        return
    write_report(read, diagnosis)  # after the JSON: with --json nothing is written
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
    "--format", "form", type=click.Choice(list(FORMATS)), default="perfetto", show_default=True,
    help="; ".join(f"{name}: {each.about}" for name, each in FORMATS.items()) + ".",
)  # fmt: skip
@click.option("--output", type=PATH, help="The file or folder to write [default: ARCHIVE.perfetto.json, .csv, ...].")
def export(archive: Path, form: str, output: Path | None) -> None:
    """Write ARCHIVE's trace for another program, beside the archive."""
    from e2c_dl.archive.read import open_archive
    from e2c_dl.trace.export import formats

    trace = open_archive(archive).trace()
    beside = str(archive).rstrip("/") + FORMATS[form].suffix  # not in it: a sealed archive knows its files
    target = output or Path(beside)
    formats.write(form, trace, target)
    click.echo(target)


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
        from e2c_dl.cli.console import open_console

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
@click.argument("where", metavar="RUN|OUTPUT_DIR")
@click.argument("scenario", type=PATH, required=False)
@click.option("--archive", type=PATH, help="Where it is, or where to make it [default: RUN's own; OUTPUT_DIR-archive].")
def collect(where: str, scenario: Path | None, archive: Path | None) -> None:
    """Collect what hosts still hold of RUN into its archive, end RUN, and seal the archive.

    For a run whose controller was killed, or whose archive had no room, or was moved or removed: then --archive names
    it, or a new one. With OUTPUT_DIR and SCENARIO instead: make an archive of what plain `e2clab deploy` left in
    OUTPUT_DIR (SCENARIO's folder named by date and time).
    """
    from e2c_dl.archive import layout
    from e2c_dl.campaign.plain import collect_plain
    from e2c_dl.testbeds.registry import is_run_id

    if scenario is not None:
        output_dir = Path(where)
        target = archive or Path(where.rstrip("/") + "-archive")  # its slash would put it inside
        print_report(target, collect_plain(output_dir, scenario, target))
        return
    if not is_run_id(where):
        raise click.UsageError(f"{where} is no run's id (8 hexadecimal digits); for a folder name its SCENARIO, too")
    from e2c_dl.campaign import finish
    from e2c_dl.cli.console import open_console

    finished = finish.finish(where, open_console(), absolute(archive))
    if (finished / layout.REPORT_JSON).is_file():
        print_report(finished)
    else:  # of a run that ended before anything was trained
        click.echo(f"{finished}: finished; there was nothing to report on")


def print_report(archive: Path, found: Report | None = None) -> None:
    """The terminal summary of ``archive`` on standard output; without ``found``, of the report that it holds."""
    from rich.console import Console

    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.changes import sentences
    from e2c_dl.diagnosis.diagnose import read_report
    from e2c_dl.report.terminal import summary

    read = open_archive(archive)
    # a pipe has no width: rich would take 80
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=100)
    console.print(summary(found or read_report(read), read.run, read.links(), archive, sentences(read.changes())))
