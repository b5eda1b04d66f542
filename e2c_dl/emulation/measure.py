"""Measuring back: what a link between two hosts really does, seen by the hosts themselves before they train.

::

    21 pings on the idle link            -> round trip: median, and the spread between quartiles
    small frames at half of the rate     -> loss
    full frames at 1.2 times the rate    -> rate: what comes through, after a head start in which bursts may pass
    for 0.7 s, at most CAP_BPS

A rate above what was sent cannot be seen: then the measured rate is a floor. Every host runs a Responder; who measures
which link when is ``rounds``, so that no host is in two measurements at once; keeping the rounds apart is the caller's.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import statistics
import time
from collections.abc import Iterable
from typing import NamedTuple

from e2c_dl.emulation.fidelity import Measured
from e2c_dl.emulation.frames import FULL_FRAME_BYTES
from e2c_dl.emulation.probes import (
    OVERHEAD_BYTES,
    PING_FRAME_BYTES,
    Arrival,
    Kind,
    Packet,
    TrainResult,
    open_socket,
    receive,
)
from e2c_dl.emulation.responder import Responder
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link, Pair

__all__ = ["CAP_BPS", "Measured", "Responder", "asked_round_trip_s", "measure_link", "rounds"]

CAP_BPS = 300e6
"""What Python sends in full frames without taking a whole core."""

PINGS, PINGS_ANSWERED = 21, 3  # sent; of those, the fewest to take a median of
HEAD_S, WINDOW_S = 0.1, 0.6
OVERLOAD = 1.2  # times the asked rate, so that the link and not the sender decides
SATURATED = 0.97  # less than this of what was sent came through: the link was the limit
MIN_FRAME_BYTES, MIN_FRAMES = 200, 60  # slow links are measured with smaller frames, so that there are enough of them
LOSS_FRAMES, LOSS_FRAMES_MAX, LOSS_RATE_BPS, LOSS_S = 200, 2000, 2.5e6, 1.0
TRIES, RATE_TRIES = 20, 3
CATCH_UP_S = 0.01  # of a late sender: a longer burst would overflow queues that are not the link's


def rounds(links: Iterable[Pair]) -> list[list[Pair]]:
    """``links`` in rounds that no host is in twice; the order of ``links`` does not matter. Greedy: few, not fewest."""
    filled: list[list[Pair]] = []
    for link in sorted(set(links)):
        for members in filled:
            if not {*link} & {host for pair in members for host in pair}:
                members.append(link)
                break
        else:
            filled.append([link])
    return filled


def asked_round_trip_s(there: Link, back: Link) -> float:
    """What a ping should take: both delays, and the time that its frame takes on both links."""
    rates = [link.rate_bps for link in (there, back) if link.rate_bps is not None]
    return there.delay_s + back.delay_s + sum(PING_FRAME_BYTES * 8 / rate for rate in rates)


def measure_link(
    *, src_address: str, dst_address: str, port: int, there: Link, back: Link, cap_bps: float = CAP_BPS
) -> Measured:
    """What this host, at ``src_address``, sees of its link ``there`` to the Responder at ``dst_address:port``.

    ``there`` and ``back`` are what was asked of both directions: they set the pace and the patience. Takes about
    a second plus some 25 round trips.

    Raises: EmulationError when nobody answers.
    """
    with open_socket(src_address, 0) as opened:
        probe = _Probe(opened, (dst_address, port), patience_s=0.5 + 4 * asked_round_trip_s(there, back))
        trips_s = probe.round_trips_s()
        loss, loss_samples = _loss(probe, there)
        rate_bps, is_floor = _rate(probe, there, cap_bps)
    quartiles = statistics.quantiles(trips_s, n=4)
    return Measured(
        rate_bps=rate_bps,
        rate_is_floor=is_floor,
        round_trip_s=statistics.median(trips_s),
        round_trip_spread_s=quartiles[2] - quartiles[0],
        pings=len(trips_s),
        loss=loss,
        loss_samples=loss_samples,
    )


class _Sent(NamedTuple):
    frames: int
    rate_bps: float
    held_back: bool  # the socket's buffer was full: the link is shaped on this host, and is the limit


def _loss(probe: _Probe, link: Link) -> tuple[float, int]:
    """(fraction lost, frames sent), at half of the link's rate."""
    pace_bps = min(LOSS_RATE_BPS, LOSS_RATE_BPS if link.rate_bps is None else link.rate_bps / 2)
    wanted = LOSS_FRAMES if link.loss == 0 else min(LOSS_FRAMES_MAX, max(LOSS_FRAMES, round(30 / link.loss)))
    frames = max(20, min(wanted, int(pace_bps * LOSS_S / 8 / PING_FRAME_BYTES)))
    sent, result = probe.train(PING_FRAME_BYTES, pace_bps, frames)
    return max(0.0, 1 - result.arrived / sent.frames), sent.frames


