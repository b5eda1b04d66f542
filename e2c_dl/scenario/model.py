"""What a scenario says, after checking: frozen values in SI units, hosts and links resolved to names.

A scenario is E2Clab's own folder (``layers_services.yaml``, ``network.yaml``, ``workflow.yaml``, optionally
``workflow_env.yaml``). Training is configured in the ``env:`` of the services called Trainer. What E2Clab's files
cannot say stands in ``emulation.yaml``, which plain E2Clab ignores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2c_dl.topology import Link, Pair, Topology


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to train. All of it stands in the Trainer services' ``env:`` and must agree, but for batch_size."""

    strategy: str  # a file of e2c_dl/strategies
    model: str  # cnn, mlp, resnet, transformer, or package.module:attribute
    dataset: str  # as e2c_dl.scenario.data spells them: digits, cifar10, images:64 ...
    data_dir: str | None = None  # where its files stand, on every host; None for data sets that need none
    iterations: int
    batch_sizes: tuple[int, ...]  # by rank
    optimizer: str = "sgd"  # or adamw
    learning_rate: float
    momentum: float  # sgd
    weight_decay: float = 0.0
    strategy_settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)  # checked by the strategy
    batching: str = "fixed"  # batch_sizes as they stand; proportional: to speed, once; dynamic: again and again
    partition: str = "iid"  # iid, classes:ALPHA (Dirichlet over classes), sizes:ALPHA (Dirichlet over sizes)
    seed: int
    dtype: str  # float32 or float64
    evaluate_every: int  # iterations; 0: only at the end
    bucket_bytes: int  # a bucket is closed when it holds at least this much


@dataclass(frozen=True, kw_only=True)
class ComputeEmulation:
    """How slow each host is by design: ``factors[host]`` times slower than the reference (1.0 when absent)."""

    method: str  # auto, quota or sleep
    cores: float | None  # what a host of factor 1 gets of one core; None: as much as the machine can give to all
    factors: Mapping[str, float]

    def factor(self, host: str) -> float:
        return self.factors.get(host, 1.0)


@dataclass(frozen=True, kw_only=True)
class Injected:
    """Departures from the design, placed by a seed: ground truth that diagnosis is judged by, and is not told."""

    seed: int
    compute: Mapping[str, float]  # host -> this many times slower than designed
    links: Mapping[Pair, float]  # directed link -> fraction (0..1) of its designed rate


@dataclass(frozen=True, kw_only=True)
class Tcp:
    """TCP settings of every host, the same in all back ends."""

    congestion_control: str  # cubic
    slow_start_after_idle: bool  # False


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A whole scenario. ``topology`` is the design: injected departures are apart."""

    name: str
    path: Path
    topology: Topology
    training: Training
    compute: ComputeEmulation
    injected: Injected
    tcp: Tcp

    def emulated_topology(self) -> Topology:
        """The topology that the emulator is asked for: the design with the injected slow links."""
        links: dict[Pair, Link] = dict(self.topology.links)
        for pair, rate_factor in self.injected.links.items():
            links[pair] = self.topology.link(*pair).slowed(rate_factor)
        return Topology(hosts=self.topology.hosts, links=links)

    def emulated_factor(self, host: str) -> float:
        """How many times slower than the reference the emulator makes ``host``: design times injected."""
        return self.compute.factor(host) * self.injected.compute.get(host, 1.0)
