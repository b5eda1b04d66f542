"""One TCP connection that sends as fast as TCP lets it, timed by the side that receives.

::

    sender                                    receiver
      | -- head_s, window_s, clamp, zeros ...--> |  head: TCP finds its pace     not counted
      | -------------- zeros ------------------> |  window, in BLOCKS blocks     bytes of each
      | <------------ bits per second of each ---|  both drop what is still on its way

The receiver's window is clamped to what the link needs twice over: TCP fills the link, not seconds of its queue, which
would stand in the way of whatever is measured next. Bits are of payload, what a program sees.
"""

from __future__ import annotations

import json
import math
import select
import socket
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from e2c_dl.emulation.measuring.measured import Interval, median_interval
from e2c_dl.errors import EmulationError
from e2c_dl.trace.propagation import tcp_info

BLOCKS = 20
CHUNK = bytes(1 << 16)
PATIENCE_S = 15.0  # beyond the time asked for: lost segments of slow links take long to come again
MOST_CLAMP_BYTES = 1 << 30  # of TCP's window, which cannot be larger
_REQUEST = struct.Struct("!4sddI")  # magic, head_s, window_s, clamp_bytes
_MAGIC = b"e2cT"
_LINGER_NOT = struct.pack("@ii", 1, 0)  # close: forget what is on its way


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """What a program saw, and what that is in Ethernet frames. Rates are of payload."""

    rate_bps: float  # mean: all that came through
    interval_bps: Interval  # of the mean, as far as blocks are independent
    steady_bps: float  # median over blocks: a stall of the machine does not count, nor does one of TCP
    steady_interval_bps: Interval
    frame_factor: float  # bytes of full frames per byte of payload


def send(src_address: str, peer: tuple[str, int], *, head_s: float, window_s: float, clamp_bytes: int) -> Goodput:
    """What came through in ``window_s`` after ``head_s``. Raises: EmulationError if nobody takes or answers it."""
    where = f"measuring: TCP to {peer[0]}:{peer[1]}"
    try:
        with socket.create_connection(peer, timeout=PATIENCE_S, source_address=(src_address, 0)) as opened:
            opened.sendall(_REQUEST.pack(_MAGIC, head_s, window_s, min(clamp_bytes, MOST_CLAMP_BYTES)))
            answer = _send_until_answered(opened, time.monotonic() + head_s + window_s + PATIENCE_S)
            factor = _frame_factor(opened)
            # What is queued would disturb what comes next.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    except OSError as error:
        raise EmulationError(f"{where}: {error}; is its responder running, the link up?") from error
    try:
        blocks = [float(value) for value in json.loads(answer)]
        mean_bps = statistics.fmean(blocks)
        half_bps = 1.96 * statistics.stdev(blocks) / math.sqrt(len(blocks))
    except (ValueError, TypeError) as error:
        raise EmulationError(f"{where}: no answer within {PATIENCE_S:g} s; is the link nearly cut?") from error
    return Goodput(
        rate_bps=mean_bps,
        interval_bps=(max(0.0, mean_bps - half_bps), mean_bps + half_bps),
        steady_bps=statistics.median(blocks),
        steady_interval_bps=median_interval(blocks),
        frame_factor=factor,
    )


def receive(opened: socket.socket) -> None:
    """Serves one sender on ``opened``, and closes it. A sender that goes away, or is none of ours, is left alone."""
    with opened:
        try:
            opened.settimeout(PATIENCE_S)
            head = opened.recv(_REQUEST.size, socket.MSG_WAITALL)
            if len(head) < _REQUEST.size or head[:4] != _MAGIC:
                return
            _, head_s, window_s, clamp_bytes = _REQUEST.unpack(head)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, min(clamp_bytes, MOST_CLAMP_BYTES))
            marks = _count(opened, head_s, window_s)
            opened.sendall(json.dumps(_blocks_bps(marks, window_s)).encode() + b"\n")
            _drain(opened)
        except (OSError, OverflowError):
            return


def _send_until_answered(opened: socket.socket, deadline_s: float) -> bytes:
    """One line; less, or none, if it did not come in time."""
    opened.setblocking(False)
    answer = b""
    while not answer.endswith(b"\n") and (left_s := deadline_s - time.monotonic()) > 0:
        readable, writable, _ = select.select([opened], [] if answer else [opened], [], left_s)
        if readable:
            piece = opened.recv(1 << 16)
            if not piece:
                break
            answer += piece
        elif writable:
            opened.send(CHUNK)
    return answer


def _count(opened: socket.socket, head_s: float, window_s: float) -> list[tuple[float, int]]:
    """(seconds, bytes so far) in the window, from its beginning on."""
    into, so_far = memoryview(bytearray(1 << 18)), 0
    begin_s = time.monotonic() + head_s
    end_s = begin_s + window_s
    marks = [(0.0, 0)]
    while (now_s := time.monotonic()) < end_s:
        readable, _, _ = select.select([opened], [], [], end_s - now_s)
        if not readable:
            break
        taken = opened.recv_into(into)
        if not taken:
            break
        now_s = time.monotonic()
        if now_s >= begin_s:  # slow start lies in the head
            so_far += taken
            marks.append((now_s - begin_s, so_far))
    return marks


def _blocks_bps(marks: Sequence[tuple[float, int]], window_s: float) -> list[float]:
    """Bits per second in each of BLOCKS equal parts of the window; bytes count when they were read."""
    counted = [0] * BLOCKS
    before = 0
    for at_s, so_far in marks:
        counted[min(BLOCKS - 1, int(at_s / window_s * BLOCKS))] += so_far - before
        before = so_far
    return [bytes_ * 8 * BLOCKS / window_s for bytes_ in counted]


def _drain(opened: socket.socket) -> None:
    """Until the sender has its answer and goes: closing with unread data would take the answer back."""
    into = memoryview(bytearray(1 << 18))
    while opened.recv_into(into):
        pass


def _frame_factor(opened: socket.socket) -> float:
    told = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, tcp_info.LENGTH)
    segment_bytes, options = tcp_info.field(told, "snd_mss_bytes"), tcp_info.field(told, "options")
    if not segment_bytes or options is None:
        raise EmulationError("measuring: the kernel does not tell TCP's segment size; measure on Linux 2.6.32 or newer")
    return float((segment_bytes + tcp_info.segment_header_bytes(options)) / segment_bytes)
