"""The diagnosis of a run that left an archive: its trace is loaded once and analysed once, for whoever shows it.

::

    archive --> Trace, Reference --> Report      report.json, the verdict in words
                  |                  Activity    the timeline
                  |                  Heat        the heat map
                  |                  CriticalSteps  drawn in the timeline
                  '----------------> Changed     plots of what changed or was shared

The one module of diagnosis that opens files: all others are functions of values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.beneath import Place
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Finding, Limitation, Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.prefix import common_prefix, lacks_iterations
from e2c_dl.diagnosis.references import Reference, reference_of
from e2c_dl.diagnosis.replay.critical import CriticalSteps
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.recorded import as_recorded, by_work, told
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.diagnosis.shown.activity import Activity, from_trace
from e2c_dl.diagnosis.shown.heat import Heat, heat_of
from e2c_dl.diagnosis.shown.panels import Changed, Recorded
from e2c_dl.diagnosis.window import began_ns, longest
from e2c_dl.errors import AnalysisError, ArchiveError, ScenarioError
from e2c_dl.scenario.budget import Unit
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.trace.collectives import of_library
from e2c_dl.trace.model import Trace

_ONSET = re.compile(r"\b(iteration )([0-9]+)( \(second )")
"""As Stretches describe it."""

ReadRun = tuple[Trace, Scenario | None, Reference]
"""What :func:`read_run` gives."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Everything that is computed from the trace of one run.

    Worked example: ``diagnose(open_archive(Path("runs/mine"))).report.culprits``.
    """

    report: Report
    activity: Activity | None = None  # None: no timeline
    heat: Heat | None = None
    critical: CriticalSteps | None = None  # of the timeline
    changed: Changed | None = None  # None: nothing changed or was shared while training ran
    first_s: float = 0.0  # of training: when the report's first iteration began


def diagnose(archive: ReadArchive) -> Diagnosis:
    """The analysis of ``archive``'s trace against what its scenario designed.

    Raises: AnalysisError if there is no trace, or it cannot be analysed; ArchiveError, ScenarioError.
    """
    trace, scenario, reference = read_run(archive)
    kept, first = (trace, 0) if reference.own_pace else longest(trace)
    observed = observe(kept, reference)
    report = analyse(kept, reference, None if first else retraining_of(archive, scenario, trace), observed)
    activity, first_s = from_trace(observed.trace, observed.messages), 0.0
    if first:
        firsts = dict.fromkeys(kept.hosts, first)
        activity, moved = activity.numbered_from(firsts), numbered_from(report, firsts)
        report = _with(replace(moved, first_iteration=first), _lost(trace, report, first))
        first_s = (began_ns(replace(kept, facts={})) - began_ns(kept)) / 1e9
    return Diagnosis(
        report=report,
        activity=activity,
        heat=heat_of(observed),
        critical=observed.replay.critical.steps(),
        changed=changed_in(archive, trace),
        first_s=first_s,
    )


def numbered_from(report: Report, firsts: Mapping[str, int]) -> Report:
    """``report`` with onsets in iterations of the run; ``firsts``: of each host the first one that it has."""

    def moved(finding: Finding) -> Finding:
        first = firsts.get(finding.elements[0].src, min(firsts.values()))

        def later(told: re.Match[str]) -> str:
            return f"{told[1]}{int(told[2]) + first}{told[3]}"

        then = replace(finding.when, onset_iteration=finding.when.onset_iteration + first)
        return replace(finding, when=then, evidence=_ONSET.sub(later, finding.evidence))

    findings, culprits = tuple(map(moved, report.findings)), tuple(map(moved, report.culprits))
    return replace(report, findings=findings, culprits=culprits)


def _lost(trace: Trace, report: Report, first: int) -> Limitation:
    """Why ``report`` begins with iteration ``first``."""
    hosts = [rank.host for rank in trace.ranks if lacks_iterations(rank)]
    judged = f"judged are the {report.iterations} from iteration {first} on, the most in a row that all ranks have"
    return Limitation.of("The trace of {} lacks iterations: " + judged + ".", "host", hosts)


def _with(report: Report, limitation: Limitation) -> Report:
    concerned = {limitation.sentence: limitation.names} if limitation.names else {}
    return replace(
        report, limitations=(limitation.sentence, *report.limitations), concerned={**concerned, **report.concerned}
    )


def activity_of(trace: Trace) -> Activity:
    """The timeline of ``trace``'s run, and nothing else of its analysis. Raises: AnalysisError."""
    return from_trace(common_prefix(trace))


