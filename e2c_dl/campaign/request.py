"""Requests of a run as a user makes them, and the console that a run tells of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from e2c_dl.archive.records import Progress


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run, as asked for on the command line. Paths are absolute."""

    scenario: Path
    artifacts: Path
    testbed: str  # its name: local
    options: Mapping[str, str] = field(default_factory=dict)  # what was said about the testbed: inventory, image
    archive: Path | None = None  # None: runs/SCENARIO-TIME-RUN in the working directory
    strict: bool = False  # a link that measures differently than asked is an error
    seed: int | None = None  # places the injected departures anew
    healthy: bool = False  # leaves the injected departures out
    keep: bool = False  # leaves the hosts up when the run has ended
    command: tuple[str, ...] = ()  # what was typed; kept in the archive


class Console(Protocol):
    """Who listens to a run. Called from the main thread and, for ``progress``, from one other."""

    def step(self, name: str, what: str) -> None:
        """A step begins; ``what`` is a sentence for people."""
        ...

    def done(self, name: str, seconds: float) -> None: ...

    def failed(self, name: str, why: str) -> None: ...

    def say(self, line: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...
