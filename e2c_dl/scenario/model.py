"""Values of a checked scenario: frozen in SI units, hosts and links resolved to names.

A scenario is E2Clab's own folder (``layers_services.yaml``, ``network.yaml``, ``workflow.yaml``, optionally
``workflow_env.yaml``). Training is configured in the ``env:`` of the services called Trainer. What E2Clab's files
cannot say stands in ``emulation.yaml``, which plain E2Clab ignores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from e2c_dl.errors import InputError
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.emulation.prices import Prices
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.scenario.what_if import NOTHING_CHANGED, Changed
from e2c_dl.strategies.compression import NONE
from e2c_dl.strategies.wrappers import Wrapping
from e2c_dl.topology import Link, Pair, Topology

REAL, SHAPES = "real", "shapes"
"""What hosts compute: gradients on torch, or nothing, for as long as the stored profile says."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training. All of it stands in the Trainer services' ``env:`` and must agree, but for batch_size."""

    strategy: str  # a file of e2c_dl/strategies
    model: str  # cnn, mlp, resnet, transformer, or package.module:attribute
    dataset: str  # as e2c_dl.scenario.data spells them: digits, cifar10, images:64 ...
    data_dir: str | None = None  # where its files stand, on every host; None for data sets that need none
    mathematics: str = REAL  # or shapes: vectors of the right sizes that hold zeros, and times by the stored profile
    device: str = "cpu"  # or cuda: what gradients are computed on, one GPU for each rank
    iterations: int  # of each rank; where ``budget`` ends training, the most that one rank may come to
    batch_sizes: tuple[int, ...]  # by rank
    optimizer: str = "sgd"  # or adamw
    learning_rate: float
    momentum: float  # sgd
    weight_decay: float = 0.0
    strategy_settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)  # checked by the strategy
    batching: str = "fixed"  # batch_sizes as they stand; proportional: to speed, once; dynamic: again and again
    compression: str = NONE  # of what strategies send: see e2c_dl.strategies.compression
    compression_settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)
    partition: str = "iid"  # iid, classes:ALPHA (Dirichlet over classes), sizes:ALPHA (Dirichlet over sizes)
    seed: int
    dtype: str  # float32 or float64
    evaluate_every: int  # iterations; 0: only at the end
    bucket_bytes: int  # a bucket is closed when it holds at least this much
    budget: Budget | None = None  # what ends training instead of ``iterations``
    code: str | None = field(default=None, compare=False)  # folder of the scenario's own code, absolute; None: none

    @property
    def ends(self) -> Budget:
        """What ends training."""
        return self.budget or Budget(unit=Unit.ITERATIONS, amount=self.iterations)

    @property
    def wrapping(self) -> Wrapping:
        """What stands between the strategy and its world."""
        return Wrapping(
            batching=self.batching, compression=self.compression, compression_settings=self.compression_settings
        )

    def recorded(self) -> dict[str, Any]:
        """All of it as numbers and text, for run.json."""
        own = {key: value for key, value in vars(self).items() if key != "code"}  # a path of this machine
        return {**own, "budget": {self.ends.unit.value: self.ends.amount}}


@dataclass(frozen=True, kw_only=True)
class ComputeEmulation:
    """Slowness of each host by design: ``factors[host]`` times slower than the reference (1.0 when absent)."""

    method: str  # auto, quota or sleep
    cores: float | None  # what a host of factor 1 gets of one core; None: as much as the machine can give to all
    factors: Mapping[str, float]

    def factor(self, host: str) -> float:
        return self.factors.get(host, 1.0)


@dataclass(frozen=True, kw_only=True)
class LinkSchedule:
    """Schedules of one directed link by design, in absolute values; None: as the topology has it, all the time."""

    rate_bps: Schedule | None = None
    delay_s: Schedule | None = None
    loss: Schedule | None = None


@dataclass(frozen=True, kw_only=True)
class Schedules:
    """Changes by design while training runs: diagnosis knows of them."""

    links: Mapping[Pair, LinkSchedule] = field(default_factory=lambda: MappingProxyType({}))
    bottlenecks: Mapping[str, Schedule] = field(default_factory=lambda: MappingProxyType({}))  # name -> bits per second
    compute: Mapping[str, Schedule] = field(default_factory=lambda: MappingProxyType({}))
    """host -> times slower than the reference, instead of its ``compute.factors``."""
    thermal: Mapping[str, Thermal] = field(default_factory=lambda: MappingProxyType({}))
    """host -> how it throttles itself, on top of its factor."""


