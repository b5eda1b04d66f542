"""Mailbox of one rank: messages wait for whoever asks for them, by exact key or by kind from any source.

A message is found by one look into a dictionary under (src, kind, iteration, bucket, step). For kinds that were ever
asked for from any source, messages also stand in a queue in order of arrival; it may hold some that were taken by key
already, which are skipped. Who asked by key is served before who asked from any source, each first come first served.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import islice

from e2c_dl.errors import PeerLost
from e2c_dl.worlds.virtual.kernel import Failure, Kernel, Task
from e2c_dl.worlds.virtual.transfer import Transfer

MailKey = tuple[int, str, int, int, int]
"""src, kind, iteration, bucket, step."""


class AnySource:
    """A task that waits for a message of ``kind`` from any of ``sources``."""

    __slots__ = ("kind", "served", "sources", "task")

    def __init__(self, task: Task, kind: str, sources: Collection[int]) -> None:
        self.task, self.kind, self.sources = task, kind, sources
        self.served = False

    def __str__(self) -> str:
        some = ", ".join(str(source) for source in islice(self.sources, 8))
        return f"any message {self.kind!r} from rank {some}{', ...' if len(self.sources) > 8 else ''}"


class Mailbox:
    """Messages and receivers of one rank. ``lost`` says of which ranks nothing more comes, and why."""

    def __init__(self, kernel: Kernel, rank: int) -> None:
        self._kernel, self._rank = kernel, rank
        self._mail: dict[MailKey, list[Transfer]] = {}
        self._receivers: dict[MailKey, list[Task]] = {}
        self._by_kind: dict[str, deque[Transfer]] = {}
        self._any: list[AnySource] = []
        self._arrived = 0
        self.lost: dict[int, PeerLost] = {}
        self._departed: dict[int, PeerLost] = {}  # apart from lost: background tasks go on serving

    def put(self, transfer: Transfer) -> None:
        """Hand ``transfer`` to the first who waits for it, or keep it."""
        message = transfer.message
        key = (message.src, message.kind, message.iteration, message.bucket, message.step)
        receivers = self._receivers.pop(key, None)
        if receivers is not None:
            self._kernel.ready.append((receivers.pop(0), transfer))
            if receivers:
                self._receivers[key] = receivers
            return
        self._arrived += 1
        transfer.arrived = self._arrived  # for a queue of its kind that is made later
        if self._by_kind and message.kind in self._by_kind:
            if self._any and self._serve_any(transfer):
                return
            self._by_kind[message.kind].append(transfer)
        mail = self._mail.get(key)
        if mail is None:
            self._mail[key] = [transfer]
        else:
            mail.append(transfer)

    def take(self, key: MailKey) -> Transfer | None:
        """The first message under ``key``, if there is one."""
        mail = self._mail.pop(key, None)
        if mail is None:
            return None
        transfer = mail.pop(0)
        if mail:
            self._mail[key] = mail
        transfer.taken = True  # it may still stand in its kind's queue, which skips it
        return transfer

    def take_any(self, kind: str, sources: Collection[int]) -> Transfer | None:
        """The message of ``kind`` that came first from one of ``sources``, if there is one."""
        queue = self._queue(kind)
        while queue and queue[0].taken:
            queue.popleft()
        for index, transfer in enumerate(queue):
            if not transfer.taken and transfer.message.src in sources:
                del queue[index]
                self._forget(transfer)
                return transfer
        return None

    def take_all(self, kind: str) -> list[Transfer]:
        """All messages of ``kind``, in order of arrival."""
        queue = self._queue(kind)
        transfers = [transfer for transfer in queue if not transfer.taken]
        queue.clear()
        for transfer in transfers:
            self._forget(transfer)
        return transfers

    def wait(self, key: MailKey, task: Task) -> None:
        """Resume ``task`` with the next message under ``key``. Raises: PeerLost, if none can come."""
        if self.lost or self._departed:
            why = self._why_lost(key[0], task)
            if why is not None:
                raise why
        waiting = self._receivers.get(key)
        if waiting is None:
            self._receivers[key] = [task]
        else:
            waiting.append(task)

    def wait_any(self, receiver: AnySource) -> None:
        """Resume its task with the next message that fits. Raises: PeerLost, if none can come."""
        why = self._why_all_lost(receiver)
        if why is not None:
            raise why
        self._any.append(receiver)

    def give_up(self, receiver: AnySource) -> None:
        """Its time is over: resume its task with None, unless it was served."""
        if not receiver.served:
            receiver.served = True
            self._any.remove(receiver)
            self._kernel.resume(receiver.task)

    def lose(self, why: PeerLost, orderly: bool) -> None:
        """From now on nothing comes from ``why.rank``; whoever waits for it is told.

        That a rank is done (``orderly``) ends no wait of a background task: it serves whoever is left, if anyone.
        """
        (self._departed if orderly else self.lost).setdefault(why.rank, why)
        for key in [key for key in self._receivers if key[0] == why.rank]:  # changed below
            waiting = self._receivers.pop(key)
            kept = [task for task in waiting if self._why_lost(why.rank, task) is None]
            for task in waiting:
                if task not in kept:
                    self._kernel.resume(task, Failure(why))
            if kept:
                self._receivers[key] = kept
        for receiver in list(self._any):  # a copy: those that fail are removed meanwhile
            lost = self._why_all_lost(receiver)
            if lost is not None:
                receiver.served = True  # its time-out may come yet, and must find nothing to do
                self._any.remove(receiver)
                self._kernel.resume(receiver.task, Failure(lost))

    def _why_lost(self, src: int, task: Task) -> PeerLost | None:
        return self.lost.get(src) or (None if task.background else self._departed.get(src))

    def _why_all_lost(self, receiver: AnySource) -> PeerLost | None:
        """Why nothing can come for ``receiver`` any more: the reason of its last source, or None if something can."""
        why = None
        for source in receiver.sources if self.lost or self._departed else ():
            if source == self._rank:
                continue  # nobody writes to themselves
            why = self._why_lost(source, receiver.task)
            if why is None:
                return None
        return why

    def _serve_any(self, transfer: Transfer) -> bool:
        for index, receiver in enumerate(self._any):
            if receiver.kind == transfer.message.kind and transfer.message.src in receiver.sources:
                del self._any[index]
                receiver.served = True
                self._kernel.resume(receiver.task, transfer)
                return True
        return False

    def _queue(self, kind: str) -> deque[Transfer]:
        """The messages of ``kind`` in order of arrival; from now on they are queued as they come."""
        queue = self._by_kind.get(kind)
        if queue is None:
            found = [transfer for key, mail in self._mail.items() if key[1] == kind for transfer in mail]
            found.sort(key=lambda transfer: transfer.arrived)  # keys stand in order of their first message, not of all
            queue = self._by_kind[kind] = deque(found)
        return queue

    def _forget(self, transfer: Transfer) -> None:
        """``transfer`` was taken from its queue: take it from under its key, too."""
        message = transfer.message
        key = (message.src, message.kind, message.iteration, message.bucket, message.step)
        mail = self._mail[key]
        mail.remove(transfer)
        if not mail:
            del self._mail[key]
        transfer.taken = True
