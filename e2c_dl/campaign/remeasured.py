"""What was measured by hand, put into the archive of the run it was measured on; its report shows it from then on."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.write import amend
from e2c_dl.campaign.matrix import Matrix
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.errors import AnalysisError
from e2c_dl.report.page.html import write_report


def store(path: Path, matrix: Matrix) -> None:
    """links.json has the rows of ``matrix`` in place of its own of the same links; a sealed archive vouches for them.

    Links that could not be measured keep what stands there. Raises: ArchiveError, EmulationError for a damaged row.
    """
    archive = open_archive(path)
    rows = {(row.src, row.dst): row for row in map(LinkFidelity.from_json, archive.links())}
    rows |= {(row.src, row.dst): row for row in matrix.links if row.measured is not None}
    archive.write_links([rows[pair].to_json() for pair in sorted(rows)])
    written = [layout.LINKS]
    if matrix.bottlenecks:
        archive.write_bottlenecks([row.to_json() for row in matrix.bottlenecks])
        written.append(layout.BOTTLENECKS)
    if (path / layout.MANIFEST).is_file():
        amend(path, written)
    try:
        left = open_archive(path)
        write_report(left, diagnose(left))
    except AnalysisError:
        return  # a run without a trace has no report to renew
