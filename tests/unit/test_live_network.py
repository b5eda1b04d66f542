"""Connections of the live world over loopback: order, loss, goodbye, strangers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import live_world
import numpy as np
import pytest

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recorder import read_spans
from e2c_dl.worlds.live import Network
from e2c_dl.worlds.live.frames import FrameType, Header
from e2c_dl.worlds.live.incoming import hello
from e2c_dl.worlds.live.mailbox import Key

BOTH = ((0, 1), (1, 0))
Scene = Callable[[list[Network]], Awaitable[None]]


def play(directory: Path, scene: Scene, *, size: int = 2, links: tuple[tuple[int, int], ...] = BOTH) -> None:
    async def run() -> None:
        with ExitStack() as stack:
            opened = live_world.networks(stack, live_world.recorders(stack, directory, size))
            await live_world.connected(opened, links)
            await asyncio.wait_for(scene(opened), 60)

    asyncio.run(run())


def message(step: int, length: int = 4) -> Message:
    return Message(kind="k", step=step, payload=np.full(length, step, dtype=np.float32))


def received(network: Network, step: int, src: int = 0) -> Awaitable[object]:
    return network.mailboxes.get(Key(src, "k", -1, -1, step))


def test_keys_are_met_out_of_order_and_values_arrive(tmp_path: Path) -> None:
    async def scene(opened: list[Network]) -> None:
        for step, length in enumerate([0, 3, 100_000]):
            opened[0].post(1, message(step, length), 0, 1, 0)
        for step, length in [(2, 100_000), (0, 0), (1, 3)]:
            payload = (await opened[1].mailboxes.get(Key(0, "k", -1, -1, step))).message.vector
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
        waiting = opened[0].mailboxes.get(Key(1, "k", -1, -1, 0))
        opened[1].abort()
        with pytest.raises(PeerLost, match="lost rank 1"):
            await waiting
        with pytest.raises(PeerLost, match="lost rank 1"):
            await opened[0].mailboxes.get(Key(1, "k", -1, -1, 1))
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


async def talk(network: Network, *content: bytes) -> socket.socket:
    connection = socket.create_connection((network.address.host, network.address.port))
    connection.setblocking(False)
    for each in content:
        await asyncio.get_running_loop().sock_sendall(connection, each)
    return connection


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"x" * 200, "makes no sense"),
        (Header(type=FrameType.MESSAGE, kind="k", dtype=np.dtype("<f4"), payload_bytes=1 << 40).pack(), "at most"),
        (Header(type=FrameType.MESSAGE, kind="k", seq=3).pack(), "frame 3 of type MESSAGE came where frame 0"),
        (Header(type=FrameType.MESSAGE, kind="k", dtype=np.dtype("<f4"), payload_bytes=400).pack(), "without goodbye"),
    ],
    ids=["no frame", "oversized", "out of order", "cut off"],
)
def test_a_peer_that_sends_nonsense_is_lost(tmp_path: Path, content: bytes, why: str) -> None:
    async def scene(opened: list[Network]) -> None:
        waiting = received(opened[0], 0, src=1)
        with await talk(opened[0], hello("test", src=1, dst=0, size=2), content):
            pass
        with pytest.raises(PeerLost, match=why):
            await waiting

    play(tmp_path, scene, links=())


@pytest.mark.parametrize(
    "content",
    [b"GET / HTTP/1.1\r\n\r\n".ljust(100), hello("other", src=0, dst=1, size=2), hello("test", src=0, dst=0, size=2)],
    ids=["another program", "another run", "another rank"],
)
def test_strangers_are_turned_away_and_named_when_a_peer_is_missing(tmp_path: Path, content: bytes) -> None:
    async def scene(opened: list[Network]) -> None:
        with await talk(opened[1], content) as connection:
            with pytest.raises(ConnectionError):  # closed by the other side
                if not await asyncio.get_running_loop().sock_recv(connection, 1):
                    raise ConnectionError
            with pytest.raises(PeerLost, match="rank 0: it did not connect within .*turned away"):
                await opened[1].connect([opened[0].address, opened[1].address], [(0, 1)], within_s=0.0)

    play(tmp_path, scene, links=())
