"""Simulated runs: what a user asks, the steps in order, each a function of the Simulation that they share, the walk."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from e2c_dl import strategies
from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.links.requested_links import write_links
from e2c_dl.campaign.request import Console
from e2c_dl.campaign.underway import NOT_TRAINED, Underway, asked_for, default_archive, now, there, versions
from e2c_dl.campaign.walk import Step, walk
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.drivers.virtual import hosts, inputs
from e2c_dl.drivers.virtual.train import SimulatedRun
from e2c_dl.errors import E2cDlError, InputError
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.folder.secret_values import redactor_of
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import REAL, SHAPES
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.worlds.trained import model_facts
from e2c_dl.worlds.virtual.profile import ComputeProfile

RUN_ID_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    """One simulated run, as asked for on the command line. Paths are absolute."""

    scenario: Path
    archive: Path | None = None  # None: runs/SCENARIO-TIME-RUN in the working directory
    profile: Path | None = None  # None: profile.json in the scenario's folder
    shapes_only: bool = False  # nothing is trained: times and bytes alone
    seed: int | None = None  # places the injected departures anew
    healthy: bool = False  # leaves the injected departures out
    command: tuple[str, ...] = ()  # what was typed; kept in the archive
    analysed: bool = True  # False: nobody asks what slowed it down, and its archive has no report


@dataclass(kw_only=True)
class Simulation(Underway):
    """What the steps of one simulated run share."""

    request: SimulationRequest
    profile: ComputeProfile | None = None

    @property
    def shapes_only(self) -> bool:
        """Whether nothing is trained, by what was typed or by the scenario."""
        return self.request.shapes_only or self.the_scenario.training.mathematics == SHAPES

    @property
    def profile_file(self) -> Path:
        return self.request.profile or self.request.scenario / PROFILE


def check(simulation: Simulation) -> None:
    """Read and validate everything. Raises: InputError."""
    scenario = load(simulation.request.scenario)
    simulation.scenario = scenario
    for remark in scenario.remarks:
        simulation.console.say(f"remark: {remark}")
    if simulation.shapes_only:
        strategies.load(scenario.training.strategy)(**scenario.training.strategy_settings).check_shapes()
    simulation.profile = read_profile(simulation.profile_file, scenario)
    if simulation.profile.machine:
        simulation.console.say(f"hosts compute as measured on {simulation.profile.machine}")
    inputs.check(scenario, simulation.profile)
    if simulation.request.seed is not None and simulation.request.healthy:
        raise InputError("a seed places injected departures, and --healthy takes them out; ask for one of the two")
    copies.check_seed(simulation.request.scenario, simulation.request.seed)


def stage(simulation: Simulation) -> None:
    """Create the archive, and put into it the scenario as it will be run, with the profile."""
    request = simulation.request
    started = now()
    run_id = secrets.token_hex(RUN_ID_BYTES)
    path = request.archive or default_archive(simulation.the_scenario, run_id, started)
    archive = Archive.create(path, run_id, started=started.isoformat(timespec="seconds"))
    simulation.archive = archive
    simulation.keep_secret(redactor := redactor_of(request.scenario, os.environ))
    kept = path / layout.SCENARIO
    copies.overridden(request.scenario, kept, seed=request.seed, healthy=request.healthy, redactor=redactor)
    shutil.copyfile(simulation.profile_file, path / layout.SCENARIO / PROFILE)  # so the archive can be simulated again
    # read back: what is run is what the archive holds
    simulation.scenario = scenario = replace(load(path / layout.SCENARIO), name=simulation.the_scenario.name)
    archive.record(
        **asked_for(scenario),
        testbed="virtual",
        command=request.command,
        versions=versions(),
        emulation=inputs.emulation_facts(scenario),
        hosts=[{"name": h.name, "layer": h.layer, "rank": h.rank, "role": h.role} for h in scenario.topology.ranks],
        facts={
            "training": scenario.training.recorded(),
            "model": model_facts(scenario.training),
            "mathematics": SHAPES if simulation.shapes_only else REAL,
        },
    )
    simulation.console.begun(run_id, path)
    for sentence in (*(NOT_TRAINED if simulation.shapes_only else ()), *inputs.not_honoured(scenario)):
        simulation.console.say(sentence)
        archive.limited(sentence)


def simulate(simulation: Simulation) -> None:
    """Train in the virtual world, and leave what every host would."""
    scenario, console = simulation.the_scenario, simulation.console
    models = inputs.host_models(scenario, there(simulation.profile))
    path = simulation.the_archive.path
    run = SimulatedRun(scenario, models, path, shapes_only=simulation.shapes_only, tell=console.progress)
    hosts.write_facts(path, models, real=not simulation.shapes_only)
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
    write_links(open_archive(simulation.archive_path), simulation.the_scenario)
    simulation.conclude(f"{step}: {error}" for step, error in simulation.failures)


STEPS: tuple[Step[Simulation], ...] = (
    Step(name="check", what="reading the scenario", act=check),
    Step(name="stage", what="opening the archive", act=stage),
    Step(name="simulate", what="training under a virtual clock", act=simulate),
    Step(name="report", what="finding what slowed it down, sealing the archive", act=close, always=True, last=True),
)


def run(request: SimulationRequest, console: Console) -> Path:
    """Carry out ``request``; the archive's path.

    Raises: the E2cDlError of the first step that failed, after the archive says so.
    """
    simulation = Simulation(request=request, console=console, analysed=request.analysed)
    failure = walk(STEPS, simulation)
    if failure is not None:
        raise failure
    return simulation.archive_path
