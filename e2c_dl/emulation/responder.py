"""The passive side of measuring: answers pings, counts trains of frames, tells what it counted.

One thread, one UDP socket on the data address, running while the other hosts measure their links to this one.
"""

from __future__ import annotations

import itertools
import select
import socket
import statistics
import threading
import time
from collections import OrderedDict
from types import TracebackType

from e2c_dl.emulation.probes import Arrival, Kind, Packet, TrainResult, open_socket, receive
from e2c_dl.errors import EmulationError

BLOCKS, BLOCK_FRAMES = 20, 2  # of a train: at most so many, of at least so many frames
TRAINS_KEPT = 64  # of the latest; a result may be asked for again when its answer was lost


class Train:
    """Times one train, leaving out its head start, in which bursts may pass.

    ::

        |- head start -|-- block --|-- block --|-- block --|-- block --|     equally many frames in each
                                     a stall of the sender spoils one or two; the median does not see them
    """

    def __init__(self, first: Arrival, head_ns: int) -> None:
        self._begin_ns, self._first = first.at_ns + head_ns, first
        self._seen = 0
        self._marks: list[tuple[int, int]] = []  # of the frames after the head start: arrival, frames so far

    def add(self, arrival: Arrival) -> None:
        self._seen += 1
        if arrival.at_ns >= self._begin_ns:
            self._marks.append((arrival.at_ns, self._seen + arrival.overflowed - self._first.overflowed))
        self._last = arrival

    def result(self) -> TrainResult:
        """So far; frames that only the socket's buffer had no room for count as arrived."""
        overflowed = self._last.overflowed - self._first.overflowed
        return TrainResult(arrived=self._seen + overflowed, frame_ns=self._frame_ns(), overflowed=overflowed)

    def _frame_ns(self) -> float:
        blocks = min(BLOCKS, (len(self._marks) - 1) // BLOCK_FRAMES)
        if blocks < 1:
            return 0.0
        ends = [self._marks[i * (len(self._marks) - 1) // blocks] for i in range(blocks + 1)]
        return statistics.median((end[0] - begin[0]) / (end[1] - begin[1]) for begin, end in itertools.pairwise(ends))


class Responder:
    """Answers on ``address:port`` from construction until ``close``; a context manager.

    Raises: EmulationError when the port cannot be had.
    """

    def __init__(self, address: str, port: int) -> None:
        try:
            self._socket = open_socket(address, port)
        except OSError as error:
            raise EmulationError(
                f"measuring: cannot listen on {address}:{port} ({error.strerror}); is another run using it?"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self._trains: OrderedDict[tuple[tuple[str, int], int], Train] = OrderedDict()
        self._wake, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="e2c-dl-responder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; may be called again."""
        if self._thread.is_alive():
            self._wake.send(b"x")
            self._thread.join()
        for opened in (self._wake, self._stop, self._socket):
            opened.close()

    def __enter__(self) -> Responder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            readable, _, _ = select.select([self._socket, self._stop], [], [])
            if self._stop in readable:
                return
            while (arrival := receive(self._socket)) is not None:
                self._answer(arrival)

    def _answer(self, arrival: Arrival) -> None:
        packet = Packet.decode(arrival.datagram)
        if packet is None:
            return
        key = (arrival.sender, packet.train)
        if packet.kind is Kind.DATA:
            self._count(key, arrival, packet)
        elif packet.kind is Kind.PING:
            waited_ns = time.time_ns() - arrival.at_ns
            self._send(Packet(Kind.PONG, packet.train, packet.number, waited_ns), arrival.sender)
        elif packet.kind is Kind.END:
            empty = TrainResult(arrived=0, frame_ns=0.0, overflowed=0)
            result = self._trains[key].result() if key in self._trains else empty
            self._send(Packet(Kind.RESULT, packet.train, packet.number, 0, result.encode()), arrival.sender)

    def _count(self, key: tuple[tuple[str, int], int], arrival: Arrival, packet: Packet) -> None:
        if key not in self._trains:
            self._trains[key] = Train(arrival, packet.value)
            if len(self._trains) > TRAINS_KEPT:
                self._trains.popitem(last=False)
        self._trains[key].add(arrival)

    def _send(self, packet: Packet, sender: tuple[str, int]) -> None:
        try:
            self._socket.sendto(packet.encode(), sender)
        except (BlockingIOError, ConnectionError):
            return  # as if lost on the way: whoever asked asks again
