"""Real worker processes on this machine's loopback: run directories, scenario and members for any number of ranks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2c_dl.errors import ArchiveError
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.trace.recording.recorder import read_spans

PROFILE = Path(__file__).parents[1] / "experiments/first-light/profile.json"
WORKFLOW = """\
- hosts: edge.*
  launch:
    - name: nothing is launched by this file
      ansible.builtin.debug: {msg: none}
"""


@dataclass
class Run:
    """Run directories of one training, and its processes."""

    path: Path
    scenario: Scenario
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def directory(self, rank: int) -> Path:
        return self.path / "hosts" / self.scenario.topology.ranks[rank].name

    def start(self, largest_file_bytes: dict[int, int] | None = None) -> None:
        """Start all workers. A rank in ``largest_file_bytes`` cannot make a file larger: like a disk that is full."""
        for rank, host in enumerate(self.scenario.topology.ranks):
            command = [sys.executable, "-m", "e2c_dl.drivers.live", "train", str(self.directory(rank)), host.service_id]
            limit = (largest_file_bytes or {}).get(rank)
            if limit is not None:
                command = ["prlimit", f"--fsize={limit}", *command]
            self.processes.append(subprocess.Popen(command, env=environ(), stderr=subprocess.DEVNULL))

    def until_training(self, rank: int = 0, iterations: int = 1) -> None:
        """Return once ``rank`` has reported that many iterations, or has ended."""
        while len(self.progress(rank)) < iterations and self.processes[rank].poll() is None:
            time.sleep(0.01)

    def until_traced(self, rank: int) -> None:
        """Return once the first spans of ``rank`` are in its file, or it has ended."""
        path = self.directory(rank) / "spans.bin"
        while not (path.exists() and traced(path)) and self.processes[rank].poll() is None:
            time.sleep(0.01)

    def wait(self) -> list[int]:
        """Exit statuses by rank; whatever still runs after two minutes is killed."""
        try:
            return [process.wait(120) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
                process.wait()

    def read(self, rank: int, name: str) -> Any:
        return json.loads((self.directory(rank) / name).read_text())

    def progress(self, rank: int) -> list[dict[str, Any]]:
        path = self.directory(rank) / "progress.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]


def traced(path: Path) -> bool:
    try:
        return len(read_spans(path)[1]) > 0
    except ArchiveError:  # its header is not written yet
        return False


def environ() -> dict[str, str]:
    """The environment of a worker: it finds what this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def write_scenario(path: Path, batch_sizes: list[int], networks: list[dict[str, Any]], **env: Any) -> None:
    """A scenario with one edge service per entry of ``batch_sizes``."""
    path.mkdir(parents=True)
    settings = {"strategy": "allreduce", "learning_rate": 0.05, "momentum": 0.9, **env}
    services = [
        {"name": "Trainer", "quantity": 1, "env": {**settings, "batch_size": batch_size}} for batch_size in batch_sizes
    ]
    environment = {"job_name": "loopback", "walltime": "00:10:00", "g5k": {"job_type": [], "cluster": "paradoxe"}}
    layers = [{"name": "edge", "services": services}]
    (path / "layers_services.yaml").write_text(json.dumps({"environment": environment, "layers": layers}))
    (path / "network.yaml").write_text(json.dumps({"networks": networks}))
    (path / "workflow.yaml").write_text(WORKFLOW)


def prepare(
    path: Path, batch_sizes: list[int], *, members: dict[str, Any] | None = None,
    networks: list[dict[str, Any]] | None = None, emulation: str | None = None, **env: Any,
) -> Run:  # fmt: skip
    """Run directories under ``path``, one per rank; ``members`` are added to every host's entry of members.json.

    ``emulation`` is the text of emulation.yaml. Of ``mathematics="shapes"`` workers need no torch, whose import is most
    of what a worker here costs: for tests of how a training ends, whatever it computes.
    """
    write_scenario(path / "scenario", batch_sizes, networks or [], **env)
    if env.get("mathematics") == "shapes":
        shutil.copyfile(PROFILE, path / "scenario/profile.json")
    if emulation is not None:
        (path / "scenario" / "emulation.yaml").write_text(emulation)
    scenario = load(path / "scenario")
    port = free_port()
    entries = [
        {
            "_id": host.service_id, "host": host.name, "address": "127.0.0.1", "data_address": f"127.0.0.{rank + 2}",
            "control_port": port, **(members or {}),
        }
        for rank, host in enumerate(scenario.topology.ranks)
    ]  # fmt: skip
    run = Run(path, scenario)
    for rank in range(len(entries)):
        directory = run.directory(rank)
        directory.mkdir(parents=True)
        (directory / "scenario").symlink_to(path / "scenario")
        (directory / "members.json").write_text(json.dumps(entries))
        write_key(directory)
    return run


def write_key(directory: Path, key: str = "0123456789abcdef" * 4) -> None:
    """What the workflow's launch does."""
    path = directory / "run.key"
    path.touch(mode=0o600)
    path.write_text(key)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
