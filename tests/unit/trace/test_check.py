"""Spans that no run leaves are named by their first field that is out of range."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.check import MOST_BYTES, MOST_MESSAGES, MOST_WAITED_US, SpansFacts, check
from e2c_dl.trace.model import SPAN, Phase

FACTS = SpansFacts(rank=0, host="edge-1", layer="edge")


def one_send(**fields: int) -> np.ndarray:
    """A message's SEND, with ``fields`` in place of its own."""
    span = np.zeros(1, dtype=SPAN)
    span["phase"] = Phase.SEND
    for name, value in fields.items():
        span[name] = value
    return span


def test_what_a_run_leaves_passes() -> None:
    check(one_send(seq=MOST_MESSAGES - 1, nbytes=MOST_BYTES), FACTS, "spans.bin")
    check(one_send(phase=Phase.ITERATION, seq=72 * 60 * 10**6), FACTS, "spans.bin")  # waited so long for a processor
    check(one_send(phase=Phase.ITERATION, seq=MOST_WAITED_US), FACTS, "spans.bin")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seq", MOST_MESSAGES),
        ("seq", -2),
        ("nbytes", MOST_BYTES + 1),
        ("start_ns", 1 << 62),
        ("phase", 99),
        ("dst", -2),
    ],
)
def test_what_none_leaves_is_named(name: str, value: int) -> None:
    with pytest.raises(ArchiveError, match=f"spans.bin: span 0: {name} .*is none"):
        check(one_send(**{name: value}), FACTS, "spans.bin")
