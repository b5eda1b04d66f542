"""Every link designed, requested and measured, side by side: from what each host measured of its outgoing links."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.errors import ArchiveError
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Pair


def joined(archive: ReadArchive, scenario: Scenario) -> tuple[LinkFidelity, ...]:
    """One row per link that was shaped or measured, sorted by name. Raises: ArchiveError for a damaged file."""
    requested = scenario.emulated_topology()
    measured = _measured(archive)
    return tuple(
        LinkFidelity.of(src, dst, designed=scenario.topology, requested=requested, measured=measured.get((src, dst)))
        for src, dst in sorted({*requested.links, *measured})
    )


def _measured(archive: ReadArchive) -> Mapping[Pair, Measured]:
    found: dict[Pair, Measured] = {}
    for host in archive.hosts:
        path = archive.path / layout.HOSTS / host / layout.HOST_LINKS
        if path.is_file():
            try:
                rows: list[dict[str, Any]] = json.loads(path.read_text())
                found |= {
                    (row["src"], row["dst"]): Measured.from_json(row["measured"]) for row in rows if row["measured"]
                }
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ArchiveError(f"{path}: is not what a worker writes ({error}); the archive is damaged") from error
    return found
