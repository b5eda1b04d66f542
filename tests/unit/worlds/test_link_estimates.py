"""Estimates of links and queues: what a strategy is told of them in both worlds, and that it may skip and calculate."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
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
from e2c_dl.worlds.live.carried import LEAST_BYTES, Carried, Heard, ReportError
from e2c_dl.worlds.live.mailbox import MailKey
from e2c_dl.worlds.virtual import LinkModel, SharedRate

CUBIC = Tcp(congestion_control="cubic", slow_start_after_idle=False)
SO_MAX_PACING_RATE = 47  # Linux' number, which Python does not name
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


def test_a_live_link_is_known_by_what_its_receiver_waited_for(tmp_path: Path) -> None:
    """The link is a socket on loopback, whose sender is slowed: what it carries is what it is let carry."""
    large, bytes_per_s = np.zeros(1 << 18, dtype=np.float32), 4e6  # a megabyte

    async def scene() -> LinkEstimate | None:
        with ExitStack() as stack:
            opened = live_world.networks(stack, live_world.recorders(stack, tmp_path, 2))
            await live_world.connected(opened, [(0, 1)])
            assert opened[0].link(1) is None
            assert opened[1].link(0) is None  # never opened
            connection = opened[0]._outgoing[1].connection
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(bytes_per_s))
            sent = [opened[0].post(1, Message(kind="a", step=step, payload=large), 0, 1, 0) for step in range(2)]
            assert opened[0].queued_bytes(1) == 2 * large.nbytes
            for step, each in enumerate(sent):
                await each
                await opened[1].mailboxes.get(MailKey(0, "a", -1, -1, step))
            assert opened[0].queued_bytes(1) == 0
            await asyncio.sleep(0.5)  # the report comes
            told = opened[0].link(1)
            await asyncio.gather(*(network.close() for network in opened))
            return told

    told = asyncio.run(scene())
    assert told is not None
    assert told.rate_bps == pytest.approx(8 * bytes_per_s, rel=0.25)
    assert 0 < told.round_trip_s < 1
    assert 0 < told.age_s < 60


def test_what_came_before_its_receiver_looked_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    carried, heard = Carried(), Heard()
    carried.drained(0, due=False)  # idle
    now_ns = 10**9
    carried.drained(100_000, due=True)  # the receiver was late: so much was there
    assert carried.report() == b""
    now_ns += 10**8
    carried.drained(200_000, due=True)
    now_ns += 10**8
    carried.drained(200_000 + LEAST_BYTES - 1, due=False)  # too little to tell its time from that of waking up
    heard.take(carried.report())
    assert carried.report() == b""  # told
    found = heard.rate()
    assert found is not None
    assert found[0] == 8e6
    for rate in (2, 2, 2, 2):  # megabytes per second
        now_ns += 10**10
        carried.drained(0, due=True)
        now_ns += 10**8
        carried.drained(rate * 100_000, due=False)
        heard.take(carried.report())
    latest = heard.rate()
    assert latest is not None
    assert latest[0] == 16e6  # of the last four


@pytest.mark.parametrize("told", [(-1, 5), (5, -1), (0, 0)])
def test_what_is_no_report_is_refused(told: tuple[int, int]) -> None:
    with pytest.raises(ReportError, match="no report"):
        Heard().take(struct.pack("<qq", *told))


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
