"""Launchers of ranks (torchrun, horovodrun), run to their end. Who ends the benchmark ends them, and all ranks.

::

    this process    --Ctrl-C, SIGTERM, a closed terminal-->  KeyboardInterrupt: folders are removed as it passes
    the launcher    --SIGTERM, after ENDS_WITHIN_S SIGKILL-> ends its ranks; it has a session of its own
    its ranks       --SIGKILL------------------------------> those that are still there
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ENDS_WITHIN_S = 10.0
_SAID_BYTES = 2000


def end_in_order() -> None:
    """From now on SIGTERM and a closed terminal end this process as Ctrl-C does, unless they are ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def launched(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """(exit status, the end of what it complained of) of ``argv``; nothing of it is left running."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        try:
            status = process.wait()
        finally:
            if process.poll() is None:
                _end(process)
        said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES))
        return status, said.read().decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    begun = _below(process.pid)
    process.terminate()
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid, born in begun.items():
        told = _told(pid)
        if told is not None and told.born == born:  # not another one of the same number
            os.kill(pid, signal.SIGKILL)


class _Told(NamedTuple):
    """What the kernel tells of a process."""

    parent: int
    born: str  # in the kernel's own count


def _below(pid: int) -> dict[int, str]:
    """What ``pid`` has started, what that has, and so on: number, and when it was started."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    known = {number: told for number in numbers if (told := _told(number)) is not None}
    found: dict[int, str] = {}
    reached = {pid}
    while reached:
        reached = {number for number, told in known.items() if told.parent in reached}
        found |= {number: known[number].born for number in reached}
    return found


def _told(pid: int) -> _Told | None:
    """None: it is no more."""
    try:
        state, parent, *more = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else _Told(int(parent), more[17])
