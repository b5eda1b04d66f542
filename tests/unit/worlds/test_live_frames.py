"""Frames and mailboxes: what is put in comes out, what is no frame is refused."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message, Sparse
from e2c_dl.strategies.seam.messages import DTYPES, size_bytes
from e2c_dl.worlds.live.frames import (
    HEADER_BYTES,
    FrameError,
    FrameType,
    Header,
    contents,
    header_of,
    message_of,
    several_of,
)
from e2c_dl.worlds.live.mailbox import Mail, Mailboxes, MailKey

VECTOR = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("payload", [None, VECTOR, VECTOR[:0], *(VECTOR.astype(dtype) for dtype in DTYPES)])
def test_header_round_trip(payload: np.ndarray | None) -> None:
    message = Message(kind="chunk", iteration=3, bucket=2, step=1, payload=payload)
    header = Header.unpack(header_of(message, 9).pack(), 1000)
    assert header == header_of(message, 9)
    assert header.payload_bytes == (0 if payload is None else payload.nbytes)
    assert message_of(header, payload, 7) == Message(
        kind="chunk", iteration=3, bucket=2, step=1, payload=payload, src=7
    )


SEVERAL = [
    Sparse(np.array([0, 3], dtype=np.int32), np.array([0.5, -2.0], dtype=np.float16)),
    (VECTOR[:0], VECTOR, np.arange(3, dtype=np.int8)),
    (),
]


def flat(payload: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.frombuffer(b"".join(contents(payload)), dtype=np.uint8)


@pytest.mark.parametrize("payload", SEVERAL, ids=str)
def test_several_arrays_travel_in_one_message(payload: tuple[np.ndarray, ...]) -> None:
    header = Header.unpack(header_of(Message(kind="k", payload=payload), 0).pack(), 1000)
    assert (header.several, header.payload_bytes) == (True, size_bytes(payload))
    travelled = flat(payload)
    assert len(travelled) == size_bytes(payload)
    came = message_of(header, travelled, 1)
    assert [each.dtype for each in came.arrays] == [each.dtype for each in payload]
    assert all(np.array_equal(here, there) for here, there in zip(came.arrays, payload, strict=True))
    assert all(each.flags.aligned for each in came.arrays)


def test_a_sparse_is_told_from_other_arrays() -> None:
    indices, values = Message(kind="k", payload=SEVERAL[0]).sparse
    assert (indices.tolist(), values.tolist()) == ([0, 3], [0.5, -2.0])
    for payload in (None, VECTOR, SEVERAL[1], (VECTOR, VECTOR), (indices[:1], values)):
        with pytest.raises(TrainingError, match="int32 indices"):
            Message(kind="k", payload=payload).sparse  # noqa: B018 - the look itself raises
    with pytest.raises(TrainingError, match="not a vector"):
        Message(kind="k", payload=SEVERAL[0]).vector  # noqa: B018


def table(*numbers: int, rest: int = 0) -> np.ndarray:
    return np.frombuffer(np.array(numbers, dtype="<i8").tobytes() + bytes(rest), dtype=np.uint8)


@pytest.mark.parametrize(
    "content",
    [
        table()[:0],
        table(-1),
        table(1 << 60),
        table(17, rest=17 * 16),
        table(2, 1, 8, rest=8),
        table(1, 0, 8, rest=8),
        table(1, 1, -8),
        table(1, 1, 6, rest=8),
        table(1, 1, 1 << 40, rest=8),
        table(1, 1, 8, rest=16),
        table(1, 4, 12, rest=12),
    ],
    ids=lambda content: str(len(content)),
)
def test_malformed_tables_are_refused(content: np.ndarray) -> None:
    with pytest.raises(FrameError, match="run one version everywhere"):
        several_of(content)


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
        (b"E2CD\x02\x63" + frame()[6:], "dtype 99"),
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
        Message(kind="k", payload=np.zeros(4, dtype=complex)),
        Message(kind="k", payload=np.zeros(4, dtype=">f4")),
        Message(kind="k", payload=(VECTOR,) * 17),
        Message(kind="k", payload=(VECTOR, VECTOR[::2])),
        Message(kind="k", payload=(VECTOR, [1.0])),  # type: ignore[arg-type]
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
