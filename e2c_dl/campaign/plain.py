"""An archive of what plain `e2clab deploy` left: the scenario's folder named by date and time, which stays as it is.

::

    SCENARIO/20250131-101500/     hosts/1_1_1.tar.gz ...  what the workflow's finalize fetched, per host
                                  e2clab.log, ...         E2Clab's own
                 |                network-validate/ ...   fping's output, and whatever else was fetched
                 v
    SCENARIO/20250131-101500-archive/    the same to the byte however often it is made

A program of the user's (Horovod, TorchTraining, Flower) leaves what its own workflow fetched, and no hosts/: of it
there is an archive without a report.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.redact import redact
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import plain_records
from e2c_dl.campaign.collect import E2CLAB_LOGS, events, keep_fetched, keep_logs
from e2c_dl.campaign.hosts.gather import Kept, Source, gather
from e2c_dl.campaign.links.requested_links import write_links
from e2c_dl.campaign.plain_records import CarriedOut
from e2c_dl.campaign.underway import asked_for, trained
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.errors import ArchiveError, InputError
from e2c_dl.redaction import Redactor
from e2c_dl.report.page.html import write_report
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.folder.secret_values import redactor_of
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario

TESTBED = "as E2Clab reserved it"
NO_REPORT = (
    "there is no report: a program of one's own leaves no trace under plain E2Clab but what its workflow fetches; "
    "e2c-dl deploy gathers those of a service with trace: true"
)
_ID_DIGITS = 8
_CHUNK_BYTES = 1 << 20


def collect_plain(output_dir: Path, scenario_dir: Path, target: Path) -> None:
    """Make the archive ``target`` of E2Clab's ``output_dir``. What fails leaves nothing there.

    Raises: InputError if there is nothing of ours in ``output_dir``; ScenarioError, ArchiveError, AnalysisError.
    """
    output_dir = output_dir.resolve()
    scenario = load(scenario_dir)
    left = _packed(output_dir) if scenario.trained is not None else _written(output_dir)
    existed = target.exists()
    archive = Archive.create(target, _run_id(left), started=plain_records.started(output_dir))
    try:
        _filled(archive, output_dir, scenario, redactor_of(scenario_dir, os.environ))
    except BaseException:  # half an archive would stand in the way of the next try
        archive.let_go()
        for path in target.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if not existed:
            target.rmdir()
        raise


def _packed(output_dir: Path) -> list[Path]:
    """What finalize has fetched of each host. Raises: InputError."""
    packed = output_dir / layout.HOSTS
    if packed.is_dir():
        return sorted(packed.glob("*.tar.gz"))
    confs = sorted(str(path.parent) for path in output_dir.glob(f"*/{layout.HOSTS}"))
    remedy = f"name one of its configurations: {', '.join(confs)}" if confs else (
        "name the folder that E2Clab made, and see the workflow's finalize"
    )  # fmt: skip
    raise InputError(f"{packed}: no such folder; {remedy}")


def _written(output_dir: Path) -> list[Path]:
    """All that E2Clab and the workflow of a program of the user's left. Raises: InputError."""
    if not (plain_records.run_folder(output_dir) / plain_records.LOG).is_file():
        raise InputError(
            f"{output_dir}: has no {plain_records.LOG}; name the folder that E2Clab made, by date and time"
        )
    return sorted(path for path in output_dir.rglob("*") if path.is_file() and not path.is_symlink())


def _run_id(left: Sequence[Path]) -> str:
    """Of what is there: the same, however often that is collected."""
    digest = hashlib.sha256()
    for path in left:
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()[:_ID_DIGITS]


def _filled(archive: Archive, output_dir: Path, scenario: Scenario, redactor: Redactor) -> None:
    target, ours = archive.path, scenario.trained is not None
    archive.redactor = redactor
    copies.overridden(scenario.path, target / layout.SCENARIO, redactor=redactor)
    kept = _gathered(output_dir, scenario, target) if ours else ()
    _keep(output_dir, target, redactor)
    happened = [*(f"{each.host}: {each.why}" for each in kept), *_recorded(archive, output_dir, scenario)]
    if not ours:
        happened += plain_records.errors(output_dir)
        archive.limited(NO_REPORT)
    for sentence in happened:
        archive.happened(sentence)
    left = open_archive(target)
    outcomes = [each.ended_s for host in left.hosts if (each := left.host(host).outcome()) and each.ended_s]
    archive.end(Outcome.FAILED if happened else Outcome.FINISHED, plain_records.ended(output_dir, outcomes))
    for sentence in redact(target, redactor):
        archive.limited(sentence)
    if ours:
        left = open_archive(target)
        write_report(left, diagnose(left))
    archive.seal()


def _gathered(output_dir: Path, scenario: Scenario, target: Path) -> tuple[Kept, ...]:
    """Hosts of which not all is in ``target``. Raises: ArchiveError: nothing of any is."""
    packed, hosts = output_dir / layout.HOSTS, scenario.topology.ranks
    kept = gather(hosts, Source(packed=packed, state_dir=output_dir, accesses={}, spent=False), target)
    if len(kept) == len(hosts):  # some may be missing: a killed worker leaves nothing
        raise ArchiveError(f"{packed}: nothing of any host of {scenario.path}; is that the scenario that was deployed?")
    return kept


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
    if scenario.trained is None:
        return []
    return [event.sentence for event in events(left, scenario.topology.ranks)]
