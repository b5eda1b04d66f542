"""Bits that a message over TCP takes on the wire: the one account that simulation and diagnosis share.

::

    | Ethernet 14 | IP 20 | TCP 20 + 12 |  payload, at most 1448 bytes  |     an MTU of 1500, TCP with time stamps
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SEGMENT_BYTES = 1448  # TCP payload of a full frame
SEGMENT_OVERHEAD_BYTES = 66
FULL_FRAME_BITS = 8 * (SEGMENT_BYTES + SEGMENT_OVERHEAD_BYTES)


def wire_bits(nbytes: int) -> int:
    """Bits of Ethernet frames, headers included, that carry ``nbytes`` of one message; at least one frame's headers."""
    return 8 * (nbytes + SEGMENT_OVERHEAD_BYTES * max(1, -(-nbytes // SEGMENT_BYTES)))


def wire_bits_of(nbytes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """:func:`wire_bits` of every message, shape as ``nbytes``."""
    return np.asarray(8.0 * (nbytes + SEGMENT_OVERHEAD_BYTES * segments_of(nbytes)))


def segments_of(nbytes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Segments that carry every message, at least one; shape as ``nbytes``."""
    return np.maximum(1, np.ceil(nbytes / SEGMENT_BYTES))
