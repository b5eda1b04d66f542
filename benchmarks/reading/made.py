"""A trace of any length, of a training script whose library hides its messages: made of numbers, not run.

::

    iteration   DATA  FORWARD  BACKWARD b0 ... b7  COLLECTIVE b0 ... b7  AWAIT_COLLECTIVE  STEP  FLOW to both neighbours

with durations that vary by 10 %, 24 spans per iteration. Each rank is recorded as a raw log, then converted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from e2c_dl.trace.model import SPAN, Collective, Phase, Spans
from e2c_dl.trace.places import recorded
from e2c_dl.trace.recording import span_log
from e2c_dl.trace.store import convert

BUCKETS = 8
ITERATION_NS = 120_000_000
LAYOUT: tuple[tuple[Phase, int, int, float, float], ...] = (  # phase, task, bucket; begin, end: shares of the iteration
    (Phase.DATA, 0, -1, 0.0, 0.02),
    (Phase.FORWARD, -1, -1, 0.02, 0.3),
    *((Phase.BACKWARD, -1, b, 0.3 + 0.06 * b, 0.36 + 0.06 * b) for b in range(BUCKETS)),
    *((Phase.COLLECTIVE, 1, b, 0.36 + 0.06 * b, 0.5 + 0.05 * b) for b in range(BUCKETS)),
    (Phase.AWAIT_COLLECTIVE, 0, BUCKETS - 1, 0.78, 0.85),
    (Phase.STEP, 0, -1, 0.86, 0.99),
    (Phase.FLOW, -2, -1, 0.36, 0.84),
    (Phase.FLOW, -2, -1, 0.37, 0.85),
    (Phase.ITERATION, 0, -1, 0.0, 1.0),
    (Phase.EVALUATE, 0, -1, 0.99, 1.0),
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What was made."""

    spans: int
    iterations: int  # of all ranks together
    raw_bytes: int
    table_bytes: int


def make(folder: Path, *, spans: int, ranks: int) -> Sizes:
    """An archive ``folder`` of the tables of ``ranks`` hosts, together of about ``spans`` spans."""
    iterations = max(3, spans // ranks // len(LAYOUT))
    count = raw_bytes = table_bytes = 0
    for rank in range(ranks):
        own = recorded(folder, f"edge-{rank + 1}")
        own.folder.path.mkdir(parents=True)
        made = _spans(rank, ranks, iterations)
        opening = span_log.opening(rank, own.host, "edge")
        own.raw.path.write_bytes(opening + span_log.frames(made.tobytes(), number=0, per_frame=32))
        table = convert(own, 0)
        raw_bytes += own.raw.path.stat().st_size
        table_bytes += table.stat().st_size
        own.raw.path.unlink()
        count += len(made)
    return Sizes(spans=count, iterations=iterations * ranks, raw_bytes=raw_bytes, table_bytes=table_bytes)


def _spans(rank: int, ranks: int, iterations: int) -> Spans:
    random = np.random.default_rng(rank)
    width = len(LAYOUT)
    spans = np.zeros((iterations, width), dtype=SPAN)
    began_ns = np.cumsum(random.normal(ITERATION_NS, ITERATION_NS / 10, iterations).astype(np.int64)) + 10**12
    phases, tasks, buckets, begin, end = (np.array(each) for each in zip(*LAYOUT, strict=True))
    spans["phase"], spans["task"], spans["bucket"] = phases, tasks, buckets
    jitter_ns = random.normal(0, ITERATION_NS / 100, (2, iterations, width)).astype(np.int64)
    spans["start_ns"] = spans["posted_ns"] = began_ns[:, None] + (begin * ITERATION_NS).astype(np.int64) + jitter_ns[0]
    lasted = ((end - begin) * ITERATION_NS).astype(np.int64) + jitter_ns[1]
    spans["end_ns"] = spans["start_ns"] + np.maximum(1000, lasted)
    spans["iteration"], spans["seq"] = np.arange(iterations)[:, None], -1
    spans["src"] = spans["dst"] = -1
    spans["peer_task"] = -2
    collective = phases == Phase.COLLECTIVE
    spans["kind"][:, collective] = Collective.ALL_REDUCE
    spans["nbytes"][:, collective] = 25 << 20
    spans["seq"][:, collective] = np.arange(iterations * BUCKETS).reshape(iterations, BUCKETS)
    for at, neighbour in zip(np.flatnonzero(phases == Phase.FLOW), (1, -1), strict=True):
        spans["src"][:, at], spans["dst"][:, at] = rank, (rank + neighbour) % ranks
        spans["nbytes"][:, at] = random.integers(1 << 20, 1 << 25, iterations)
    return spans.reshape(-1)
