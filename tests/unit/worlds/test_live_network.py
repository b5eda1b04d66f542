"""Connections of the live world over loopback: order, loss, goodbye, strangers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import live_world
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import read_spans
from e2c_dl.worlds.live import Network
from e2c_dl.worlds.live.frames import FrameType, Header
from e2c_dl.worlds.live.handshake import Introduction, introduce
from e2c_dl.worlds.live.mailbox import MailKey

BOTH = ((0, 1), (1, 0))
Scene = Callable[[list[Network]], Awaitable[None]]


def play(
    directory: Path,
    scene: Scene,
    *,
    size: int = 2,
    links: tuple[tuple[int, int], ...] = BOTH,
    largest: int = live_world.LARGEST,
) -> None:
    async def run() -> None:
        with ExitStack() as stack:
            opened = live_world.networks(stack, live_world.recorders(stack, directory, size), largest=largest)
            await live_world.connected(opened, links)
            await asyncio.wait_for(scene(opened), 60)

    asyncio.run(run())


def message(step: int, length: int = 4) -> Message:
    return Message(kind="k", step=step, payload=np.full(length, step, dtype=np.float32))


def received(network: Network, step: int, src: int = 0) -> Awaitable[object]:
    return network.mailboxes.get(MailKey(src, "k", -1, -1, step))


def test_keys_are_met_out_of_order_and_values_arrive(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        for step, length in enumerate([0, 3, 100_000]):
            opened[0].post(1, message(step, length), 0, 1, 0)
        for step, length in [(2, 100_000), (0, 0), (1, 3)]:
            payload = (await opened[1].mailboxes.get(MailKey(0, "k", -1, -1, step))).message.vector
            assert np.array_equal(payload, np.full(length, step, dtype=np.float32))
        await asyncio.gather(*(network.close() for network in opened))

    play(tmp_path, scene)
    sent, came = (read_spans(tmp_path / f"{rank}.bin")[1] for rank in range(2))
    assert sent["nbytes"].tolist() == came["nbytes"].tolist()
    assert sent["seq"].tolist() == came["seq"].tolist() == [0, 1, 2]
    assert set(sent["phase"]) == {Phase.SEND}
    assert set(came["phase"]) == {Phase.RECEIVE}


def test_priority_orders_what_waits_and_equal_priority_is_first_come(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        sent = [opened[0].post(1, message(step), priority, 1, 0) for step, priority in enumerate([5, 1, 5, 0])]
        assert [await each for each in sent] == [2, 1, 3, 0]

    play(tmp_path, scene)


def test_a_link_that_nobody_announced_opens_when_it_is_used(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        opened[0].post(2, message(1), 0, 1, 0)
        await received(opened[2], 1)

    play(tmp_path, scene, size=3)


def test_sending_to_oneself_is_an_error(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        with pytest.raises(TrainingError, match="rank 0 cannot send to rank 0"):
            opened[0].post(0, message(0), 0, 1, 0)

    play(tmp_path, scene)


@pytest.mark.parametrize("links", [((0, 1),), ((1, 0),), BOTH])
def test_a_peer_that_goes_without_goodbye_is_lost(tmp_path: Path, links: tuple[tuple[int, int], ...]) -> None:
    async def scene(opened: list[Network]) -> None:
        waiting = opened[0].mailboxes.get(MailKey(1, "k", -1, -1, 0))
        opened[1].abort()
        with pytest.raises(PeerLost, match="lost rank 1"):
            await waiting
        with pytest.raises(PeerLost, match="lost rank 1"):
            await opened[0].mailboxes.get(MailKey(1, "k", -1, -1, 1))
        if (0, 1) in links:
            while True:  # the kernel may take some before it knows
                await opened[0].post(1, message(0), 0, 1, 0)

    with pytest.raises(PeerLost, match="lost rank 1") if (0, 1) in links else ExitStack():
        play(tmp_path, scene, links=links)


def test_after_goodbye_what_came_is_there_and_nothing_else_is(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        opened[0].post(1, message(0), 0, 1, 0)
        await asyncio.gather(*(network.close() for network in opened))
        await received(opened[1], 0)
        with pytest.raises(PeerLost, match="ended its training"):
            await received(opened[1], 1)

    play(tmp_path, scene)


def member(src: int, dst: int, size: int = 2) -> Introduction:
    return Introduction(channel="data", src=src, dst=dst, size=size)


async def dial(network: Network) -> socket.socket:
    connection = socket.create_connection((network.address.host, network.address.port))
    connection.setblocking(False)
    return connection


async def talk(network: Network, who: Introduction, *content: bytes) -> socket.socket:
    """A connection that proves to be ``who``, then sends ``content``."""
    connection = await dial(network)
    try:
        await introduce(connection, who, live_world.KEY)
    except BaseException:
        connection.close()
        raise
    for each in content:
        await asyncio.get_running_loop().sock_sendall(connection, each)
    return connection


def frame(**fields: object) -> bytes:
    return Header(**{"type": FrameType.MESSAGE, "kind": "k", **fields}).pack()  # type: ignore[arg-type]


FLOAT = np.dtype("<f4")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"x" * 200, "makes no sense"),
        (frame(dtype=FLOAT, payload_bytes=1 << 40, segment_bytes=1000), "at most"),
        (frame(seq=3), "frame 3 of type MESSAGE came where frame 0"),
        (frame(type=FrameType.MORE, seq=0), "frame 0 of type MORE came where frame 0"),
        (frame(dtype=FLOAT, payload_bytes=400, segment_bytes=400), "without goodbye"),
        (frame(dtype=FLOAT, payload_bytes=8, segment_bytes=4) + bytes(4) + Header(
            type=FrameType.GOODBYE, kind="", seq=1).pack(), "goodbye came before the end of message 0"),
        (frame(dtype=FLOAT, payload_bytes=8, segment_bytes=4) + bytes(4) + frame(
            type=FrameType.MORE, dtype=FLOAT, payload_bytes=8, segment_bytes=8), "ends at 12 of 8 bytes"),
        (b"".join(frame(dtype=FLOAT, payload_bytes=8, segment_bytes=4, seq=seq) + bytes(4) for seq in range(65)),
         "message 64 begins before any of 64"),
    ],
    ids=["no frame", "oversized", "out of order", "never begun", "cut off", "early goodbye", "too long", "too many"],
)  # fmt: skip
def test_a_peer_that_sends_nonsense_is_lost(tmp_path: Path, content: bytes, why: str) -> None:
    async def scene(opened: list[Network]) -> None:
        waiting = received(opened[0], 0, src=1)
        with await talk(opened[0], member(1, 0), content):
            pass
        with pytest.raises(PeerLost, match=why):
            await waiting

    play(tmp_path, scene, links=())


@pytest.mark.parametrize(
    ("who", "why"),
    [
        (member(0, 0), "looks for rank 0"),
        (member(2, 1), "rank 2 of 2"),
        (member(0, 1, size=3), "rank 0 of 3"),
        (Introduction(channel="control", src=0, dst=1, size=2), "control"),
    ],
    ids=["another rank", "no rank", "another size", "another channel"],
)
def test_who_is_in_the_wrong_place_is_turned_away(tmp_path: Path, who: Introduction, why: str) -> None:
    async def scene(opened: list[Network]) -> None:
        with pytest.raises((OSError, EOFError)):
            await talk(opened[1], who)
        assert opened[1].turned_away == 1
        with pytest.raises(PeerLost, match=f"rank 0: it did not connect within .*turned away: .*{why}"):
            await opened[1].connect([opened[0].address, opened[1].address], [(0, 1)], within_s=0.0)

    play(tmp_path, scene, links=())


def test_a_rank_cannot_connect_twice(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        with pytest.raises((OSError, EOFError)):
            await talk(opened[1], member(0, 1))
        opened[0].post(1, message(0), 0, 1, 0)
        await received(opened[1], 0)

    play(tmp_path, scene)


@settings(max_examples=60)
@given(content=st.binary(max_size=200), ends=st.booleans())
def test_strangers_do_no_harm(content: bytes, ends: bool) -> None:
    async def scene(opened: list[Network]) -> None:
        stranger = await dial(opened[1])
        await asyncio.get_running_loop().sock_sendall(stranger, content)
        if ends:
            stranger.close()
        opened[0].post(1, message(0), 0, 1, 0)
        await received(opened[1], 0)
        await asyncio.gather(*(network.close() for network in opened))
        stranger.close()

    with TemporaryDirectory() as directory:
        play(Path(directory), scene)


@settings(max_examples=60)
@given(content=st.binary(min_size=1, max_size=300))
def test_whatever_a_peer_sends_it_is_lost_and_nobody_else(content: bytes) -> None:
    async def scene(opened: list[Network]) -> None:
        waiting = received(opened[1], 0, src=2)
        with await talk(opened[1], member(2, 1, size=3), content):
            pass
        with pytest.raises(PeerLost, match="lost rank 2"):
            await waiting
        opened[0].post(1, message(0), 0, 1, 0)
        await received(opened[1], 0)
        assert not opened[1].failed.done()

    with TemporaryDirectory() as directory:
        play(Path(directory), scene, size=3, links=((0, 1),))


def test_an_urgent_message_overtakes_one_that_is_under_way(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        first = opened[0].post(1, message(2), 1, 1, 0)
        bulk = opened[0].post(1, message(0, 16_000_000), 1, 1, 0)
        assert await first == 0  # from here on the bulk is under way
        urgent = opened[0].post(1, message(1), 0, 1, 0)
        assert await urgent == 2
        assert not bulk.done()
        await received(opened[1], 1)
        arrived = (await opened[1].mailboxes.get(MailKey(0, "k", -1, -1, 0))).message.vector
        assert np.array_equal(arrived, np.zeros(16_000_000, dtype=np.float32))
        assert await bulk == 1
        await asyncio.gather(*(network.close() for network in opened))

    play(tmp_path, scene, largest=1 << 27)
    sent, came = (read_spans(tmp_path / f"{rank}.bin")[1] for rank in range(2))
    assert came["seq"].tolist() == [0, 2, 1]
    assert sorted(sent["nbytes"]) == sorted(came["nbytes"])


def test_messages_that_nobody_receives_are_limited(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        for step in range(17):
            await opened[0].post(1, message(step, 4_000_000), 0, 1, 0)
        with pytest.raises(TrainingError, match="from rank 0 came that the strategy did not receive"):
            await opened[1].failed

    play(tmp_path, scene)


def test_what_waits_to_be_sent_is_limited(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        with pytest.raises(TrainingError, match="wait to be sent over one link"):
            for step in range(40):
                opened[0].post(1, message(step, 4_000_000), 0, 1, 0)

    play(tmp_path, scene)


def test_after_goodbye_nothing_is_sent(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        await opened[0].farewell()
        with pytest.raises(TrainingError, match="rank 0 has ended its training, and sends 'k' to rank 1"):
            opened[0].post(1, message(0), 0, 1, 0)

    play(tmp_path, scene)
