"""Links by themselves: when messages that are sent over them at known times arrive there.

::

    sent at   |   |  |         |        TcpWire (tcp/wire.py), whose receiver notes arrivals
    arrived     |     |   |      |      windows that open, queues that are full, the delay
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.virtual.kernel import FOREVER, Kernel, Pauses
from e2c_dl.worlds.virtual.links import LinkModel, SharedRate
from e2c_dl.worlds.virtual.tcp.bottleneck import SharedQueue
from e2c_dl.worlds.virtual.tcp.wire import TcpWire
from e2c_dl.worlds.virtual.transfer import Transfer

_MESSAGE = Message(kind="alone")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What is sent over one link, whose ``model`` has a tcp; ``back_s``: delay of the way back."""

    model: LinkModel
    back_s: float
    at_ns: Sequence[int]
    """When the sender begins to send each message, from 0 on, rising."""
    nbytes: Sequence[int]
    """Of each message."""


def arrivals_ns(
    links: Sequence[Sent], shared: SharedRate | None = None, *, luck: int = 0
) -> list[npt.NDArray[np.int64]]:
    """When each message is there, in ns, for each of ``links`` of shape (messages,); FOREVER, if it never is.

    ``shared``: what all of them pass, if they pass anything. ``luck``: which draws of jitter and losses they meet.
    Raises: ValueError, if a model has no tcp.
    """
    kernel, end = Kernel(), _End()
    queue = None if shared is None else SharedQueue(kernel, shared)
    found = []
    for number, link in enumerate(links):
        if link.model.tcp is None:
            raise ValueError("a link that is simulated by itself has a tcp")
        wire = TcpWire(
            kernel, link.model, src=number, dst=len(links) + number, round_trip_s=link.model.delay_s + link.back_s,
            seed=luck, record=end.record, receiver=end,
        )  # fmt: skip
        wire.connect(link.model.tcp, end, queue, steady=True, seed=luck)
        messages = [_Sent(kernel, size, at_ns) for size, at_ns in zip(link.nbytes, link.at_ns, strict=True)]
        for each in messages:
            kernel.at(each.posted_ns, wire.post, each)
        found.append(messages)
    kernel.drain()
    return [np.array([each.there_ns for each in messages], dtype=np.int64) for messages in found]


class _Sent(Transfer):
    """A message that nobody awaits."""

    there_ns = FOREVER

    def __init__(self, kernel: Kernel, nbytes: int, posted_ns: int) -> None:
        self.kernel, self.nbytes, self.posted_ns = kernel, nbytes, posted_ns
        self.message, self.original, self.task = _MESSAGE, None, -1


class _End:
    """Both ends of the link: a receiver that notes when messages come, and a sender that is told of nothing."""

    def __init__(self) -> None:
        self.deaf, self.resumed_ns, self.pauses = False, 0, Pauses()
        self.record: Callable[[bytes], None] = lambda _: None
        self.put: Callable[[Transfer], None] = _noted

    def lose(self, why: PeerLost, orderly: bool) -> None:
        """What has not come by now never will."""


def _noted(transfer: Transfer) -> None:
    if isinstance(transfer, _Sent):
        transfer.there_ns = transfer.kernel.now_ns
