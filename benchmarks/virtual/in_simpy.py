"""The exchange of :mod:`benchmarks.virtual.exchange`, written plainly in SimPy, leaving the same spans.

A process per rank, one per gradient and one per message; a Resource per link, a Store per receiver and source.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import simpy

from benchmarks.virtual.exchange import (
    BACKWARD_NS,
    DELAY_NS,
    FORWARD_NS,
    HEADER_NS,
    NBYTES,
    SERVICE_NS,
    factor,
)
from e2c_dl.trace.model import RECORD, Phase
from e2c_dl.worlds.virtual.simulate import PENDING_RECORDS
from e2c_dl.worlds.virtual.sinks import InFiles

Process = Generator[Any, Any, Any]


class Link:
    """One directed link: who sends holds it for the message's service, and the message arrives a delay later."""

    def __init__(self, env: simpy.Environment, src: int, dst: int) -> None:
        self.src, self.dst = src, dst
        self.wire = simpy.Resource(env)
        self.inbox = simpy.Store(env)
        self.seq = 0


class Ring:
    """All ranks and links, and their spans on the way to their files."""

    def __init__(self, size: int, iterations: int, paths: list[Path]) -> None:
        self.env = simpy.Environment()
        self.size, self.iterations = size, iterations
        self.links: dict[tuple[int, int], Link] = {}
        for rank in range(size):
            for other in ((rank - 1) % size, (rank + 1) % size):
                self.links[rank, other] = Link(self.env, rank, other)
        self.files = InFiles(paths)
        self.files.open([(f"edge-{rank + 1}", "edge") for rank in range(size)])
        self.capacity = max(32, PENDING_RECORDS // size)
        self.records: list[list[bytes]] = [[] for _ in range(size)]

    def run(self) -> int:
        """The end, in ns."""
        ranks = [self.env.process(self.rank(rank)) for rank in range(self.size)]
        self.env.run(until=self.env.all_of(ranks))
        end_ns = int(self.env.now)
        self.env.run()  # what is still on its way
        for rank in range(self.size):
            self.write(rank)
        return end_ns

    def rank(self, rank: int) -> Process:
        env, left, right = self.env, (rank - 1) % self.size, (rank + 1) % self.size
        start_ns = env.now
        for iteration in range(self.iterations):
            began_ns = env.now
            self.span(rank, Phase.SPAWN, env.now, iteration=iteration, peer_task=-1)
            yield env.process(self.gradient(rank, iteration))
            self.span(rank, Phase.AWAIT_BUCKET, began_ns, iteration=iteration, bucket=0)
            for dst in (left, right):
                env.process(self.message(self.links[rank, dst], iteration))
            for src in (left, right):
                posted_ns = env.now
                seq = yield self.links[src, rank].inbox.get()
                self.span(rank, Phase.AWAIT_MESSAGE, posted_ns, iteration=iteration, src=src, dst=rank, seq=seq)
            self.span(rank, Phase.ITERATION, began_ns, iteration=iteration)
            if len(self.records[rank]) >= self.capacity:
                self.write(rank)
        self.span(rank, Phase.TRAINING, start_ns)

    def gradient(self, rank: int, iteration: int) -> Process:
        env, slow = self.env, factor(rank)
        self.span(rank, Phase.DATA, env.now, task=-1, iteration=iteration)
        start_ns = env.now
        yield env.timeout(FORWARD_NS * slow)
        self.span(rank, Phase.FORWARD, start_ns, task=-1, iteration=iteration)
        start_ns = env.now
        yield env.timeout(BACKWARD_NS * slow)
        self.span(rank, Phase.BACKWARD, start_ns, task=-1, iteration=iteration, bucket=0)

    def message(self, link: Link, iteration: int) -> Process:
        env = self.env
        posted_ns = env.now
        with link.wire.request() as turn:
            yield turn
            start_ns = env.now
            seq, link.seq = link.seq, link.seq + 1
            yield env.timeout(SERVICE_NS)
            self.span(
                link.src, Phase.SEND, start_ns, posted_ns=posted_ns, iteration=iteration, src=link.src, dst=link.dst,
                seq=seq, nbytes=NBYTES,
            )  # fmt: skip
        yield env.timeout(DELAY_NS)
        self.span(
            link.dst, Phase.RECEIVE, start_ns + HEADER_NS + DELAY_NS, task=-2, iteration=iteration, src=link.src,
            dst=link.dst, seq=seq, nbytes=NBYTES,
        )  # fmt: skip
        yield link.inbox.put(seq)

    def span(
        self, rank: int, phase: Phase, start_ns: int, *, posted_ns: int | None = None, task: int = 0,
        iteration: int = -1, peer_task: int = -2, bucket: int = -1, src: int = -1, dst: int = -1, seq: int = -1,
        nbytes: int = 0,
    ) -> None:  # fmt: skip
        self.records[rank].append(RECORD.pack(
            start_ns if posted_ns is None else posted_ns, start_ns, self.env.now, nbytes, seq, iteration, task,
            peer_task, bucket, src, dst, 0, phase, 0,
        ))  # fmt: skip

    def write(self, rank: int) -> None:
        self.files.write(rank, b"".join(self.records[rank]))
        self.records[rank].clear()
