"""Command ``e2c-dl watch``: the verdict on a run's last iterations, while it trains."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options
from e2c_dl.errors import InputError

if TYPE_CHECKING:
    from e2c_dl.report.live import Now
    from e2c_dl.testbeds.registry import RegisteredRun

SHARE = 0.2  # of one processor that watching takes at most, and that only where nobody else wants it
LEAST_PAUSE_S = 0.3
NICENESS = 10  # a tenth of a worker's share where both want a processor; with less it would see nothing there


@click.command()
@click.argument("run", required=False)
@click.option("--last", type=click.IntRange(min=4), default=12, show_default=True, help="Judge as many iterations.")
@click.option("--page", type=options.PATH, help="Also keep a page there that loads itself anew (HTML).")
@click.option("--once", is_flag=True, help="Say what can be said now, and end.")
@options.as_json("Print a line of JSON whenever the verdict changes, and when training is over; nothing else.")
def watch(run: str | None, last: int, page: Path | None, once: bool, as_json: bool) -> None:
    """Show what slows RUN down while it trains: the verdict on its last iterations [default: the run that is up].

    Ends when the run trains no more; Ctrl-C ends the watching alone. It reads what hosts append to their traces and
    asks nothing of the run. Judging few iterations is quick to see a departure, many do not take noise for one.
    """
    from e2c_dl.campaign.watch.watch import Watch

    found = _up(run)
    os.nice(NICENESS)
    with Watch(found, last=last) as watched, _Lines(page) if as_json else _Shown(page) as shown:
        over = False
        while not over:
            begun_s = time.process_time()  # of a processor: what it had to wait for one is nobody's loss
            now = watched.look()
            if now is not None:
                shown.show(now)
            over = once or (now is not None and now.over)
            spent_s = time.process_time() - begun_s
            time.sleep(0 if over else max(LEAST_PAUSE_S, spent_s / SHARE - spent_s))
    if not as_json:
        click.echo(f"archive  {found.archive}")


def _up(run: str | None) -> RegisteredRun:
    """The run that is meant. Raises: InputError; ArchiveError if a folder is named that is no archive."""
    from e2c_dl.archive.run import read_run
    from e2c_dl.cli.machine import tell_broken
    from e2c_dl.testbeds import registry

    if run is None:
        tell_broken()
    if run is None or not Path(run).is_dir():
        return registry.up(run)
    found = read_run(Path(run))
    try:
        return registry.up(found.run_id)
    except InputError as error:
        if not found.ended:
            raise
        raise InputError(f"{run}: the run is over; `e2c-dl report {run}` says what slowed it down") from error


def _verdict(now: Now) -> str:
    """What makes a new line worth while: who is named, and for what, or why nobody can be; that it stands still."""
    if now.standstill:
        return now.standstill
    if now.diagnosis is None:
        return now.not_yet[0] if now.not_yet else ""
    culprits = now.diagnosis.report.culprits
    return ", ".join(sorted(f"{each.element} {each.part.value}" for each in culprits)) or "nobody"


class _Lines:
    """A line of JSON when the verdict changes, and when the run is over."""

    def __init__(self, page: Path | None) -> None:
        self._page, self._said = page, ("", False)

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def show(self, now: Now) -> None:
        """``now``, wherever it is looked at."""
        from e2c_dl.report import live

        if (said := (_verdict(now), now.over)) != self._said:
            click.echo(json.dumps(live.as_json(now)))
            self._said = said
        if self._page is not None:
            live.write_page(now, self._page)


class _Shown:
    """What is shown: at a terminal in place of what was shown before, else a line when the verdict changes."""

    def __init__(self, page: Path | None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._page, self._said = page, ""
        console = Console(highlight=False)
        self._live = Live(console=console, auto_refresh=False) if sys.stdout.isatty() else None

    def __enter__(self) -> _Shown:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, now: Now) -> None:
        """``now``, wherever it is looked at."""
        from e2c_dl.formatting import visible
        from e2c_dl.report import live

        if self._live is not None:
            self._live.update(live.on_terminal(now), refresh=True)
        elif (verdict := _verdict(now)) != self._said:
            click.echo(visible(verdict if now.diagnosis is None else live.headline(now), breaks=""))
            self._said = verdict
        if self._page is not None:
            live.write_page(now, self._page)
