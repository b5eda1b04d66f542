"""The command ``e2c-dl``: each command in a module of its own, imported when it is called.

``e2c-dl --help`` must answer at once and on machines without torch or E2Clab, so this module imports click only.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import re
import signal
import sys
from typing import NoReturn

import click

from e2c_dl import __version__
from e2c_dl.cli import settings
from e2c_dl.cli.telling import streams
from e2c_dl.errors import E2cDlError, InputError, Interrupted  # little of the package: --help answers at once
from e2c_dl.testbeds.this_machine.system_path import with_system

COMPLETE_VARIABLE = "_E2C_DL_COMPLETE"
"""By which a shell asks for completions, as click names it for a program called e2c-dl."""

COMMANDS = {  # name, also in its module -> (module beside this one, line for --help); as a newcomer needs them
    "doctor": ("machine", "What this machine can and cannot do."),
    "init": ("scenarios", "Write a commented scenario to start from."),
    "check": ("scenarios", "Read and validate a scenario; start nothing."),
    "migrate": ("migrate", "Make a scenario of an earlier E2Clab one of today."),
    "probe": ("probe", "Measure hosts and links before training; name whom to leave out."),
    "deploy": ("deploy", "Deploy, emulate, train, collect, and say what slowed it down."),
    "attach": ("deploy", "Show a run that is going on, from its beginning to its end."),
    "trace": ("trace", "Run any training script, unchanged, and trace its ranks."),
    "watch": ("watch", "Show what slows a run down while it trains."),
    "emulate": ("emulate", "Measure, show, apply or clear the emulation of links."),
    "image": ("image", "Build the image for hosts that are containers (--on docker)."),
    "horovod": ("horovod", "Build the wheel of Horovod that hosts train with."),
    "simulate": ("simulate", "Run a scenario under a virtual clock; the same archive."),
    "calibrate": ("simulate", "Measure how long a scenario's computing takes here."),
    "strategies": ("scenarios", "List the strategies and their settings."),
    "summary": ("analysis.summary", "Time by host and phase, at once; no diagnosis."),
    "report": ("archives", "Say again what an archive shows."),
    "advise": ("analysis.advise", "Try strategies and settings on measured times, and rank them."),
    "whatif": ("analysis.whatif", "What a run would have taken with something changed."),
    "compare": ("analysis.analyses", "How much runs differ, how sure that is, and where."),
    "plot": ("analysis.analyses", "Draw a figure of runs for a paper."),
    "stragglers": ("analysis.analyses", "How much slower than if workers were alike."),
    "export": ("archives", "Write an archive's trace for another program."),
    "verify": ("archives", "Check that an archive is whole and unaltered."),
    "collect": ("archives", "Finish a run cut off, or archive plain `e2clab deploy`."),
    "shell": ("machine", "Open a shell, or run a command, on a host that is up."),
    "logs": ("machine", "Show the logs of a run, up or archived."),
    "destroy": ("machine", "Remove what a crashed run left on this machine."),
    "runs": ("listing", "List archives, and the runs that are up on this machine."),
    "completion": ("listing", "Print what makes bash, zsh or fish complete commands."),
    "config": ("listing", "Show the defaults of your own, and where they stand."),
    "services": ("services", "List our E2Clab services, or install them for plain E2Clab."),
}

_OF_FILES = {  # what no command foresees -> what to do
    errno.ENOSPC: "make room, or name a place on another disk",
    errno.EDQUOT: "make room, or name a place on another disk",
    errno.EROFS: "name a place that can be written",
    errno.EACCES: "name one that you may use, or become a user who may",
    errno.EPERM: "name one that you may use, or become a user who may",
    errno.ENOENT: "name one that exists, in a folder that exists",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "name a folder",
    errno.EEXIST: "name another",
    errno.ENAMETOOLONG: "name a shorter one",
    errno.EIO: "look after its disk",
}


def find(name: str) -> click.Command:
    """The command ``name``, one of COMMANDS."""
    module, _ = COMMANDS[name]
    found = importlib.import_module(f"e2c_dl.cli.{module}")  # only this: others take seconds
    command: click.Command = getattr(found, name)
    return command


class Lazy(click.Group):
    """Knows its commands by name and help line, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return find(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}{meant}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None and name != "config":  # which shows a wrong one, too
            settings.apply(name, command, ctx)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


_CONTEXT = {
    "help_option_names": ["-h", "--help"], "max_content_width": 100, "auto_envvar_prefix": settings.PREFIX,
}  # fmt: skip


@click.command(cls=Lazy, context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="e2c-dl")
def cli() -> None:
    """Train a network across edge, fog and cloud, and learn what slows it down: which host, which link, which phase.

    Begin with `e2c-dl doctor`, then `e2c-dl deploy experiments/first-light artifacts --on local`.

    Exit codes: 0 done, 1 failed, 2 wrong input (nothing was started), 3 not emulated as requested (--strict),
    130 interrupted.
    """


def main() -> None:
    """Entry point: one line on standard error and an exit code for everything that goes wrong on purpose.

    The same for what no command foresees of files: a full disk behind standard output, a folder not to be written.
    """
    streams.outlive()
    try:
        _begin()
        os.environ["PATH"] = with_system(os.environ.get("PATH"))  # for all that is started, and what releases it
        cli.main(
            prog_name="e2c-dl", standalone_mode=False, complete_var=COMPLETE_VARIABLE
        )  # else click prints usage, on several lines, and exits
        sys.stdout.flush()  # here, where a full disk can be told
    except click.exceptions.Abort:  # Ctrl-C where no run was under way
        _end("e2c-dl: interrupted", Interrupted.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _end(_line(error), error.exit_code)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except E2cDlError as error:
        _end(f"e2c-dl: {error}", error.exit_code)
    except OSError as error:
        if error.errno not in _OF_FILES:  # a defect: its traceback is wanted
            raise
        streams.to_nowhere(1)  # what could not be written is not tried again, and complained of, when Python ends
        where = error.filename or "standard output, or a file"
        _end(f"e2c-dl: {where}: {error.strerror}; {_OF_FILES[error.errno]}", E2cDlError.exit_code)


def _begin() -> None:
    """A closed terminal and SIGTERM end a command as Ctrl-C does. Raises: InputError if there is no working directory.

    What ignores them, as under ``nohup``, goes on ignoring them.
    """
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError("the working directory was removed; cd to one that exists") from error


def _end(line: str, exit_code: int) -> NoReturn:
    from e2c_dl.formatting import visible

    click.echo(visible(line, breaks=""), err=True)  # it may quote what others have written
    sys.exit(exit_code)


def _line(error: click.ClickException) -> str:
    """What is wrong with the command line, and where its help is."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.BadParameter):
        message += _meant(error) + (
            f"; it stands in {place}" if (place := settings.stands_in(error.param, error.ctx)) else ""
        )
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "e2c-dl"
    return f"{command}: {message} ({command} --help says more)"


def _meant(error: click.BadParameter) -> str:
    """What may have been meant by a value that is none of an option's."""
    kind = error.param.type if error.param is not None else None
    if not isinstance(kind, click.Choice) or not (given := re.match(r"'(.*)' is not one of", error.message)):
        return ""
    close = difflib.get_close_matches(given[1], map(str, kind.choices), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
