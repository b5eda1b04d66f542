"""Progress of what has no steps: one moving line at a terminal.

A program that prints hundreds of lines is shown by its last one; where there is no terminal, every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PLAIN_EVERY_S = 5.0  # apt and compilers print hundreds of lines


@contextmanager
def underway(what: str) -> Iterator[None]:
    """While in it, ``what`` is going on stands at a terminal, and for how long; elsewhere there is silence."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    terminal = Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield
        return
    shown = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*shown, console=terminal, transient=True) as progress:
        progress.add_task(what)
        yield


@contextmanager
def told() -> Iterator[Callable[[str], None]]:
    """A function that shows a line of progress on standard error."""
    from rich.console import Console
    from rich.markup import escape

    terminal = Console(stderr=True, highlight=False)
    if terminal.is_terminal:
        with terminal.status("starting") as status:
            yield lambda line: status.update(escape(line[: terminal.width - 8]))  # what apt prints is no markup
        return
    last_s = -_PLAIN_EVERY_S  # so that the first line is shown at once

    def tell(line: str) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _PLAIN_EVERY_S:
            last_s = time.monotonic()
            terminal.print(line, markup=False, soft_wrap=True)

    yield tell
