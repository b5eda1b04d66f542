"""Writing a report into its archive: report.json for programs, report.html for people."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.write import amend
from e2c_dl.diagnosis.activity import Activity
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import ArchiveError
from e2c_dl.report.page.html import Source, build
from e2c_dl.report.page.panels import read as read_schedules
from e2c_dl.report.plain import to_json


def write_report(archive: ReadArchive, report: Report, activity: Activity | None = None) -> Path:
    """Where the page stands; report.json stands beside it. A sealed archive vouches for both from then on.

    Raises: ArchiveError if a piece of the archive is damaged or the files cannot be written.
    """
    page = build(source(archive, report, activity))
    written = {layout.REPORT_JSON: to_json(report), layout.REPORT_HTML: page}
    for name, text in written.items():
        try:
            (archive.path / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise ArchiveError(f"{archive.path / name}: cannot be written: {error.strerror}") from error
    if (archive.path / layout.MANIFEST).is_file():
        amend(archive.path, tuple(written))
    return archive.path / layout.REPORT_HTML


def source(archive: ReadArchive, report: Report, activity: Activity | None = None) -> Source:
    """What a page is built from, as ``archive`` holds it. Raises: ArchiveError for a damaged piece."""
    leader = next((host.host for host in report.hosts if host.rank == 0), None)
    return Source(
        run=archive.run,
        report=report,
        links=archive.links(),
        bottlenecks=archive.bottlenecks(),
        activity=activity,
        progress=archive.progress(leader) if leader is not None else (),
        changed=read_schedules(archive),
    )
