"""Peers behind a link that is cut are given up as live ones are (tests/local/test_link_cut.py has the same cuts)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import ClassVar

import pytest
import virtual_world
from cut_links import LOST, SENDING, SHARES
from test_virtual_links import TCP, VECTOR
from virtual_world import scripted

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message, Strategy, Worker
from e2c_dl.worlds.giving_up import GIVE_UP_S
from e2c_dl.worlds.virtual import LinkModel
from e2c_dl.worlds.virtual.setting import Onset

WHOLE = LinkModel(rate_bps=1e8, delay_s=0.01, tcp=TCP)
CUT = LinkModel(rate_bps=1e8, delay_s=0.01, tcp=TCP, down=True)
CUT_S = 1.0  # when


class Pair(Strategy):
    """Rank 0 sends, all the time or once after the cut; rank 1 waits for it. Both note when they lose each other."""

    name: ClassVar[str] = "pair"
    sends: ClassVar[bool]
    lost: ClassVar[list[tuple[int, str]]]
    came: ClassVar[list[int]]

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return [(0, 1)]

    async def run(self, worker: Worker) -> None:
        try:
            await (self.send(worker) if worker.rank == 0 else self.receive(worker))
        except PeerLost as why:
            self.lost.append((worker.rank, str(why)))

    async def send(self, worker: Worker) -> None:
        for step in range(600):
            await worker.receive_any("pause", timeout_s=0.1)  # nobody sends it: time passes
            if self.sends or step == 599:
                await worker.send(1, Message(kind="k", step=step, payload=VECTOR))

    async def receive(self, worker: Worker) -> None:
        while not self.came or self.came[-1] != 599:
            message = await worker.receive_any("k", sources=[0])
            assert message is not None
            self.came.append(message.step)


def run(sends: bool, cut_s: float, cut: tuple[int, int]) -> virtual_world.Run:
    Pair.sends, Pair.lost, Pair.came = sends, [], []
    over_time = [(0.0, WHOLE), (CUT_S, CUT), (CUT_S + cut_s, WHOLE)]
    changing = LinkModel(delay_s=0.01, tcp=TCP, conditions=lambda: iter(over_time))
    links = {(0, 1): WHOLE, (1, 0): WHOLE, cut: changing}
    return virtual_world.run(Pair, size=2, links=links)


@pytest.mark.parametrize("sends", SENDING.values(), ids=SENDING.keys())
@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES.keys())
@pytest.mark.parametrize("cut", [(0, 1), (1, 0)], ids=str)
def test_both_ends_lose_each_other_after_a_cut_that_is_too_long(
    sends: bool, share: float, cut: tuple[int, int]
) -> None:
    ended = run(sends, share * GIVE_UP_S, cut)
    if share == LOST:
        assert sorted(rank for rank, _ in Pair.lost) == [0, 1]
        assert all(f"for {GIVE_UP_S:g} s" in why for _, why in Pair.lost)
        last_s = ended.spans(1)["end_ns"].max(initial=0) / 1e9
        assert last_s <= CUT_S + GIVE_UP_S + 0.1  # nothing that was on its way comes later
    else:
        assert Pair.lost == []
        assert Pair.came[-1] == 599


def test_a_cut_for_good_that_begins_with_an_iteration_is_one_too() -> None:
    class Waiting(Pair):
        async def run(self, worker: Worker) -> None:
            async for _ in worker.iterations():
                async for _ in worker.gradient():
                    pass
            with pytest.raises(PeerLost, match=f"lost rank {1 - worker.rank}: it gave no sign of life for 20 s"):
                await worker.receive("never", src=1 - worker.rank)
            self.lost.append((worker.rank, ""))

    begun: list[int] = []

    def over_time() -> Iterator[tuple[float, LinkModel]]:
        return iter([(0.0, WHOLE), *((at_ns / 1e9, CUT) for at_ns in begun)])

    def on_iteration(rank: int, iteration: int, now_ns: int) -> Onset | None:
        if (rank, iteration) != (0, 3):
            return None
        begun.append(now_ns)
        return Onset(links=((0, 1),))

    Waiting.lost = []
    ended = virtual_world.run(
        Waiting, size=2, links={(0, 1): LinkModel(tcp=TCP, conditions=over_time), (1, 0): WHOLE}, unsteady=[(0, 1)],
        on_iteration=on_iteration,
    )  # fmt: skip
    assert sorted(rank for rank, _ in Waiting.lost) == [0, 1]
    assert ended.end_s == pytest.approx(begun[0] / 1e9 + GIVE_UP_S)


def test_a_deadlock_is_found_under_schedules_that_go_on_for_ever() -> None:
    def endless() -> Iterator[tuple[float, LinkModel]]:
        return ((float(second), CUT if second % 5 == 4 else WHOLE) for second in count())

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            await worker.receive("never", src=1)

    with pytest.raises((TrainingError, PeerLost), match=r"deadlock at|has ended its training"):
        virtual_world.run(scripted(script), size=2, links={(1, 0): LinkModel(tcp=TCP, conditions=endless)})

    async def both(worker: Worker) -> None:
        await worker.receive("never", src=1 - worker.rank)

    with pytest.raises(TrainingError, match="deadlock at"):
        virtual_world.run(scripted(both), size=2, links={(1, 0): LinkModel(tcp=TCP, conditions=endless)})
