"""Ring all-reduce in a simulated world: what the live one would record, with departures and noise placed at will.

It shares no code with the analysis that is tested on it. A link takes bytes into a kernel buffer of ``buffer_bytes``,
sends them at its rate, delivers them a delay later, and the receiver reads late by a random time. ::

    main     SPAWN -1, then per bucket AWAIT_BUCKET, SPAWN; AWAIT_TASK for each; STEP
    compute  FORWARD, BACKWARD of each bucket
    task     2 (n - 1) times: SEND to the right, AWAIT_MESSAGE from the left, (first half:) REDUCE; then AWAIT_SENTs
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from e2c_dl.diagnosis.references import Reference
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Host, Link, Topology
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace

HEADER_BYTES = 40
MAIN, COMPUTE_THREAD = 0, -1


@dataclass(frozen=True, kw_only=True)
class Ring:
    """One run. The design is ``compute_s``, ``links``; ``slow_hosts`` and ``slow_links`` depart from it."""

    compute_s: tuple[float, ...]  # per rank, forward and backward of one iteration
    links: tuple[Link, ...]  # rank r -> r + 1
    bucket_bytes: tuple[int, ...]
    iterations: int = 12
    slow_hosts: dict[int, float] = field(default_factory=dict)  # rank -> times slower
    slow_links: dict[int, float] = field(default_factory=dict)  # src rank -> fraction of the rate
    late_links: dict[int, float] = field(default_factory=dict)  # src rank -> seconds of delay added
    compute_noise: float = 0.0  # relative, uniform on both sides
    wake_s: float = 0.0  # mean time from a wait's end to the task's running again
    read_s: float = 0.0  # mean time from arrival to having read
    clock_error_ns: int = 0  # of every rank's alignment, uniform on both sides
    buffer_bytes: int = 4_000_000
    seed: int = 0

    @property
    def size(self) -> int:
        return len(self.compute_s)

    def restored(self, *, host: int | None = None, link: int | None = None) -> Ring:
        """The same run without one departure, with the same noise."""
        return replace(
            self,
            slow_hosts={r: f for r, f in self.slow_hosts.items() if r != host},
            slow_links={r: f for r, f in self.slow_links.items() if r != link},
            late_links={r: f for r, f in self.late_links.items() if r != link},
        )

    def reference(self, **changes: Any) -> Reference:
        """What this run's scenario asks for: compute times are factors of the fastest host's."""
        hosts = tuple(
            Host(name=name(r), layer="edge", service="Trainer", service_id=f"1_1_{r}", role="", rank=r)
            for r in range(self.size)
        )
        links = {(name(r), name((r + 1) % self.size)): link for r, link in enumerate(self.links)}
        base = Reference(
            topology=Topology(hosts=hosts, links=links),
            compute_factors={name(r): Schedule.constant(c / min(self.compute_s)) for r, c in enumerate(self.compute_s)},
            batch_sizes={name(r): 32 for r in range(self.size)},
        )
        return replace(base, **changes)


def name(rank: int) -> str:
    return f"edge-{rank + 1}"


class Signal:
    """Something that happens once; processes that wait for it are resumed then."""

    def __init__(self) -> None:
        self.set = False
        self.waiting: list[Process] = []


Process = Generator[float | Signal, None, None]


class World:
    """A heap of resumptions in order of time, ties in order of being asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Process]] = []
        self._order = itertools.count()

    def start(self, process: Process, after_s: float = 0.0) -> None:
        heapq.heappush(self._heap, (self.now + after_s, next(self._order), process))

    def fire(self, signal: Signal) -> None:
        signal.set = True
        for process in signal.waiting:
            self.start(process)

    def run(self) -> None:
        while self._heap:
            self.now, _, process = heapq.heappop(self._heap)
            wanted = next(process, None)
            if isinstance(wanted, Signal) and not wanted.set:
                wanted.waiting.append(process)
            elif wanted is not None:
                self.start(process, 0.0 if isinstance(wanted, Signal) else wanted)


