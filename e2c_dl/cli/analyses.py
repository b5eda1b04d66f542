"""Command ``e2c-dl stragglers``, for runs that are over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli.options import PATH, as_json

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

    found = stragglers(_operations(source))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    from e2c_dl.report.stragglers import summary

    _print(summary(found))


def _operations(source: Path) -> Operations:
    from e2c_dl.diagnosis.straggler.job_trace import is_job_trace, read_job_trace

    if is_job_trace(source):
        return read_job_trace(source)
    from e2c_dl.archive.read import open_archive
    from e2c_dl.diagnosis.straggler.run_trace import operations_of

    return operations_of(open_archive(source).trace())


def _print(content: RenderableType) -> None:
    """``content`` on standard output; a pipe has no width: rich would take 80."""
    from rich.console import Console

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=100)
    console.print(content)
