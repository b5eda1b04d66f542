"""An archive of what plain `e2clab deploy` left: the scenario's folder named by date and time."""

from __future__ import annotations

import os
import secrets
from datetime import datetime, timezone
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.redact import redact
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.collect import events, keep_fetched, keep_logs
from e2c_dl.campaign.hosts.gather import Source, gather
from e2c_dl.campaign.links.requested_links import write_links
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import ArchiveError, InputError
from e2c_dl.report.page.html import write_report
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.folder.secret_values import redactor_of
from e2c_dl.scenario.load import load

AS_APPLIED = (
    "network as E2Clab applied it: its rules overwrite each other, so believe the measured links, not the requests"
)


def collect_plain(output_dir: Path, scenario_dir: Path, target: Path) -> Report:
    """Make the archive ``target`` of E2Clab's ``output_dir``.

    Raises: InputError if there is nothing of ours in ``output_dir``; ScenarioError, ArchiveError, AnalysisError.
    """
    scenario = load(scenario_dir)
    packed = output_dir / layout.HOSTS
    if not packed.is_dir():
        raise InputError(f"{packed}: no such folder; name the folder that E2Clab made, and see the workflow's finalize")
    begun = datetime.fromtimestamp(output_dir.stat().st_mtime, timezone.utc).astimezone()  # it records no times
    archive = Archive.create(target, secrets.token_hex(4), started=begun.isoformat(timespec="seconds"))
    archive.redactor = redactor = redactor_of(scenario_dir, os.environ)
    copies.overridden(scenario_dir, target / layout.SCENARIO, redactor=redactor)
    archive.record(
        scenario=scenario.name,
        testbed="as E2Clab reserved it",
        seeds={"training": scenario.seed, "injected": scenario.injected.seed},
        emulation={"backend": "e2clab", "compute": {"method": "sleep"}},  # a quota would need the hosts' cgroups
    )
    archive.limited(AS_APPLIED)
    hosts = scenario.topology.ranks
    kept = gather(hosts, Source(packed=packed, state_dir=output_dir, accesses={}), target)
    if len(kept) == len(hosts):  # some may be missing: a killed worker leaves nothing
        raise ArchiveError(f"{packed}: nothing of any host of {scenario_dir}; is that the scenario that was deployed?")
    keep_logs(output_dir, {}, target, redactor)
    keep_fetched(output_dir, target)
    left = open_archive(target)
    happened = [*(f"{each.host}: {each.why}" for each in kept), *(event.sentence for event in events(left, hosts))]
    for sentence in [*happened, *write_links(left, scenario)]:
        archive.happened(sentence)
    ended = datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    archive.end(Outcome.FAILED if happened else Outcome.FINISHED, ended)
    for sentence in redact(target, redactor):
        archive.limited(sentence)
    left = open_archive(target)
    diagnosis = diagnose(left)
    write_report(left, diagnosis)
    archive.seal()
    return diagnosis.report
