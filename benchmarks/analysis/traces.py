"""Traces of the virtual world (shapes only) that are diagnosed: made once, and kept in a temporary folder of one's own.

::

    TEMP/e2c_dl-analysis-USER/WORLD/allreduce-60x14/traces/edge-1.parquet, hosts/edge-1/clock.json, outcome.json

WORLD is named by what stands in the rooms that make traces: a changed world makes new ones.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import rooms
from benchmarks.virtual import exchange
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.references import Reference
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.topology import Host, Link, Topology
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.places import CLOCK, OUTCOME, recorded
from e2c_dl.trace.store import convert
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes, HostModel, InFiles, LinkModel, simulate

MADE_BY = ("e2c_dl/worlds/virtual", "e2c_dl/strategies", "e2c_dl/trace", "benchmarks/analysis/traces.py")
RATES_BPS = (100e6, 50e6)
DELAY_S = 0.002
BUCKETS = (0, 50_000, 110_000)
SLOW_HOST, SLOW_LINK = 2, (4, 5)  # of all-reduce, by ranks
TIMES_SLOWER = {"host": 4.0, "link": 10.0}  # a ring hides less


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run. ``strategy``: allreduce, on a ring of two buckets; exchange, with both neighbours on a ring.

    ``departs``: nothing, or of an all-reduce a "host" that computes slower, a "link" of a lower rate, all the time.
    """

    strategy: str
    ranks: int
    iterations: int
    departs: str = ""

    @property
    def name(self) -> str:
        return f"{self.strategy}-{self.ranks}x{self.iterations}" + (f"-{self.departs}" if self.departs else "")

    @property
    def arguments(self) -> tuple[str, ...]:
        """For a command line; :meth:`of_arguments` reads them."""
        return self.strategy, str(self.ranks), str(self.iterations), self.departs

    @classmethod
    def of_arguments(cls, strategy: str, ranks: str, iterations: str, departs: str) -> Case:
        return cls(strategy=strategy, ranks=int(ranks), iterations=int(iterations), departs=departs)

    def culprits(self, hosts: Sequence[str]) -> list[Element]:
        """Who is to be named, among ``hosts``, by rank."""
        if self.departs == "host":
            return [Element(kind=ElementKind.HOST, src=hosts[SLOW_HOST])]
        if self.departs == "link":
            src, dst = (hosts[rank] for rank in SLOW_LINK)
            return [Element(kind=ElementKind.LINK, src=src, dst=dst)]
        return []

    def folder(self) -> Path:
        """The archive of this run, made if it is not there yet."""
        folder = _kept() / self.name
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            self._make(unfinished)
            unfinished.rename(folder)
        return folder

    def reference(self, hosts: Sequence[str]) -> Reference:
        """What the run was designed to be."""
        designed = replace(self, departs="")
        pairs = Allreduce.links(self.ranks) if self.strategy == "allreduce" else exchange.Exchange.links(self.ranks)
        links = {
            (hosts[src], hosts[dst]): Link(rate_bps=model.rate_bps, delay_s=model.delay_s)
            for (src, dst), model in designed._links(pairs).items()
        }
        ranks = tuple(
            Host(name=name, layer="edge", service="Trainer", service_id=f"1_1_{rank}", role="", rank=rank)
            for rank, name in enumerate(hosts)
        )
        return Reference(
            topology=Topology(hosts=ranks, links=links),
            compute_factors={model.name: Schedule.constant(model.factor) for model in designed._hosts()},
            batch_sizes=dict.fromkeys(hosts, 1),
        )

    def _make(self, archive: Path) -> None:
        models = self._hosts()
        recordings = [recorded(archive, model.name) for model in models]
        for own in recordings:
            own.folder.path.mkdir(parents=True)
        strategy = Allreduce if self.strategy == "allreduce" else exchange.Exchange
        simulate(
            strategy, hosts=models, links=self._links(strategy.links(self.ranks)),
            sink=InFiles([own.raw.path for own in recordings]), iterations=self.iterations, seed=1,
        )  # fmt: skip
        for own in recordings:
            write_alignment((own.folder / CLOCK).path, ClockAlignment())
            (own.folder / OUTCOME).path.write_text('{"status": "finished"}')
            convert(own)
            own.raw.path.unlink()

    def _hosts(self) -> list[HostModel]:
        if self.strategy == "exchange":
            return exchange.hosts(self.ranks)
        times = GradientTimes(data_s=1e-4, forward_s=0.01, backward_s=(0.01, 0.01))
        profile = ComputeProfile(
            model="none", dtype="float32", parameters=BUCKETS[-1],
            buckets=((BUCKETS[1], BUCKETS[2]), (BUCKETS[0], BUCKETS[1])), gradients={1: times},
            step_s=2e-4, accumulate_s_per_byte=2e-10, scale_s_per_byte=1e-10,
        )  # fmt: skip
        return [
            HostModel(
                name=f"edge-{rank + 1}",
                profile=profile,
                samples=1,
                noise=0.05,
                factor=(1 + rank % 3) * self._times_slower("host", rank == SLOW_HOST),
            )
            for rank in range(self.ranks)
        ]

    def _links(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], LinkModel]:
        if self.strategy == "exchange":
            return dict.fromkeys(pairs, exchange.LINK)
        return {
            pair: LinkModel(
                rate_bps=RATES_BPS[pair[0] % 2] / self._times_slower("link", pair == SLOW_LINK), delay_s=DELAY_S
            )
            for pair in pairs
        }

    def _times_slower(self, kind: str, is_it: bool) -> float:
        return TIMES_SLOWER[kind] if is_it and kind == self.departs else 1.0


def _kept() -> Path:
    """The folder of traces that this world makes; nobody else may write there."""
    world = hashlib.sha256(repr(sorted(rooms.hashes(MADE_BY).items())).encode()).hexdigest()[:12]
    own = Path(tempfile.gettempdir()) / f"e2c_dl-analysis-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    if own.stat().st_uid != os.getuid():
        raise PermissionError(f"{own}: belongs to somebody else; remove it or set TMPDIR")
    return own / world
