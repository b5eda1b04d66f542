"""What a user asks of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Request:
    """One simulated run, as asked for on the command line. Paths are absolute."""

    scenario: Path
    archive: Path | None = None  # None: runs/SCENARIO-TIME-RUN in the working directory
    profile: Path | None = None  # None: profile.json in the scenario's folder
    shapes_only: bool = False  # nothing is trained: times and bytes alone
    seed: int | None = None  # places the injected departures anew
    healthy: bool = False  # leaves the injected departures out
    command: tuple[str, ...] = ()  # what was typed; kept in the archive
