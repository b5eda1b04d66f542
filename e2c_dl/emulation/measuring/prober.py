"""The active side of measuring: pings and packet trains to one Responder, and what it answered.

::

    trips       ping, wait, ping, wait ...              for the few of a quick look
    many_trips  ping every PING_GAP_S, answers as they come
    train       frames at a pace, then END until RESULT comes
"""

from __future__ import annotations

import itertools
import math
import os
import select
import socket
import time
from typing import NamedTuple

from e2c_dl.emulation.measuring.datagrams import OVERHEAD_BYTES, Arrival, Packet, PacketKind, receive
from e2c_dl.emulation.measuring.packet_train import TrainResult
from e2c_dl.errors import EmulationError
from e2c_dl.units import FULL_FRAME_BYTES

PINGS_ANSWERED = 3  # the fewest to take a median of
TRIES = 20
RESULT_S = 40.0
"""As long at least is asked what arrived of a train: 1000 frames, which a link far slower than asked for may hold in
its queue, take so long at 0.3 Mbit/s, and what is asked stands behind them."""
PING_GAP_S = 0.01
CATCH_UP_S = 0.01  # of a late sender: a longer burst would overflow queues that are not the link's
AHEAD_BYTES = 2 * FULL_FRAME_BYTES
"""What leaves at once, before a train whose rate is asked for: slow links let as much pass before they hold to their
rate (HTB's least burst), and an overload of a fifth takes seconds to use it up, 1.2 s at 100 kbit/s."""
BURST_S = 0.001
"""Frames of one millisecond are sent between two looks at the clock: where a look takes 20 us (User-Mode Linux), one
per frame would be most of the work."""


class Sent(NamedTuple):
    """How a train left."""

    frames: int
    rate_bps: float
    held_back: bool  # the socket's buffer was full: the link is shaped on this host, and is the limit


