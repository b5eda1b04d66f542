"""A short simulated run of the routing experiment, whose link edge-1 -> edge-2 is slow for a while, and its judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from e2c_dl.diagnosis.verdicts import Judge
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.drivers.virtual import hosts, inputs
from e2c_dl.drivers.virtual.train import SimulatedRun
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.trace.model import ClockAlignment, Spans
from e2c_dl.trace.recording import span_log
from e2c_dl.trace.recording.recorder import read_spans

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SLOW_S, WELL_S, SLOWER = 6.0, 12.0, 4.0
LINK = (0, 1)


def scenario() -> Scenario:
    """The experiment, shorter."""
    whole = load(EXPERIMENTS / "routing")
    (fault,) = whole.injected.faults
    fault = replace(fault, at_s=SLOW_S, for_s=WELL_S - SLOW_S, value=1 / SLOWER)
    training = replace(whole.training, budget=Budget(unit=Unit.UPDATES, amount=330))
    return replace(whole, trained=training, injected=replace(whole.injected, faults=(fault,)))


def simulated(scenario: Scenario, archive: Path) -> list[Spans]:
    """What each rank traced, shapes alone."""
    profile = read_profile(scenario.path / PROFILE, scenario)
    run = SimulatedRun(
        scenario, inputs.host_models(scenario, profile), archive, shapes_only=True, tell=lambda _: None
    )  # fmt: skip
    run.train()
    run.conclude("")
    return [read_spans(each.spans)[1] for each in hosts.records(archive, scenario)]


def judge_of(scenario: Scenario) -> Judge:
    judge = Judge(scenario, inputs.emulation_facts(scenario))
    models = inputs.host_models(scenario, read_profile(scenario.path / PROFILE, scenario))
    for rank, host in enumerate(scenario.topology.ranks):
        judge.add(rank, span_log.opening(rank, host.name, host.layer))
        judge.aligned(rank, ClockAlignment())
        judge.is_host(rank, hosts.facts(models[rank], real=False))
    return judge


def framed(spans: Spans, number: int = 0) -> bytes:
    """``spans`` as they are appended to a file that has ``number`` of them already."""
    return span_log.frames(spans.tobytes(), number=number)
