"""Progress of a program that prints hundreds of lines: one moving line at a terminal, else one every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PLAIN_EVERY_S = 5.0  # apt and compilers print hundreds of lines


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