class Prober:
    """Talks to the Responder at ``peer``. ``settle_s``: how much longer than others a frame may be on its way."""

    def __init__(
        self, opened: socket.socket, peer: tuple[str, int], *, patience_s: float, settle_s: float = 0.0
    ) -> None:
        self._socket, self._peer, self._patience_s, self._settle_s = opened, peer, patience_s, settle_s
        # Begins anywhere: late answers to an earlier prober on this port must not count.
        self._train_numbers = itertools.count(int.from_bytes(os.urandom(3), "big"))
        self.peer = f"{peer[0]}:{peer[1]}"

    def trips_s(self, pings: int) -> list[float]:
        """Round trips of the answered ones of ``pings``, one after another.

        Raises: EmulationError when fewer than PINGS_ANSWERED are answered.
        """
        train = self.find_each_other()
        found = (self._ping(train, number) for number in range(1, pings + 1))
        return self._enough([trip_s for trip_s in found if trip_s is not None], pings)

    def many_trips_s(self, pings: int) -> list[float]:
        """As ``trips_s``, but without waiting for one answer before the next ping."""
        train = self.find_each_other()
        sent_ns: dict[int, int] = {}
        trips_s: list[float] = []
        begin_s = time.monotonic()
        end_s = begin_s + pings * PING_GAP_S + self._patience_s
        while len(trips_s) < pings and (now_s := time.monotonic()) < end_s:
            due_s = begin_s + len(sent_ns) * PING_GAP_S
            if len(sent_ns) < pings and now_s >= due_s:
                number = len(sent_ns) + 1
                sent_ns[number] = time.time_ns()
                self._send(Packet(PacketKind.PING, train, number, 0).encode())
                continue
            until_s = min(due_s, end_s) if len(sent_ns) < pings else end_s
            select.select([self._socket], [], [], max(0.0, until_s - now_s))
            while (arrival := receive(self._socket)) is not None:
                packet = Packet.decode(arrival.datagram)
                if (
                    packet is not None
                    and (packet.kind, packet.train) == (PacketKind.PONG, train)
                    and packet.number in sent_ns
                ):
                    trips_s.append((arrival.at_ns - sent_ns[packet.number] - packet.value) / 1e9)
        return self._enough(trips_s, pings)

    def train(self, frame_bytes: int, pace_bps: float, frames: int, head_s: float) -> tuple[Sent, TrainResult]:
        """Sends ``frames`` frames at ``pace_bps`` and asks what arrived. Raises: EmulationError when nobody answers.

        With a head start, in which bursts may pass, AHEAD_BYTES leave before them, which nobody counts.
        """
        number = next(self._train_numbers)
        ahead = Packet(PacketKind.PONG, number, 0, 0).encode(frame_bytes - OVERHEAD_BYTES)  # an answer to no question
        for _ in range(math.ceil(AHEAD_BYTES / frame_bytes) if head_s else 0):
            self._send(ahead)
        sent = self._send_paced(number, frame_bytes, pace_bps, frames)
        time.sleep(self._settle_s)  # END must not overtake what it counts
        for _ in range(max(TRIES, math.ceil(RESULT_S / self._patience_s))):
            self._send(Packet(PacketKind.END, number, frames, round(head_s * 1e9)).encode())
            answer = self._await(PacketKind.RESULT, number, frames)
            if answer is not None and (result := TrainResult.decode(answer[1].body)) is not None:
                return sent, result
        raise EmulationError(f"measuring: {self.peer} does not say what arrived; is its worker running, the link up?")

    def find_each_other(self) -> int:
        """The number of a train of pings, after a first that makes the hosts find each other."""
        train = next(self._train_numbers)
        for _ in range(TRIES):
            if self._ping(train, 0) is not None:
                break
        return train

    def _enough(self, trips_s: list[float], pings: int) -> list[float]:
        if len(trips_s) < PINGS_ANSWERED:
            raise EmulationError(
                f"measuring: {self.peer} answered {len(trips_s)} of {pings} pings; is its worker running, the link up?"
            )
        return trips_s

    # Real time, not monotonic: arrivals bear the kernel's real-time stamps.
    def _ping(self, train: int, number: int) -> float | None:
        """Seconds on the network; the time in which the other side was not yet awake is taken off."""
        sent_ns = time.time_ns()
        self._send(Packet(PacketKind.PING, train, number, 0).encode())
        answer = self._await(PacketKind.PONG, train, number)
        return None if answer is None else (answer[0].at_ns - sent_ns - answer[1].value) / 1e9

    def _send_paced(self, train: int, frame_bytes: int, pace_bps: float, frames: int) -> Sent:
        frame_s = frame_bytes * 8 / pace_bps
        payload_bytes, burst = frame_bytes - OVERHEAD_BYTES, max(1, int(BURST_S / frame_s))
        held_back, stamp_ns = False, 0
        begin_s = schedule_s = time.monotonic()
        for number in range(frames):
            if number % burst == 0:
                early_s = schedule_s + number * frame_s - time.monotonic()
                if early_s > 0:
                    time.sleep(early_s)
                schedule_s += max(0.0, -early_s - CATCH_UP_S)
                stamp_ns = time.time_ns()  # of the burst: a clock that is a system call costs as much as a frame
            datagram = Packet(PacketKind.DATA, train, number, stamp_ns).encode(payload_bytes)
            held_back = self._send(datagram) or held_back
        seconds = max(time.monotonic() - begin_s, frames * frame_s)  # the last frame takes its time, too
        return Sent(frames, frames * frame_bytes * 8 / seconds, held_back)

    def _send(self, datagram: bytes) -> bool:
        """Sends, after waiting for room in the socket's buffer if need be: then True.

        Raises: EmulationError where there is no way to the peer.
        """
        held_back = False
        while True:
            try:
                self._socket.sendto(datagram, self._peer)
                return held_back
            except BlockingIOError:
                held_back = True
                select.select([], [self._socket], [], self._patience_s)
            except PermissionError:  # a firewall has dropped it, perhaps as the loss of the link: lost, as any other
                return held_back
            except OSError as error:
                raise EmulationError(f"measuring: {self.peer}: {error.strerror}; is its data address right?") from error

    def _await(self, kind: PacketKind, train: int, number: int) -> tuple[Arrival, Packet] | None:
        """The one answer that is waited for; None if it did not come in time. Others, late ones, are passed over."""
        deadline_s = time.monotonic() + self._patience_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            select.select([self._socket], [], [], left_s)
            while (arrival := receive(self._socket)) is not None:
                packet = Packet.decode(arrival.datagram)
                if packet is not None and (packet.kind, packet.train, packet.number) == (kind, train, number):
                    return arrival, packet
        return None