class Wire:
    """One directed link: a queue of messages, a kernel buffer, a rate and a delay."""

    def __init__(self, run: Run, src: int) -> None:
        self.run, self.src, self.dst = run, src, (src + 1) % run.ring.size
        asked = run.ring.links[src]
        self.rate_bps = (asked.rate_bps or math.inf) * run.ring.slow_links.get(src, 1.0)
        self.delay_s = asked.delay_s + run.ring.late_links.get(src, 0.0)
        self.sent: list[Signal] = []
        self.arrived: list[Signal] = []
        self._queue: deque[tuple[int, dict[str, Any], int]] = deque()
        self._free_s = self._read_s = 0.0
        self._busy = False

    def signals(self, seq: int) -> tuple[Signal, Signal]:
        """(sent, arrived) of message ``seq``, whether or not it was posted yet."""
        while len(self.sent) <= seq:
            self.sent.append(Signal())
            self.arrived.append(Signal())
        return self.sent[seq], self.arrived[seq]

    def post(self, seq: int, what: dict[str, Any], nbytes: int) -> None:
        self._queue.append((seq, {**what, "posted_s": self.run.world.now}, nbytes))
        if not self._busy:
            self._busy = True
            self.run.world.start(self._serve())

    def _serve(self) -> Process:
        world = self.run.world
        while self._queue:
            seq, what, nbytes = self._queue.popleft()
            start_s = world.now
            bits = 8 * (nbytes + 66 * math.ceil(nbytes / 1448))
            done_s = max(start_s, self._free_s) + bits / self.rate_bps
            self._free_s = done_s
            world.start(self._deliver(seq, what, nbytes, start_s), done_s + self.delay_s - start_s)
            yield max(20e-6, done_s - start_s - 8 * self.run.ring.buffer_bytes / self.rate_bps)
            message = {"src": self.src, "dst": self.dst, "seq": seq, "nbytes": nbytes}
            self.run.span(self.src, Phase.SEND, start_s, **what, **message)
            world.fire(self.signals(seq)[0])
        self._busy = False

    def _deliver(self, seq: int, what: dict[str, Any], nbytes: int, start_s: float) -> Process:
        world = self.run.world
        late_s = self.run.draw("read", self.src, seq).expovariate(1.0) * self.run.ring.read_s
        self._read_s = max(self._read_s, world.now + late_s)
        header_s = max(start_s, world.now - 8 * nbytes / self.rate_bps)
        yield self._read_s - world.now
        message = {"src": self.src, "dst": self.dst, "seq": seq, "nbytes": nbytes}
        self.run.span(self.dst, Phase.RECEIVE, header_s, **{**what, "task": -2, "posted_s": header_s}, **message)
        world.fire(self.signals(seq)[1])


