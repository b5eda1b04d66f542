"""When a run's training began: 0 of every export that counts from there."""

from __future__ import annotations

from e2c_dl.trace.model import Phase, Trace


def origin_ns(trace: Trace) -> int:
    """Start of the first iteration, reference clock; of a trace without any, of its first span."""
    spans = [rank.spans for rank in trace.ranks if len(rank.spans)]
    began = [each["start_ns"][each["phase"] == Phase.ITERATION] for each in spans]
    found = [int(each.min()) for each in began if len(each)] or [int(each["start_ns"].min()) for each in spans]
    return min(found, default=0)
