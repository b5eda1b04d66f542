"""Options and arguments that several commands take, what they say of a testbed, and which exclude each other."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)
SCENARIO = click.argument("scenario", type=PATH)  # existence is checked by the loader, whose message says what to do
ARTIFACTS = click.argument("artifacts", type=PATH, required=False)
ARCHIVE = click.argument("archive", type=PATH)
KEPT_IN = click.option("--archive", type=PATH, help="Where the run is kept [default: runs/SCENARIO-TIME-RUN].")
SEED = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Place the injected slow-downs anew, by this seed."
)
HEALTHY = click.option("--healthy", is_flag=True, help="Leave the injected slow-downs out.")

_SAID_OF_TESTBEDS = (  # name, shown as, help; each testbed says itself whether it takes them
    ("inventory", "FILE", "For --on static: the YAML file that lists the hosts."),
    (
        "image",
        "NAME",
        "For --on docker: of the hosts [default: built once]; else of services with docker: true.",
    ),
    ("wait", "HH:MM:SS", "For --on g5k: how long jobs may wait for their nodes [default: 00:50:00]."),
    ("box", "NAME", "For --on vagrant: of the machines [default: generic/debian12]."),
    ("memory", "SIZE", "For --on docker: what a host may use at most; vagrant: what it has, such as 1GiB."),
)
OF_TESTBEDS = tuple(name for name, *_ in _SAID_OF_TESTBEDS)


class FiniteRange(click.FloatRange):
    """A number in a range, which "nan" is not: no comparison finds it outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises: click.BadParameter."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is no finite number", param, ctx)
        return found


def as_json(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option ``--json`` (argument ``as_json``)."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def testbeds(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """For shells: names of testbeds that begin so."""
    from e2c_dl.testbeds import catalogue

    return [name for name in catalogue.names() if name.startswith(begun)]


def on(default: str | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options ``--on`` (argument ``testbed``) and those that say something about it: the command's ``**said``."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, metavar, text in reversed(_SAID_OF_TESTBEDS):  # decorators apply from below: --help has them in order
            command = click.option(f"--{name}", metavar=metavar, help=text)(command)
        return click.option(
            "--on", "testbed", default=default, show_default=default is not None, metavar="TESTBED",
            shell_complete=testbeds,
            help="Where the hosts come from: local, docker, vagrant, static or g5k.",
        )(command)  # fmt: skip

    return decorated


def given(said: dict[str, str | None]) -> dict[str, str]:
    """What was said about a testbed, as ``catalogue.testbed`` takes it: it refuses what is not for the one chosen."""
    return {name: value for name, value in said.items() if value is not None}


def absolute(path: Path | None) -> Path | None:
    """``path`` seen from here, links kept: E2Clab changes the working directory while a run goes on."""
    return None if path is None else Path(os.path.abspath(path))


def one_of(**chosen: bool) -> None:
    """Does nothing. Raises: UsageError if more than one of these options was chosen."""
    names = [f"--{name.replace('_', '-')}" for name, was in chosen.items() if was]
    if len(names) > 1:  # by click's own error: exit code 2, and where the help is
        raise click.UsageError(f"{' and '.join(names)} exclude each other; leave one of them out")
