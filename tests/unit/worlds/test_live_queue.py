"""Whose turn it is on a link: urgent first, in order of posting, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live.frames import MOST_UNFINISHED
from e2c_dl.worlds.live.outgoing import FAIR_TURN, Posted, SendQueue
from e2c_dl.worlds.live.sockets import LARGEST_BYTES, SMALLEST_BYTES, paced_bytes

SEGMENT = 10


def filled(messages: list[tuple[int, int]], limit_bytes: int = 1 << 40) -> SendQueue:
    """(priority, bytes) of each message, posted in this order."""
    queue = SendQueue(limit_bytes)
    for number, (priority, size) in enumerate(messages):
        queue.put(Posted(Message(kind="k"), priority, 0, 0, asyncio.Future(), number, size))
    return queue


def drained(queue: SendQueue, after: Callable[[int, int], None] = lambda begun, ended: None) -> list[tuple[int, bool]]:
    """(number of the message, whether it was its last segment) of each turn, until the queue is empty."""
    turns, begun, ended = [], 0, 0
    while queue:
        posted = queue.turn()
        if not posted.begun:
            queue.begin(posted, begun, 0)
            begun += 1
        last = queue.sent(posted, min(SEGMENT, posted.left_bytes))
        ended += last
        turns.append((posted.number, last))
        after(begun, ended)
    return turns


@pytest.fixture(autouse=True)
def loop() -> object:
    """Futures belong to an event loop, even if nobody awaits them."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def test_urgent_ones_go_first_and_equal_ones_in_order() -> None:
    assert drained(filled([(5, 25), (1, 10), (5, 0), (1, 20)])) == [
        (1, True), (3, False), (3, True), (0, False), (0, False), (0, True), (2, True),
    ]  # fmt: skip


def test_the_oldest_gets_every_sixteenth_turn() -> None:
    turns = [number for number, _ in drained(filled([(9, 2 * SEGMENT), (0, 100 * SEGMENT)]))]
    assert [index + 1 for index, number in enumerate(turns) if number == 0] == [FAIR_TURN, 2 * FAIR_TURN]


@given(messages=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), min_size=1, max_size=200))
def test_all_is_sent_once_in_order_of_each_priority(messages: list[tuple[int, int]]) -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())

    def few(begun: int, ended: int) -> None:
        assert begun - ended <= MOST_UNFINISHED

    queue = filled(messages)
    turns = drained(queue, few)
    assert len(turns) == sum(max(1, -(-size // SEGMENT)) for _, size in messages)
    ends = [number for number, last in turns if last]
    assert sorted(ends) == list(range(len(messages)))
    for priority in {priority for priority, _ in messages}:
        own = [number for number in ends if messages[number][0] == priority]
        assert own == sorted(own)
    assert queue.queued_bytes == 0
    asyncio.get_event_loop().close()


def test_a_single_message_may_be_larger_than_the_limit_but_not_more() -> None:
    queue = filled([(0, 100)], limit_bytes=50)
    with pytest.raises(TrainingError, match="101 bytes wait to be sent over one link, at most 50 may"):
        queue.put(Posted(Message(kind="k"), 0, 0, 0, asyncio.Future(), 1, 1))
    assert [posted.number for posted in queue.clear()] == [0]
    assert not queue


@given(rate=st.floats(0, 1e12))
def test_segments_are_what_flows_in_some_milliseconds(rate: float) -> None:
    size = paced_bytes(rate)
    assert SMALLEST_BYTES <= size <= LARGEST_BYTES
    if SMALLEST_BYTES < size < LARGEST_BYTES:
        assert size <= rate * 0.005 < 2 * size