def _rate(probe: _Probe, link: Link, cap_bps: float) -> tuple[float, bool]:
    """(bits per second of frames that came through, whether the link could have carried more)."""
    passing = max(0.05, 1 - link.loss)
    pace_bps = cap_bps if link.rate_bps is None else min(cap_bps, OVERLOAD * link.rate_bps / passing)
    enough = int(pace_bps * WINDOW_S / 8 / MIN_FRAMES)
    frame_bytes = min(FULL_FRAME_BYTES, max(MIN_FRAME_BYTES, enough))
    frames = max(2, int(pace_bps * (HEAD_S + WINDOW_S) / 8 / frame_bytes))
    best_bps = 0.0
    for _ in range(RATE_TRIES):
        sent, result = probe.train(frame_bytes, pace_bps, frames)
        if result.frame_ns > 0:
            best_bps = max(best_bps, frame_bytes * 8e9 / result.frame_ns)
        # A sender that had to wait for a core may itself have been the limit: then it says nothing of the link.
        if sent.held_back or sent.rate_bps >= SATURATED * pace_bps:
            break
    else:
        return best_bps, True
    if best_bps == 0:
        raise EmulationError(f"measuring: of {sent.frames} frames too few reached {probe.peer}; is its rate near zero?")
    return best_bps, not sent.held_back and best_bps >= SATURATED * passing * pace_bps


class _Probe:
    """The active side, talking to one Responder."""

    def __init__(self, opened: socket.socket, peer: tuple[str, int], patience_s: float) -> None:
        self._socket, self._peer, self._patience_s = opened, peer, patience_s
        self._train_numbers = itertools.count(int.from_bytes(os.urandom(3), "big"))
        self.peer = f"{peer[0]}:{peer[1]}"

    def round_trips_s(self) -> list[float]:
        """Of the answered ones of PINGS pings, after a first that makes the hosts find each other.

        Raises: EmulationError when fewer than PINGS_ANSWERED are answered.
        """
        train = next(self._train_numbers)
        for _ in range(TRIES):
            if self._ping(train, 0) is not None:
                break
        trips_s = [trip_s for n in range(1, PINGS + 1) if (trip_s := self._ping(train, n)) is not None]
        if len(trips_s) < PINGS_ANSWERED:
            raise EmulationError(
                f"measuring: {self.peer} answered {len(trips_s)} of {PINGS} pings; is its worker running, the link up?"
            )
        return trips_s

    def train(self, frame_bytes: int, pace_bps: float, frames: int) -> tuple[_Sent, TrainResult]:
        """Sends ``frames`` frames at ``pace_bps`` and asks what arrived. Raises: EmulationError when nobody answers."""
        number = next(self._train_numbers)
        sent = self._send_paced(number, frame_bytes, pace_bps, frames)
        for _ in range(TRIES):
            self._send(Packet(Kind.END, number, 0, 0).encode())
            answer = self._await(Kind.RESULT, number, 0)
            if answer is not None and (result := TrainResult.decode(answer[1].body)) is not None:
                return sent, result
        raise EmulationError(f"measuring: {self.peer} does not say what arrived; is its worker running, the link up?")

    def _ping(self, train: int, number: int) -> float | None:
        """Seconds on the network; the time in which the other side was not yet awake is taken off."""
        sent_ns = time.time_ns()
        self._send(Packet(Kind.PING, train, number, 0).encode())
        answer = self._await(Kind.PONG, train, number)
        return None if answer is None else (answer[0].at_ns - sent_ns - answer[1].value) / 1e9

    def _send_paced(self, train: int, frame_bytes: int, pace_bps: float, frames: int) -> _Sent:
        frame_s, head_ns = frame_bytes * 8 / pace_bps, round(HEAD_S * 1e9)
        payload_bytes = frame_bytes - OVERHEAD_BYTES
        held_back = False
        begin_s = schedule_s = time.monotonic()
        for number in range(frames):
            early_s = schedule_s + number * frame_s - time.monotonic()
            if early_s > 0:
                time.sleep(early_s)
            schedule_s += max(0.0, -early_s - CATCH_UP_S)
            datagram = Packet(Kind.DATA, train, number, head_ns).encode(payload_bytes)
            held_back = self._send(datagram) or held_back
        seconds = max(time.monotonic() - begin_s, frames * frame_s)
        return _Sent(frames, frames * frame_bytes * 8 / seconds, held_back)

    def _send(self, datagram: bytes) -> bool:
        """Sends, after waiting for room in the socket's buffer if need be: then True."""
        held_back = False
        while True:
            try:
                self._socket.sendto(datagram, self._peer)
                return held_back
            except BlockingIOError:
                held_back = True
                select.select([], [self._socket], [], self._patience_s)

    def _await(self, kind: Kind, train: int, number: int) -> tuple[Arrival, Packet] | None:
        """The one answer that is waited for; None if it did not come in time. Others, late ones, are passed over."""
        deadline_s = time.monotonic() + self._patience_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            select.select([self._socket], [], [], left_s)
            while (arrival := receive(self._socket)) is not None:
                packet = Packet.decode(arrival.datagram)
                if packet is not None and (packet.kind, packet.train, packet.number) == (kind, train, number):
                    return arrival, packet
        return None
