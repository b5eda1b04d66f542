"""The rate that TCP leaves of a link where segments are lost.

Modelled is a connection in steady state, as live runs are set up: Linux' cubic (or reno), an MTU of 1500 with time
stamps, buffers of at least twice the bandwidth-delay product, no slow start after idle. Such a connection fills its
link while it has something to send, so a message takes its wire bits / rate. Departures from that:

* *Loss* p of segments bounds the window W, in segments, on average (round trip R, no queue):
  reno    W = sqrt(3 / (2 p))                    Source: Mathis et al., CCR 27(3), 1997, Eq. (3), one ack per segment
  cubic   W = 1.054 (R / p)^(3/4), at least reno's    Source: RFC 8312, 5.1, Eq. (6) (C = 0.4), and 4.2
  so the rate is at most W segments per R. Lost segments are sent again: wire bits / (1 - p). A message whose last
  window lost a segment arrives one R later, and so does what follows it: TCP delivers in order.

Not modelled: the slow start of a fresh connection, the retransmission timer (after a link was down, sending goes on at
once), competition of ACKs for the way back, queues that overflow, receive buffers that are full.
"""

from __future__ import annotations

import math

from e2c_dl.ethernet import FULL_FRAME_BITS

MESSAGE_HEADER_BYTES = 54
"""Bytes that the live world puts before every payload (its frames.HEADER_BYTES; a test compares them)."""

CONGESTION_CONTROLS = ("cubic", "reno")
_CUBIC = 1.054  # [C (3 + b) / (4 (1 - b))]^(1/4), C = 0.4, b = 0.7
_MIN_ROUND_TRIP_S = 1e-4  # what two hosts' kernels need even without delay


def window_segments(congestion_control: str, loss: float, round_trip_s: float) -> float:
    """Average window that ``loss`` (above 0) leaves, in segments; at least 1."""
    reno = math.sqrt(1.5 / loss)
    cubic = _CUBIC * (round_trip_s / loss) ** 0.75 if congestion_control == "cubic" else 0.0
    return max(1.0, reno, cubic)


def lossy_rate_bps(congestion_control: str, loss: float, round_trip_s: float) -> float:
    """The highest rate, in bits of Ethernet frames per second, at which TCP sends with ``loss`` (above 0)."""
    round_trip_s = max(round_trip_s, _MIN_ROUND_TRIP_S)
    return window_segments(congestion_control, loss, round_trip_s) * FULL_FRAME_BITS / round_trip_s
