"""From what finalize fetched to an archive's ``hosts/``: one packed file per host, named by E2Clab's service id."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.errors import ArchiveError
from e2c_dl.scenario.model import Scenario

KEPT = (
    layout.SPANS_RAW,
    layout.METRICS,
    layout.FACTS,
    layout.CLOCK,
    layout.HOST_LINKS,
    layout.PROGRESS,
    layout.CHANGES,
    layout.WORKER_CHANGES,
    layout.HEAT,
    layout.OUTCOME,
    layout.WORKER_LOG,
)
E2CLAB_LOGS = ("e2clab.log", "e2clab.err", "layers_services-validate.yaml", "workflow-validate.out")


def unpack(output_dir: Path, scenario: Scenario, archive: Path) -> tuple[str, ...]:
    """Names of the hosts that left nothing. The files of the others stand in ``archive``/hosts/HOST afterwards.

    Raises: ArchiveError if a packed file is damaged.
    """
    missing = []
    for host in scenario.topology.ranks:
        packed = output_dir / layout.HOSTS / f"{host.service_id}.tar.gz"
        if not packed.is_file():
            missing.append(host.name)
            continue
        into = archive / layout.HOSTS / host.name
        into.mkdir(parents=True, exist_ok=True)
        _extract(packed, into)
        if host.rank == 0 and (into / layout.MODEL).is_file():
            (into / layout.MODEL).replace(archive / layout.MODEL)
        packed.unlink()
    return tuple(missing)


def keep_logs(output_dir: Path, others: Mapping[str, Path], archive: Path) -> None:
    """Copy E2Clab's own logs, and ``others`` under their names, into ``archive``/logs."""
    logs = archive / layout.LOGS
    logs.mkdir(exist_ok=True)
    found = {name: output_dir / name for name in E2CLAB_LOGS} | dict(others)
    for name, path in found.items():
        if path.is_file():
            shutil.copyfile(path, logs / name)


def _extract(packed: Path, into: Path) -> None:
    """Only the files an archive knows, only plain ones, only at the top level."""
    wanted = {*KEPT, layout.MODEL}
    try:
        with tarfile.open(packed) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                source = tar.extractfile(member) if member.isfile() and name in wanted else None
                if source is not None:
                    with source, (into / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveError(f"{packed.name}: what {into.name} left is damaged: {error}") from error
