"""Training over a library that hides its messages, simulated: a ring all-reduce per bucket, overlapped with backward.

It shares no code with the analysis that is tested on it. Every link carries one chunk after another at its rate and
delivers it a delay later; a rank sends a chunk on when it has it; buckets go one after another. ::

    main      |DATA|FORWARD|BACKWARD b0|BACKWARD b1|AWAIT b0|AWAIT b1|STEP|
    library                            |- 2 (n - 1) chunks of b0 -|- of b1 -|       rank r -> r + 1
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from e2c_dl.trace.model import SPAN, ClockAlignment, Collective, Phase, RankTrace, Trace
from e2c_dl.trace.propagation.connections import LINK_ITERATION, Connections, LinkTraffic

COMPUTED = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.STEP)
AFTERWARDS = (Phase.REDUCE, Phase.STEP, Phase.EVALUATE, Phase.CHECKPOINT)


@dataclass(frozen=True, kw_only=True)
class Ddp:
    """One run. ``seconds``: of each phase; of sums, evaluations and checkpoints there are none, unless it has them.

    ``extra_s``: (rank, phase) -> seconds more in every iteration; of BACKWARD, in its first bucket.
    """

    ranks: int = 4
    iterations: int = 14
    seconds: dict[Phase, float] = field(
        default_factory=lambda: {Phase.DATA: 0.01, Phase.FORWARD: 0.02, Phase.BACKWARD: 0.04, Phase.STEP: 0.005}
    )
    bucket_bytes: tuple[int, ...] = (400_000, 400_000)
    rate_bps: float = 100e6
    delay_s: float = 0.005
    extra_s: dict[tuple[int, Phase], float] = field(default_factory=dict)
    paused_s: dict[tuple[int, int], float] = field(default_factory=dict)  # (rank, iteration) -> more of its FORWARD
    kept_s: dict[int, float] = field(default_factory=dict)  # rank -> waits for a processor, mean of an iteration
    tells_kept: bool = True  # an ITERATION tells how long they were
    slow_links: dict[int, float] = field(default_factory=dict)  # src rank -> fraction of the rate
    late_links: dict[int, float] = field(default_factory=dict)  # src rank -> seconds of delay added
    since: int = 0  # iteration from which links are slow or late
    noise: float = 0.0  # of computing, relative, uniform on both sides
    sees_ends: bool = True  # False: a collective ends, as its rank sees it, when its wait does
    counts: bool = True  # sockets were looked at, beside FLOW spans
    clock_error_ns: int = 0
    gap_s: float = 100e-6  # between any two things that a rank does
    seed: int = 0


class Simulation:
    """One run, iteration by iteration; times are seconds."""

    def __init__(self, ddp: Ddp) -> None:
        self.ddp = ddp
        self.spans: list[list[tuple[Any, ...]]] = [[] for _ in range(ddp.ranks)]
        self.now_s = [1e-4 * rank for rank in range(ddp.ranks)]
        self.idle_s = [0.0] * ddp.ranks  # of each rank's library, when it can begin the next collective
        self.free_s = [0.0] * ddp.ranks  # of each rank's link
        self.seq = 0
        self.rows: list[list[tuple[Any, ...]]] = [[] for _ in range(ddp.ranks)]

    def run(self) -> None:
        began_s = list(self.now_s)
        for iteration in range(self.ddp.iterations):
            self.iterate(iteration)
        for rank, start_s in enumerate(began_s):
            self.span(rank, Phase.TRAINING, start_s, self.now_s[rank])

    def iterate(self, iteration: int) -> None:
        ddp, ranks = self.ddp, range(self.ddp.ranks)
        began_s = list(self.now_s)
        joined_s = [self.until_joined(rank, iteration) for rank in ranks]
        busy: list[list[tuple[float, float, int]]] = [[] for _ in ranks]
        first_seq, ends_s = self.seq, []
        for bucket, nbytes in enumerate(ddp.bucket_bytes):
            ends_s.append(self.all_reduce([joined[bucket] for joined in joined_s], nbytes, iteration, busy))
        for rank in ranks:
            for bucket, nbytes in enumerate(ddp.bucket_bytes):
                start_s = self.now_s[rank]
                self.now_s[rank] = max(start_s, ends_s[bucket][rank]) + ddp.gap_s
                here = {"seq": first_seq + bucket, "bucket": bucket, "iteration": iteration}
                self.span(rank, Phase.AWAIT_COLLECTIVE, start_s, self.now_s[rank], **here)
                end_s = ends_s[bucket][rank] if ddp.sees_ends else self.now_s[rank]
                here |= {"nbytes": nbytes, "kind": Collective.ALL_REDUCE}
                self.span(rank, Phase.COLLECTIVE, joined_s[rank][bucket], end_s, **here)
            for phase in AFTERWARDS:
                if phase in ddp.seconds:
                    self.compute(rank, phase, iteration)
            kept = {"seq": round(self.kept(rank, iteration)[0] * 1e6)} if ddp.tells_kept else {}
            self.span(rank, Phase.ITERATION, began_s[rank], self.now_s[rank], iteration=iteration, **kept)
            self.carried(rank, busy[rank], iteration, began_s[rank])
        self.seq += len(ddp.bucket_bytes)

    def until_joined(self, rank: int, iteration: int) -> list[float]:
        self.compute(rank, Phase.DATA, iteration)
        self.compute(rank, Phase.FORWARD, iteration)
        joined_s = []
        for bucket in range(len(self.ddp.bucket_bytes)):
            self.compute(rank, Phase.BACKWARD, iteration, bucket, parts=len(self.ddp.bucket_bytes))
            joined_s.append(self.now_s[rank])
        return joined_s

    def compute(self, rank: int, phase: Phase, iteration: int, bucket: int = -1, parts: int = 1) -> None:
        draw = random.Random(f"{self.ddp.seed}:{rank}:{phase}:{iteration}:{bucket}").uniform(-1, 1)
        seconds = self.ddp.seconds[phase] / parts * (1 + draw * self.ddp.noise)
        if bucket <= 0:
            seconds += self.ddp.extra_s.get((rank, phase), 0.0)
            kept_s, when = self.kept(rank, iteration)
            seconds += kept_s if when is phase else 0.0
        if phase is Phase.FORWARD:
            seconds += self.ddp.paused_s.get((rank, iteration), 0.0)
        start_s = self.now_s[rank] + self.ddp.gap_s
        self.now_s[rank] = start_s + seconds
        self.span(rank, phase, start_s, self.now_s[rank], iteration=iteration, bucket=bucket)

    def kept(self, rank: int, iteration: int) -> tuple[float, Phase]:
        """How long ``rank`` waits for a processor in ``iteration``, and in which phase, by their lengths."""
        draw = random.Random(f"{self.ddp.seed}:{rank}:{iteration}")
        seconds = self.ddp.kept_s.get(rank, 0.0) * 2 * draw.random()
        (when,) = draw.choices([*self.ddp.seconds], [*self.ddp.seconds.values()])
        return seconds, when

    def all_reduce(
        self, joined_s: list[float], nbytes: int, iteration: int, busy: list[list[tuple[float, float, int]]]
    ) -> list[float]:
        """When each rank has its result; ``busy`` gets (begin, acknowledged, bytes) of each chunk of each link."""
        ddp, ranks = self.ddp, range(self.ddp.ranks)
        has_s = [max(joined_s[rank], self.idle_s[rank]) for rank in ranks]
        chunk = nbytes // ddp.ranks
        for _ in range(2 * (ddp.ranks - 1)):
            arrives_s = [0.0] * ddp.ranks
            for rank in ranks:
                slow = ddp.slow_links.get(rank, 1.0) if iteration >= ddp.since else 1.0
                late_s = ddp.late_links.get(rank, 0.0) if iteration >= ddp.since else 0.0
                begin_s = max(has_s[rank], self.free_s[rank])
                self.free_s[rank] = begin_s + 8 * chunk / (ddp.rate_bps * slow)
                there_s = self.free_s[rank] + ddp.delay_s + late_s
                busy[rank].append((begin_s, there_s + ddp.delay_s, chunk))
                arrives_s[(rank + 1) % ddp.ranks] = there_s
            has_s = [max(has_s[rank], arrives_s[rank]) for rank in ranks]
        self.idle_s = list(has_s)
        return has_s

    def carried(self, rank: int, busy: list[tuple[float, float, int]], iteration: int, began_s: float) -> None:
        """FLOW spans of the link out of ``rank``, and its row in the sockets' table."""
        dst = (rank + 1) % self.ddp.ranks
        merged: list[tuple[float, float, int]] = []
        for begin_s, end_s, nbytes in busy:
            if merged and begin_s <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end_s, merged[-1][1]), merged[-1][2] + nbytes)
            else:
                merged.append((begin_s, end_s, nbytes))
        for begin_s, end_s, nbytes in merged:
            flow = {"src": rank, "dst": dst, "nbytes": nbytes, "task": -2, "iteration": iteration}
            self.span(rank, Phase.FLOW, begin_s, end_s, **flow)
        late_s = self.ddp.late_links.get(rank, 0.0) if iteration >= self.ddp.since else 0.0
        slow = self.ddp.slow_links.get(rank, 1.0) if iteration >= self.ddp.since else 1.0
        row = dict.fromkeys(LINK_ITERATION.names or (), 0.0) | {
            "iteration": iteration, "start_ns": _ns(began_s), "end_ns": _ns(self.now_s[rank]), "samples": 5,
            "acked_bytes": sum(nbytes for *_, nbytes in merged), "busy_ns": _ns(sum(e - b for b, e, _ in merged)),
            "delivery_rate_bps": self.ddp.rate_bps * slow * 0.95, "min_rtt_s": 2 * self.ddp.delay_s + late_s,
            "segments": sum(nbytes for *_, nbytes in merged) // 1448,
        }  # fmt: skip
        self.rows[rank].append(tuple(row[name] for name in LINK_ITERATION.names or ()))

    def span(self, rank: int, phase: Phase, start_s: float, end_s: float, **fields: Any) -> None:
        values = {"iteration": -1, "task": 0, "peer_task": -2, "bucket": -1, "src": -1, "dst": -1, "seq": -1}
        values |= {"nbytes": 0, "staleness": 0, "kind": 0, "phase": int(phase), **fields}
        values["posted_ns"] = values["start_ns"] = _ns(start_s)
        values["end_ns"] = _ns(end_s)
        self.spans[rank].append(tuple(values[field] for field in SPAN.names or ()))


