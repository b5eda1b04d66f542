"""The archive described for machines: RO-Crate 1.1 metadata, after the Process Run Crate profile 0.5.

::

    ./ (Dataset) --mentions--> #run (CreateAction) --instrument--> e2c_dl, its version
        |                          | object: scenario/...     result: every other file
        `--hasPart--> every file, with its format and size

The metadata follow from run.json and from which files there are; making them again changes nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from e2c_dl import codec
from e2c_dl.archive import layout
from e2c_dl.archive.run import Outcome, Run, to_bytes
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError

CRATE_VERSION = "1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
NO_LICENCE = "No licence is stated for these data: ask who made them before reusing them."
STATUS = {
    Outcome.RUNNING: "http://schema.org/ActiveActionStatus",
    Outcome.FINISHED: "http://schema.org/CompletedActionStatus",
    Outcome.FAILED: "http://schema.org/FailedActionStatus",
    Outcome.INTERRUPTED: "http://schema.org/FailedActionStatus",  # schema.org knows no other
}
FORMATS = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".csv": "text/csv",
    ".html": "text/html",
    ".log": "text/plain",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".png": "image/png",
    ".parquet": "application/vnd.apache.parquet",
}
DESCRIPTIONS = {
    layout.RUN: "outcome, times, versions, seeds, what could not be honoured",
    layout.LINKS: "every link as designed, as requested of the emulator, as measured",
    layout.TRACES: "spans of one worker",
    layout.SPANS_RAW: "spans of one worker as they were recorded",
    layout.CONNECTIONS: "what one worker's sockets told: TCP_INFO as its kernel gave it",
    layout.METRICS: "CPU, memory and network of one host, once a second",
    layout.CLOCK: "alignment of one host's clock to the reference host's",
    layout.REPORT_HTML: "the report, for people",
    layout.REPORT_JSON: "the report, for programs",
    layout.MODEL: "the trained parameters",
}


def metadata(run: Run, names: Sequence[str], root: Path) -> dict[str, Any]:
    """The JSON-LD of the archive ``root`` that holds the files ``names``. Raises: ArchiveError without rocrate."""
    try:
        from rocrate.rocrate import ROCrate  # only sealing needs it: an archive is read without
    except ImportError as error:
        raise ArchiveError("sealing an archive needs rocrate; install e2c_dl[report]") from error
    crate = ROCrate(version=CRATE_VERSION)
    _describe_root(crate, run)
    parts = {name: crate.add_file(dest_path=name, properties=_file(name, root)) for name in names}
    _add_action(crate, run, parts)
    described: dict[str, Any] = crate.metadata.generate()
    return described


def write(run: Run, names: Sequence[str], root: Path) -> None:
    """ro-crate-metadata.json stands in ``root``, replaced in one step. Raises: ArchiveError."""
    place = Place(root) / layout.CRATE
    codec.put(place, to_bytes(metadata(run, names, root), str(place)))


def _describe_root(crate: Any, run: Run) -> None:
    from rocrate.model import ContextEntity

    crate.name = f"Run {run.run_id} of scenario {run.scenario or 'unnamed'}"
    crate.description = (
        f"A distributed training run across edge, fog and cloud on testbed {run.testbed or 'unknown'}, "
        f"{run.outcome.value}: traces, emulation as requested and as measured, host metrics and report."
    )
    crate.datePublished = run.ended or run.started  # RO-Crate wants one of every crate, a killed run's too
    name, description = (run.licence, run.licence) if run.licence else ("no licence stated", NO_LICENCE)
    stated = {"@type": "CreativeWork", "name": name, "description": description}
    crate.license = crate.add(ContextEntity(crate, "#licence", properties=stated))
    profile = {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    crate.root_dataset["conformsTo"] = crate.add(ContextEntity(crate, PROFILE, properties=profile))


def _add_action(crate: Any, run: Run, parts: dict[str, Any]) -> None:
    from rocrate.model import ContextEntity

    version = run.versions.get("e2c_dl", "unknown")
    software = {"@type": "SoftwareApplication", "name": "e2c_dl", "version": version}
    properties = {
        "@type": "CreateAction",
        "name": f"run {run.run_id}",
        "description": " ".join(run.command) or "command not recorded",
        "startTime": run.started,
        "endTime": run.ended,
        "actionStatus": {"@id": STATUS[run.outcome]},
        "error": " ".join(run.what_happened) if run.outcome is not Outcome.FINISHED else "",
    }
    action = ContextEntity(crate, "#run", properties={key: value for key, value in properties.items() if value})
    crate.add(action)
    action["instrument"] = crate.add(ContextEntity(crate, "#e2c_dl", properties=software))
    inputs = {name for name in parts if PurePosixPath(name).parts[0] == layout.SCENARIO}
    action["object"] = [parts[name] for name in parts if name in inputs]
    action["result"] = [parts[name] for name in parts if name not in inputs]
    crate.root_dataset["mentions"] = [action]


def _file(name: str, root: Path) -> dict[str, str]:
    path = PurePosixPath(name)
    properties = {
        "name": name,
        "contentSize": str((root / name).lstat().st_size),
        "encodingFormat": FORMATS.get(path.suffix, "application/octet-stream"),
    }
    whole_folder = path.parts[0] if len(path.parts) > 1 else ""
    description = DESCRIPTIONS.get(whole_folder) or DESCRIPTIONS.get(path.name)
    return {**properties, "description": description} if description else properties
