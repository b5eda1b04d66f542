"""What a script's training threads do between its phases, as data that are loaded by hand: on whom it lasts longer.

::

    rank 0  |FORWARD|BACKWARD|~~ AWAIT ~~|STEP| OTHER |      an iteration without computing and waits that were seen
    rank 1  |FORWARD|BACKWARD|STEP|       OTHER       |      longer by what no other rank spends then: its own

Nothing tells what it is: it may be a wait that no hook sees. What all do in an iteration is the script's, such as what
it does once per epoch; a host's own is what it takes beyond the rank that takes the least of it in that iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.host_series import HostSeries, begins_s, seconds_in, series_of
from e2c_dl.diagnosis.model import Part
from e2c_dl.trace.model import COMPUTE, SPAN, WAIT, Phase, RankTrace, Spans, Trace
from e2c_dl.trace.warm_up import warm_up

SHORTEST_NS = 100_000  # what is shorter is the loop's own, between two calls
ALL_HAVE = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.STEP)
LEAST = 0.01  # of an iteration: who does less of it beside its phases counts as doing as much


def with_unnamed(trace: Trace) -> Trace:
    """``trace`` with a span of OTHER for each stretch of an iteration in which no phase of its thread is seen."""
    return replace(
        trace, ranks=tuple(replace(rank, spans=np.append(rank.spans, _unnamed(rank))) for rank in trace.ranks)
    )


def _unnamed(rank: RankTrace) -> Spans:
    iterations = rank.of(Phase.ITERATION)
    seen = rank.of(*COMPUTE, *WAIT, Phase.COLLECTIVE)  # one that is joined only cuts what goes on around that
    seen = seen[seen["task"] <= 0]
    order = np.argsort(seen["start_ns"], kind="stable")
    starts_ns = seen["start_ns"][order]
    ends_ns = np.where(seen["phase"] == Phase.COLLECTIVE, seen["start_ns"], seen["end_ns"])[order]
    begins_ns = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(ends_ns))
    until_ns = np.append(starts_ns, np.iinfo(np.int64).max)
    first = np.searchsorted(until_ns, iterations["start_ns"], side="right")
    counts = np.maximum(0, np.searchsorted(begins_ns, iterations["end_ns"], side="left") - first)
    row = np.repeat(np.arange(len(iterations)), counts)
    place = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.zeros(len(row), dtype=SPAN)
    found["start_ns"] = np.maximum(begins_ns[place], iterations["start_ns"][row])
    found["posted_ns"] = found["start_ns"]
    found["end_ns"] = np.minimum(until_ns[place], iterations["end_ns"][row])
    found["iteration"], found["phase"], found["peer_task"] = iterations["iteration"][row], Phase.OTHER, -2
    for name in ("seq", "bucket", "src", "dst"):
        found[name] = -1
    return np.asarray(found[found["end_ns"] - found["start_ns"] >= SHORTEST_NS])


def unnamed_series(
    ranks: Sequence[RankTrace], design: Design, left_out: Mapping[str, Collection[int]], ran: Mapping[str, Doubles]
) -> list[HostSeries]:
    """OTHER of every host beyond the least that any of them spends in the same iteration; nothing of a single rank.

    ``left_out``: host -> iterations that say nothing of it; ``ran``: share for which it had a processor.
    """
    alike = _alike(ranks)
    if len(alike) < 2 or not any(len(rank.rows(Phase.OTHER)) for rank in alike):
        return []
    own = [rank.of(Phase.ITERATION) for rank in alike]
    count = 1 + min(int(each["iteration"].max()) for each in own)
    other_s, whole_s = (
        np.stack([seconds_in(rank, {phase}, count) for rank in alike]) for phase in (Phase.OTHER, Phase.ITERATION)
    )
    for place, rank in enumerate(alike):
        if rank.host in ran:
            other_s[place] *= ran[rank.host][:count]
    told = (whole_s > 0).all(axis=0) & (np.arange(count) >= warm_up(count))
    if not told.any():
        return []
    least_s = other_s.min(axis=0)
    usual_s = max(float(np.median(least_s[told])), LEAST * float(np.median(whole_s[:, told])))
    found = []
    for rank, spans, took_s, lasted_s in zip(alike, own, other_s - least_s + usual_s, whole_s, strict=True):
        chosen = told.copy()
        chosen[[each for each in left_out.get(rank.host, ()) if each < count]] = False
        if chosen.any():
            series = series_of(spans, design, begins_s(spans, design, count), took_s, took_s, chosen)
            factors = lasted_s[chosen] / seconds_in(rank, {Phase.ITERATION}, count, design)[chosen]
            found.append(HostSeries(host=rank.host, part=Part.OTHER, series=series, factors=factors, spans=1))
    return found


def _alike(ranks: Sequence[RankTrace]) -> list[RankTrace]:
    """Those of which all is seen that is of any: of others nobody knows what is in it."""
    seen = [{phase for phase in ALL_HAVE if len(rank.rows(phase))} for rank in ranks]
    every = set().union(*seen)
    return [rank for rank, own in zip(ranks, seen, strict=True) if own == every]
