"""Links in an archive, designed, requested and measured side by side: of a run, and as measured again by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.write import amend
from e2c_dl.campaign.links.matrix import Matrix
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.errors import AnalysisError, ArchiveError, EmulationError
from e2c_dl.report.page.html import write_report
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Pair


def write_links(archive: ReadArchive, scenario: Scenario) -> tuple[str, ...]:
    """Write links.json, one row per link that was shaped or measured; a sentence per link that is not as requested.

    Raises: ArchiveError for a damaged file, or one that cannot be written.
    """
    requested, tried = scenario.emulated_topology(), _tried(archive)
    row_of = partial(LinkFidelity.of, designed=scenario.topology, requested=requested)
    rows = []
    for pair in sorted({*requested.links, *tried}):
        seen = tried.get(pair)
        rows.append(row_of(*pair, measured=seen.measured if seen else None, failed=seen.failed if seen else ""))
    archive.write_links([row.to_json() for row in rows])
    return tuple(sentence for row in rows for sentence in row.deviations())


def store(path: Path, matrix: Matrix) -> None:
    """links.json has the rows of ``matrix`` in place of its own of the same links; a sealed archive vouches for them.

    Links that could not be measured keep what stands there. Raises: ArchiveError, EmulationError for a damaged row.
    """
    archive = open_archive(path)
    rows = {(row.src, row.dst): row for row in map(LinkFidelity.from_json, archive.links())}
    rows |= {(row.src, row.dst): row for row in matrix.links if row.measured is not None}
    archive.write_links([rows[pair].to_json() for pair in sorted(rows)])
    written = [layout.LINKS]  # links.json beside the old bottlenecks: those not measured again still hold
    if matrix.bottlenecks:
        archive.write_bottlenecks([row.to_json() for row in matrix.bottlenecks])
        written.append(layout.BOTTLENECKS)
    if (path / layout.MANIFEST).is_file():
        amend(path, written)  # or `verify` would call them altered
    try:
        left = open_archive(path)
        write_report(left, diagnose(left))
    except AnalysisError:
        return  # a run without a trace has no report to renew


def _tried(archive: ReadArchive) -> Mapping[Pair, LinkFidelity]:
    found: dict[Pair, LinkFidelity] = {}
    for host in archive.hosts:
        try:
            rows = [LinkFidelity.from_json(row) for row in archive.host(host).links()]
        except EmulationError as error:
            raise ArchiveError(f"{host}: its {error}") from error
        found |= {(row.src, row.dst): row for row in rows}
    return found
