"""The part of a run that every rank has finished: what analyses look at.

::

    rank 0  |--0--|--1--|--2--|--3--|--4-         killed in 4
    rank 1  |--0---|--1---|--2---|--3---          killed in 3
            |<--- iterations 0..2 ---->|          common: spans after a rank's end of 2 are dropped

A rank's TRAINING span is made to end with its last common iteration. A complete run of as many iterations each is left
as it is: what a rank does for others behind its own last one, as a server does, is part of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from e2c_dl.errors import AnalysisError
from e2c_dl.trace.model import SPAN, Phase, RankTrace, Spans, Trace


def common_iterations(trace: Trace) -> int:
    """How many iterations every rank has finished. Raises: AnalysisError, if there are no ranks or none has any."""
    if not trace.ranks:
        raise AnalysisError("trace: it holds no rank; the run ended before training: look at the workers' logs")
    counts = {rank.host: _finished(rank) for rank in trace.ranks}
    host, fewest = min(counts.items(), key=lambda item: item[1])
    if fewest == 0:
        raise AnalysisError(f"trace of {host}: it holds no finished iteration to analyse; look at its worker.log")
    return fewest


def common_prefix(trace: Trace) -> Trace:
    """``trace`` cut to the iterations that all ranks finished. Raises: AnalysisError, as :func:`common_iterations`."""
    count = common_iterations(trace)
    if all(rank.complete and _finished(rank) == count for rank in trace.ranks):
        return trace
    return replace(trace, ranks=tuple(replace(rank, spans=_cut(rank, count)) for rank in trace.ranks))


def training_span(start_ns: int, end_ns: int) -> Spans:
    """The one TRAINING span of a rank, as its recorder would write it."""
    training = np.zeros(1, dtype=SPAN)
    training["phase"], training["iteration"], training["peer_task"] = Phase.TRAINING, -1, -2
    for name in ("bucket", "seq", "src", "dst"):
        training[name] = -1
    training["posted_ns"] = training["start_ns"] = start_ns
    training["end_ns"] = end_ns
    return training


def _finished(rank: RankTrace) -> int:
    """Number of consecutive ITERATION spans from 0 on."""
    iterations = np.unique(rank.spans["iteration"][rank.spans["phase"] == Phase.ITERATION])
    return int((iterations == np.arange(len(iterations))).sum())  # after a gap none is equal


def _cut(rank: RankTrace, count: int) -> Spans:
    spans = rank.spans
    is_iteration = spans["phase"] == Phase.ITERATION
    kept_iterations = is_iteration & (spans["iteration"] < count)
    start_ns = spans["start_ns"][kept_iterations].min()
    end_ns = spans["end_ns"][kept_iterations].max()
    whole = spans[spans["phase"] == Phase.TRAINING]
    if len(whole) == 1 and not (is_iteration & (spans["iteration"] >= count)).any():
        start_ns, end_ns = whole["start_ns"][0], whole["end_ns"][0]
    within = (spans["posted_ns"] >= start_ns) & (spans["posted_ns"] <= end_ns)
    kept = (within & ~is_iteration & (spans["phase"] != Phase.TRAINING)) | kept_iterations
    return np.concatenate([spans[kept], training_span(start_ns, end_ns)])
