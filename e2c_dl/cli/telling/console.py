"""Consoles that a run tells: a live line for people at a terminal, plain lines for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console as Terminal
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from e2c_dl.archive.records import Doing
from e2c_dl.archive.records import Progress as Where
from e2c_dl.cli.telling import streams
from e2c_dl.errors import E2cDlError
from e2c_dl.formatting import visible

_PLAIN_EVERY_S = 5.0  # a log of a long run stays readable
_DOING_EVERY_S = 1.0  # of one and the same thing: a line per link of hundreds would hide the rest


def open_console(quiet: bool = False) -> PlainConsole:
    """The console for standard error: live at a terminal, else plain; ``quiet`` tells failures only."""
    terminal = Terminal(stderr=True, highlight=False)  # standard output is the report's
    if quiet:
        return QuietConsole(terminal)
    return LiveConsole(terminal) if terminal.is_terminal else PlainConsole(terminal)


@contextmanager
def stepping(console: PlainConsole, name: str, what: str) -> Iterator[None]:
    """A step of a command that has no walk: told as it begins, when it is done, or that it failed."""
    begun_s = time.monotonic()
    console.step(name, what)
    try:
        yield
    except KeyboardInterrupt:
        console.failed(name, "interrupted")
        raise
    except E2cDlError as error:
        console.failed(name, str(error))
        raise
    console.done(name, time.monotonic() - begun_s)


class PlainConsole:
    """One line per step and per part of it that is under way, one line of progress every few seconds."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._last_s = 0.0
        self._step = ("", "")
        self._doing, self._told_s = "", 0.0

    def begun(self, run_id: str, archive: Path) -> None:
        self.say(f"run {run_id}, archive {archive}")

    def step(self, name: str, what: str) -> None:
        self._step, self._doing = (name, what), ""
        self._line(f"{name:<9} {what}")

    def done(self, name: str, seconds: float) -> None:
        self._line(f"{name:<9} done in {seconds:.1f} s")

    def failed(self, name: str, why: str) -> None:
        self._line(f"{name:<9} FAILED: {why}")

    def say(self, line: str) -> None:
        self._line(f"{'':<9} {line}")

    def doing(self, doing: Doing) -> None:
        now = time.monotonic()
        if doing.what == self._doing and now - self._told_s < _DOING_EVERY_S:
            return
        self._doing, self._told_s = doing.what, now
        self._line(f"{self._step[0]:<9} {doing.described()}")

    def progress(self, progress: Where) -> None:
        now = time.monotonic()
        if now - self._last_s < _PLAIN_EVERY_S and progress.iteration != progress.iterations:  # the last, if known
            return
        self._last_s = now
        self._line(f"{'train':<9} {described(progress)}")

    def _line(self, text: str) -> None:
        self._terminal.print(visible(text), markup=False, soft_wrap=True)  # one message, one line, whatever is in it
        self._heard()

    def _heard(self) -> None:
        """Does nothing while what is printed arrives. Raises: OSError: why it does not any more."""
        failure = streams.failure(self._terminal.file)
        if failure is not None:
            raise failure


class QuietConsole(PlainConsole):
    """Failures only."""

    def step(self, name: str, what: str) -> None:
        """Says nothing."""

    def done(self, name: str, seconds: float) -> None:
        """Says nothing."""

    def say(self, line: str) -> None:
        """Says nothing."""

    def doing(self, doing: Doing) -> None:
        """Says nothing."""

    def progress(self, progress: Where) -> None:
        """Says nothing."""


class LiveConsole(PlainConsole):
    """A tick per finished step, what of it is under way, and a moving bar while that, or training, is counted."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(terminal)
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def step(self, name: str, what: str) -> None:
        self._step = (name, what)
        self._bar = Progress(
            TextColumn("[cyan]{task.fields[step]:<9}[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            console=self._terminal,
            transient=True,  # its tick takes its place
        )
        self._task = self._bar.add_task(escape(what), total=1, start=False, step=name)
        self._bar.start()

    def done(self, name: str, seconds: float) -> None:
        self._close()
        self._terminal.print(f"[green]✓[/] {name:<9} {escape(self._step[1])} [dim]{seconds:.1f} s[/]")
        self._heard()

    def failed(self, name: str, why: str) -> None:
        self._close()
        self._terminal.print(f"[red]✗ {name:<9}[/]", end=" ")
        self._terminal.print(visible(why), markup=False, soft_wrap=True)

    def doing(self, doing: Doing) -> None:
        self._show(doing.described(), doing.done, doing.of)

    def progress(self, progress: Where) -> None:
        self._show(described(progress), progress.iteration, progress.iterations)

    def _show(self, text: str, completed: int, total: int) -> None:
        """``total`` 0: the bar only moves to and fro."""
        if self._bar is not None and self._task is not None:
            if total:
                self._bar.start_task(self._task)
            self._bar.update(self._task, completed=completed, total=total or None, description=escape(visible(text)))

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None


def described(progress: Where) -> str:
    """``progress`` in one line: iteration, loss, accuracy, time left."""
    parts = [f"iteration {progress.iteration}" + (f"/{progress.iterations}" if progress.iterations else "")]
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    if progress.accuracy is not None:
        parts.append(f"accuracy {progress.accuracy:.1%}")
    if progress.remaining_s is not None:
        parts.append(f"{progress.remaining_s:.0f} s left")
    return ", ".join(parts)
