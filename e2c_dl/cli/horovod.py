"""``e2c-dl horovod``: the wheel of Horovod that hosts train with, built once for a torch and a Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from e2c_dl.cli import options
from e2c_dl.cli.telling.progress import told

_COMPILED = re.compile(r"^\[ *(\d+)%\] (\w.*)")


def _of_wheels(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name a wheel: of which interpreter, in which cache."""
    command = click.option("--cache", type=options.PATH, help="Where wheels are kept [default: your cache folder].")(
        command
    )
    return click.option(
        "--python", default=sys.executable, metavar="PATH", help="The interpreter [default: this one]."
    )(command)


@click.group()
def horovod() -> None:
    """Build, once, the wheel of Horovod for a torch and a Python; install it; say where it is."""


@horovod.command()
@_of_wheels
@click.option("--jobs", type=click.IntRange(1, 256), help="Files compiled at a time [default: as many as processors].")
@click.option(
    "--source", type=options.PATH, metavar="FILE", help="Its source distribution, where PyPI is out of reach."
)
@click.option("--anew", is_flag=True, help="Build although there is one.")
@click.option("--verbose", is_flag=True, help="Print all that the build says.")
def build(python: str, cache: Path | None, jobs: int | None, source: Path | None, anew: bool, verbose: bool) -> None:
    """Build the wheel, unless it is in the cache. About 6 minutes of CPU time, 1 GB of disk while it builds."""
    from e2c_dl.testbeds.horovod import build as building
    from e2c_dl.testbeds.horovod import wheels

    of = wheels.interpreter(python)
    with told() as tell:
        heard = (lambda line: click.echo(line, err=True)) if verbose else (lambda line: tell(_shown(line)))
        wheel = building.build(
            of, _cache(cache), heard, jobs=jobs or len(os.sched_getaffinity(0)), source=source, anew=anew
        )
    click.echo(wheel)


@horovod.command()
@_of_wheels
def path(python: str, cache: Path | None) -> None:
    """Print where the wheel is; exit code 2 if there is none."""
    from e2c_dl.testbeds.horovod import wheels

    click.echo(wheels.existing(wheels.interpreter(python), _cache(cache)))


@horovod.command()
@_of_wheels
def install(python: str, cache: Path | None) -> None:
    """Put the wheel of the cache into the interpreter; torch and all else there stay as they are."""
    from e2c_dl.testbeds.horovod import install as installing
    from e2c_dl.testbeds.horovod import recipe, wheels

    of = wheels.interpreter(python)
    wheel = wheels.existing(of, _cache(cache))
    if not installing.installed(of):
        installing.install(of, wheel)
    click.echo(f"{of.path}: horovod {recipe.VERSION} for torch {of.torch}")


def _cache(said: Path | None) -> Path:
    from e2c_dl.testbeds.horovod import wheels

    return Path(os.path.abspath(said)) if said is not None else wheels.default_cache()


def _shown(line: str) -> str:
    """A line of the build, as progress: how far the compiler is, where the line says so."""
    compiled = _COMPILED.match(line)
    return f"compiling, {compiled[1]} %: {compiled[2].rpartition('/')[2]}" if compiled else line
