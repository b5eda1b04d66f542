"""Mailboxes: messages wait for whoever asks for them, by exact key or by kind alone; first come first served.

A receiver that names source, kind, iteration, bucket and step finds its message by one look into a dictionary, and
messages may come in any order. One that names the kind gets what came first from any of its sources. A source that is
lost fails the receivers that wait for it alone, and later ones once the messages that did come from it are used up.

Nothing holds a fast sender back that this rank does not listen to; so what is unclaimed is limited, and a strategy that
lets more pile up is stopped with the reason, the same in every run, instead of ending for want of memory in some.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Message
from e2c_dl.strategies.seam.messages import size_bytes


class MailKey(NamedTuple):
    """What an exact receiver asks for: all of it must match."""

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
    """Mail that nobody has asked for yet, by its place in order of arrival, or exact receivers: never both."""

    places: deque[int] = field(default_factory=deque)
    receivers: deque[asyncio.Future[Mail]] = field(default_factory=deque)


@dataclass
class _AnyReceiver:
    """Somebody who waits for a kind from any of ``sources``."""

    sources: Collection[int]
    future: asyncio.Future[Mail]


class Mailboxes:
    """All boxes of one rank; used from one event loop. ``limit_bytes``: of payloads from one source, unclaimed."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._boxes: dict[MailKey, _Box] = {}
        self._kinds: dict[str, dict[int, Mail]] = {}  # kind -> place -> unclaimed mail, in order of arrival
        self._any: dict[str, list[_AnyReceiver]] = {}
        self._unclaimed_bytes: dict[int, int] = {}  # by source
        self._lost: dict[int, PeerLost] = {}
        self._arrived = 0

    def put(self, mail: Mail) -> None:
        """Hand ``mail`` to the first receiver that waits for it, exact ones first, or keep it.

        Raises: TrainingError if too much is kept.
        """
        key = _key(mail.message)
        box = self._boxes.setdefault(key, _Box())
        while box.receivers:
            receiver = box.receivers.popleft()
            if not receiver.done():  # a cancelled receiver swallows no mail
                receiver.set_result(mail)
                self._tidy(key, box)
                return
        for waiting in self._any.get(key.kind, []):
            if not waiting.future.done() and key.src in waiting.sources:
                waiting.future.set_result(mail)
                self._tidy(key, box)
                return
        self._keep(key, box, mail)

    def get(self, key: MailKey) -> asyncio.Future[Mail]:
        """A future of the mail under ``key``; it fails with PeerLost if the source is lost and left none."""
        receiver: asyncio.Future[Mail] = asyncio.get_running_loop().create_future()
        box = self._boxes.setdefault(key, _Box())
        if box.places:  # what came before its source was lost is still received
            receiver.set_result(self._claim(key.kind, box.places[0]))
        elif key.src in self._lost:  # whoever asks too late must not wait for ever
            receiver.set_exception(self._lost[key.src])
            self._tidy(key, box)
        else:
            box.receivers.append(receiver)
        return receiver

    def get_any(self, kind: str, sources: Sequence[int]) -> asyncio.Future[Mail]:
        """A future of the mail of ``kind`` that came first from any of ``sources``.

        It fails with PeerLost, the first of ``sources``, if all of them are lost and left none. Cancel it to stop
        waiting.
        """
        receiver: asyncio.Future[Mail] = asyncio.get_running_loop().create_future()
        unclaimed = self._kinds.get(kind, {})  # a dict keeps the order of insertion, which is that of arrival
        place = next((place for place, mail in unclaimed.items() if mail.message.src in sources), None)
        if place is not None:
            receiver.set_result(self._claim(kind, place))
        elif all(src in self._lost for src in sources):
            receiver.set_exception(_nobody_left(kind, sources, self._lost))
        else:
            waiting = _AnyReceiver(frozenset(sources), receiver)  # a set: it is asked at every message of the kind
            self._any.setdefault(kind, []).append(waiting)
            receiver.add_done_callback(lambda _: self._any[kind].remove(waiting))  # mail, loss or cancelled
        return receiver

    def take(self, kind: str) -> list[Mail]:
        """All mail of ``kind`` that is there, in order of arrival."""
        return [self._claim(kind, place) for place in list(self._kinds.get(kind, {}))]

    def lose(self, why: PeerLost) -> None:
        """From now on nothing comes from ``why.rank``; the first reason given holds."""
        if why.rank in self._lost:  # the first reason is the cause, later ones may be its consequences
            return
        self._lost[why.rank] = why
        for key, box in list(self._boxes.items()):  # a list: tidying removes boxes meanwhile
            if key.src != why.rank:
                continue
            for receiver in box.receivers:
                if not receiver.done():
                    receiver.set_exception(why)
            box.receivers.clear()
            self._tidy(key, box)
        for kind, waiting in self._any.items():
            for each in waiting:
                if not each.future.done() and all(src in self._lost for src in each.sources):
                    each.future.set_exception(_nobody_left(kind, sorted(each.sources), self._lost))

    def _keep(self, key: MailKey, box: _Box, mail: Mail) -> None:
        total_bytes = self._unclaimed_bytes.get(key.src, 0) + size_bytes(mail.message.payload)
        if total_bytes > self._limit_bytes:
            raise TrainingError(
                f"{total_bytes} bytes from rank {key.src} came that the strategy did not receive, at most "
                f"{self._limit_bytes} may wait; the last are {key.kind!r} of iteration {key.iteration}: receive them"
            )
        self._unclaimed_bytes[key.src] = total_bytes
        box.places.append(self._arrived)  # a place: the mail itself stands once, under its kind
        self._kinds.setdefault(key.kind, {})[self._arrived] = mail
        self._arrived += 1

    def _claim(self, kind: str, place: int) -> Mail:
        mail = self._kinds[kind].pop(place)
        if not self._kinds[kind]:
            del self._kinds[kind]
        key = _key(mail.message)
        box = self._boxes[key]
        box.places.popleft()  # whoever came first of a kind came first of its key
        self._unclaimed_bytes[key.src] -= size_bytes(mail.message.payload)
        self._tidy(key, box)
        return mail

    def _tidy(self, key: MailKey, box: _Box) -> None:
        if not box.places and not box.receivers:
            self._boxes.pop(key, None)  # keys hold iterations: kept, they would grow with the run


def _key(message: Message) -> MailKey:
    return MailKey(message.src, message.kind, message.iteration, message.bucket, message.step)


def _nobody_left(kind: str, sources: Sequence[int], lost: dict[int, PeerLost]) -> PeerLost:
    if not sources:
        return PeerLost(-1, f"nobody was named who could send {kind!r}")
    return lost[sources[0]]  # not the one lost last: every run shall name the same
