"""The relay's report: its values, and writing it without ever making the network wait for a disk.

Replacing a file can block for tens of milliseconds on a busy disk, so a thread does it; the event loop only hands over
a snapshot of the counters, once a second.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TypedDict

from e2c_dl.emulation.switch import SwitchReport


class HostLost(TypedDict):
    """A host whose interface went away while the relay ran."""

    host: str
    after_s: float  # since the relay was ready
    why: str


class RelayReport(SwitchReport):
    """The relay's report. ``final``: it is the last one, written on the way out."""

    final: bool
    seconds: float  # since the relay was ready
    cpu_s: float  # that the relay used in them
    scheduler: str
    hosts_lost: list[HostLost]


def write_report(path: Path, report: RelayReport) -> None:
    """Replaces the report on disk as a whole: a reader sees the old or the new one. Raises: OSError."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report), encoding="utf-8")
    os.replace(part, path)


class BackgroundReports:
    """Writes reports to ``path`` in a thread, in order, until ``close``.

    A full disk must not stop the network: it is told on stderr, and the final report, which is not written here, fails.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reports: queue.SimpleQueue[RelayReport | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="reports", daemon=True)
        self._thread.start()

    def put(self, report: RelayReport) -> None:
        """Returns at once; ``report`` must not be changed any more."""
        self._reports.put(report)

    def close(self) -> None:
        """Returns when everything handed over is written."""
        self._reports.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                write_report(self._path, report)
            except OSError as error:
                print(f"relay: cannot write its report: {error}", file=sys.stderr, flush=True)
