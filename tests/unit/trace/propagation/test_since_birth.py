"""What connections have counted since they were opened: on beyond where a counter of 32 bits begins anew."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from e2c_dl.trace.model import SPAN, ClockAlignment, RankTrace, Trace
from e2c_dl.trace.propagation.flows import with_flows
from e2c_dl.trace.propagation.samples import Connection, Samples
from e2c_dl.trace.propagation.tcp_info import FIELDS, LENGTH

HEADERS_BYTES = 54


def seen(segments: int) -> bytes:
    made = bytearray(LENGTH)
    struct.pack_into("=I", made, FIELDS["segments_out"][0], segments % 2**32)
    struct.pack_into("=Q", made, FIELDS["bytes_sent"][0], 1000 * segments)
    return bytes(made)


def test_a_counter_that_wraps_goes_on() -> None:
    """Looked at every 3 seconds, at some 330 million segments a second: twice around."""
    counts = list(range(4_000_000_000, 13 * 10**9, 10**9))
    ends = Connection(cookie=7, local=("10.0.0.1", 1), remote=("10.0.0.2", 2), rank=1, host="b")
    samples = Samples(
        rank=0, host="a", time_ns=np.arange(len(counts)) * 3 * 10**9, cookie=np.full(len(counts), 7, dtype=np.uint64),
        iteration=np.full(len(counts), -1, dtype=np.int32), family=np.full(len(counts), 2, dtype=np.uint16),
        raw=tuple(map(seen, counts)), connections={7: ends},
    )  # fmt: skip
    ranks = tuple(
        RankTrace(rank=rank, host="ab"[rank], layer="all", spans=np.zeros(0, dtype=SPAN), clock=ClockAlignment())
        for rank in (0, 1)
    )
    found = with_flows(Trace(ranks=ranks, facts={}), [samples]).connections
    (link,) = found.links
    assert link.since_birth["segments"] == counts[-1]
    assert link.since_birth["wire_bytes"] == pytest.approx(counts[-1] * (1000 + HEADERS_BYTES))
    assert found.wire_bytes[0] == link.since_birth["wire_bytes"]