def heat_in(archive: ReadArchive, trace: Trace) -> Heat:
    """The heat of ``archive``'s run, which left ``trace``, and nothing else of its analysis.

    Raises: as :func:`diagnose`.
    """
    _, _, reference = read_run(archive, trace)
    return heat_of(observe(trace, reference, by_luck=False))


def read_run(archive: ReadArchive, trace: Trace | None = None) -> ReadRun:
    """The trace of ``archive``'s run, the scenario that it carried out, and what that designed.

    ``trace`` is loaded if not given. A script's run, whose library hides its messages, carries out no scenario: of one
    in its archive it has the links.

    Raises: as :func:`diagnose`.
    """
    if not any(archive.host(host).recorded for host in archive.hosts):
        raise AnalysisError(f"{archive.path}: no worker left a trace, so there is nothing to analyse")
    trace = trace or archive.trace()
    if of_library(trace):
        designed = None
        if (Place(archive.path) / layout.SCENARIO).exists():
            emulation = archive.run.emulation
            designed = reference_of(scenario_of(archive), trace, archive.changes(), emulation, archive.host_facts)
            if not emulation:  # links are taken to be as it has them, and nobody slowed hosts
                designed = replace(designed, compute_factors={}, network_emulated=True)
        return trace, None, script_reference(trace, archive.host_facts, designed)  # no strategy of it was trained
    scenario = scenario_of(archive)
    return trace, scenario, reference_of(scenario, trace, archive.changes(), archive.run.emulation, archive.host_facts)


def scenario_of(archive: ReadArchive) -> Scenario:
    """The scenario that the run of ``archive`` carried out. Raises: ScenarioError, which names the archive's file."""
    try:
        return load(archive.scenario)
    except ScenarioError as error:
        remedy = f"{error.remedy}, or ask e2c-dl verify whether it was altered"
        file = str(archive.scenario / error.file)
        raise ScenarioError(file, error.key, error.problem, remedy, line=error.line) from error


def retraining_of(archive: ReadArchive, scenario: Scenario | None, trace: Trace) -> Retraining | None:
    """What simulates ``archive``'s run again; None if its archive does not tell that.

    Raises: ArchiveError, InputError.
    """
    if scenario is None:
        return None
    facts = archive.host_facts
    known = any(each is not None and each.compute.bucket_sizes for each in facts.values())  # old archives do not say
    if not known or scenario.trained is None:
        return None
    retraining = Retraining.of(as_recorded(by_work(scenario, trace), told(scenario, trace, facts)), facts)
    return replace(retraining, by_time=scenario.trained.ends.unit is Unit.SECONDS)


def changed_in(archive: ReadArchive, trace: Trace | None = None) -> Changed | None:
    """What changed or was shared in ``archive``, whose ``trace`` is loaded if not given; a run may have left none.

    Raises: ArchiveError, AnalysisError for a damaged piece; ScenarioError if its scenario cannot be read.
    """
    scenario = scenario_of(archive) if (Place(archive.path) / layout.SCENARIO).exists() else None
    recorded = any(archive.host(host).recorded for host in archive.hosts)
    return Recorded(
        trace=trace or (archive.trace() if recorded else Trace(ranks=(), facts={})),
        changes=archive.changes(),
        scenario=scenario,
        compute={host: facts.compute for host, facts in archive.host_facts.items() if facts is not None},
        heat={host: archive.host(host).heat() for host in archive.hosts},
    ).changed()


def read_report(archive: ReadArchive) -> Report:
    """The Report that the last analysis of ``archive`` wrote into it. Raises: ArchiveError."""
    file = Place(archive.path) / layout.REPORT_JSON
    if not file.exists():
        raise ArchiveError(f"{file}: missing; e2c-dl report analyses the run")
    return Report.from_json(file.read(), str(file))
