"""The virtual world as tests use it: a few lines for hosts, links and profile, and a Trace of what happened.

``run(Allreduce, size=4, seed=1)`` is a run of shapes alone; with ``computes`` gradients are real. All is checked:
a payload that changes while it is being sent is an error.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from e2c_dl.diagnosis.references import Reference
from e2c_dl.scenario.model import Tcp
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.base import Compute, Slow, Strategy, Verdict, Worker
from e2c_dl.strategies.wrappers import Wrapping
from e2c_dl.topology import Host, Link, Topology
from e2c_dl.trace.model import ClockAlignment, Phase, RankTrace, Spans, Trace
from e2c_dl.worlds.allotment import Allotment
from e2c_dl.worlds.virtual import (
    ComputeProfile,
    GradientTimes,
    HostModel,
    InMemory,
    Judging,
    LinkModel,
    Result,
    SharedRate,
    SimulatedIteration,
    simulate,
)  # fmt: skip
from e2c_dl.worlds.virtual.setting import OnIteration

BATCHES = (1, 64)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that ended: how, and what every rank recorded."""

    result: Result
    trace: Trace
    hosts: tuple[HostModel, ...]
    links: Mapping[tuple[int, int], LinkModel]

    @property
    def end_s(self) -> float:
        return self.result.end_ns / 1e9

    def spans(self, rank: int, phase: Phase | None = None) -> Spans:
        spans = self.trace.ranks[rank].spans
        return spans if phase is None else spans[spans["phase"] == phase]

    def reference(self) -> Reference:
        """The design: links and factors as they were asked for."""
        names = [host.name for host in self.hosts]
        links = {
            (names[src], names[dst]): Link(
                rate_bps=link.rate_bps, delay_s=link.delay_s, loss=link.loss, burst=link.burst
            )
            for (src, dst), link in self.links.items()
        }
        hosts = tuple(
            Host(name=host.name, layer=host.layer, service="Trainer", service_id=f"1_1_{rank}", role="", rank=rank)
            for rank, host in enumerate(self.hosts)
        )
        return Reference(
            topology=Topology(hosts=hosts, links=links),
            compute_factors={host.name: Schedule.constant(host.factor) for host in self.hosts},
            batch_sizes={host.name: host.samples for host in self.hosts},
        )


def profile(
    buckets: Sequence[int] = (1000, 500), *, per_sample_s: float = 1e-3, fixed_s: float = 2e-3, dtype: str = "float32"
) -> ComputeProfile:
    """Buckets of these lengths, the last parameters first, as flat models have them; times linear in the batch size."""
    ends = [sum(buckets)]
    for length in buckets:
        ends.append(ends[-1] - length)
    gradients = {
        samples: GradientTimes(
            data_s=1e-4,
            forward_s=(fixed_s + samples * per_sample_s) / 3,
            backward_s=tuple((fixed_s + samples * per_sample_s) * 2 / 3 / len(buckets) for _ in buckets),
        )
        for samples in BATCHES
    }
    return ComputeProfile(
        model="linear", dtype=dtype, parameters=sum(buckets),
        buckets=tuple((begin, end) for end, begin in pairwise(ends)), gradients=gradients,
        step_s=2e-4, evaluate_s=5e-3, copy_s_per_byte=1e-10, accumulate_s_per_byte=2e-10, scale_s_per_byte=1e-10,
    )  # fmt: skip


def hosts(
    size: int, *, samples: Sequence[int] | int = 8, factors: Sequence[float] | None = None,
    layers: Sequence[str] | None = None, of: ComputeProfile | None = None, noise: float = 0.0,
) -> tuple[HostModel, ...]:  # fmt: skip
    """``size`` hosts called edge-1, edge-2, ..."""
    of = of or profile()
    return tuple(
        HostModel(
            name=f"edge-{rank + 1}", layer=layers[rank] if layers else "edge", profile=of, noise=noise,
            samples=samples if isinstance(samples, int) else samples[rank], factor=factors[rank] if factors else 1.0,
        )
        for rank in range(size)
    )  # fmt: skip


def everywhere(size: int, link: LinkModel) -> dict[tuple[int, int], LinkModel]:
    """``link`` between all pairs."""
    return {(src, dst): link for src in range(size) for dst in range(size) if src != dst}


