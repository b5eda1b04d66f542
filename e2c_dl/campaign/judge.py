"""After the run: why it ended, whether the network was as requested, and what slowed training down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.campaign.requested_links import joined
from e2c_dl.diagnosis import activity, by_design
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Reference, Report
from e2c_dl.diagnosis.prefix import common_prefix
from e2c_dl.errors import AnalysisError, E2cDlError, FidelityError, TrainingError
from e2c_dl.report import write as report_writing
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.trace.model import Trace

NOT_AS_REQUESTED = "not as requested"
"""What the reason of a worker that --strict stopped says."""

CONSEQUENCE = "rank "
"""What the reason of a worker says that ended because of another's: "lost rank 2 (fog-1)", "rank 1 (edge-2): ..."."""


def explained(archive: ReadArchive, scenario: Scenario) -> tuple[tuple[str, ...], E2cDlError | None]:
    """What happened to the workers, in sentences, causes first, and the error that says it best.

    A worker that died without a word is the cause; that others then lost it is the consequence. Nothing and None, if
    all of them finished.
    """
    said: dict[str, list[str]] = {}  # what -> the hosts it happened to
    for host in scenario.topology.ranks:
        outcome = archive.host_outcome(host.name)
        if outcome is None:
            said.setdefault("died without a word (killed, or its host is gone)", []).append(host.name)
        elif outcome.get("status") != "finished":
            said.setdefault(f"{outcome.get('status')}: {outcome.get('reason')}", []).append(host.name)
    if not said:
        return (), None
    order = sorted(said, key=lambda what: (CONSEQUENCE in what, what))
    sentences = tuple(f"worker {', '.join(said[what])} {what}" for what in order)
    if NOT_AS_REQUESTED in order[0]:
        return sentences, FidelityError(order[0].partition(": ")[2])
    return sentences, TrainingError(f"{sentences[0]}; see hosts/ in the archive")


def not_slowed(archive: ReadArchive) -> tuple[str, ...]:
    """A sentence if hosts could not be made slow: where a gradient measures 0 s there is nothing to pace by."""
    found = []
    for host in archive.hosts:
        if (archive.path / layout.HOSTS / host / layout.FACTS).is_file():
            compute = archive.host_facts(host).get("compute", {})
            if compute.get("speed") is not None and "agreed_s" in compute and not any(compute["agreed_s"]):
                found.append(host)
    if not found:
        return ()
    return (f"{', '.join(found)}: the clock of CPU time is too coarse for so short a gradient: computed at full speed",)


def write_links(archive: ReadArchive, scenario: Scenario) -> tuple[str, ...]:
    """Write links.json: every link designed, requested, measured; one sentence per link that is not as requested."""
    rows = joined(archive, scenario)
    (archive.path / layout.LINKS).write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n")
    return tuple(sentence for row in rows for sentence in row.deviations())


def judge(archive: ReadArchive) -> Report:
    """The analysis of an archive's trace against what its scenario asked for. Raises: AnalysisError, ArchiveError."""
    trace = archive.trace()
    return analyse(trace, reference_of(archive, load(archive.scenario), _seconds(trace)))


def write_report(path: Path) -> Report:
    """Analyse the archive at ``path`` and write report.json and report.html into it.

    Raises: AnalysisError if there is no trace, or it cannot be analysed; ArchiveError.
    """
    archive = open_archive(path)
    if not archive.hosts:
        raise AnalysisError("no worker left a trace, so there is nothing to analyse")
    report = judge(archive)
    report_writing.write_report(archive, report, activity.from_trace(common_prefix(archive.trace())))
    return report


def reference_of(archive: ReadArchive, scenario: Scenario, seconds: float) -> Reference:
    """What ``scenario`` asked for by design in ``seconds`` of training. What was injected stays out of it: diagnosis
    must find that by itself."""
    emulation = archive.run.emulation
    compute: Mapping[str, Any] = emulation.get("compute", {})
    ranks = scenario.topology.ranks
    return Reference(
        topology=scenario.topology,
        schedules=scenario.schedules,
        compute_factors=by_design.compute_factors(scenario, archive.changes(), seconds),
        batch_sizes={host.name: scenario.training.batch_sizes[host.rank or 0] for host in ranks},
        batches_change=scenario.training.batching != "fixed",
        hardware={host: hardware_class(archive, host) for host in archive.hosts},
        compute_valid=not compute.get("oversubscribed", False),
        network_emulated=emulation.get("backend", "none") != "none",
    )


def _seconds(trace: Trace) -> float:
    """From the first span of any rank to the last; 0 if there is none."""
    spans = [rank.spans for rank in trace.ranks if len(rank.spans)]
    if not spans:
        return 0.0
    begin_ns = min(int(each["start_ns"].min()) for each in spans)
    return (max(int(each["end_ns"].max()) for each in spans) - begin_ns) / 1e9


def hardware_class(archive: ReadArchive, host: str) -> str:
    """Hosts with the same answer are comparable: processor model and number of cores."""
    if not (archive.path / layout.HOSTS / host / layout.FACTS).is_file():
        return "unknown"
    facts = archive.host_facts(host)
    return f"{facts.get('cpu_model', '?')} x {facts.get('cores', '?')}"