class FaultKind(Enum):
    """Kinds of departures that begin while training runs."""

    CUT = "cut"  # ``links`` carry nothing; a partition is the cut of all links between its sides
    SLOW_LINK = "slow_link"  # ``links`` have ``value`` (0..1) times their rate
    LATE_LINK = "late_link"  # ``links`` delay by ``value`` seconds more
    LOSSY_LINK = "lossy_link"  # ``links`` lose ``value`` (0..1) of the segments that they did not lose already
    SLOW_HOST = "slow_host"  # ``host`` computes ``value`` (> 1) times slower
    LATE_DATA = "late_data"  # each batch of ``host`` comes ``value`` seconds later
    LATE_STEP = "late_step"  # each step of the optimizer on ``host`` takes ``value`` seconds longer
    PAUSE = "pause"  # ``host``'s worker is stopped (SIGSTOP); its kernel still acknowledges
    KILL = "kill"  # ``host``'s worker is killed (SIGKILL)
    CLOCK_STEP = "clock_step"  # ``host``'s trace clock jumps by ``value`` seconds
    CLOCK_DRIFT = "clock_drift"  # ``host``'s trace clock gains ``value`` seconds per second


LINK_FAULTS = frozenset({FaultKind.CUT, FaultKind.SLOW_LINK, FaultKind.LATE_LINK, FaultKind.LOSSY_LINK})


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One departure that begins while training runs: after so many seconds of training, or with an iteration.

    Exactly one of ``at_s`` and ``at_iteration`` is set. An iteration is that of the host's own worker (for links: of
    the worker at the sending end), counted from 0, and counts when it begins.
    """

    kind: FaultKind
    at_s: float | None = None
    at_iteration: int | None = None
    for_s: float | None = None  # how long; None: for good. Kills and clock steps have none
    host: str | None = None
    links: tuple[Pair, ...] = ()
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Injected:
    """Departures from the design, placed by a seed: ground truth that diagnosis is judged by, and is not told."""

    seed: int
    compute: Mapping[str, float]  # host -> this many times slower than designed, all the time
    links: Mapping[Pair, float]  # directed link -> fraction (0..1) of its designed rate, all the time
    faults: tuple[Fault, ...] = ()  # in order of the file, repeated ones in order of time


@dataclass(frozen=True, kw_only=True)
class Tcp:
    """TCP settings of every host, the same in all back ends."""

    congestion_control: str  # cubic
    slow_start_after_idle: bool  # False


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A whole scenario. ``topology`` is the design: injected departures are apart.

    ::

        scenario = load(Path("experiments/first-light"))
        scenario.topology.link("edge-1", "edge-2").rate_bps               40e6: designed
        scenario.injected.links                                           {("edge-1", "edge-2"): 0.3}
        scenario.emulated_topology().link("edge-1", "edge-2").rate_bps    12e6: what the emulator is asked for
        scenario.emulated_factor("cloud-1")                               3.0: designed 1, injected 3
    """

    name: str
    path: Path
    topology: Topology
    trained: Training | None  # None: a program of the user's trains, of which nothing is known
    compute: ComputeEmulation
    injected: Injected
    tcp: Tcp
    schedules: Schedules = Schedules()
    prices: Prices | None = None  # None: the scenario does not say
    what_if: Changed = NOTHING_CHANGED  # on top of all of it; ``without`` is carried out already
    remarks: tuple[str, ...] = ()  # what is worth a look and no error, a line each, as errors are written

    @property
    def training(self) -> Training:
        """What is trained, and how. Raises: InputError, where a program of the user's trains."""
        if self.trained is None:
            raise InputError(
                f"{self.name}: {self.program} train by a program of their own, whose model and batches are not known"
            )
        return self.trained

    @property
    def program(self) -> str:
        """The services whose hosts train: ``FLServer and FLClient``."""
        return " and ".join(dict.fromkeys(host.service for host in self.topology.ranks))

    @property
    def seed(self) -> int:
        """What is drawn while it runs, such as which segment is lost, follows from it."""
        return self.injected.seed if self.trained is None else self.trained.seed

    @property
    def shapes_only(self) -> bool:
        """Whether its hosts compute nothing."""
        return self.trained is not None and self.trained.mathematics == SHAPES

    def emulated_topology(self) -> Topology:
        """The topology that the emulator is asked for before training: the design with the injected slow links.

        What changes later (:attr:`schedules`, faults) is put in force on top of it: those links are in it even if
        nothing shapes them before, and so are those that pass a bottleneck.
        """
        links: dict[Pair, Link] = dict(self.topology.links)
        later = {*self.schedules.links, *(pair for fault in self.injected.faults for pair in fault.links)}
        shared = {pair for bottleneck in self.topology.bottlenecks for pair in bottleneck.links}
        for pair in sorted({*later, *shared, *self.injected.links, *self.what_if.links}):
            slowed = self.topology.link(*pair).slowed(self.injected.links.get(pair, 1.0))
            links[pair] = self.what_if.link(pair, slowed)
        return replace(self.topology, links=links)

    def emulated_factor(self, host: str) -> float:
        """Times slower than the reference that the emulator makes ``host``: design times what is added."""
        return self.compute.factor(host) * self.added_factor(host)

    def added_factor(self, host: str) -> float:
        """Times slower than designed that ``host`` is all the time: injected, over the speed of a what-if."""
        return self.injected.compute.get(host, 1.0) / self.what_if.speeds.get(host, 1.0)
