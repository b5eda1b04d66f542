"""What a rank says of its own tracing: tracing.json, which is written anew when there is more to say.

::

    begins          which rank of how many, on which machine, when
    hooked          what of the script's libraries               written by the thread that writes spans, with the next
    limitations     what could not be seen, a sentence each      of them: a kill costs at most the last second
    wrote           traces of the script's own                   at once: the script may end right behind it
    ends            the same, and the clocks as they are then
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from e2c_dl.errors import E2cDlError
from e2c_dl.tracing import folder
from e2c_dl.tracing.rendezvous import Ranks


class Said:
    """One rank's. Any thread may add to it; what a fork inherits of it writes nothing."""

    def __init__(self) -> None:
        self.limitations: list[str] = []
        self._hooked: list[str] = []
        self._wrote: list[str] = []
        self._begun: dict[str, Any] = {}
        self._place: tuple[Path, Ranks] | None = None
        self._stale = False  # there is more to say than the file does
        self._alone = False  # no thread writes spans, which would write this as well
        self._writing = threading.RLock()  # a signal's handler may add something, too

    def begin(self, path: Path, ranks: Ranks, layer: str) -> None:
        """From now on it stands in the folder ``path``. Raises: OSError."""
        self._begun = {"layer": layer, "begun_s": time.time()}
        self._place, self._alone = (path, ranks), False
        self.write()

    def move_out(self) -> None:
        """The folder is gone, or will be."""
        self._place = None

    def limited(self, sentence: str) -> None:
        """One more sentence of what could not be seen."""
        self._add(self.limitations, sentence)

    def hooked(self, what: str) -> None:
        """One more of the script's libraries, or of their parts."""
        self._add(self._hooked, what)

    def wrote(self, path: str | os.PathLike[str]) -> None:
        """The script itself has written a trace there, or will."""
        try:
            self._add(self._wrote, os.path.abspath(os.fspath(path)))
        except (OSError, TypeError) as error:  # the directory is gone, or it is no path that this knows
            self.limited(f"{path}: a trace of the script's own is not in the archive: {error}")
        self.refresh()

    def alone(self) -> None:
        """Nobody writes spans any more: whatever comes is written at once."""
        self._alone = True
        self.refresh()

    def refresh(self) -> None:
        """Write what is not in the file yet. If that fails, it is tried again with the next."""
        if self._stale and self._place is not None:
            with suppress(E2cDlError, OSError):  # a full disk, of which the end of the spans tells
                self.write()

    def write(self) -> None:
        """Write all of it. Raises: OSError."""
        if self._place is None or self._place[1].own.pid != os.getpid():
            return
        with self._writing:
            self._stale = False
            told = {**self._begun, "hooked": self._hooked, "wrote": self._wrote, "limitations": self.limitations}
            try:
                folder.tell(*self._place, told)
            except OSError:
                self._stale = True
                raise

    def _add(self, to: list[str], what: str) -> None:
        if what in to:
            return
        to.append(what)
        self._stale = True
        if self._alone:
            self.refresh()


def first_line(error: Exception) -> str:
    """What ``error`` says."""
    return str(error).partition("\n")[0] or type(error).__name__  # torch's have C++'s stack below


def to_standard_error(line: str) -> None:
    """Tell who looks at what the script writes."""
    with suppress(Exception):  # a script may have none, or one on a disk that is full
        sys.stderr.write(f"e2c-dl: {line}\n")
