"""Mail for whoever asks for a kind from any source, beside those who ask by exact key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live.mailbox import Mail, Mailboxes, MailKey


def mail(seq: int, src: int, kind: str = "k", payload_bytes: int = 0) -> Mail:
    payload = np.zeros(payload_bytes // 4, dtype=np.float32) if payload_bytes else None
    return Mail(Message(kind=kind, iteration=seq, src=src, payload=payload), seq)


def play(scene: Callable[[Mailboxes], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene(Mailboxes(limit_bytes=100))

    asyncio.run(run())


def test_any_source_is_first_come_first_served_and_shares_with_exact_keys() -> None:
    async def scene(boxes: Mailboxes) -> None:
        for seq, src in enumerate([3, 1, 3, 2]):
            boxes.put(mail(seq, src))
        assert (await boxes.get_any("k", [1, 2])).seq == 1
        assert (await boxes.get(MailKey(3, "k", 2, -1, -1))).seq == 2
        assert (await boxes.get_any("k", [1, 2, 3])).seq == 0
        assert [each.seq for each in boxes.take("k")] == [3]
        assert boxes.take("k") == []

    play(scene)


def test_who_waits_is_served_exact_keys_first_and_a_cancelled_one_swallows_nothing() -> None:
    async def scene(boxes: Mailboxes) -> None:
        gone, waiting = boxes.get_any("k", [1]), boxes.get_any("k", [1, 2])
        exact = boxes.get(MailKey(1, "k", 7, -1, -1))
        gone.cancel()
        boxes.put(mail(7, 1))
        assert not waiting.done()
        assert (await exact).seq == 7
        boxes.put(mail(8, 3))
        boxes.put(mail(9, 1))
        assert (await waiting).seq == 9
        assert [each.seq for each in boxes.take("k")] == [8]

    play(scene)


def test_a_wait_for_many_fails_when_the_last_of_them_is_lost() -> None:
    async def scene(boxes: Mailboxes) -> None:
        waiting = boxes.get_any("k", [1, 2])
        boxes.lose(PeerLost(1, "gone"))
        assert not waiting.done()
        boxes.lose(PeerLost(2, "gone, too"))
        with pytest.raises(PeerLost, match="lost rank 1: gone"):
            await waiting
        boxes.put(mail(0, 2))  # it was there before the loss was told
        assert (await boxes.get_any("k", [1, 2])).seq == 0
        with pytest.raises(PeerLost):
            await boxes.get_any("k", [1, 2])

    play(scene)


def test_what_nobody_receives_is_limited_by_source() -> None:
    async def scene(boxes: Mailboxes) -> None:
        boxes.put(mail(0, 1, payload_bytes=80))
        boxes.put(mail(1, 2, payload_bytes=80))
        assert (await boxes.get_any("k", [1])).seq == 0
        boxes.put(mail(2, 1, payload_bytes=80))
        with pytest.raises(TrainingError, match="104 bytes from rank 1 came that the strategy did not receive"):
            boxes.put(mail(3, 1, payload_bytes=24))

    play(scene)