def simulate(ddp: Ddp) -> Trace:
    """The trace of ``ddp``, times aligned up to its clock error."""
    run = Simulation(ddp)
    run.run()
    ranks, links = [], []
    for rank, rows in enumerate(run.spans):
        spans = np.array(rows, dtype=SPAN)
        error_ns = round(random.Random(f"{ddp.seed}:clock:{rank}").uniform(-1, 1) * ddp.clock_error_ns)
        for time in ("posted_ns", "start_ns", "end_ns"):
            spans[time] += 10**12 + error_ns
        clock = ClockAlignment(uncertainty_ns=ddp.clock_error_ns)
        ranks.append(RankTrace(rank=rank, host=name(rank), layer="all", spans=spans, clock=clock))
        table = np.array(run.rows[rank], dtype=LINK_ITERATION)
        links.append(
            LinkTraffic(
                src=rank, dst=(rank + 1) % ddp.ranks, connections=1, per_iteration=table, total=table[:1], is_data=True
            )
        )
    connections = Connections(links=tuple(links) if ddp.counts else ())
    return Trace(ranks=tuple(ranks), facts={}, connections=connections)


def restored(ddp: Ddp) -> Ddp:
    """The same run, nothing of it slow, with the same noise."""
    return replace(ddp, extra_s={}, slow_links={}, late_links={})


def name(rank: int) -> str:
    return f"node-{rank + 1}"


def run_s(trace: Trace) -> float:
    """From the first rank's first iteration to the last rank's end."""
    training = [rank.spans[rank.spans["phase"] == Phase.TRAINING] for rank in trace.ranks]
    return float(max(t["end_ns"][0] for t in training) - min(t["start_ns"][0] for t in training)) / 1e9


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
