"""What every benchmark has alike: the options ``--quick`` and ``--write``, and the form of what is written.

::

    benchmarks/results/NAME.md                               NAME.json

    # TITLE                                                  {"command": ...,
                                                              "date": ...,
    * command: python -m benchmarks.NAME --repeats 1          ...
    * date: 2026-11-21T06:02:22+00:00                         and every figure}
    * python, kernel, cores, user
    * load_before, load_at_end: processes that want a core,
      the mean of a minute; before: as the benchmark began
    TABLES
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from e2c_dl.atomic_write import whole

RESULTS = Path(__file__).parent / "results"
_QUICK = f"{__name__}.quick"
_LOAD_BEFORE = os.getloadavg()[0]  # benchmarks import this before they do anything


def options(**smallest: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command ``--write``, its argument ``write``, and ``--quick``: other options default to ``smallest``.

    What is typed beside ``--quick`` holds. A quick result says that the benchmark works and nothing else, so that it
    cannot be written.
    """

    def quick(context: click.Context, _option: click.Parameter, chosen: bool) -> None:
        if chosen:
            context.meta[_QUICK], context.default_map = True, dict(smallest)

    def write(context: click.Context, _option: click.Parameter, chosen: bool) -> bool:
        if chosen and _QUICK in context.meta:
            raise click.UsageError("--quick measures too little to be written; leave out --quick or --write")
        return chosen

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--write", is_flag=True, callback=write,
            help="Put the tables, and every figure as JSON, into benchmarks/results/.",
        )(command)  # fmt: skip
        return click.option(
            "--quick", is_flag=True, is_eager=True, expose_value=False, callback=quick,
            help="As little as shows that it works, in place of the defaults.",
        )(command)  # fmt: skip

    return decorated


def write(name: str, *, title: str, text: str, values: Mapping[str, object], folder: Path = RESULTS) -> None:
    """NAME.md (``text``, Markdown) and NAME.json (``values``) are in ``folder``, each replaced in one step."""
    folder.mkdir(exist_ok=True)
    facts = _facts()
    said = "\n".join(f"* {fact}: {value}" for fact, value in facts.items())
    _replace(folder / f"{name}.json", json.dumps({**facts, **values}, indent=1))
    _replace(folder / f"{name}.md", f"# {title}\n\n{said}\n\n{text.strip()}")


def _facts() -> dict[str, object]:
    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),  # as typed, but for where this Python is
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "load_before": round(_LOAD_BEFORE, 2),
        "load_at_end": round(os.getloadavg()[0], 2),
    }


def _replace(path: Path, text: str) -> None:
    with whole(path) as place:
        place.write_text(f"{text}\n", encoding="utf-8")
