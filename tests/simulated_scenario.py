"""A small scenario with a stored profile, simulated: from its folder to the archive that the run leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.records import Progress
from e2c_dl.campaign.simulated import SimulationRequest, run
from e2c_dl.errors import Interrupted
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

PARAMETERS = 109_914  # of the cnn
TIMES = GradientTimes(data_s=0.0001, forward_s=0.001, backward_s=(0.002,))
PROFILE = ComputeProfile(
    model="cnn", dtype="float32", parameters=PARAMETERS, buckets=((0, PARAMETERS),), gradients={16: TIMES},
    step_s=0.0002, evaluate_s=0.01,
)  # fmt: skip
TRAINING = {
    "strategy": "allreduce", "iterations": 6, "batch_size": 16, "bucket_bytes": "1MiB", "evaluate_every": 3,
}  # fmt: skip
WORKFLOW = [{"hosts": "*.trainer.*", "launch": []}]


class Quiet:
    """A console that keeps what it is told; at ``interrupt_at`` it is as if Ctrl-C were pressed."""

    def __init__(self, interrupt_at: int = 0) -> None:
        self.told: list[Progress] = []
        self.failures: list[str] = []
        self._interrupt_at = interrupt_at

    def begun(self, run_id: str, archive: Path) -> None: ...

    def step(self, name: str, what: str) -> None:
        pass

    def done(self, name: str, seconds: float) -> None:
        pass

    def failed(self, name: str, why: str) -> None:
        self.failures.append(f"{name}: {why}")

    def say(self, line: str) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        self.told.append(progress)
        if progress.iteration == self._interrupt_at:
            raise Interrupted("stopped by SIGINT; what was traced until then is in the archive")


def scenario(folder: Path, *, emulation: dict[str, Any] | None = None, profile: str | None = None, **env: Any) -> Path:
    folder.mkdir(parents=True)
    training = {key: value for key, value in {**TRAINING, **env}.items() if value is not None}
    layers = [
        {"name": name, "services": [{"name": "Trainer", "quantity": count, "env": training}]}
        for name, count in (("edge", 2), ("cloud", 1))
    ]
    files = {
        "layers_services": {"environment": {"job_name": "s", "g5k": {"cluster": "paradoxe"}}, "layers": layers},
        "network": {"networks": [{"src": "*.*", "dst": "*.*", "rate": "50mbit", "delay": "5ms"}]},
        "workflow": WORKFLOW,
        "emulation": emulation or {"compute": {"method": "sleep", "cores": 0.1}},
    }
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(json.dumps(content))
    (folder / "profile.json").write_text(PROFILE.to_json() if profile is None else profile)
    return folder


def simulated(folder: Path, **asked: Any) -> ReadArchive:
    archive = folder.parent / f"{folder.name}-archive"
    return open_archive(run(SimulationRequest(scenario=folder, archive=archive, **asked), Quiet()))
