"""Programs that tell their progress on a pipe: each line is passed on as it comes, the last ones are kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from typing import IO

Tell = Callable[[str], None]
"""Gets every line of progress."""

_LAST_LINES = 5


def followed(
    process: subprocess.Popen[bytes], output: IO[bytes] | None, tell: Tell, keep: int = _LAST_LINES
) -> list[str]:
    """Tell every line of ``output`` until ``process`` ends, which it does if this is interrupted; the last lines."""
    last: list[str] = []
    try:
        for line in _lines(output):
            tell(line)
            last = [*last, line][-keep:]
    except BaseException:  # Ctrl-C too: nobody would wait for it any more
        _kill(process)
        raise
    finally:
        process.wait()
        if output is not None:
            output.close()
    return last


def _lines(output: IO[bytes] | None) -> Iterable[str]:
    for raw in output or ():
        text = raw.decode(errors="replace").strip()
        if text:
            yield text


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End ``process``; where it leads a group, all that it has started too."""
    if process.poll() is None and os.getpgid(process.pid) == process.pid:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
