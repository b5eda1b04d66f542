"""The steps of a simulated run; each is one function of the Simulation that they share."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import judge
from e2c_dl.campaign.request import Console
from e2c_dl.campaign.versions import versions
from e2c_dl.errors import AnalysisError, E2cDlError, InputError, Interrupted
from e2c_dl.host.stored import PROFILE, read_profile
from e2c_dl.scenario import stage as staging
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.simulation import hosts, inputs
from e2c_dl.simulation.request import Request
from e2c_dl.simulation.world import Run
from e2c_dl.worlds.virtual.profile import ComputeProfile

T = TypeVar("T")

RUN_ID_BYTES = 4


@dataclass
class Simulation:
    """What the steps of one simulated run share. Grows from step to step."""

    request: Request
    console: Console
    scenario: Scenario | None = None
    profile: ComputeProfile | None = None
    archive: Archive | None = None
    failure: E2cDlError | None = None  # the first

    @property
    def the_scenario(self) -> Scenario:
        return _there(self.scenario)

    @property
    def the_archive(self) -> Archive:
        return _there(self.archive)

    @property
    def profile_file(self) -> Path:
        return self.request.profile or self.request.scenario / PROFILE

    def note(self, step: str, seconds: float, error: E2cDlError | None, *, last: bool) -> None:
        """Record how a step ended, as far as there is an archive, and it is not sealed."""
        if self.archive is not None and not last:
            outcome = "done" if error is None else "interrupted" if isinstance(error, Interrupted) else "failed"
            self.archive.step(step, round(seconds, 3), outcome)


def check(simulation: Simulation) -> None:
    """Read and validate everything. Raises: InputError."""
    scenario = load(simulation.request.scenario)
    simulation.scenario = scenario
    simulation.profile = read_profile(simulation.profile_file, scenario)
    inputs.check(scenario, simulation.profile)
    if simulation.request.seed is not None and simulation.request.healthy:
        raise InputError("a seed places injected departures, and --healthy takes them out; ask for one of the two")


def stage(simulation: Simulation) -> None:
    """Create the archive, and put into it the scenario as it will be run, with the profile."""
    request = simulation.request
    now = datetime.now(timezone.utc).astimezone()
    run_id = secrets.token_hex(RUN_ID_BYTES)
    name = simulation.the_scenario.name
    path = request.archive or Path.cwd() / "runs" / f"{name}-{now:%Y%m%d-%H%M%S}-{run_id}"
    archive = Archive.create(path, run_id, started=now.isoformat(timespec="seconds"))
    simulation.archive = archive
    staging.overridden(request.scenario, path / layout.SCENARIO, seed=request.seed, healthy=request.healthy)
    shutil.copyfile(simulation.profile_file, path / layout.SCENARIO / PROFILE)
    simulation.scenario = scenario = replace(load(path / layout.SCENARIO), name=name)
    archive.record(
        scenario=name,
        testbed="virtual",
        command=request.command,
        versions=versions(),
        seeds={"training": scenario.training.seed, "injected": scenario.injected.seed},
        emulation=inputs.emulation_facts(scenario),
        hosts=[{"name": h.name, "layer": h.layer, "rank": h.rank, "role": h.role} for h in scenario.topology.ranks],
        injected={
            "compute": dict(scenario.injected.compute),
            "links": {f"{src} -> {dst}": factor for (src, dst), factor in scenario.injected.links.items()},
        },
        facts={"training": vars(scenario.training), "mathematics": "shapes only" if request.shapes_only else "real"},
    )
    simulation.console.say(f"run {run_id}, archive {path}")
    for sentence in inputs.not_honoured(scenario):
        simulation.console.say(sentence)
        archive.could_not_honour(sentence)


def simulate(simulation: Simulation) -> None:
    """Train in the virtual world, and leave what every host would."""
    scenario, console = simulation.the_scenario, simulation.console
    models = inputs.host_models(scenario, _there(simulation.profile))
    path = simulation.the_archive.path
    run = Run(scenario, models, path, shapes_only=simulation.request.shapes_only, tell=console.progress)
    hosts.write_facts(path, models, real=not simulation.request.shapes_only)
    reason = "it was stopped"
    try:
        run.train()
        reason = ""
    except E2cDlError as error:
        reason = str(error)
        raise
    finally:
        run.conclude(reason)
    console.say(f"{run.virtual_s:.3f} s of virtual time")


def close(simulation: Simulation) -> None:
    """Say how the run ended, analyse it, write the report, and seal the archive."""
    archive, failure = simulation.the_archive, simulation.failure
    if failure is not None:
        archive.happened(str(failure))
    judge.write_links(open_archive(archive.path), simulation.the_scenario)
    outcome = Outcome.FINISHED
    if failure is not None:
        outcome = Outcome.INTERRUPTED if isinstance(failure, Interrupted) else Outcome.FAILED
    archive.end(outcome, datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds"))
    try:
        judge.write_report(archive.path)
    except AnalysisError as error:
        simulation.console.say(str(error))
        archive.happened(str(error))
    archive.seal()


def _there(value: T | None) -> T:
    if value is None:
        raise InputError("a step of the simulation was run before the one that it needs")
    return value
