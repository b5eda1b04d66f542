"""Frames and mailboxes: what is put in comes out, what is no frame is refused."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live.frames import HEADER_BYTES, FrameError, FrameType, Header, header_of, message_of
from e2c_dl.worlds.live.mailbox import Mail, Mailboxes, MailKey

VECTOR = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("payload", [None, VECTOR, VECTOR[:0], VECTOR.astype(np.float64)])
def test_header_round_trip(payload: np.ndarray | None) -> None:
    message = Message(kind="chunk", iteration=3, bucket=2, step=1, payload=payload)
    header = Header.unpack(header_of(message, 9).pack(), 1000)
    assert header == header_of(message, 9)
    assert header.payload_bytes == (0 if payload is None else payload.nbytes)
    assert message_of(header, payload, 7) == Message(
        kind="chunk", iteration=3, bucket=2, step=1, payload=payload, src=7
    )


def frame(**fields: object) -> bytes:
    return Header(**{"type": FrameType.MESSAGE, "kind": "k", **fields}).pack()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"GET / HTTP/1.1\r\n".ljust(HEADER_BYTES), "another program"),
        (frame(dtype=VECTOR.dtype, payload_bytes=1004), "announces 1004 bytes; at most 1000"),
        (frame(dtype=VECTOR.dtype, payload_bytes=-4), "announces -4"),
        (frame(dtype=VECTOR.dtype, payload_bytes=6), "announces 6"),
        (frame(payload_bytes=8), "no dtype"),
        (b"E2CD\x09" + frame()[5:], "unknown type 9"),
        (b"E2CD\x02\x07" + frame()[6:], "dtype 7"),
    ],
)
def test_malformed_headers_are_refused(content: bytes, match: str) -> None:
    with pytest.raises(FrameError, match=match):
        Header.unpack(content, 1000)


@pytest.mark.parametrize(
    "message",
    [
        Message(kind="k" * 17),
        Message(kind="grün"),
        Message(kind="k", payload=np.arange(4)),
        Message(kind="k", payload=VECTOR[::2]),
        Message(kind="k", payload=np.zeros((2, 2), dtype=np.float32)),
    ],
)
def test_what_cannot_travel_is_refused(message: Message) -> None:
    with pytest.raises(FrameError, match="message kind|payload"):
        header_of(message, 0)


def key(step: int, src: int = 1) -> MailKey:
    return MailKey(src, "k", 0, 0, step)


def mail(step: int, src: int = 1, seq: int = 0) -> Mail:
    return Mail(Message(kind="k", iteration=0, bucket=0, step=step, src=src), seq)


def test_mail_meets_its_receiver_in_any_order() -> None:
    async def scene() -> None:
        boxes = Mailboxes(1 << 20)
        early = boxes.get(key(0))
        boxes.put(mail(1))
        boxes.put(mail(0, seq=5))
        assert (await early).seq == 5
        assert (await boxes.get(key(1))).message.step == 1
        first, second = boxes.get(key(2)), boxes.get(key(2))
        boxes.put(mail(2, seq=7))
        boxes.put(mail(2, seq=8))
        assert [(await first).seq, (await second).seq] == [7, 8]

    asyncio.run(scene())


def test_a_cancelled_receiver_swallows_nothing() -> None:
    async def scene() -> None:
        boxes = Mailboxes(1 << 20)
        boxes.get(key(0)).cancel()
        boxes.put(mail(0, seq=4))
        assert (await boxes.get(key(0))).seq == 4

    asyncio.run(scene())


def test_a_lost_source_fails_its_receivers_only_and_only_without_mail() -> None:
    async def scene() -> None:
        boxes = Mailboxes(1 << 20)
        boxes.put(mail(1))
        waiting, other = boxes.get(key(0)), boxes.get(key(0, src=2))
        boxes.lose(PeerLost(1, "gone"))
        boxes.lose(PeerLost(1, "told again"))
        with pytest.raises(PeerLost, match="lost rank 1: gone"):
            await waiting
        assert not other.done()
        assert (await boxes.get(key(1))).message.step == 1
        with pytest.raises(PeerLost, match="gone"):
            await boxes.get(key(1))

    asyncio.run(scene())
