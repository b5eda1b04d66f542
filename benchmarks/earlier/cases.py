"""The runs: each a system, as it is designed, and what slows it down; and what its report said at 5cfbb21.

Links of 50 Mbit/s with 5 ms, hosts of one kind with 2 % of noise, a model of 180,000 float32 in two buckets, unless a
case says otherwise. Most are small enough to do on paper what is asked of a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.diagnosis.drawn import Drawn
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.system import System
from e2c_dl.scenario.model import SHAPES, ComputeEmulation, Injected, Scenario, Tcp, Training
from e2c_dl.strategies.base import Setting
from e2c_dl.topology import Host, Link, Topology
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

BATCH = 8
LENGTHS = (120_000, 60_000)  # of buckets


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run. ``said``: at 5cfbb21."""

    name: str
    said: str
    injections: tuple[Injection, ...] = ()
    strategy: str = "allreduce"
    settings: Mapping[str, Setting] = field(default_factory=dict)
    hosts: int = 6
    iterations: int = 30
    gradient_s: float = 0.042  # forward and backward of a batch
    lengths: tuple[int, ...] = LENGTHS
    rate_bps: float = 50e6
    hardware: Mapping[str, str] = field(default_factory=dict)  # host -> what it says it is, and is
    slow_hardware: float = 1.0  # times slower than all others, of those of ``hardware``
    noise: float = 0.02
    says: bool = True  # hosts say what hardware they are
    seed: int = 1

    def drawn(self) -> Drawn:
        """It as the campaign has its runs."""
        return Drawn(seed=0, number=0, system=self._system(), tries=(self.injections,) if self.injections else ())

    def _system(self) -> System:
        names = [name(rank) for rank in range(self.hosts)]
        link = Link(rate_bps=self.rate_bps, delay_s=0.005)
        scenario = Scenario(
            name=self.name, path=Path(),
            topology=Topology(
                hosts=tuple(
                    Host(name=each, layer="edge", service="Trainer", service_id=f"1_1_{rank + 1}",
                         role=f"edge.trainer.1.{rank + 1}", rank=rank)
                    for rank, each in enumerate(names)
                ),
                links={(src, dst): link for src in names for dst in names if src != dst},
            ),
            trained=Training(
                strategy=self.strategy, model="drawn", dataset="none", mathematics=SHAPES, iterations=self.iterations,
                batch_sizes=(BATCH,) * self.hosts, learning_rate=0.1, momentum=0.0,
                strategy_settings=dict(self.settings), seed=self.seed, dtype="float32", evaluate_every=0,
                bucket_bytes=4 * max(self.lengths),
            ),
            compute=ComputeEmulation(method="sleep", cores=None, factors={}),
            injected=Injected(seed=0, compute={}, links={}),
            tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False),
        )  # fmt: skip
        profiles = {
            each: profile(self.gradient_s * (self.slow_hardware if each in self.hardware else 1.0), self.lengths)
            for each in names
        }
        hardware = {each: self.hardware.get(each, "usual") if self.says else None for each in names}
        return System(scenario=scenario, profiles=profiles, hardware=hardware, noise=self.noise)


def name(rank: int) -> str:
    """``edge-1`` is rank 0."""
    return f"edge-{rank + 1}"


def profile(gradient_s: float, lengths: tuple[int, ...]) -> ComputeProfile:
    """Hardware that takes so long for a gradient of BATCH samples, in buckets of ``lengths``, last parameters first."""
    ends = [sum(lengths)]
    for length in lengths:
        ends.append(ends[-1] - length)
    times = GradientTimes(
        data_s=0.002, forward_s=gradient_s / 3, backward_s=(gradient_s * 2 / 3 / len(lengths),) * len(lengths)
    )
    return ComputeProfile(
        model="drawn", dtype="float32", parameters=sum(lengths),
        buckets=tuple((begin, end) for end, begin in pairwise(ends)), gradients={1: times, BATCH: times},
        step_s=0.002, copy_s_per_byte=1e-10, accumulate_s_per_byte=2e-10, scale_s_per_byte=1e-10,
    )  # fmt: skip


