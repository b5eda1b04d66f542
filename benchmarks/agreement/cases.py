"""What is compared: topologies, from uniform to lopsided, lossy, jittery, shared and long, and what trains on each.

Hosts: edge-1, edge-2, fog-1, cloud-1, in rank order; edge-1 to edge-4 where there are six. Rules are those of E2Clab's
network.yaml: the last that matches holds. All is shapes alone, live too: nothing is left of torch in what is compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from e2c_dl.drivers.live.stored import PROFILE
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

BATCH_SIZE = 16
CORES = 0.06  # of one core, for a host of factor 1: some 50 ms of compute per iteration
ITERATIONS, WARM_UP = 24, 4  # the first are left out: slow start, and first touches of memory
OPENED = 16  # iterations, after which TCP's windows are open also where chance ended slow start early
BY_CHANCE = 30  # iterations, where segments are lost
SEEDS = 5  # of the virtual runs where there is chance
MB = 10**6

_WORKFLOW = [{"hosts": "*.trainer.*", "launch": [{"name": "Workers are begun by the benchmark", "debug": {}}]}]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A topology: ``networks`` of network.yaml, other sections of emulation.yaml, factors of slow hosts."""

    name: str
    rules: tuple[Mapping[str, Any], ...]
    factors: Mapping[str, float] = field(default_factory=dict)  # by pattern
    emulation: Mapping[str, Any] = field(default_factory=dict)
    edges: int = 2

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*(f"edge-{number}" for number in range(1, self.edges + 1)), "fog-1", "cloud-1")


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A strategy with settings, under a name for tables."""

    strategy: str
    settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison. ``model_bytes`` None: as the stored profile has it. ``seeds``: of virtual runs, for a mean."""

    kind: str
    network: Network
    algorithm: Algorithm
    iterations: int = ITERATIONS
    warm_up: int = WARM_UP
    seeds: int = 1
    model_bytes: int | None = None


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

LOCAL = Algorithm(strategy="localsgd", settings={"period": 2})
ALLREDUCE, SERVER = Algorithm(strategy="allreduce"), Algorithm(strategy="parameterserver")
ALGORITHMS = (ALLREDUCE, SERVER, LOCAL, Algorithm(strategy="adpsgd"))

_UPLINK = [{"src": "edge.*", "dst": "fog.*"}, {"src": "edge.*", "dst": "cloud.*"}]


def _lossy(loss: str) -> Network:
    return Network(name=f"loss {loss}", rules=({**_all("50mbit", "10ms"), "loss": loss},))


def _shared(discipline: str) -> Network:
    access = {"name": "uplink", "rate": "15mbit", "links": _UPLINK, "discipline": discipline}
    return Network(
        name=f"shared uplink, {discipline}", rules=(_all("60mbit", "10ms"),), emulation={"bottlenecks": [access]}
    )


_JITTER = Network(
    name="jitter 10 +- 5 ms", rules=(_all("50mbit", "10ms"),),
    emulation={"links": [{"src": "*.*", "dst": "*.*", "jitter": "5ms"}]},
)  # fmt: skip
_FAR = Network(name="100 ms one way", rules=(_all("100mbit", "100ms"),))
_LARGE = NETWORKS[:2]
_SIX = tuple(replace(network, name=f"{network.name}, six hosts", edges=4) for network in (NETWORKS[1], NETWORKS[6]))

# what trains seldom, over connections that are fresh, from its first iteration on
_SELDOM = (
    Algorithm(strategy="diloco", settings={"period": 8}), Algorithm(strategy="localsgd", settings={"period": 8}),
)  # fmt: skip

_SYSTEMS = (
    Algorithm(strategy="ako"), Algorithm(strategy="dlion", settings={"transfer_period": 8}),
    Algorithm(strategy="gaia", settings={"selectivity": 0.05}), Algorithm(strategy="fastlinks"),
    Algorithm(strategy="butterfly"), Algorithm(strategy="powersgd"),
)  # fmt: skip
_BY_CHANCE = (
    Algorithm(strategy="hop"), Algorithm(strategy="prague"), Algorithm(strategy="asyncparameterserver"),
    Algorithm(strategy="fedat", settings={"tiers": 2}),
)  # fmt: skip

