"""The passive side of measuring: answers pings, counts packet trains, takes TCP, tells what it counted.

One thread and one UDP socket on the data address, and a TCP socket on the same port with a thread per connection,
running while the other hosts measure their links to this one.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import OrderedDict

from e2c_dl.emulation.measuring import stream
from e2c_dl.emulation.measuring.datagrams import Arrival, Packet, PacketKind, open_socket, receive
from e2c_dl.emulation.measuring.packet_train import PacketTrain, TrainResult
from e2c_dl.errors import EmulationError

TRAINS_KEPT = 64  # results of the latest: one may be asked for again when its answer was lost
PORT_TRIES = 20  # until a port is free for both UDP and TCP

_Key = tuple[tuple[str, int], int]  # sender, number of the train


class Responder:
    """Answers on ``address:port`` (0: any that is free) from construction until ``close``; a context manager.

    Raises: EmulationError when the port cannot be had.
    """

    def __init__(self, address: str, port: int) -> None:
        try:
            self._socket, self._listening = _open(address, port)
        except OSError as error:
            raise EmulationError(
                f"measuring: cannot listen on {address}:{port} ({error.strerror}); is another run using it?"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self._trains: dict[_Key, PacketTrain] = {}
        self._results: OrderedDict[_Key, bytes] = OrderedDict()
        self._wake, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="e2c-dl-responder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; may be called again."""
        if self._thread.is_alive():
            self._wake.send(b"x")  # select waits without a time-out
            self._thread.join()
        for opened in (self._wake, self._stop, self._socket, self._listening):
            opened.close()

    def __enter__(self) -> Responder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            readable, _, _ = select.select([self._socket, self._listening, self._stop], [], [])
            if self._stop in readable:
                return
            if self._listening in readable:
                self._accept()
            while (arrival := receive(self._socket)) is not None:
                self._answer(arrival)

    def _accept(self) -> None:
        try:
            opened, _ = self._listening.accept()
        except OSError:  # it went away before it was taken
            return
        threading.Thread(target=stream.receive, args=(opened,), name="e2c-dl-stream", daemon=True).start()

    def _answer(self, arrival: Arrival) -> None:
        packet = Packet.decode(arrival.datagram)
        if packet is None:
            return
        key = (arrival.sender, packet.train)
        if packet.kind is PacketKind.DATA:
            if key not in self._results:  # what comes after the end would be a second train of one frame
                self._trains.setdefault(key, PacketTrain()).add(arrival, packet)
        elif packet.kind is PacketKind.PING:
            waited_ns = time.time_ns() - arrival.at_ns  # a late wake-up of this process is not the network's
            self._send(Packet(PacketKind.PONG, packet.train, packet.number, waited_ns), arrival.sender)
        elif packet.kind is PacketKind.END:
            self._send(
                Packet(PacketKind.RESULT, packet.train, packet.number, 0, self._result(key, packet)), arrival.sender
            )

    def _result(self, key: _Key, packet: Packet) -> bytes:
        """What arrived until its first END; the arrivals themselves are forgotten then."""
        if key not in self._results:
            train = self._trains.pop(key, None)
            result = TrainResult() if train is None else train.result(packet.number, packet.value)
            self._results[key] = result.encode()
            if len(self._results) > TRAINS_KEPT:
                self._results.popitem(last=False)
        return self._results[key]

    def _send(self, packet: Packet, sender: tuple[str, int]) -> None:
        try:
            self._socket.sendto(packet.encode(), sender)
        except OSError:  # no room, no way there, a firewall: as if lost on the way, and whoever asked asks again
            return


def _open(address: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A UDP and a listening TCP socket on the same port. Raises: OSError."""
    tries = PORT_TRIES if port == 0 else 1
    while True:
        tries -= 1
        opened = open_socket(address, port)
        try:
            listening = socket.create_server((address, opened.getsockname()[1]))
            listening.setblocking(False)
            return opened, listening
        except OSError:
            opened.close()
            if tries == 0:
                raise
