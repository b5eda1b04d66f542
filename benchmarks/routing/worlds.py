"""The four runs that one comparison takes, simulated or live: with and without the slow link, hearing and not."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from e2c_dl import strategies
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.drivers.virtual import inputs
from e2c_dl.drivers.virtual.train import SimulatedRun
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Injected, Scenario
from e2c_dl.scenario.workflow import PROFILE

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = ROOT / "experiments" / "routing"
NOISE = 0.05  # relative, of computing; simulated
LIVE = "live"  # the run of that name


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Seconds that the same number of updates took; ``way`` says which link was slow."""

    run: str
    way: str
    healthy_s: float  # nothing is slow, nobody hears verdicts
    healthy_hearing_s: float
    slow_s: float
    slow_hearing_s: float

    @property
    def lost_s(self) -> float:
        """What the slow link costs who does not hear of it."""
        return self.slow_s - self.healthy_s

    @property
    def lost_hearing_s(self) -> float:
        """What it costs who does, what hearing costs by itself included."""
        return self.slow_hearing_s - self.healthy_s

    @property
    def share(self) -> float:
        """Of what is lost without verdicts, what is still lost with them."""
        return self.lost_hearing_s / self.lost_s


def simulated(seed: int) -> Compared:
    """The experiment with its link, and all else that is random, drawn by ``seed``."""
    whole = load(EXPERIMENT)
    hosts = [host.name for host in whole.topology.ranks]
    used = strategies.load(whole.training.strategy)().used_links([host.layer for host in whole.topology.ranks])
    src, dst = random.Random(f"routing {seed}").choice(used)
    way = (hosts[src], hosts[dst])
    (fault,) = whole.injected.faults
    injected = replace(whole.injected, faults=(replace(fault, links=(way,)),))
    whole = replace(whole, trained=replace(whole.training, seed=seed), injected=injected)
    healthy = replace(whole, injected=Injected(seed=0, compute={}, links={}))
    return Compared(
        run=f"simulated, seed {seed}", way=" -> ".join(way),
        healthy_s=_simulated_s(healthy, hears=False), healthy_hearing_s=_simulated_s(healthy, hears=True),
        slow_s=_simulated_s(whole, hears=False), slow_hearing_s=_simulated_s(whole, hears=True),
    )  # fmt: skip


def _simulated_s(scenario: Scenario, *, hears: bool) -> float:
    training = replace(scenario.training, strategy_settings={"route_around": hears})
    profile = read_profile(scenario.path / PROFILE, scenario)
    models = [replace(model, noise=NOISE) for model in inputs.host_models(scenario, profile)]
    with tempfile.TemporaryDirectory() as folder:
        run = SimulatedRun(
            replace(scenario, trained=training), models, Path(folder), shapes_only=True, tell=lambda _: None
        )
        run.train()
        run.conclude("")
    return run.virtual_s


def live() -> Compared:
    """The experiment on namespaces of this machine. Raises: CalledProcessError if a run fails."""
    healthy_s, slow_s = (_live_s(hears=False, healthy=healthy) for healthy in (True, False))
    healthy_hearing_s, slow_hearing_s = (_live_s(hears=True, healthy=healthy) for healthy in (True, False))
    return Compared(
        run=LIVE, way="edge-1 -> edge-2", healthy_s=healthy_s, healthy_hearing_s=healthy_hearing_s, slow_s=slow_s,
        slow_hearing_s=slow_hearing_s,
    )  # fmt: skip


def _live_s(*, hears: bool, healthy: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="routing-") as folder:
        scenario, archive = Path(folder) / "routing", Path(folder) / "run"
        shutil.copytree(EXPERIMENT, scenario)
        layers = scenario / "layers_services.yaml"
        content = yaml.safe_load(layers.read_text())
        for layer in content["layers"]:
            layer["services"][0]["env"]["strategy_settings"] = {"route_around": hears}
        layers.write_text(yaml.safe_dump(content))
        command = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "deploy", str(scenario)]
        command += [str(ROOT / "artifacts"), "--archive", str(archive), *(["--healthy"] if healthy else [])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return float(json.loads((archive / "report.json").read_text())["run_s"])
