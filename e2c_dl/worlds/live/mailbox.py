"""Where messages wait for whoever asks for them: one box per exact key, first come first served.

A receiver names source, kind, iteration, bucket and step; so a message is found by one look into a dictionary, and
messages may come in any order. A source that is lost fails the receivers that wait for it, and later ones once the
messages that did come from it are used up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Message


class Key(NamedTuple):
    """What a receiver asks for: all of it must match."""

    src: int
    kind: str
    iteration: int
    bucket: int
    step: int


class Mail(NamedTuple):
    """A message that came, and its number on its link."""

    message: Message
    seq: int


@dataclass
class _Box:
    """Mail that nobody has asked for yet, or receivers that no mail has come for: never both."""

    mail: deque[Mail] = field(default_factory=deque)
    receivers: deque[asyncio.Future[Mail]] = field(default_factory=deque)


class Mailboxes:
    """All boxes of one rank; used from one event loop."""

    def __init__(self) -> None:
        self._boxes: dict[Key, _Box] = {}
        self._lost: dict[int, PeerLost] = {}

    def put(self, mail: Mail) -> None:
        """Hand ``mail`` to the first receiver that waits for it, or keep it."""
        message = mail.message
        key = Key(message.src, message.kind, message.iteration, message.bucket, message.step)
        box = self._boxes.setdefault(key, _Box())
        while box.receivers:
            receiver = box.receivers.popleft()
            if not receiver.done():  # a cancelled receiver swallows no mail
                receiver.set_result(mail)
                self._tidy(key, box)
                return
        box.mail.append(mail)

    def get(self, key: Key) -> asyncio.Future[Mail]:
        """A future of the mail under ``key``; it fails with PeerLost if the source is lost and left none."""
        receiver: asyncio.Future[Mail] = asyncio.get_running_loop().create_future()
        box = self._boxes.setdefault(key, _Box())
        if box.mail:
            receiver.set_result(box.mail.popleft())
            self._tidy(key, box)
        elif key.src in self._lost:
            receiver.set_exception(self._lost[key.src])
            self._tidy(key, box)
        else:
            box.receivers.append(receiver)
        return receiver

    def lose(self, why: PeerLost) -> None:
        """From now on nothing comes from ``why.rank``; the first reason given holds."""
        if why.rank in self._lost:
            return
        self._lost[why.rank] = why
        for key, box in list(self._boxes.items()):
            if key.src != why.rank:
                continue
            for receiver in box.receivers:
                if not receiver.done():
                    receiver.set_exception(why)
            box.receivers.clear()
            self._tidy(key, box)

    def _tidy(self, key: Key, box: _Box) -> None:
        if not box.mail and not box.receivers:
            self._boxes.pop(key, None)
