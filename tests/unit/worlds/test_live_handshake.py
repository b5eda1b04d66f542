"""Challenge and response: both ends prove that they hold the key; nothing overheard is of use."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.worlds.live.handshake import Introduction, Refused, challenge, introduce, parsed, welcome

KEY, OTHER = b"k" * 32, b"o" * 32
OWN = Introduction(channel="data", src=3, dst=1, size=5)


def play(scene: Callable[[socket.socket, socket.socket], Awaitable[None]]) -> None:
    async def run() -> None:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            right.setblocking(False)
            await scene(left, right)

    asyncio.run(run())


async def meet(left: socket.socket, right: socket.socket, keys: tuple[bytes, bytes]) -> list[object]:
    """What each end says of the other; an end that refuses closes."""

    async def connects() -> object:
        try:
            return await introduce(left, OWN, keys[0])
        finally:
            left.shutdown(socket.SHUT_WR)

    async def accepts() -> object:
        try:
            met = await challenge(right, keys[1])
            await welcome(right)
            return met
        finally:
            right.shutdown(socket.SHUT_WR)

    return await asyncio.gather(connects(), accepts(), return_exceptions=True)


def test_who_holds_the_key_is_known_on_both_ends() -> None:
    async def scene(left: socket.socket, right: socket.socket) -> None:
        assert await meet(left, right, (KEY, KEY)) == [None, OWN]

    play(scene)


def test_another_key_is_refused_before_anything_is_proven_to_it() -> None:
    async def scene(left: socket.socket, right: socket.socket) -> None:
        connected, accepted = await meet(left, right, (KEY, OTHER))
        assert isinstance(connected, Refused)
        assert "does not hold this run's key" in str(connected)
        assert isinstance(accepted, EOFError)

    play(scene)


def test_a_copied_answer_and_a_reflected_one_are_refused() -> None:
    async def scene(left: socket.socket, right: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepting = asyncio.ensure_future(challenge(right, KEY))
        await loop.sock_sendall(left, OWN.hello(b"n" * 32))
        answer = b""
        while len(answer) < 64:
            answer += await loop.sock_recv(left, 64)
        await loop.sock_sendall(left, answer[32:])  # the acceptor's own proof, sent back
        with pytest.raises(Refused, match="rank 3 does not hold this run's key"):
            await accepting

    play(scene)


@given(content=st.binary(min_size=50, max_size=50))
def test_whatever_comes_first_is_parsed_or_refused(content: bytes) -> None:
    with contextlib.suppress(Refused):
        parsed(content)


def test_a_hello_says_what_it_was_made_of() -> None:
    assert parsed(OWN.hello(bytes(32))) == OWN
