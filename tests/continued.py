"""Two synthetic runs as one that changed in between, and its spans as hosts write them, cut where one likes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from synthetic import Ring, simulate

from e2c_dl.trace.model import SPAN, Phase, RankTrace, Spans, Trace
from e2c_dl.trace.recording import span_log

NUMBERED = ("seq", "task", "peer_task")  # from 0 in each run, where they are not special


def then(before: Trace, after: Trace) -> Trace:
    """``after`` follows ``before``: iterations, messages and tasks are numbered on."""
    end_ns = max(int(rank.spans["end_ns"].max()) for rank in before.ranks)
    start_ns = min(int(rank.spans["start_ns"].min()) for rank in after.ranks)
    ranks = (
        replace(one, spans=_joined(one.spans, other.spans, end_ns - start_ns))
        for one, other in zip(before.ranks, after.ranks, strict=True)
    )
    return replace(before, ranks=tuple(ranks))


def changing(ring: Ring, after: Ring, iterations: int) -> Trace:
    """``iterations`` of ``ring``, then those of ``after``."""
    return then(simulate(replace(ring, iterations=iterations)), simulate(after))


def until(rank: RankTrace, iteration: int) -> bytes:
    """Its spans.bin as it stands when its iteration ``iteration`` has just ended."""
    own = rank.of(Phase.ITERATION)
    return until_ns(rank, int(own["end_ns"][own["iteration"] == iteration].max()))


def until_ns(rank: RankTrace, end_ns: int) -> bytes:
    """Its spans.bin as it stands at ``end_ns``."""
    spans = rank.spans[np.argsort(rank.spans["end_ns"], kind="stable")]  # in the order of recording
    told = spans[spans["end_ns"] <= end_ns]
    frames = (span_log.frames(span.tobytes(), number=number) for number, span in enumerate(told))  # so that it grows
    return span_log.opening(rank.rank, rank.host, rank.layer) + b"".join(frames)


def _joined(before: Spans, after: Spans, later_ns: int) -> Spans:
    before, moved = before[before["phase"] != Phase.TRAINING], after.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        moved[name] += later_ns
    moved["iteration"][moved["iteration"] >= 0] += before["iteration"].max() + 1
    for name in NUMBERED:
        moved[name][moved[name] > (-1 if name == "seq" else 0)] += before[name].max() + 1
    training = moved["phase"] == Phase.TRAINING
    moved["start_ns"][training] = moved["posted_ns"][training] = before["start_ns"].min()
    return np.concatenate([before, moved]).astype(SPAN)
