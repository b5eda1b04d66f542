"""How a virtual run ends: deadlocks, links that are down for good, ranks that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
import virtual_world
from test_virtual_links import VECTOR
from virtual_world import scripted

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message, Worker
from e2c_dl.worlds.virtual import LinkModel, SharedRate

DELAYED = virtual_world.everywhere(3, LinkModel(delay_s=0.01))


def test_a_deadlock_names_who_waits_for_what() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            await worker.receive("never", src=1, iteration=3)
        elif worker.rank == 1:
            await worker.spawn(worker.receive_any("any", sources=[0]))
        else:
            await worker.receive("never", src=2)

    with pytest.raises(TrainingError) as raised:
        virtual_world.run(scripted(script), size=3, links=DELAYED)
    for told in ("rank 0 task 0 for message 'never' from rank 1, iteration 3", "rank 1 task 1 for any message 'any'",
                 "rank 1 task 0 for its task 1", "rank 2 task 0"):  # fmt: skip
        assert told in str(raised.value)


@pytest.mark.parametrize("shared", [False, True])
def test_a_link_that_is_down_for_ever_is_a_deadlock(shared: bool) -> None:
    def endless() -> Iterator[tuple[float, float]]:
        return ((second, 1e6 + second % 2) for second in count())

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            await worker.send(1, Message(kind="a", payload=VECTOR))

    schedule = [(0.0, LinkModel(rate_bps=1e6)), (0.01, LinkModel(down=True))]
    links = {(0, 1): LinkModel(conditions=lambda: iter(schedule), send_buffer_bytes=0)}
    access = [SharedRate(rate_bps=1e6, links=((0, 1),), rates=endless)] if shared else []
    with pytest.raises(TrainingError, match=r"at 0\.010000 s .* its message 'a' to leave for rank 1"):
        virtual_world.run(scripted(script), size=2, links=links, bottlenecks=access)


def test_a_killed_rank_is_lost_to_its_peers_and_its_trace_breaks_off() -> None:
    seen: list[str] = []

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            worker.send(1, Message(kind="hello"))
            async for _ in worker.iterations():
                async for _ in worker.gradient():
                    pass
            return
        await worker.receive("hello", src=0)
        try:
            await worker.receive("more", src=0)
        except PeerLost as lost:
            seen.append(str(lost))
        with pytest.raises(PeerLost):
            await worker.send(0, Message(kind="too late"))

    hosts = virtual_world.hosts(2)
    hosts = (replace(hosts[0], killed_at_s=0.015), hosts[1])
    run = virtual_world.run(scripted(script), size=2, links=DELAYED, on_hosts=hosts)
    assert seen == ["lost rank 0: its process was killed"]
    assert run.result.killed == (0,)
    assert run.result.end_ns == 25_000_000
    assert not run.trace.ranks[0].complete
    assert run.spans(0)["end_ns"].max() <= 15_000_000


async def watch(worker: Worker) -> None:
    """A background task that never ends."""
    while await worker.receive_any("never", timeout_s=1.0) is None:
        pass


async def train_watched(worker: Worker) -> None:
    """Rank 0 watches; nobody waits for anybody."""
    if worker.rank == 0:
        worker.spawn(watch(worker), background=True)
    async for _ in worker.iterations():
        async for _ in worker.gradient():
            pass


def test_a_run_ends_when_the_last_that_trains_is_killed() -> None:
    first, slow = virtual_world.hosts(2, factors=[1.0, 10.0])
    hosts = (first, replace(slow, killed_at_s=0.3))
    run = virtual_world.run(scripted(train_watched), size=2, links=DELAYED, on_hosts=hosts)
    assert [rank.complete for rank in run.trace.ranks] == [True, False]
    assert (run.result.killed, run.result.end_ns) == ((1,), 300_000_000)


def test_one_that_is_killed_after_its_training_ends_nobody_elses() -> None:
    first, slow = virtual_world.hosts(2, factors=[1.0, 10.0])
    hosts = (replace(first, killed_at_s=0.3), slow)
    run = virtual_world.run(scripted(train_watched), size=2, links=DELAYED, on_hosts=hosts)
    assert [rank.complete for rank in run.trace.ranks] == [True, True]
    assert run.result.killed == ()
