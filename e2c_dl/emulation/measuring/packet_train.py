"""Packet train at its receiver: how many frames arrived, how fast, how delayed, in which order, with which gaps.

::

    |- head start -|-- block --|-- block --|-- block --|-- block --|     equally many frames in each
                                 a stall of the sender spoils one or two; the median does not see them

    numbers sent       0 1 2 3 4 5 6 7 8 9
    numbers arrived    0 1 4 3 8 5 9              lost: 2, 6 7 (two runs); out of order: 2 (4 and 8 taken out, the
                                                   rest is in order)

Delays are one way, between two hosts' clocks: only their spread means something. So are the two spans of ``passed``,
each by its own clock, of the same frames: first and last that came after the head start::

    sent       |--- frames sent ---|            passed = (frames arrived / time in which they arrived)
    arrived       |-- frames arrived --|                 / (frames sent / time in which they were sent)
"""

from __future__ import annotations

import itertools
import statistics
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from e2c_dl import typed
from e2c_dl.emulation.measuring.datagrams import Arrival, Packet

BLOCKS, BLOCK_FRAMES = 20, 2  # of a train: at most so many, of at least so many frames
SPREADS, SPREAD_FRAMES = 10, 50  # the spread of delays: of so many blocks, of at least so many frames


class TrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """What arrived of a train. ``frame_ns``: what one frame took, median over ``blocks_ns``; 0 if too few came."""

    arrived: int = 0  # frames
    overflowed: int = 0  # of ``arrived``: they reached the host, but not its socket's buffer
    frame_ns: float = 0.0  # after the head start
    blocks_ns: tuple[float, ...] = ()
    passed: float = 1.0  # rate of what arrived / rate of what was sent; less than 1: a queue grew or frames were lost
    spreads_ns: tuple[float, ...] = ()  # between the quartiles of the one-way delay, by block
    reordered: int = 0  # the fewest frames without which the others are in order
    lost_runs: int = 0  # runs of consecutive frames that did not arrive
    lost_in_runs: int = 0  # frames in them, those of the socket's overflow too

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, body: bytes) -> TrainResult | None:
        """None if ``body`` is not what ``encode`` makes: anyone can send to an open port."""
        try:
            found = typed.decode(body, cls)
        except ValueError:
            return None
        return found if found.encode() == body else None  # fields that are missing or strange pass unseen above


class PacketTrain:
    """Collects the arrivals of one packet train."""

    def __init__(self) -> None:
        self._at_ns, self._delay_ns, self._number, self._overflowed = (array("q") for _ in range(4))

    def add(self, arrival: Arrival, packet: Packet) -> None:
        self._at_ns.append(arrival.at_ns)
        self._delay_ns.append(arrival.at_ns - packet.value)
        self._number.append(packet.number)
        self._overflowed.append(arrival.overflowed)

    def result(self, sent: int, head_ns: int) -> TrainResult:
        """Of ``sent`` frames; the rate leaves the first ``head_ns`` out, in which bursts may pass.

        Frames that only the socket's buffer had no room for count as arrived.
        """
        if not self._number:
            return TrainResult()
        overflowed = self._overflowed[-1] - self._overflowed[0]  # the socket's counter may have begun before this train
        blocks_ns = self._blocks_ns(head_ns)
        present = set(self._number)  # a frame that came twice counts once
        around = [-1, *sorted(number for number in present if number < sent), sent]
        runs = sum(after - before > 1 for before, after in itertools.pairwise(around))
        return TrainResult(
            arrived=len(present) + overflowed,
            overflowed=overflowed,
            frame_ns=round(statistics.median(blocks_ns), 1) if blocks_ns else 0.0,
            blocks_ns=tuple(round(block_ns, 1) for block_ns in blocks_ns),
            passed=round(self._passed(head_ns), 6),
            spreads_ns=tuple(float(round(spread_ns)) for spread_ns in self._spreads_ns()),
            reordered=out_of_order(self._number),
            lost_runs=runs,
            lost_in_runs=max(0, sent - len(present)),
        )

    def _blocks_ns(self, head_ns: int) -> list[float]:
        """What a frame took, by block."""
        begin_ns, first = self._at_ns[0] + head_ns, self._overflowed[0]
        marks = [
            (at_ns, seen + overflowed - first)
            for seen, (at_ns, overflowed) in enumerate(zip(self._at_ns, self._overflowed, strict=True), 1)
            if at_ns >= begin_ns
        ]
        blocks = min(BLOCKS, (len(marks) - 1) // BLOCK_FRAMES)
        if blocks < 1:
            return []
        ends = [marks[i * (len(marks) - 1) // blocks] for i in range(blocks + 1)]
        return [(end[0] - begin[0]) / (end[1] - begin[1]) for begin, end in itertools.pairwise(ends)]

    def _passed(self, head_ns: int) -> float:
        begin_ns = self._at_ns[0] + head_ns
        first = bisect_left(self._at_ns, begin_ns)
        # What is sent last trickles in by its jitter: count while arrivals are as dense as what was sent.
        sent_until_ns = max(at - delay for at, delay in zip(self._at_ns, self._delay_ns, strict=True))
        last = bisect_right(self._at_ns, sent_until_ns + min(self._delay_ns)) - 1
        if last <= first:
            return 1.0
        overflowed = self._overflowed[last] - self._overflowed[first]
        arrived_ns = self._at_ns[last] - self._at_ns[first]
        sent_ns = arrived_ns - (self._delay_ns[last] - self._delay_ns[first])
        sent = self._number[last] - self._number[first]
        if min(arrived_ns, sent_ns, sent) <= 0:  # out of order, or one burst
            return 1.0
        return (last - first + overflowed) / arrived_ns / (sent / sent_ns)

    def _spreads_ns(self) -> list[float]:
        """Block by block, so that clocks that drift apart do not count as spread."""
        blocks = min(SPREADS, len(self._delay_ns) // SPREAD_FRAMES)
        size = len(self._delay_ns) // max(1, blocks)
        ordered = [sorted(self._delay_ns[i * size : (i + 1) * size]) for i in range(blocks)]
        return [block[3 * size // 4] - block[size // 4] for block in ordered]


def out_of_order(numbers: Sequence[int]) -> int:
    """The fewest of ``numbers`` without which the others rise: all but their longest rising subsequence."""
    tails: list[int] = []  # tails[k]: the least number that a rising subsequence of length k + 1 can end with
    for number in numbers:
        place = bisect_left(tails, number)
        tails[place : place + 1] = [number]
    return len(numbers) - len(tails)
