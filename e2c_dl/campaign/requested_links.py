"""Every link designed, requested and measured, side by side: from what each host measured of its outgoing links."""

from __future__ import annotations

from collections.abc import Mapping

from e2c_dl.archive.read import ReadArchive
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.errors import ArchiveError, EmulationError
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Pair


def write_links(archive: ReadArchive, scenario: Scenario) -> tuple[str, ...]:
    """Write links.json, one row per link that was shaped or measured; a sentence per link that is not as requested.

    Raises: ArchiveError for a damaged file, or one that cannot be written.
    """
    requested, measured = scenario.emulated_topology(), _measured(archive)
    rows = [
        LinkFidelity.of(
            src, dst, designed=scenario.topology, requested=requested, measured=measured.get((src, dst))
        )
        for src, dst in sorted({*requested.links, *measured})
    ]  # fmt: skip
    archive.write_links([row.to_json() for row in rows])
    return tuple(sentence for row in rows for sentence in row.deviations())


def _measured(archive: ReadArchive) -> Mapping[Pair, Measured]:
    found: dict[Pair, Measured] = {}
    for host in archive.hosts:
        try:
            rows = [LinkFidelity.from_json(row) for row in archive.host(host).links()]
        except EmulationError as error:
            raise ArchiveError(f"{host}: its {error}") from error
        found |= {(row.src, row.dst): row.measured for row in rows if row.measured is not None}
    return found