def slow(
    what: What, amount: float, *ranks: int | tuple[int, int], begin: float = 0.0, layer: str | None = None
) -> Injection:
    """``what`` of hosts (ranks) or links (pairs of them), from the part ``begin`` of the undisturbed run on."""
    return Injection(
        what=what, when=When.LAST_THIRD if begin else When.PERSISTENT, factor=amount, amount=amount, begin=begin,
        length=1 - begin, layer=layer,
        hosts=tuple(name(each) for each in ranks if isinstance(each, int)),
        links=tuple((name(each[0]), name(each[1])) for each in ranks if isinstance(each, tuple)),
    )  # fmt: skip


SERVER: dict[str, Setting] = {"mode": "asynchronous"}
CASES = (
    Case(
        name="a link at 0.1 of its rate from 55 % of the run on", said="no culprit; 280 ms of delay that was not there",
        injections=(slow(What.RATE, 10, (1, 2), begin=0.55),),
    ),
    Case(
        name="a host 5 x slower from 65 % of the run on", said="everything ran as asked",
        injections=(slow(What.COMPUTE, 5, 2, begin=0.65),), gradient_s=0.24,
    ),
    Case(
        name="asynchronous parameter server, an uplink 4 x slower", said="no finding",
        injections=(slow(What.RATE, 4, (3, 0)),), strategy="asyncparameterserver", hosts=5, iterations=12,
    ),
    Case(
        name="AD-PSGD, a link 5 x slower", said="named; saves 0.71 s (truth: 3.37 s)",
        injections=(slow(What.RATE, 5, (2, 3)),), strategy="adpsgd", iterations=20, gradient_s=0.082,
    ),
    Case(name="a data loader 200 ms slower", said="everything ran as asked",
         injections=(slow(What.DATA, 100, 2),), iterations=12, gradient_s=0.082),
    Case(name="a step 200 ms slower", said="everything ran as asked",
         injections=(slow(What.STEP, 100, 2),), iterations=12, gradient_s=0.082),
    Case(name="a link 1.5 x slower", said="no finding", injections=(slow(What.RATE, 1.5, (1, 2)),), iterations=12),
    Case(name="a link 1.3 x slower", said="no finding", injections=(slow(What.RATE, 1.3, (1, 2)),), iterations=12),
    Case(name="a host 1.4 x slower", said="no finding", injections=(slow(What.COMPUTE, 1.4, 2),), iterations=12,
         gradient_s=0.2, rate_bps=200e6),
    Case(name="20 ms more on a link", said="no finding", injections=(slow(What.DELAY, 0.02, (1, 2)),), iterations=12),
    Case(name="2 of 3 hosts 2 x slower", said="no finding", injections=(slow(What.COMPUTE, 2, 1, 2),), hosts=3,
         iterations=12, gradient_s=0.082, rate_bps=200e6),
    Case(name="4 of 6 hosts 2 x slower", said="no finding", injections=(slow(What.COMPUTE, 2, 1, 2, 4, 5),),
         iterations=12, gradient_s=0.082, rate_bps=200e6),
    Case(name="60 ranks, messages of less than 8 KiB, a link 5 x slower", said="no verdict on the rate of all 60 links",
         injections=(slow(What.RATE, 5, (17, 18)),), hosts=60, iterations=12, lengths=(110_000,), rate_bps=20e6),
    Case(name="20 hosts, all 2 x slower from 50 % of the run on", said="each alone saves 0.35 s",
         injections=(slow(What.COMPUTE, 2, *range(20), begin=0.5, layer="edge"),), hosts=20, iterations=24,
         gradient_s=0.12),
    Case(name="2 % of the segments of a link lost", said="named, as a lower rate",
         injections=(slow(What.LOSS, 0.02, (1, 2)),)),
    Case(name="2 of 6 hosts of an older processor, as they say", said="both accused",
         hardware={name(0): "older", name(1): "older"}, slow_hardware=2.5, iterations=12, gradient_s=0.082),
    Case(name="2 of 6 hosts of an older processor, which nobody says", said="both accused", says=False,
         hardware={name(0): "older", name(1): "older"}, slow_hardware=2.5, iterations=12, gradient_s=0.082),
    *(
        Case(name=f"nothing slowed, noise of 30 %, seed {seed}", said="a host accused, by some seeds", noise=0.3,
             iterations=12, seed=seed)
        for seed in range(1, 6)
    ),
)  # fmt: skip
