"""Ranks acting together: gathering, the first cause of an end, what a worker leaves."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from loopback import free_port

from e2c_dl import strategies
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import Cause, HostFacts, WorkerOutcome
from e2c_dl.drivers.live.budget.account import Account, CountAccount, TimeAccount
from e2c_dl.drivers.live.budget.shares import GrantedShare, LimitedShare
from e2c_dl.drivers.live.control import WHILE_ALIVE, WITHIN_S, Aborted, Control
from e2c_dl.drivers.live.coordinator import Coordinator
from e2c_dl.drivers.live.ending.collect import collect
from e2c_dl.drivers.live.metrics import device_bytes, device_with
from e2c_dl.errors import ArchiveError, PeerLost, TrainingError
from e2c_dl.strategies.base import Message, Vector
from e2c_dl.strategies.collectives.server import Served
from e2c_dl.worlds.allotment import SharedTime
from e2c_dl.worlds.live import Network
from e2c_dl.worlds.trained import Assembling, TrainedModel

NAMES = ("edge-1", "fog-1", "cloud-1")
KEY = bytes(range(32))


def play(
    scene: Callable[[list[Control]], Awaitable[None]], account: Account | None = None, within_s: float | None = 60
) -> None:
    async def run() -> None:
        port = free_port()
        coordinator = Coordinator(NAMES, KEY, account=account)
        await coordinator.listen("127.0.0.1", port)
        ranks = [await Control.join("127.0.0.1", port, rank=rank, names=NAMES, key=KEY) for rank in range(3)]
        try:
            await asyncio.wait_for(scene(ranks), within_s)
        finally:
            for control in ranks:
                control.close()
            await coordinator.close()

    asyncio.run(run())


def test_gather_is_by_rank_and_broadcast_is_rank_0s() -> None:
    async def scene(ranks: list[Control]) -> None:
        gathered = await asyncio.gather(*(ranks[rank].gather("values", rank * 2) for rank in (2, 0, 1)))
        assert gathered == [[0, 2, 4]] * 3
        assert await asyncio.gather(*(ranks[rank].broadcast("word", f"from {rank}") for rank in range(3))) == (
            ["from 0"] * 3
        )

    play(scene)


@pytest.mark.parametrize("limit", [WHILE_ALIVE, WITHIN_S])
def test_who_is_alive_is_waited_for_however_long_it_takes(limit: float | None) -> None:
    async def scene(ranks: list[Control]) -> None:
        loop = asyncio.get_running_loop()
        waiting = [asyncio.ensure_future(ranks[rank].barrier("concluded", limit)) for rank in (1, 2)]
        await asyncio.gather(*(control.barrier("behind that", WHILE_ALIVE) for control in ranks))
        time = loop.time
        loop.time = lambda: time() + 3600.0  # type: ignore[method-assign]  # rank 0 evaluates for an hour
        last = asyncio.gather(*(control.barrier("much later", WHILE_ALIVE) for control in ranks))
        if limit is not None:
            with pytest.raises(Aborted, match=r"rank 0 \(edge-1\) did not come to 'concluded' within 60 s"):
                await last
            return
        await last
        await asyncio.gather(ranks[0].barrier("concluded", limit), *waiting)

    play(scene, within_s=None)


@pytest.mark.parametrize("name", strategies.names())
def test_the_strategys_model_is_collected_at_rank_0(name: str) -> None:
    own = [np.full(5, 2.0 + rank, dtype=np.float32) for rank in range(3)]
    chosen = {"server": 2} if issubclass(strategies.load(name), Served) else {}
    model = TrainedModel.of(strategies.load(name)(**chosen), [10, 20, 70])

    async def scene(ranks: list[Control]) -> None:
        collected = await asyncio.gather(*(
            collect(model, own[rank], control, address="127.0.0.1", size=3, key=KEY)
            for rank, control in enumerate(ranks)
        ))  # fmt: skip
        assert np.array_equal(collected[0], model.assembled(lambda rank: own[rank]))
        assert all(kept is parameters for kept, parameters in zip(collected[1:], own[1:], strict=True))

    play(scene)
    means = dict.fromkeys(("adpsgd", "ako", "dlion", "fastlinks", "hop", "prague"), 3.0)
    by_samples = dict.fromkeys(("diloco", "gaia", "localsgd"), 3.6)
    expected = {"asyncparameterserver": 4.0, "fedat": 4.0, "parameterserver": 4.0, **means, **by_samples}.get(name, 2.0)
    assert np.allclose(model.assembled(lambda rank: own[rank]), expected)


def test_one_model_is_there_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[tuple[str, int]] = []
    post, add = Network.post, Assembling.add

    def posting(self: Network, dst: int, message: Message, *more: int) -> asyncio.Future[int]:
        if message.payload is not None:
            happened.append(("sent", self.rank))
        return post(self, dst, message, *more)

    def adding(self: Assembling, rank: int, parameters: Vector) -> None:
        happened.append(("added", rank))
        add(self, rank, parameters)

    monkeypatch.setattr(Network, "post", posting)
    monkeypatch.setattr(Assembling, "add", adding)

    async def scene(ranks: list[Control]) -> None:
        model, own = TrainedModel(weights=(0.5, 0.25, 0.25)), np.ones(5)
        await asyncio.gather(*(collect(model, own, control, address="127.0.0.1", size=3, key=KEY) for control in ranks))

    play(scene)
    assert happened == [("sent", 1), ("added", 1), ("sent", 2), ("added", 2)]


def test_a_shared_budget_is_granted_over_the_control_connections() -> None:
    async def scene(ranks: list[Control]) -> None:
        shares = [GrantedShare(control.say_budget) for control in ranks]
        for control, share in zip(ranks, shares, strict=True):
            control.on_budget = share.hear

        async def train(share: GrantedShare) -> int:
            done = 0
            while await share.begins(done):
                done += 1
            return done

        done = await asyncio.gather(*map(train, shares))
        assert sum(done) == 20
        assert min(done) >= 1

    play(scene, CountAccount(20, [1, 1, 1]))


def test_all_ranks_hear_when_a_budget_of_time_is_over() -> None:
    async def scene(ranks: list[Control]) -> None:
        shares = [LimitedShare(control.say_budget, SharedTime(0.05)) for control in ranks]
        for control, share in zip(ranks, shares, strict=True):
            control.on_budget = share.hear
        done = [0, 0, 0]
        going = True
        while going:  # in step
            going, *same = await asyncio.gather(
                *(share.begins(iteration) for share, iteration in zip(shares, done, strict=True))
            )
            assert same == [going, going]
            done = [each + going for each in done]

    play(scene, TimeAccount(0.05, 3))


def test_a_lost_rank_ends_work_and_waiting_of_the_others() -> None:
    async def scene(ranks: list[Control]) -> None:
        async def forever() -> None:
            await asyncio.Event().wait()

        others = [
            asyncio.ensure_future(ranks[0].guard(forever())), asyncio.ensure_future(ranks[1].gather("never", 1)),
        ]  # fmt: skip
        await asyncio.sleep(0)
        ranks[2].close()
        for other in others:
            with pytest.raises(Aborted, match=r"lost rank 2 \(cloud-1\): its control connection closed") as ended:
                await other
            assert ended.value.rank == 2

    play(scene)


def test_the_first_cause_is_told_to_all_and_late_comers() -> None:
    async def scene(ranks: list[Control]) -> None:
        first = await ranks[1].fail("the disk is full", exit_code=1)
        second = await ranks[2].fail("it closed the connection", lost=1)
        assert first is not None
        assert second is not None
        assert str(first) == str(second) == "rank 1 (fog-1): the disk is full"
        with pytest.raises(Aborted, match="the disk is full"):
            await ranks[0].barrier("anything")

    play(scene)


def test_who_loses_another_names_it_and_keeps_its_exit_code() -> None:
    async def scene(ranks: list[Control]) -> None:
        told = await ranks[0].fail("it closed the connection", lost=2, cause=Cause.LOST_PEER, exit_code=3)
        assert told is not None
        assert (str(told), told.exit_code) == ("lost rank 2 (cloud-1): it closed the connection", 3)

    play(scene)


def test_who_does_not_come_is_named() -> None:
    async def scene(ranks: list[Control]) -> None:
        with pytest.raises(Aborted, match=r"rank 1 \(fog-1\) did not come to 'start' within 0 s"):
            await asyncio.gather(ranks[0].barrier("start", 0.0), ranks[2].barrier("start", 0.0))

    play(scene)


def test_who_never_reaches_rank_0_has_lost_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2c_dl.drivers.live.control.WITHIN_S", 0.0)
    with pytest.raises(PeerLost, match=r"lost rank 0: edge-1: 127\.0\.0\.1:\d+ was not reached within 0 s") as lost:
        asyncio.run(Control.join("127.0.0.1", free_port(), rank=1, names=NAMES, key=KEY))
    assert lost.value.rank == 0  # so its own end is told as what follows from that of rank 0


def test_leaving_is_no_loss() -> None:
    async def scene(ranks: list[Control]) -> None:
        await ranks[2].leave()
        ranks[2].close()
        told = await ranks[0].fail("later", cause=Cause.STOPPED)
        assert told is not None
        assert (told.rank, told.cause) == (0, Cause.STOPPED)

    play(scene)


def test_a_port_in_use_is_told() -> None:
    async def scene() -> None:
        port = free_port()
        first, second = Coordinator(NAMES, KEY), Coordinator(NAMES, KEY)
        await first.listen("127.0.0.1", port)
        with pytest.raises(TrainingError, match=f"127.0.0.1:{port}: rank 0 cannot listen"):
            await second.listen("127.0.0.1", port)
        await first.close()

    asyncio.run(scene())


def test_the_outcome_replaces_its_reserve(tmp_path: Path) -> None:
    records = HostRecords(tmp_path)
    records.reserve_outcome()
    reserved = next(tmp_path.iterdir())
    assert reserved.stat().st_size == 4096
    ended = WorkerOutcome.of(Cause.FAILED, reason="x" * 9000, rank=1, iterations_done=2, seconds=3.0)
    records.write_outcome(ended)
    assert [path.name for path in tmp_path.iterdir()] == ["outcome.json"]
    assert (tmp_path / "outcome.json").stat().st_size < 4096
    read = records.outcome()
    assert read is not None and (read.cause, read.status, read.rank) == (Cause.FAILED, "failed", 1)


def test_an_outcome_that_has_no_room_is_told_in_words_and_no_half_of_one_has_its_name(tmp_path: Path) -> None:
    records = HostRecords(tmp_path)
    ended = WorkerOutcome.of(Cause.FAILED, reason="the link is down", rank=1, iterations_done=2, seconds=3.0)
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))  # as on a disk that is nearly full: a part is written
    try:
        with pytest.raises(ArchiveError, match=r"cannot be written: File too large; rank 1 failed: the link is down$"):
            records.write_outcome(ended)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert records.outcome() is None


def test_the_device_of_an_address_and_its_counters() -> None:
    assert device_with("127.0.0.1") == "lo"
    assert device_with("192.0.2.1") is None
    received, sent = device_bytes("lo")
    assert isinstance(received, int)
    assert isinstance(sent, int)
    assert device_bytes(None) == ("", "")


def test_facts_that_are_no_plain_text_or_number_are_written_as_such(tmp_path: Path) -> None:
    class Version(str):  # as torch's is
        __slots__ = ()

    records = HostRecords(tmp_path)
    records.write_facts(HostFacts(cores=2, torch={"version": Version("2.4"), "share": np.float64(0.5)}))
    records.amend_facts(kernel="6.1")
    facts = records.facts()
    assert facts is not None and (facts.cores, facts.kernel) == (2, "6.1")
    assert facts.torch == {"version": "2.4", "share": 0.5}
