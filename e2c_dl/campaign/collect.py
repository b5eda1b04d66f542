"""Collection of a run's traces: finalize, host by host into the archive, and what became of hosts and workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.records import HostEnding, WorkerOutcome
from e2c_dl.archive.redact import redacted
from e2c_dl.campaign.causes import Event, Known, explained
from e2c_dl.campaign.hosts.life import Silence
from e2c_dl.errors import ArchiveError
from e2c_dl.redaction import Redactor
from e2c_dl.topology import Host

E2CLAB_LOGS = (
    "e2clab.log",
    "e2clab.err",
    "layers_services-validate.yaml",
    "workflow-validate.out",
    "workflow-launch.out",
)


def keep_logs(output_dir: Path, others: Mapping[str, Path], archive: Path, redactor: Redactor) -> None:
    """Copy E2Clab's own logs, and ``others`` under their names, into ``archive``/logs, without what is secret."""
    logs = archive / layout.LOGS
    logs.mkdir(exist_ok=True)
    found = {name: output_dir / name for name in E2CLAB_LOGS} | dict(others)
    for name, path in found.items():
        if path.is_file():
            (logs / name).write_bytes(redacted(path.read_bytes(), redactor, log=True) or b"")


def keep_fetched(output_dir: Path, archive: Path) -> None:
    """Copy what else the workflow fetched into ``archive``/fetched: plain files, under their names below its folder."""
    for place, _, names in os.walk(output_dir):  # links are not followed
        below = Path(place).relative_to(output_dir)
        if below.parts[:1] == (layout.HOSTS,):
            continue
        for name in names:
            source = Path(place, name)
            if (below == Path() and name in E2CLAB_LOGS) or source.is_symlink() or not source.is_file():
                continue
            target = archive / layout.FETCHED / below / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def events(
    left: ReadArchive,
    hosts: Sequence[Host],
    *,
    silences: Sequence[Silence] = (),
    asked_to_stop: bool = False,
    kept: Container[str] = (),
) -> tuple[Event, ...]:
    """What happened to ``hosts`` by what they left in the archive; a record that is damaged is an event, too.

    Of hosts that are ``kept``, not all of that is there: no outcome means nothing.
    """
    outcomes: dict[str, WorkerOutcome | None] = {}
    endings: dict[str, HostEnding] = {}
    seen_s: dict[str, float] = {}
    errors: dict[str, str] = {}
    damaged = []
    for host in (each.name for each in hosts):
        records = left.host(host)
        try:
            outcome, ending, seen = records.outcome(), records.ending(), records.last_seen_s()
            errors[host] = "" if outcome else records.last_error()
        except ArchiveError as error:  # one host's damage is nobody else's
            damaged.append(Event(error=error, sentence=str(error)))
            continue
        outcomes |= {} if outcome is None and host in kept else {host: outcome}
        endings |= {} if ending is None else {host: ending}
        seen_s |= {} if seen is None else {host: seen}
    nothing = [host for host in outcomes if _left_nothing(left.host(host).path)]
    known = Known(
        outcomes=outcomes, left_nothing=nothing, seen_s=seen_s, endings=endings, silences=silences,
        errors=errors, asked_to_stop=asked_to_stop,
    )  # fmt: skip
    return (*explained(known), *damaged)


def _left_nothing(folder: Path) -> bool:
    """Whether no record of a host's worker is in ``folder``: what began it may have told of itself in its log."""
    files = (file for file in folder.glob("*") if file.name != layout.WORKER_LOG)
    return not any(file.is_file() and file.stat().st_size for file in files)