CASES = (
    *(Case(kind="steady", network=n, algorithm=a) for n in NETWORKS for a in ALGORITHMS),
    *(
        Case(kind="loss", network=_lossy(loss), algorithm=a, iterations=BY_CHANCE, seeds=SEEDS)
        for loss in ("1%", "3%")
        for a in ALGORITHMS
    ),
    *(Case(kind="jitter", network=_JITTER, algorithm=a, seeds=SEEDS) for a in ALGORITHMS),
    *(Case(kind=d, network=_shared(d), algorithm=a) for d in ("fifo", "fair") for a in (ALLREDUCE, SERVER, LOCAL)),
    *(Case(kind="fresh", network=_FAR, algorithm=a, iterations=32, warm_up=0) for a in _SELDOM),
    *(
        Case(kind="10 MB", network=n, algorithm=a, iterations=6, warm_up=2, model_bytes=10 * MB)
        for n in _LARGE
        for a in (ALLREDUCE, SERVER)
    ),
    *(
        Case(kind="systems", network=n, algorithm=a, iterations=OPENED + ITERATIONS, warm_up=OPENED)
        for n in (NETWORKS[1], NETWORKS[6])
        for a in _SYSTEMS
    ),
    *(
        Case(kind="systems", network=n, algorithm=a, iterations=OPENED + BY_CHANCE, warm_up=OPENED, seeds=SEEDS)
        for n in (NETWORKS[1], NETWORKS[6])
        for a in _BY_CHANCE
    ),
    *(Case(kind="six hosts", network=n, algorithm=a) for n in _SIX for a in ALGORITHMS),
)


def write(folder: Path, case: Case, profile: ComputeProfile) -> Scenario:
    """The scenario of ``case``, written to ``folder``, which is made; with the compute ``profile`` beside it."""
    folder.mkdir(parents=True)
    algorithm, network = case.algorithm, case.network
    training = {
        "strategy": algorithm.strategy, "iterations": case.iterations, "batch_size": BATCH_SIZE,
        "evaluate_every": 0, "bucket_bytes": "128KiB", "mathematics": "shapes",
    }  # fmt: skip
    if algorithm.settings:
        training["strategy_settings"] = dict(algorithm.settings)
    layers = [
        {"name": layer, "services": [{"name": "Trainer", "quantity": count, "env": training}]}
        for layer, count in {"edge": network.edges, "fog": 1, "cloud": 1}.items()
    ]
    environment = {"job_name": "agreement", "walltime": "00:10:00", "g5k": {"job_type": [], "cluster": "paradoxe"}}
    compute = {"method": "sleep", "cores": CORES, "factors": dict(network.factors)}
    files = {
        "layers_services": {"environment": environment, "layers": layers},
        "network": {"networks": list(network.rules)},
        "workflow": _WORKFLOW,
        "emulation": {"compute": compute, **network.emulation},
    }
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(json.dumps(content))  # JSON is YAML
    (folder / PROFILE).write_text(of_size(profile, case.model_bytes).to_json())
    return load(folder)


def of_size(profile: ComputeProfile, model_bytes: int | None) -> ComputeProfile:
    """``profile`` as it would be of a model of ``model_bytes``, in ten buckets; computing takes as long."""
    if model_bytes is None:
        return profile
    length, count = model_bytes // 4, 10
    ends = [length * place // count for place in range(count + 1)]
    return replace(
        profile, parameters=length, buckets=tuple(zip(reversed(ends[:-1]), reversed(ends[1:]), strict=True)),
        tensor_shapes=(), gradients={samples: _even(times, count) for samples, times in profile.gradients.items()},
    )  # fmt: skip


def _even(times: GradientTimes, buckets: int) -> GradientTimes:
    backward_s: Sequence[float] = [sum(times.backward_s) / buckets] * buckets
    return replace(times, backward_s=tuple(backward_s))
