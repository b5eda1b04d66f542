"""The part of a virtual worker that sends and receives, the spans that this leaves, and what stops it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import LinkEstimate, Message, Payload, Pending
from e2c_dl.strategies.seam.messages import size_bytes
from e2c_dl.trace.model import RECORD, Phase
from e2c_dl.worlds.deadlines import Deadline
from e2c_dl.worlds.virtual.kernel import Kernel, Pauses, Task, suspend
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES
from e2c_dl.worlds.virtual.mailbox import AnySource, Mailbox
from e2c_dl.worlds.virtual.shared import SharedWire
from e2c_dl.worlds.virtual.tasks import NO_TASK
from e2c_dl.worlds.virtual.tcp.wire import TcpWire
from e2c_dl.worlds.virtual.transfer import Transfer, copied, stamped, travelling
from e2c_dl.worlds.virtual.wire import Wire

_AWAIT_MESSAGE = int(Phase.AWAIT_MESSAGE)
_pack = RECORD.pack


class Messenger:
    """Messages of rank ``rank`` of ``size``. ``records`` are the rank's spans since they were last written.

    Payloads are copied as they are sent, unless they are ``shapes`` alone; with ``checked``, it is an error if the
    original has changed when the message has left. ``open_wire`` makes the link to a rank that is sent to first.
    """

    def __init__(
        self, kernel: Kernel, *, rank: int, size: int, shapes: bool, checked: bool, pauses: Pauses,
        open_wire: Callable[[Messenger, int], Wire],
    ) -> None:  # fmt: skip
        self.kernel, self.rank, self.size = kernel, rank, size
        self.shapes, self.checked, self.pauses = shapes, checked, pauses
        self.dead = False
        self.deaf = False  # dead, or stopped
        self.resumed_ns = 0
        self.records: list[bytes] = []
        self.record = self.records.append  # bound once, for every span: the list is only ever changed in place
        self.mailbox = Mailbox(kernel, rank)
        self.put: Callable[[Transfer], None] = self.mailbox.put
        self.wires: dict[int, Wire] = {}
        self._open_wire = open_wire
        self._deadlines: dict[str, Deadline] = {}
        self._kinds: set[str] = set()  # those that were found fit to travel
        self._last_sent: tuple[Message, Message] | None = None

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        original: Payload | None = message.payload
        if message.kind not in self._kinds:
            self._kinds.add(travelling(message))
        if self.shapes:
            watched = None
            last = self._last_sent
            if last is not None and last[0] is message:  # to many neighbours, one after another
                copy = last[1]
            else:
                copy = stamped(message, self.rank, original)
                self._last_sent = (message, copy)
        else:
            travelling(message)  # each time: a kind that is fit says nothing of the vector
            watched = original if self.checked else None
            copy = stamped(message, self.rank, None if original is None else copied(original))
        nbytes = MESSAGE_HEADER_BYTES + size_bytes(original)
        transfer = Transfer(self.kernel, self, dst, copy, watched, nbytes)
        wire = self.wires.get(dst)
        if wire is None:
            wire = self.wires[dst] = self._open(dst)
        wire.post(transfer, priority)
        return transfer

    def queued_bytes(self, dst: int) -> int:
        wire = self.wires.get(dst)
        return 0 if wire is None else wire.queued_bytes()

    def link(self, dst: int) -> LinkEstimate | None:
        wire = self.wires.get(dst)
        return None if wire is None else wire.estimate()

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        kernel = self.kernel
        task, posted_ns = kernel.current, kernel.now_ns
        key = (src, kind, iteration, bucket, step)
        transfer = self.mailbox.take(key)
        if transfer is None:
            self.mailbox.wait(key, task)
            task.waits = key
            transfer = await suspend()
        self.record(_pack(
            posted_ns, posted_ns, kernel.now_ns, 0, transfer.seq, task.iteration, task.number, NO_TASK,
            bucket, src, self.rank, 0, _AWAIT_MESSAGE, 0,
        ))  # fmt: skip
        message: Message = transfer.message
        return message

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        kernel = self.kernel
        task, posted_ns = kernel.current, kernel.now_ns
        wanted = range(self.size) if sources is None else sources  # a range: no list of thousands per wait
        transfer = self.mailbox.take_any(kind, wanted)
        if transfer is None:
            receiver = AnySource(task, kind, wanted)
            self.mailbox.wait_any(receiver)
            task.waits = receiver
            if timeout_s is not None:
                kernel.at(posted_ns + round(timeout_s * 1e9), self._time_is_over, receiver)
            transfer = await suspend()
        deadline = self._deadlines.setdefault(kind, Deadline())
        waited_s = (kernel.now_ns - posted_ns) / 1e9
        if transfer is None:  # a pause of the task's own choosing: no span, as in the live world
            deadline.gave_up(waited_s)
            return None
        deadline.came(waited_s)
        self._came(transfer, posted_ns, task)
        message: Message = transfer.message
        return message

    def deadline_s(self, kind: str) -> float | None:
        """A ``timeout_s`` for the next ``receive_any`` of ``kind``, by how long the last ones took; None: unknown."""
        return self._deadlines[kind].seconds if kind in self._deadlines else None

    def arrived(self, kind: str) -> Sequence[Message]:
        kernel = self.kernel
        transfers = self.mailbox.take_all(kind)
        for transfer in transfers:
            self._came(transfer, kernel.now_ns, kernel.current)
        return [transfer.message for transfer in transfers]

    def lose(self, why: PeerLost, orderly: bool) -> None:
        """Nothing more comes from ``why.rank``, and if it was not ``orderly``, nothing reaches it."""
        self.mailbox.lose(why, orderly)
        if not orderly and why.rank in self.wires:
            self.wires[why.rank].lose(why)

    def farewell(self, reason: str, *, orderly: bool) -> None:
        """Tell all that this rank has sent to that nothing more comes; one that is lost (not ``orderly``), tell all."""
        for dst in [*self.wires] if orderly else range(self.size):
            if dst != self.rank:  # also who never got a message of it may wait for its first
                wire = self.wires.get(dst) or self._open(dst)
                wire.farewell(PeerLost(self.rank, reason), orderly=orderly)

    def stop(self, _: object) -> None:
        """One of ``pauses`` begins: nothing of this rank happens, but that its kernel sends what it has taken."""
        if self.dead:  # a pause may have been planned for later
            return
        if not self.deaf:
            self.deaf = True
            self.kernel.stop(self.rank)
            for wire in self._stoppable():
                wire.stop()
        self.kernel.at(self.pauses.runs_ns(self.kernel.now_ns), self._go_on, None)

    def die(self) -> None:
        """Nothing of this rank happens any more, nor what was kept while it was stopped."""
        if self.deaf:
            for wire in self._stoppable():
                wire.go_on()
            self.kernel.go_on(self.rank, dead=True)
        self.dead = self.deaf = True

    def awaited_sent(self, transfer: Transfer, task: Task, posted_ns: int) -> None:
        self.span(
            Phase.AWAIT_SENT, posted_ns, posted_ns, self.kernel.now_ns, task,
            src=self.rank, dst=transfer.dst, seq=transfer.seq, bucket=transfer.message.bucket,
        )  # fmt: skip

    def span(
        self, phase: Phase, posted_ns: int, start_ns: int, end_ns: int, task: Task, *, bucket: int = -1, src: int = -1,
        dst: int = -1, seq: int = -1, peer_task: int = NO_TASK, staleness: int = 0,
    ) -> None:  # fmt: skip
        """Leave a span of ``task``, in its iteration."""
        self.record(_pack(
            posted_ns, start_ns, end_ns, 0, seq, task.iteration, task.number, peer_task, bucket, src, dst, staleness,
            phase, 0,
        ))  # fmt: skip

    def _go_on(self, _: object) -> None:
        now_ns = self.kernel.now_ns
        if self.deaf and not self.dead and self.pauses.runs_ns(now_ns) == now_ns:  # else another pause holds
            self.deaf, self.resumed_ns = False, now_ns
            for wire in self._stoppable():
                wire.go_on()
            self.kernel.go_on(self.rank)

    def _stoppable(self) -> list[SharedWire | TcpWire]:
        """All that were used so far, if this rank is one that is ever stopped."""
        return [wire for wire in self.wires.values() if isinstance(wire, SharedWire | TcpWire)]

    def _time_is_over(self, receiver: AnySource) -> None:
        """A stopped process notices when it goes on, and then what has come meanwhile first."""
        now_ns = self.kernel.now_ns
        runs_ns = self.pauses.runs_ns(now_ns)
        if runs_ns > now_ns:
            self.kernel.at(runs_ns, self._time_is_over, receiver)
        else:
            self.mailbox.give_up(receiver)

    def _came(self, transfer: Transfer, posted_ns: int, task: Task) -> None:
        message = transfer.message
        self.span(
            Phase.AWAIT_MESSAGE, posted_ns, posted_ns, self.kernel.now_ns, task,
            src=message.src, dst=self.rank, seq=transfer.seq, bucket=message.bucket,
        )  # fmt: skip

    def _open(self, dst: int) -> Wire:
        if dst == self.rank or not 0 <= dst < self.size:
            raise TrainingError(f"rank {self.rank} cannot send to rank {dst} in a world of {self.size}; send to a peer")
        wire = self._open_wire(self, dst)
        why = self.mailbox.lost.get(dst)
        if why is not None:  # the rank was lost before anything was sent to it
            wire.lose(why)
        return wire