class Run:
    """One simulation: the processes of every rank, and the spans they leave."""

    def __init__(self, ring: Ring) -> None:
        self.ring, self.world = ring, World()
        self.spans: list[list[tuple[Any, ...]]] = [[] for _ in range(ring.size)]
        self.wires = [Wire(self, src) for src in range(ring.size)]
        self.seqs = [itertools.count() for _ in range(ring.size)]
        self.numbers: dict[tuple[int, ...], int] = {}  # (src, iteration, bucket, step) -> seq
        self.keyed: dict[tuple[int, ...], Signal] = {}

    def draw(self, *key: Any) -> random.Random:
        """A generator for one draw, the same whatever else happened before."""
        return random.Random(f"{self.ring.seed}:{key}")

    def span(self, rank: int, phase: Phase, start_s: float, *, posted_s: float | None = None, **fields: Any) -> None:
        values = {"iteration": -1, "task": MAIN, "peer_task": -2, "bucket": -1, "src": -1, "dst": -1, "seq": -1}
        values |= {"nbytes": 0, "staleness": 0, "kind": 0, "phase": int(phase), **fields}
        values["posted_ns"] = round((start_s if posted_s is None else posted_s) * 1e9)
        values["start_ns"], values["end_ns"] = round(start_s * 1e9), round(self.world.now * 1e9)
        self.spans[rank].append(tuple(values[field] for field in SPAN.names or ()))

    def wait(self, rank: int, phase: Phase, signal: Signal, **fields: Any) -> Process:
        start_s = self.world.now
        yield signal
        yield self.draw("wake", rank, phase, start_s).expovariate(1.0) * self.ring.wake_s
        self.span(rank, phase, start_s, **fields)

    def work(self, rank: int, phase: Phase, seconds: float, **fields: Any) -> Process:
        start_s = self.world.now
        yield seconds
        self.span(rank, phase, start_s, **fields)

    def main(self, rank: int) -> Process:
        start_s = self.world.now
        tasks = itertools.count(1)
        for iteration in range(self.ring.iterations):
            began_s = self.world.now
            now = {"iteration": iteration}
            ready = [Signal() for _ in self.ring.bucket_bytes]
            self.span(rank, Phase.SPAWN, began_s, peer_task=COMPUTE_THREAD, **now)
            self.world.start(self.compute(rank, iteration, ready), 30e-6)
            joins = []
            for bucket, signal in enumerate(ready):
                yield from self.wait(rank, Phase.AWAIT_BUCKET, signal, bucket=bucket, **now)
                task, done = next(tasks), Signal()
                self.span(rank, Phase.SPAWN, self.world.now, peer_task=task, bucket=bucket, **now)
                self.world.start(self.reduce(rank, task, iteration, bucket, done), 10e-6)
                joins.append((task, done))
            for task, done in joins:
                yield from self.wait(rank, Phase.AWAIT_TASK, done, peer_task=task, **now)
            yield from self.work(rank, Phase.STEP, 200e-6, **now)
            self.span(rank, Phase.ITERATION, began_s, **now)
        self.span(rank, Phase.TRAINING, start_s)

    def compute(self, rank: int, iteration: int, ready: list[Signal]) -> Process:
        noise = 1 + self.draw("compute", rank, iteration).uniform(-1, 1) * self.ring.compute_noise
        seconds = self.ring.compute_s[rank] * self.ring.slow_hosts.get(rank, 1.0) * noise
        thread = {"task": COMPUTE_THREAD, "iteration": iteration}
        yield from self.work(rank, Phase.FORWARD, seconds / 3, **thread)
        for bucket, signal in enumerate(ready):
            yield from self.work(rank, Phase.BACKWARD, seconds * 2 / 3 / len(ready), bucket=bucket, **thread)
            self.world.fire(signal)

    def reduce(self, rank: int, task: int, iteration: int, bucket: int, done: Signal) -> Process:
        size, wire, left = self.ring.size, self.wires[rank], (rank - 1) % self.ring.size
        nbytes = self.ring.bucket_bytes[bucket] // size + HEADER_BYTES
        here = {"task": task, "iteration": iteration, "bucket": bucket}
        sent = []
        for step in range(2 * (size - 1)):
            seq = next(self.seqs[rank])
            self.numbers[rank, iteration, bucket, step] = seq
            wire.post(seq, here, nbytes)
            sent.append((seq, wire.signals(seq)[0]))
            self.world.fire(self.posted(rank, iteration, bucket, step))
            yield from self.receive(rank, left, here, iteration, bucket, step)
            if step < size - 1:
                yield from self.work(rank, Phase.REDUCE, nbytes * 1e-10, **here)
        for seq, signal in sent:
            key = {"src": rank, "dst": wire.dst, "seq": seq}
            yield from self.wait(rank, Phase.AWAIT_SENT, signal, **key, **here)
        self.world.fire(done)

    def receive(self, rank: int, left: int, here: dict[str, Any], *key: int) -> Process:
        """Waits for the left neighbour's message ``key``: until it is posted its number is not known."""
        start_s = self.world.now
        yield self.posted(left, *key)
        seq = self.numbers[(left, *key)]
        yield self.wires[left].signals(seq)[1]
        yield self.draw("wake", rank, *key).expovariate(1.0) * self.ring.wake_s
        self.span(rank, Phase.AWAIT_MESSAGE, start_s, src=left, dst=rank, seq=seq, **here)

    def posted(self, *key: int) -> Signal:
        """Fired when the message (src, iteration, bucket, step) has a number."""
        return self.keyed.setdefault(key, Signal())


def simulate(ring: Ring) -> Trace:
    """The trace of ``ring``, times aligned up to its clock error."""
    run = Run(ring)
    for rank in range(ring.size):
        run.world.start(run.main(rank), 100e-6 * rank)
    run.world.run()
    ranks = []
    for rank, rows in enumerate(run.spans):
        spans = np.array(rows, dtype=SPAN)
        error_ns = round(run.draw("clock", rank).uniform(-1, 1) * ring.clock_error_ns)
        for time in ("posted_ns", "start_ns", "end_ns"):
            spans[time] += 10**12 + error_ns
        clock = ClockAlignment(uncertainty_ns=ring.clock_error_ns)
        ranks.append(RankTrace(rank=rank, host=name(rank), layer="edge", spans=spans, clock=clock))
    return Trace(ranks=tuple(ranks), facts={})


def run_s(trace: Trace) -> float:
    """From the first rank's first iteration to the last rank's end."""
    training = [rank.spans[rank.spans["phase"] == Phase.TRAINING] for rank in trace.ranks]
    return float(max(t["end_ns"][0] for t in training) - min(t["start_ns"][0] for t in training)) / 1e9