def random_links(size: int, seed: int, tcp: Tcp | None = None) -> dict[tuple[int, int], LinkModel]:
    """Links of random rates, delays and jitters between all pairs; with ``tcp`` some lose segments."""
    draw = random.Random(f"links {seed}")
    return {
        pair: replace(
            link, rate_bps=draw.choice([1e6, 20e6, 100e6, 1e9]), delay_s=draw.choice([0.0, 0.001, 0.02]),
            jitter_s=draw.choice([0.0, 0.0, 0.002]), loss=draw.choice([0.0, 0.0, 0.0, 0.01]) if tcp else 0.0, tcp=tcp,
        )
        for pair, link in everywhere(size, LinkModel()).items()
    }  # fmt: skip


def run(
    strategy: Callable[[], Strategy], *, size: int, seed: int = 0, iterations: int = 5,
    computes: Sequence[Compute] | None = None, samples: Sequence[int] | int = 8,
    layers: Sequence[str] | None = None, factors: Sequence[float] | None = None, noise: float = 0.0,
    links: Mapping[tuple[int, int], LinkModel] | None = None, bottlenecks: Sequence[SharedRate] = (),
    of: ComputeProfile | None = None, on_hosts: Sequence[HostModel] | None = None, evaluate_every: int = 0,
    on_progress: Callable[[SimulatedIteration], None] | None = None, on_iteration: OnIteration | None = None,
    unsteady: Collection[tuple[int, int]] = (), batching: str = "fixed", allotment: Allotment | None = None,
    judging: Judging | None = None, wrapping: Callable[[Worker], Worker] | None = None,
) -> Run:  # fmt: skip
    """Run ``strategy()`` on every rank to its end. Without ``links``, random ones by ``seed``.

    With ``computes`` and no profile ``of``, the profile has their buckets.
    """
    if computes is not None and of is None:
        of = profile_of(computes[0])
    on_hosts = on_hosts or hosts(size, samples=samples, factors=factors, layers=layers, of=of, noise=noise)
    links = random_links(size, seed) if links is None else links
    sink = InMemory()
    result = simulate(
        strategy, hosts=on_hosts, links=links, bottlenecks=bottlenecks, computes=computes, sink=sink,
        iterations=iterations, seed=seed, evaluate_every=evaluate_every, on_progress=on_progress,
        on_iteration=on_iteration, unsteady=unsteady, as_seen=wrapping or Wrapping(batching=batching),
        allotment=allotment, judging=judging,
    )  # fmt: skip
    return Run(result=result, trace=trace(sink, on_hosts), hosts=tuple(on_hosts), links=links)


def scripted(script: Callable[[Worker], Awaitable[None]]) -> Callable[[], Strategy]:
    """A strategy that is ``script``, once, without iterations."""

    class Scripted(Strategy):
        name: ClassVar[str] = "scripted"

        @classmethod
        def links(cls, size: int) -> Sequence[tuple[int, int]]:
            return []

        async def run(self, worker: Worker) -> None:
            await script(worker)

    return Scripted


class SlowFrom:
    """A Judging that looks at nothing, and says from the second ``at_s`` on that the links ``pairs`` are slow."""

    def __init__(self, pairs: Sequence[tuple[int, int]], at_s: float = 0.0, factor: float = 10.0) -> None:
        self._verdict = Verdict(slow=tuple(Slow(ranks=pair, factor=factor, since=0) for pair in sorted(pairs)))
        self._at_ns, self._given = round(at_s * 1e9), set[int]()

    def due(self, now_ns: int) -> bool:
        return False

    def look(self, now_ns: int) -> None: ...

    def heard(self, rank: int, now_ns: int) -> Sequence[Verdict]:
        if rank in self._given or now_ns < self._at_ns:
            return ()
        self._given.add(rank)
        return (self._verdict,)


def profile_of(compute: Compute) -> ComputeProfile:
    """The profile of tests, with the buckets of ``compute``."""
    bounds = tuple((where.start, where.stop) for where in compute.buckets)
    made = profile([end - begin for begin, end in bounds], dtype=str(compute.parameters.dtype))
    return replace(made, buckets=bounds, parameters=len(compute.parameters))


def trace(sink: InMemory, on_hosts: Sequence[HostModel]) -> Trace:
    """What ``sink`` holds, on the one clock there is."""
    ranks = []
    for rank, host in enumerate(on_hosts):
        spans = sink.spans(rank)
        complete = bool((spans["phase"] == Phase.TRAINING).any())
        ranks.append(
            RankTrace(
                rank=rank, host=host.name, layer=host.layer, spans=spans, clock=ClockAlignment(), complete=complete
            )
        )
    return Trace(ranks=tuple(ranks), facts={})
