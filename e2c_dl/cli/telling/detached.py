"""Runs that go on by themselves: begun in a session of their own, no terminal's; and what others see of them.

::

    e2c-dl deploy --detach ...                                     e2c-dl attach RUN
      | fork                                                         reads ARCHIVE/logs/console.log from its beginning,
      |-- the run: setsid, check, stage, "begun" --> goes on         until nobody holds its lock; then run.json says
      `-- waits for "begun", or for what is wrong    |               how it ended
          tells how to follow it, ends               `-- holds a lock on ARCHIVE/logs/console.log while it lives

What is wrong with the input is told by the run itself while it still has the caller's terminal.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
import msgspec
from rich.console import Console as Terminal

from e2c_dl.archive import layout
from e2c_dl.archive.run import read_run
from e2c_dl.beneath import Place
from e2c_dl.campaign.underway import ENDED
from e2c_dl.cli.telling import streams
from e2c_dl.cli.telling.console import PlainConsole
from e2c_dl.codec import DAMAGED, convert
from e2c_dl.errors import ArchiveError, E2cDlError, InputError
from e2c_dl.formatting import visible
from e2c_dl.testbeds import registry

_LOOK_EVERY_S = 0.2
_PIECE = 1 << 20  # characters


class Transcript(PlainConsole):
    """Plain lines in the archive, as soon as there is one; locked while this process lives."""

    def __init__(self) -> None:
        self._held = io.StringIO()
        super().__init__(Terminal(file=self._held, width=200, color_system=None))

    def begun(self, run_id: str, archive: Path) -> None:
        path = archive / layout.LOGS / layout.CONSOLE_LOG
        path.parent.mkdir(exist_ok=True)
        unlocked = path.with_name(f".{path.name}")  # one that is not locked is of a run that is over
        file = unlocked.open("w", encoding="utf-8", buffering=1)
        fcntl.flock(file, fcntl.LOCK_EX)  # let go by the kernel, however this process ends
        unlocked.rename(path)
        file.write(self._held.getvalue())
        self._terminal.file = file
        super().begun(run_id, archive)


class LeavingConsole(PlainConsole):
    """Tells the caller's terminal until the run has begun; then lets go of it, and writes who it is to ``caller``."""

    def __init__(self, caller: int) -> None:
        super().__init__(Terminal(stderr=True, highlight=False))
        self._caller = caller

    def begun(self, run_id: str, archive: Path) -> None:
        for descriptor in (0, 1, 2):
            streams.to_nowhere(descriptor)
        os.write(self._caller, json.dumps([run_id, str(archive)]).encode())
        os.close(self._caller)


def detached(run: Callable[[PlainConsole], object]) -> None:
    """Have ``run`` carried out by a process of its own; return there when it is done, here when it has begun.

    Here, if it ends before: this process does too, with its exit code.
    """
    listening, caller = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(listening)
        os.setsid()
        run(LeavingConsole(caller))
        return
    os.close(caller)
    with open(listening, encoding="utf-8") as begun:
        try:
            said = begun.read()
        except KeyboardInterrupt:  # the run is in another session: the terminal told this process alone
            os.kill(pid, signal.SIGINT)
            said = begun.read()
    if not said:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    run_id, archive = json.loads(said)
    click.echo(f"run {run_id} goes on by itself, archive {archive}")
    click.echo(f"  e2c-dl attach {run_id:<10}shows it from its beginning to its end")
    click.echo(f"  {ending(run_id, pid)}")


def ending(run_id: str, pid: int) -> str:
    """How to end a run."""
    return f"kill -INT {pid} ends it in order, `e2c-dl destroy {run_id}` at once; both collect its traces"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run that somebody asked for."""

    run_id: str
    archive: Path
    ending: str  # how to end it


def find(run: str) -> Found:
    """The run whose id or archive is ``run``. Raises: InputError; ArchiveError if it is no archive."""
    archive = Path(os.path.abspath(run))
    if not archive.is_dir():
        known = {each.id: each for each in registry.runs()}
        kept = sorted(Path.cwd().glob(f"runs/*-{run}")) if run.isalnum() else []
        if run not in known and not kept:
            raise InputError(f"{run}: no such run on this machine or in ./runs; name its archive, if that is elsewhere")
        archive = Path(known[run].archive) if run in known else kept[0]
    run_id = read_run(archive).run_id
    if not run_id.isalnum():  # it becomes part of a path
        raise ArchiveError(f"{archive / layout.RUN}: {run_id!r:.60} is no run's id; {DAMAGED}")
    if not (Place(archive) / layout.LOGS / layout.CONSOLE_LOG).exists():
        raise InputError(f"{archive}: nothing is kept of what it told; `e2c-dl report {archive}` says how it ended")
    pid = registry.live_controller(registry.run_directory(run_id))
    return Found(run_id=run_id, archive=archive, ending="it is ending already" if pid is None else ending(run_id, pid))


class _Ended(msgspec.Struct):
    """What a run's process wrote of its end."""

    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    error: str = ""


def ended(found: Found) -> Path:
    """The archive of a run that is over. Raises: the error that it ended with; ArchiveError if nobody wrote its end."""
    if not (Place(found.archive) / layout.MANIFEST).exists():
        raise ArchiveError(
            f"{found.archive}: the run ended without sealing it; `e2c-dl collect {found.run_id}` finishes it"
        )
    facts, where = read_run(found.archive).facts, f"{found.archive / layout.RUN}: facts.{ENDED}"
    how = convert(facts.get(ENDED, {}), _Ended, where, remedy=DAMAGED)
    if how.exit_code:
        error = E2cDlError(how.error)
        error.exit_code = how.exit_code
        raise error
    return found.archive


def lines(archive: Path) -> Iterator[str]:
    """What the run of ``archive`` told, from the beginning, as it is told, until its process is gone or wants no more.

    Control characters are spelled out: the archive may be a stranger's. Raises: ArchiveError if there is no transcript.
    """
    place = Place(archive) / layout.LOGS / layout.CONSOLE_LOG
    with place.opened() as raw, io.TextIOWrapper(raw, encoding="utf-8", errors="replace") as file:
        over = False
        while not over:
            over = _is_free(file.fileno())  # before reading: what it wrote last is not missed
            while piece := file.read(_PIECE):
                yield visible(piece)
            if not over:
                time.sleep(_LOOK_EVERY_S)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
