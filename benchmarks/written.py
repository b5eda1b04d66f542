"""What every benchmark has alike: the options ``--quick`` and ``--write``, the form of what is written, how it ends.

::

    benchmarks/results/NAME.md                               NAME.json

    # TITLE                                                  {"command": ...,
                                                              "date": ...,
    * command: python -m benchmarks.NAME --repeats 1          ...
    * date: 2026-11-21T06:02:22+00:00                         and every figure}
    * commit; dirty: whether the tree differs from it
    * python, kernel, cores, user
    * loop_ms: what a million additions take in Python,
      at the end: times elsewhere are of another processor
    * load_before, load_at_end: processes that want a core,
      the mean of a minute; before: as the benchmark began
    * repeats; missed: of its bar
    * rooms: that it measures                                 with what stood in them: see rooms.py
    TABLES
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import timeit
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmarks import rooms
from benchmarks.launched import end_in_order
from e2c_dl.atomic_write import whole

Case = TypeVar("Case")
Measured = TypeVar("Measured")
RESULTS = Path(__file__).parent / "results"
_QUICK = f"{__name__}.quick"
_LOAD_BEFORE = os.getloadavg()[0]  # benchmarks import this before they do anything


def options(**smallest: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command ``--write``, its argument ``write``, and ``--quick``: other options default to ``smallest``.

    What is typed beside ``--quick`` holds. A quick result says that the benchmark works and nothing else, so that it
    cannot be written. Ctrl-C, SIGTERM and a closed terminal end the command in order: no process is left of it.
    """

    def quick(context: click.Context, _option: click.Parameter, chosen: bool) -> None:
        if chosen:
            context.meta[_QUICK], context.default_map = True, dict(smallest)

    def write(context: click.Context, _option: click.Parameter, chosen: bool) -> bool:
        if chosen and _QUICK in context.meta:
            raise click.UsageError("--quick measures too little to be written; leave out --quick or --write")
        return chosen

    def decorated(own: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(own)
        def command(*args: Any, **kwargs: Any) -> Any:
            end_in_order()
            return own(*args, **kwargs)

        command = click.option(
            "--write", is_flag=True, callback=write,
            help="Put the tables, and every figure as JSON, into benchmarks/results/.",
        )(command)  # fmt: skip
        return click.option(
            "--quick", is_flag=True, is_eager=True, expose_value=False, callback=quick,
            help="As little as shows that it works, in place of the defaults.",
        )(command)  # fmt: skip

    return decorated


def write(
    name: str, *, title: str, text: str, values: Mapping[str, object], repeats: int, missed: Sequence[str],
    part: str = "", folder: Path = RESULTS,
) -> None:  # fmt: skip
    """NAME.md (``text``, Markdown) and NAME.json (``values``) are in ``folder``, each replaced in one step.

    ``repeats``: how often each figure was measured; ``missed``: of the bar, a sentence each; ``part``: of NAME, which
    has a file of its own, NAME-PART.
    """
    folder.mkdir(exist_ok=True)
    measured = {room: _ROOMS_BEFORE[room] for room in rooms.rooms().get(name, ())}
    facts = {**_facts(), "repeats": repeats, "missed": list(missed)}
    said = {**facts, "missed": "; ".join(missed) or "nothing", "rooms": ", ".join(measured)}
    head = "\n".join(f"* {fact}: {value}" for fact, value in said.items())
    stem = f"{name}-{part}" if part else name
    _replace(folder / f"{stem}.json", json.dumps({**facts, "rooms": measured, **values}, indent=1))
    _replace(folder / f"{stem}.md", f"# {title}\n\n{head}\n\n{text.strip()}")


def unchanged(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What was written of NAME, if the rooms that it measures are still as they were; else nothing."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {} if rooms.changed(found["rooms"]) else found


def in_turn(
    measure: Callable[[Case], Measured],
    asked: Sequence[Case],
    table: Callable[[Sequence[Measured]], str],
    repeats: int = 1,
) -> list[Measured]:
    """What ``measure`` finds of each of ``asked``, ``repeats`` times in turns; rows of ``table`` are shown."""
    done = []
    for case in [*asked] * repeats:
        done.append(measure(case))
        click.echo(table(done[-1:]).splitlines()[-1], err=True)
    return done


def percent(part: float) -> str:
    """``part`` of 1 as READMEs spell it: ``5 %``."""
    return f"{part * 100:g} %"


def conclude(bar: str, missed: Sequence[str]) -> None:
    """Say what was ``missed`` of the ``bar``. Raises: ClickException if anything was; not with ``--quick``."""
    if not missed:
        click.echo(f"Held: {bar}.")
        return
    said = f"missed: {'; '.join(missed)} (asked for: {bar})"
    if _QUICK in click.get_current_context().meta:
        click.echo(f"Too little was measured to judge by, but {said}")
        return
    raise click.ClickException(said)


def _facts() -> dict[str, object]:
    commit, dirty = _COMMIT_BEFORE
    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),  # as typed, but for where this Python is
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "load_before": round(_LOAD_BEFORE, 2),
        "load_at_end": round(os.getloadavg()[0], 2),
        "loop_ms": round(min(timeit.repeat("total += 1", "total = 0", repeat=5, number=1_000_000)) * 1e3, 1),
    }


def _commit() -> tuple[str | None, bool | None]:
    """This tree's commit, and whether the tree differs from it; None where no git tells."""
    head, changes = (_git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--untracked-files=no"))
    return head or None, None if head is None or changes is None else bool(changes)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(RESULTS.parent), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:  # there is no git
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# As the benchmark began: what is changed while it runs is not what it measured.
_COMMIT_BEFORE = _commit()
_ROOMS_BEFORE = rooms.hashes(tuple({room for its in rooms.rooms().values() for room in its}))


def _replace(path: Path, text: str) -> None:
    with whole(path) as place:
        place.write_text(f"{text}\n", encoding="utf-8")
