"""A message under way: what ``send`` returns, what links carry, and what a mailbox holds, in one object.

::

    posted        began             departed                  the sender's kernel takes bytes until its buffer is full:
      |--queued-----|==on the wire=====|~~~delay~~~| arrived  ``gone`` may be long before ``departed``
                    |==taken==| gone

The receiver's payload is a copy, as in the live world. That of the sender must stay as it is until ``gone``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

import numpy as np

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Array, Message, Payload, Pending
from e2c_dl.strategies.seam.messages import fault_of
from e2c_dl.worlds.virtual.kernel import FOREVER, Failure, Kernel, Task, suspend

KIND_CHARACTERS = 16
"""Of a message in the live world."""


class Sender(Protocol):
    """What a transfer needs of the worker that sends it."""

    rank: int

    def awaited_sent(self, transfer: Transfer, task: Task, posted_ns: int) -> None:
        """An await of ``transfer`` has ended; it began at ``posted_ns``."""


class Transfer(Pending[None]):
    """One message from ``sender`` to ``dst``. ``original`` is the sender's own payload, if it is to be watched."""

    gone_ns = FOREVER  # when the sender's kernel has taken all of it; not known before it begins
    begun_ns = FOREVER  # when its header has arrived
    seq = -1  # these stand in the class: one object is made per message, and many never change them
    arrived = 0  # a number in order of arrival at its mailbox
    taken = False
    failure: PeerLost | None = None
    waiting: list[Task] | None = None

    def __init__(
        self, kernel: Kernel, sender: Sender, dst: int, message: Message, original: Payload | None, nbytes: int
    ) -> None:
        self.kernel, self.sender, self.dst = kernel, sender, dst
        self.message, self.original, self.nbytes = message, original, nbytes
        self.task, self.posted_ns = kernel.current.number, kernel.now_ns

    @property
    def done(self) -> bool:
        gone = self.gone_ns <= self.kernel.now_ns
        if gone and self.original is not None:  # who knows that it is gone may change it now
            _verify(self)
        return gone or self.failure is not None

    def gone(self, gone_ns: int) -> None:
        """All of it will have been taken at ``gone_ns``."""
        self.gone_ns = gone_ns
        if self.waiting is not None:
            for task in self.waiting:
                self.kernel.resume_at(gone_ns, task)
            self.waiting = None
        if self.original is not None:
            self.kernel.at(gone_ns, _verify, self)

    def fail(self, why: PeerLost) -> None:
        self.failure = why
        self.original = None  # it never leaves: its sender may change it
        for task in self.waiting or ():
            self.kernel.resume(task, Failure(why))
        self.waiting = None

    def __await__(self) -> Generator[Any, None, None]:
        kernel, posted_ns = self.kernel, self.kernel.now_ns
        task = kernel.current
        if self.failure is not None:
            raise self.failure
        if self.gone_ns > posted_ns:
            task.waits = self
            if self.gone_ns < FOREVER:
                kernel.resume_at(self.gone_ns, task)
            elif self.waiting is None:
                self.waiting = [task]
            else:
                self.waiting.append(task)
            yield from suspend()
        if self.original is not None:  # whoever has awaited it may change it now
            _verify(self)
        self.sender.awaited_sent(self, task, posted_ns)

    def __str__(self) -> str:
        return f"its message {self.message.kind!r} to leave for rank {self.dst}"


def stamped(message: Message, src: int, payload: Payload | None) -> Message:
    """``message`` as its receiver sees it. Field by field is five times as slow, and there is one per message."""
    copy = object.__new__(Message)
    fields = vars(copy)
    fields.update(vars(message))
    fields["src"], fields["payload"] = src, payload
    return copy


def travelling(message: Message) -> str:
    """The kind of ``message``. Raises: TrainingError, if it could not be sent as it is in the live world."""
    kind = message.kind
    if not kind.isascii() or len(kind) > KIND_CHARACTERS:
        raise TrainingError(f"message kind {kind!r}: write at most {KIND_CHARACTERS} ASCII characters")
    found: tuple[object, ...] = message.arrays
    fault = fault_of(tuple(array for array in found if isinstance(array, np.ndarray)))  # shapes are fit
    if fault is not None:
        raise TrainingError(f"message {kind!r}: {fault}")
    return kind


def copied(payload: Payload) -> Payload:
    """``payload`` as it is now, in memory of its own."""
    return tuple(array.copy() for array in payload) if isinstance(payload, tuple) else payload.copy()


def _verify(transfer: Transfer) -> None:
    """Watch no longer. Raises: TrainingError, if the sender has changed what it sent while it was being sent."""
    original, sent = transfer.original, transfer.message.payload
    transfer.original = None
    if original is not None and sent is not None and not _same(original, sent):
        raise TrainingError(
            f"rank {transfer.sender.rank} changed the payload of message {transfer.message.kind!r} "
            f"to rank {transfer.dst} before it had left; await what send returned first"
        )


def _same(one: Payload, other: Payload) -> bool:
    """Bit by bit: numbers that are not equal to themselves are."""
    if isinstance(one, tuple) or isinstance(other, tuple):
        return all(_same(here, there) for here, there in zip(one, other, strict=True))
    return np.array_equal(_bytes(one), _bytes(other))


def _bytes(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return array.view(np.uint8)
