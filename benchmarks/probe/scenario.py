"""What is probed: hosts of three layers, each linked to every other, one of them and one link slower than designed."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.deploy.scenario import shares

STRATEGIES = ("allreduce", "parameterserver")
"""A ring, of which two rounds measure all links; a star, of which each link needs its server."""
SLOW_HOST, SLOW_LINK = "cloud-1", "edge-1 -> edge-2"  # a link of the ring, and of the star, whose server is edge-1
CORES = 0.02  # of one core, for each host: all of them compute at once
WORKFLOW = Path(__file__).parents[2] / "experiments" / "first-light" / "workflow.yaml"


def write_scenario(folder: Path, strategy: str, hosts: int) -> Path:
    """The scenario of so many ``hosts``, in ``folder``, which is made; returns it."""
    folder.mkdir(parents=True)
    env = {"strategy": strategy, "iterations": 2, "model": "mlp", "dataset": "digits", "batch_size": 16}
    layers = [
        {"name": layer, "services": [{"name": "Trainer", "quantity": quantity, "env": env}]}
        for layer, quantity in shares(hosts).items()
    ]
    src, dst = SLOW_LINK.split(" -> ")
    files = {
        "layers_services": {"environment": {"job_name": "probe", "g5k": {"cluster": "paradoxe"}}, "layers": layers},
        "network": {"networks": [{"src": "*.*", "dst": "*.*", "delay": "5ms", "rate": "40mbit"}]},
        "emulation": {
            "compute": {"method": "sleep", "cores": CORES},
            "injected": {
                "seed": 1, "compute": [{"host": SLOW_HOST, "factor": 3}],
                "links": [{"src": src, "dst": dst, "rate_factor": 0.3}],
            },
        },
    }  # fmt: skip
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
    (folder / "workflow.yaml").write_text(WORKFLOW.read_text(encoding="utf-8"), encoding="utf-8")
    return folder
