"""What must hold of links that TCP sends over: nothing is lost for good, loss is never faster, slow starts double."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.ethernet import SEGMENT_BYTES, wire_bits
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Message, Strategy, Worker
from e2c_dl.topology import Discipline
from e2c_dl.trace.messages import conservation
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES
from e2c_dl.worlds.virtual.shape import shape

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
LINK = LinkModel(rate_bps=50e6, delay_s=0.01, tcp=TCP)
BUCKETS = virtual_world.profile([20_000, 20_000])  # messages of 20 kB over three ranks


class BesideBulk(Strategy):
    """Rank 0 sends much to rank 2, and rank 1 one small message while that is under way."""

    name: ClassVar[str] = "beside-bulk"
    AT_NS: ClassVar[int] = 600_000_000

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return [(0, 2), (1, 2)]

    async def run(self, worker: Worker) -> None:
        if worker.rank == 0:
            worker.send(2, Message(kind="bulk", payload=shape(500_000, "float32")))
        elif worker.rank == 1:
            await worker.receive_any("nothing", timeout_s=self.AT_NS / 1e9)
            worker.send(2, Message(kind="small"))
        else:
            await worker.receive("small", src=1)
            await worker.receive("bulk", src=0)


def mean_s(link: LinkModel, size: int = 3, iterations: int = 15) -> float:
    """Over several seeds."""
    links = virtual_world.everywhere(size, link)
    return statistics.mean(
        virtual_world.run(Allreduce, size=size, seed=seed, links=links, of=BUCKETS, iterations=iterations).end_s
        for seed in range(6)
    )


@pytest.mark.parametrize("congestion_control", ["cubic", "reno"])
def test_more_loss_is_never_faster_in_the_mean(congestion_control: str) -> None:
    tcp = replace(TCP, congestion_control=congestion_control)
    ends_s = [mean_s(replace(LINK, tcp=tcp, loss=loss)) for loss in (0.0, 0.003, 0.01, 0.03, 0.1)]
    assert ends_s == sorted(ends_s)
    assert ends_s[3] > 1.3 * ends_s[0]


def test_an_ideal_link_is_never_slower_than_tcp() -> None:
    for link in (LINK, replace(LINK, delay_s=0.1), replace(LINK, rate_bps=1e6), replace(LINK, loss=0.02)):
        assert mean_s(replace(link, tcp=None, loss=0.0)) <= mean_s(link) * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), size=st.integers(2, 4), jitter_s=st.sampled_from([0.0, 0.001, 0.02]),
    loss=st.sampled_from([0.0, 0.05, 0.3]), shared=st.sampled_from([None, *Discipline]),
    queue=st.sampled_from([6056, 10**7]), idle=st.booleans(),
)  # fmt: skip
def test_everything_arrives_once_and_in_order(
    seed: int, size: int, jitter_s: float, loss: float, shared: Discipline | None, queue: int, idle: bool
) -> None:
    """Whatever is lost, at random or in queues that hold four frames."""
    tcp = replace(TCP, slow_start_after_idle=idle)
    link = LinkModel(rate_bps=20e6, delay_s=0.005, jitter_s=jitter_s, loss=loss, queue_bytes=queue, tcp=tcp)
    links = virtual_world.everywhere(size, link)
    access = [] if shared is None else [
        SharedRate(rate_bps=15e6, links=tuple(links), queue_bytes=queue, discipline=shared)
    ]  # fmt: skip
    run = virtual_world.run(Allreduce, size=size, seed=seed, links=links, bottlenecks=access, of=BUCKETS, iterations=3)
    for row in conservation(run.trace):
        assert (row.sent_messages, row.sent_bytes) == (row.received_messages, row.received_bytes)
    for rank in range(size):
        received = run.spans(rank, Phase.RECEIVE)
        for src in range(size):
            own = np.sort(received[received["src"] == src], order="seq")
            assert np.all(np.diff(own["end_ns"].astype(np.int64)) >= 0)
            assert np.all(own["start_ns"] <= own["end_ns"])


@settings(max_examples=25, deadline=None)
@given(floats=st.integers(1, 400_000), delay_ms=st.integers(10, 200))
def test_a_fresh_connection_takes_log2_of_its_windows_in_round_trips(floats: int, delay_ms: int) -> None:
    """Without a rate, n segments need ceil(log2(n / 10 + 1)) windows of 10, 20, 40, ..., one a round trip."""
    link = LinkModel(delay_s=delay_ms / 1e3, tcp=replace(TCP, congestion_control="reno"))
    profile = virtual_world.profile([floats * 2])  # halves: two ranks reduce a half each
    run = virtual_world.run(Allreduce, size=2, links=virtual_world.everywhere(2, link), of=profile, iterations=1)
    first = run.spans(1, Phase.RECEIVE)[0]
    segments = -(-(MESSAGE_HEADER_BYTES + 4 * floats) // SEGMENT_BYTES)
    rounds = math.ceil(math.log2(segments / 10 + 1))
    posted_ns = run.spans(0, Phase.SEND)["posted_ns"].min()
    assert first["end_ns"] - posted_ns == pytest.approx((2 * rounds - 1) * delay_ms * 1e6, abs=1e4)


def test_a_warm_link_is_an_ideal_one() -> None:
    """Once the window fills the link, iterations are as long as over a link that is filled from the start."""
    fresh, ideal = (
        virtual_world.run(Allreduce, size=3, links=virtual_world.everywhere(3, link), of=BUCKETS, iterations=30)
        for link in (LINK, replace(LINK, tcp=None))
    )
    spans = [run.spans(0, Phase.ITERATION) for run in (fresh, ideal)]
    lengths = [(each["end_ns"] - each["start_ns"]).astype(np.int64) for each in spans]
    assert lengths[0][0] > lengths[1][0]
    assert lengths[0][-10:] == pytest.approx(lengths[1][-10:], rel=2e-4)  # microseconds: who is first may differ


def test_a_small_message_waits_behind_what_others_have_queued() -> None:
    """First come, first served, it waits for the others' segments; one of its own, with a queue for each, does not."""
    links = virtual_world.everywhere(3, replace(LINK, rate_bps=100e6, delay_s=0.001))
    pairs = ((0, 2), (1, 2))
    behind_ns = {}
    for discipline in Discipline:
        access = [SharedRate(rate_bps=10e6, links=pairs, queue_bytes=10**6, discipline=discipline)]
        run = virtual_world.run(BesideBulk, size=3, links=links, bottlenecks=access, of=BUCKETS, iterations=1)
        small = run.spans(2, Phase.RECEIVE)
        behind_ns[discipline] = int(small["end_ns"][small["src"] == 1].max()) - BesideBulk.AT_NS
    queued_ns = wire_bits(10 * SEGMENT_BYTES) * 100  # ten segments and more, 100 ns a bit
    assert behind_ns[Discipline.FIFO] > queued_ns > 5 * behind_ns[Discipline.FAIR]
