"""Estimates of links and queues: what a strategy is told of them in both worlds, and that it may skip and calculate."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path

import live_world
import numpy as np
import pytest
import virtual_world
from virtual_world import scripted

from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.base import LinkEstimate, Message, Strategy, Worker
from e2c_dl.trace.model import Phase
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.worlds.live.sockets import SegmentPace
from e2c_dl.worlds.virtual import LinkModel, SharedRate

CUBIC = Tcp(congestion_control="cubic", slow_start_after_idle=False)
LARGE = np.zeros(100_000, dtype=np.float32)


@pytest.mark.parametrize("kind", ["ideal", "shared", "tcp"])
def test_a_simulated_link_is_known_by_what_it_delivered(kind: str) -> None:
    told: list[LinkEstimate | None] = []
    queued: list[int] = []

    async def script(worker: Worker) -> None:
        for step in range(4):
            if worker.rank == 0:
                told.append(worker.link(1))
                sent = [worker.send(1, Message(kind="a", step=step + 10 * copy, payload=LARGE)) for copy in range(2)]
                queued.append(worker.queued_bytes(1))
                for each in sent:
                    await each
                await worker.receive("b", src=1, step=step)
            else:
                for copy in range(2):
                    await worker.receive("a", src=0, step=step + 10 * copy)
                await worker.send(0, Message(kind="b", step=step))

    link = LinkModel(rate_bps=20e6, delay_s=0.01, tcp=CUBIC if kind == "tcp" else None)
    shared = [SharedRate(rate_bps=10e6, links=((0, 1),))] if kind == "shared" else []
    virtual_world.run(scripted(script), size=2, links=virtual_world.everywhere(2, link), bottlenecks=shared)
    assert told[0] is None
    assert told[-1] is not None
    rate_bps = 10e6 if kind == "shared" else 20e6
    assert 0.9 * rate_bps < told[-1].rate_bps < rate_bps  # of messages: frames and segments have headers
    assert told[-1].round_trip_s == pytest.approx(0.02)
    assert 0 <= told[-1].age_s < 0.1
    assert all(LARGE.nbytes < each <= 2.2 * LARGE.nbytes for each in queued)


def test_a_live_link_is_known_by_its_sockets_counters(tmp_path: Path) -> None:
    async def scene() -> None:
        with ExitStack() as stack:
            opened = live_world.networks(stack, live_world.recorders(stack, tmp_path, 2))
            await live_world.connected(opened, [(0, 1)])
            assert opened[0].link(1) is None
            assert opened[1].link(0) is None  # never opened
            sent = [opened[0].post(1, Message(kind="a", step=step, payload=LARGE), 0, 1, 0) for step in range(20)]
            assert opened[0].queued_bytes(1) == 20 * LARGE.nbytes
            for each in sent:
                await each
            assert opened[0].queued_bytes(1) == 0
            told = opened[0].link(1)
            assert told is None or (told.rate_bps > 1e6 and 0 < told.round_trip_s < 1 and told.age_s >= 0)
            await asyncio.gather(*(network.close() for network in opened))

    asyncio.run(scene())


class Counted:
    """A socket whose kernel tells what it is given."""

    def __init__(self) -> None:
        self.told = b""

    def getsockopt(self, *_: int) -> bytes:
        return self.told

    def setsockopt(self, *_: int) -> None:
        """Nothing is sent."""

    def tells(self, acked: int, busy_us: int, *, by_sender: bool) -> None:
        values = {
            "delivery_rate_bytes_per_s": 10**7, "rate_is_limited_by_sender": by_sender, "srtt_us": 20_000,
            "min_rtt_us": 10_000, "bytes_acked": acked, "busy_us": busy_us,
        }  # fmt: skip
        raw = bytearray(tcp_info.LENGTH)
        for name, value in values.items():
            offset, kind = tcp_info.FIELDS[name]
            raw[offset : offset + int(kind[1])] = int(value).to_bytes(int(kind[1]), sys.byteorder)
        self.told = bytes(raw)


def test_a_live_link_is_known_by_what_it_carried_while_there_was_something_to_carry() -> None:
    kernel = Counted()
    pace = SegmentPace(kernel)  # type: ignore[arg-type]

    def estimate(acked: int, busy_us: int, *, by_sender: bool) -> LinkEstimate | None:
        kernel.tells(acked, busy_us, by_sender=by_sender)
        pace.update()
        return pace.estimate()

    assert estimate(100, 10_000, by_sender=True) is None  # never full: who knows what it can
    full = estimate(300_000, 300_000, by_sender=False)
    assert full is not None
    assert full.rate_bps == 8e6
    assert full.age_s >= 0
    for count in range(1, 6):  # messages that do not fill it, and each time the way of the last acknowledgement
        pace.all_sent()
        small = estimate(300_000 + count, 300_000 + count * 10_000, by_sender=True)
        assert small is not None
        assert small.rate_bps == pytest.approx(8e6, rel=0.04)
    faster = estimate(10**7, 1_350_000, by_sender=True)  # it carries more now
    assert faster is not None
    assert faster.rate_bps > 6e7


class Skipping(Strategy):
    """Skips iterations 2 and 3, and calculates."""

    name = "skipping"
    seen: list[tuple[int, int]]

    @classmethod
    def links(cls, size: int) -> list[tuple[int, int]]:
        return []

    async def run(self, worker: Worker) -> None:
        self.seen = []
        async for iteration in worker.iterations():
            if iteration == 1:
                worker.skip_to(4)
            found = await worker.calculate(
                lambda: int(worker.parameters.argmax()), nbytes=worker.parameters.nbytes, shapes=lambda: -1
            )
            self.seen.append((iteration, found))
        worker.skip_to(0)


def test_iterations_can_be_skipped_and_mathematics_takes_time(tmp_path: Path) -> None:
    start = np.arange(8, dtype=np.float32)

    def compute() -> live_world.Linear:
        return live_world.Linear(start, [slice(0, 8)], lambda _, w: w, 0.1)

    for real, found in ((True, 7), (False, -1)):
        strategy = Skipping()
        run = virtual_world.run(
            lambda made=strategy: made, size=1, iterations=6, computes=[compute()] if real else None
        )
        assert strategy.seen == [(iteration, found) for iteration in (0, 1, 4, 5)]
        assert run.spans(0, Phase.ITERATION)["iteration"].tolist() == [0, 1, 4, 5]
        assert run.spans(0, Phase.REDUCE)["end_ns"].tolist()[0] > 0
    spans = live_world.train(tmp_path, Skipping, [compute()], [1], 6)[0]
    assert spans["iteration"][spans["phase"] == Phase.ITERATION].tolist() == [0, 1, 4, 5]
    assert int((spans["phase"] == Phase.REDUCE).sum()) == 4
