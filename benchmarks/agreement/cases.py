"""What is compared: twelve topologies of four hosts, from uniform to lopsided, and the strategies that run on each.

Hosts: edge-1, edge-2, fog-1, cloud-1, in rank order. Rules are those of E2Clab's network.yaml: the last that matches
holds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2c_dl.drivers.live.stored import PROFILE
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario

LAYERS = {"edge": 2, "fog": 1, "cloud": 1}
HOSTS = ("edge-1", "edge-2", "fog-1", "cloud-1")
BATCH_SIZE = 16
CORES = 0.06  # of one core, for a host of factor 1: some 50 ms of compute per iteration
ITERATIONS = 24

_WORKFLOW = [{"hosts": "*.trainer.*", "launch": [{"name": "Workers are begun by the benchmark", "debug": {}}]}]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A topology: ``networks`` of network.yaml, and how many times slower than the reference hosts are."""

    name: str
    rules: tuple[Mapping[str, Any], ...]
    factors: Mapping[str, float] = field(default_factory=dict)  # by pattern


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A strategy with settings, under a name for tables."""

    strategy: str
    settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)


def _all(rate: str, delay: str) -> Mapping[str, Any]:
    return {"src": "*.*", "dst": "*.*", "rate": rate, "delay": delay}


def _between(src: str, dst: str, rate: str, delay: str) -> Mapping[str, Any]:
    return {"src": src, "dst": dst, "rate": rate, "delay": delay, "symmetric": True}


_EDGE_1, _EDGE_2, _FOG, _CLOUD = "edge.trainer.1.1", "edge.trainer.1.2", "fog.*", "cloud.*"

NETWORKS = (
    Network(name="fast", rules=(_all("100mbit", "1ms"),)),
    Network(name="even", rules=(_all("50mbit", "5ms"),)),
    Network(name="even, 20 ms", rules=(_all("50mbit", "20ms"),)),
    Network(name="even, 20 Mbit/s", rules=(_all("20mbit", "10ms"),)),
    Network(name="narrow", rules=(_all("10mbit", "2ms"),)),
    Network(name="long and wide", rules=(_all("200mbit", "40ms"),)),
    Network(
        name="continuum",
        rules=(
            {"src": "edge.*", "dst": "edge.*", "rate": "40mbit", "delay": "2ms"},
            _between("edge.*", _FOG, "40mbit", "5ms"),
            _between(_FOG, _CLOUD, "60mbit", "10ms"),
            _between(_CLOUD, "edge.*", "40mbit", "15ms"),
        ),
    ),
    Network(
        name="slow uplinks",
        rules=(_all("50mbit", "5ms"), {"src": "edge.*", "dst": "*.*", "rate": "12mbit", "delay": "8ms"}),
    ),
    Network(
        name="one slow link",
        rules=(_all("50mbit", "5ms"), {"src": _EDGE_2, "dst": _FOG, "rate": "8mbit", "delay": "5ms"}),
    ),
    Network(
        name="distant cloud",
        rules=(
            _all("60mbit", "3ms"),
            _between(_CLOUD, "edge.*", "30mbit", "50ms"),
            _between(_CLOUD, _FOG, "30mbit", "40ms"),
        ),
    ),
    Network(name="one slow host", rules=(_all("50mbit", "5ms"),), factors={_EDGE_1: 3}),
    Network(
        name="uneven all over",
        rules=(
            _all("80mbit", "4ms"),
            {"src": "edge.*", "dst": "*.*", "rate": "25mbit", "delay": "12ms"},
            _between(_FOG, _CLOUD, "100mbit", "20ms"),
        ),
        factors={"edge.*": 2},
    ),
)

ALGORITHMS = (
    Algorithm(strategy="allreduce"),
    Algorithm(strategy="parameterserver"),
    Algorithm(strategy="localsgd", settings={"period": 2}),
    Algorithm(strategy="adpsgd"),
)


def write(
    folder: Path, network: Network, algorithm: Algorithm, profile: Path, iterations: int = ITERATIONS
) -> Scenario:
    """The scenario of one comparison, written to ``folder``, which is made; with the compute ``profile`` beside it."""
    folder.mkdir(parents=True)
    training = {
        "strategy": algorithm.strategy, "iterations": iterations, "batch_size": BATCH_SIZE,
        "evaluate_every": 0, "bucket_bytes": "128KiB",
    }  # fmt: skip
    if algorithm.settings:
        training["strategy_settings"] = dict(algorithm.settings)
    layers = [
        {"name": layer, "services": [{"name": "Trainer", "quantity": count, "env": training}]}
        for layer, count in LAYERS.items()
    ]
    environment = {"job_name": "agreement", "walltime": "00:10:00", "g5k": {"job_type": [], "cluster": "paradoxe"}}
    compute = {"method": "sleep", "cores": CORES, "factors": dict(network.factors)}
    files = {
        "layers_services": {"environment": environment, "layers": layers},
        "network": {"networks": list(network.rules)},
        "workflow": _WORKFLOW,
        "emulation": {"compute": compute},
    }
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(json.dumps(content))  # JSON is YAML
    shutil.copyfile(profile, folder / PROFILE)
    return load(folder)
