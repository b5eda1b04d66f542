"""An archive of what plain `e2clab deploy` left: the scenario's folder named by date and time, which stays as it is.

::

    SCENARIO/20250131-101500/     hosts/1_1_1.tar.gz ...  what the workflow's finalize fetched, per host
                                  e2clab.log, ...         E2Clab's own
                 |                network-validate/ ...   fping's output, and whatever else was fetched
                 v
    SCENARIO/20250131-101500-archive/    the same to the byte however often it is made
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.redact import redact
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import plain_records
from e2c_dl.campaign.collect import E2CLAB_LOGS, events, keep_fetched, keep_logs
from e2c_dl.campaign.hosts.gather import Source, gather
from e2c_dl.campaign.links.requested_links import write_links
from e2c_dl.campaign.plain_records import CarriedOut
from e2c_dl.campaign.underway import asked_for, trained
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import ArchiveError, InputError
from e2c_dl.redaction import Redactor
from e2c_dl.report.page.html import write_report
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.folder.secret_values import redactor_of
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario

TESTBED = "as E2Clab reserved it"
_ID_DIGITS = 8
_CHUNK_BYTES = 1 << 20


def collect_plain(output_dir: Path, scenario_dir: Path, target: Path) -> Report:
    """Make the archive ``target`` of E2Clab's ``output_dir``. What fails leaves nothing there.

    Raises: InputError if there is nothing of ours in ``output_dir``; ScenarioError, ArchiveError, AnalysisError.
    """
    output_dir = output_dir.resolve()
    scenario = load(scenario_dir)
    packed = _packed(output_dir)
    existed = target.exists()
    archive = Archive.create(target, _run_id(packed), started=plain_records.started(output_dir))
    try:
        return _filled(archive, output_dir, scenario, redactor_of(scenario_dir, os.environ))
    except BaseException:  # half an archive would stand in the way of the next try
        archive.let_go()
        for path in target.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if not existed:
            target.rmdir()
        raise


def _packed(output_dir: Path) -> Path:
    """Where finalize has put what it fetched. Raises: InputError."""
    packed = output_dir / layout.HOSTS
    if packed.is_dir():
        return packed
    confs = sorted(str(path.parent) for path in output_dir.glob(f"*/{layout.HOSTS}"))
    remedy = f"name one of its configurations: {', '.join(confs)}" if confs else (
        "name the folder that E2Clab made, and see the workflow's finalize"
    )  # fmt: skip
    raise InputError(f"{packed}: no such folder; {remedy}")


def _run_id(packed: Path) -> str:
    """Of what was fetched: the same, however often that is collected."""
    digest = hashlib.sha256()
    for path in sorted(packed.glob("*.tar.gz")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()[:_ID_DIGITS]


def _filled(archive: Archive, output_dir: Path, scenario: Scenario, redactor: Redactor) -> Report:
    target, packed, hosts = archive.path, output_dir / layout.HOSTS, scenario.topology.ranks
    archive.redactor = redactor
    copies.overridden(scenario.path, target / layout.SCENARIO, redactor=redactor)
    kept = gather(hosts, Source(packed=packed, state_dir=output_dir, accesses={}, spent=False), target)
    if len(kept) == len(hosts):  # some may be missing: a killed worker leaves nothing
        raise ArchiveError(f"{packed}: nothing of any host of {scenario.path}; is that the scenario that was deployed?")
    _keep(output_dir, target, redactor)
    happened = [*(f"{each.host}: {each.why}" for each in kept), *_recorded(archive, output_dir, scenario)]
    for sentence in happened:
        archive.happened(sentence)
    left = open_archive(target)
    outcomes = [each.ended_s for host in left.hosts if (each := left.host(host).outcome()) and each.ended_s]
    archive.end(Outcome.FAILED if happened else Outcome.FINISHED, plain_records.ended(output_dir, outcomes))
    for sentence in redact(target, redactor):
        archive.limited(sentence)
    left = open_archive(target)
    diagnosis = diagnose(left)
    write_report(left, diagnosis)
    archive.seal()
    return diagnosis.report


def _keep(output_dir: Path, target: Path, redactor: Redactor) -> None:
    """E2Clab's logs and what else there is in its folder; of a configuration, those of the whole run too."""
    above = plain_records.run_folder(output_dir)
    keep_logs(output_dir, {name: above / name for name in E2CLAB_LOGS if not (output_dir / name).is_file()}, target,
              redactor)  # fmt: skip
    keep_fetched(output_dir, target)


def _recorded(archive: Archive, output_dir: Path, scenario: Scenario) -> list[str]:
    """run.json and links.json say what was asked for and what of it was done; what happened to hosts and workers."""
    left = open_archive(archive.path)
    carried = CarriedOut.of(scenario, left)
    effective = carried.effective  # what nobody put in force was not asked of anybody
    archive.record(
        **asked_for(effective),
        testbed=TESTBED,
        versions=carried.versions(),
        hosts=carried.hosts(),
        emulation=carried.recorded(),
        facts={
            **trained(scenario), "app_conf": plain_records.app_conf(output_dir), "jobs": plain_records.jobs(output_dir),
        },
    )  # fmt: skip
    for sentence in (*carried.limitations(), *(f"link {each}" for each in write_links(left, effective))):
        archive.limited(sentence)
    return [event.sentence for event in events(left, scenario.topology.ranks)]
