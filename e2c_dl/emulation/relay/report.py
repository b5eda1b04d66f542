"""The relay's report: its values, and writing it without ever making the network wait for a disk.

Replacing a file can block for tens of milliseconds on a busy disk, so a thread does it; the event loop only hands over
a snapshot of the counters, once a second.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from e2c_dl.atomic_write import whole
from e2c_dl.emulation.relay.switch import SwitchReport


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
    changes: int  # of links and bottlenecks, that were asked for while it ran
    changes_refused: int  # requests, malformed ones among them
    overruns: dict[str, int]  # host -> frames lost before the relay could read them, counted by the kernel


LATE_SHARE = 0.01  # of the pieces on a link, more than 1 ms after their due time: beyond it, the link was not as asked


def limitations(report: RelayReport, reserved_cores: float) -> tuple[str, ...]:
    """One sentence for everything because of which the network may not have been as asked. Empty: the relay kept up."""
    found = [
        f"the relay lost {lost['host']} after {lost['after_s']:.1f} s: {lost['why']}" for lost in report["hosts_lost"]
    ]
    found += [
        f"{host}: {frames} frames overran the relay, and are counted on no link"
        for host, frames in report["overruns"].items()
        if frames
    ]
    if report["changes_refused"]:
        found.append(
            f"the relay refused {report['changes_refused']} changes or questions; see changes.jsonl of the hosts"
        )
    if not report["final"]:
        found.append(f"the relay did not end in order; its last report is of {report['seconds']:.0f} s after its start")
    found += [
        f"{link['src']} -> {link['dst']}: the relay delivered {link['late'] / link['timed']:.1%} more than 1 ms late "
        f"(worst {link['lateness_max_s'] * 1e3:.1f} ms)"
        for link in report["links"]
        if link["late"] > LATE_SHARE * link["timed"]
    ]
    cores = report["cpu_s"] / report["seconds"] if report["seconds"] else 0.0
    if cores > reserved_cores:
        found.append(
            f"the relay used {cores:.2f} cores, {reserved_cores:g} were kept for it: hosts had less than planned"
        )
    return tuple(found)


def write_report(path: Path, report: RelayReport) -> None:
    """Replaces the report on disk as a whole: a reader sees the old or the new one. Raises: OSError."""
    with whole(path) as place:
        place.write_text(json.dumps(report), encoding="utf-8")


class BackgroundReports:
    """Writes reports to ``path`` in a thread, in order, until ``close``; completes them with ``overruns()``.

    A full disk must not stop the network: it is told on stderr, and the final report, which is not written here, fails.
    """

    def __init__(self, path: Path, overruns: Callable[[], dict[str, int]]) -> None:
        self._path, self._overruns = path, overruns
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
                write_report(self._path, {**report, "overruns": self._overruns()})
            except OSError as error:
                print(f"relay: cannot write its report: {error}", file=sys.stderr, flush=True)
