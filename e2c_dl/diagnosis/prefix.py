"""The part of a run that every rank has finished: what analyses look at.

::

    rank 0  |--0--|--1--|--2--|--3--|--4-         killed in 4
    rank 1  |--0---|--1---|--2---|--3---          killed in 3
            |<--- iterations 0..2 ---->|          common: spans after the end of 2 are dropped
    rank 2  |--0--|--1--|--2--|--3--|--4--|       finished: all of it is kept

The TRAINING span of a rank that broke off is made to end with its last common iteration. A rank that finished is left
as it is: what it does for others behind its own last iteration, as a server does, is part of the run. Where a library
hides messages nobody serves, and what a script does behind its last iteration (a last evaluation, a checkpoint) is none
of its training: it is left out. But where only the trace broke off, and others heard of the rank later, all are cut:
what they waited for then is not known. So are they where it lacks the last iteration alone, and was heard of in that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.codec import ALTERED
from e2c_dl.diagnosis.model import Limitation
from e2c_dl.diagnosis.states import IS_WAIT
from e2c_dl.errors import AnalysisError
from e2c_dl.formatting import count
from e2c_dl.trace.collectives import of_library
from e2c_dl.trace.messages import Messages
from e2c_dl.trace.model import SPAN, Phase, RankTrace, Spans, Trace

TRACED = "traced"
"""Of a run's facts: what is known of the script."""


def common_iterations(trace: Trace) -> int:
    """How many iterations every rank has finished. Raises: AnalysisError, if there are no ranks or none has any."""
    if not trace.ranks:
        raise AnalysisError("trace: it holds no rank; the run ended before training: look at the workers' logs")
    least = min(trace.ranks, key=_finished)
    if _finished(least) == 0:
        there = _iterations(least)
        why = f"iterations 0 to {there[0] - 1} of it are lost" if len(there) else "it holds no finished iteration"
        remedy = "of ranks in step, e2c-dl report judges what is there" if len(there) else _remedy(trace)
        raise AnalysisError(f"trace of {least.host}: {why}; {remedy}")
    return _finished(least)


def _remedy(trace: Trace) -> str:
    if TRACED in trace.facts:
        return "spans are written once a second: what a script did before it was killed is lost with it"
    return "let it train for longer; where it broke off, its log says why"


def common_prefix(trace: Trace) -> Trace:
    """``trace`` with those of its ranks that broke off cut to the iterations that all ranks finished.

    Raises: AnalysisError, as :func:`common_iterations`.
    """
    count = common_iterations(trace)
    broken = {rank.rank: _finished(rank) for rank in trace.ranks if not rank.complete}
    whole = {_finished(rank) for rank in trace.ranks if rank.complete}
    reached = {rank: done if whole == {done + 1} else done + 1 for rank, done in broken.items()}
    went_on = any(_heard_later(rank, reached) for rank in trace.ranks if rank.complete)
    cut = {rank.rank for rank in trace.ranks} if went_on else set(broken)
    ranks = [replace(rank, spans=_cut(rank, count)) if rank.rank in cut else rank for rank in trace.ranks]
    if of_library(trace):
        ranks = [replace(rank, spans=_trained(rank.spans)) for rank in ranks]
    return replace(trace, ranks=tuple(ranks))


def _heard_later(rank: RankTrace, reached: Mapping[int, int]) -> bool:
    """Whether ``rank`` received what one that broke off sent in an iteration that its trace does not reach.

    ``reached``: each of those -> the first such iteration. One that was killed may have begun the one after its last.
    """
    if not reached:
        return False
    received = rank.of(Phase.RECEIVE)
    return any((received["iteration"][received["src"] == each] >= first).any() for each, first in reached.items())


def training_span(start_ns: int, end_ns: int) -> Spans:
    """The one TRAINING span of a rank, as its recorder would write it."""
    training = np.zeros(1, dtype=SPAN)
    training["phase"], training["iteration"], training["peer_task"] = Phase.TRAINING, -1, -2
    for name in ("bucket", "seq", "src", "dst"):
        training[name] = -1
    training["posted_ns"] = training["start_ns"] = start_ns
    training["end_ns"] = end_ns
    return training


def most_iterations(trace: Trace) -> int:
    """That a rank trained of whole ones at their own pace, of which some trained fewer; else 0."""
    whole = at_own_pace(trace) and all(rank.complete for rank in trace.ranks)
    return max(len(rank.rows(Phase.ITERATION)) for rank in trace.ranks) if whole else 0


def at_own_pace(trace: Trace) -> bool:
    """Whether ranks did not do equally many iterations, though none broke off, nor lacks one before its last."""
    counts = {len(rank.rows(Phase.ITERATION)) for rank in trace.ranks if rank.complete}
    return len(counts) > 1 and not any(map(lacks_iterations, trace.ranks))


def lacks_iterations(rank: RankTrace) -> bool:
    """Whether one is missing before the last that it finished."""
    return _finished(rank) < len(_iterations(rank))


def about_completeness(
    trace: Trace, iterations: int, messages: Messages, missing: Sequence[str], *, own_pace: bool = False
) -> Iterator[Limitation]:
    """What of ``trace`` is not among the ``iterations`` that all ranks finished; ``missing``: hosts that left none.

    ``own_pace``: ranks go at theirs, and are judged by all that each has finished.
    """
    if missing:
        yield Limitation.of(
            "No trace of {}: what happened there is not known, nor where the bottleneck is.", "host", missing
        )
    broken = [rank.host for rank in trace.ranks if not rank.complete]
    if broken:
        figures = f"figures are of the {count(iterations, 'iteration')} all finished"
        if own_pace:
            figures = f"figures per iteration are of the first {iterations} of each"
        yield Limitation.of("The trace of {} breaks off: " + figures + ".", "host", broken)
    counts = [len(rank.rows(Phase.ITERATION)) for rank in trace.ranks]
    gaps = [rank.host for rank in trace.ranks if lacks_iterations(rank)]
    if gaps and not broken:
        figures = f"figures per iteration are of the first {iterations}"
        yield Limitation.of("The trace of {} lacks iterations: " + figures + ".", "host", gaps)
    elif not broken and max(counts) > iterations:
        unlike = f"Ranks trained {iterations} to {max(counts)} iterations"
        yield Limitation(sentence=f"{unlike}: figures per iteration are of the first {iterations} of each.")
    elif not broken and messages.unmatched:  # of a trace that breaks off, some must be
        has = "message has" if messages.unmatched == 1 else "messages have"
        yield Limitation(sentence=f"{messages.unmatched} {has} no second half in the trace.")


def about_losses(trace: Trace) -> Iterator[Limitation]:
    """What of ``trace`` cannot be read, or was not kept."""
    unreadable = trace.facts.get("hosts_unreadable", ())
    if unreadable:
        yield Limitation.of(f"The trace of {{}} cannot be read; {ALTERED}.", "host", unreadable)
    damaged = [rank for rank in trace.ranks if rank.lost.spans or rank.lost.damaged_bytes]
    if damaged:
        spans, size_bytes = (sum(getattr(rank.lost, name) for rank in damaged) for name in ("spans", "damaged_bytes"))
        what = (
            f"{count(spans, 'span is', 'spans are')} missing, {count(size_bytes, 'byte')} could not be read; {ALTERED}"
        )
        yield Limitation.of("The trace of {} is damaged: " + what + ".", "host", [rank.host for rank in damaged])
    short = [rank for rank in trace.ranks if rank.lost.dropped]
    if short:
        what = f"{count(sum(rank.lost.dropped for rank in short), 'span')}, those of slow iterations kept before others"
        yield Limitation.of(f"For lack of room, traces lack {what}: " + "{}.", "host", [rank.host for rank in short])
    yield from (Limitation(sentence=sentence) for sentence in trace.connections.limitations)


def _finished(rank: RankTrace) -> int:
    """Number of consecutive ITERATION spans from 0 on."""
    iterations = _iterations(rank)
    return int((iterations == np.arange(len(iterations))).sum())  # after a gap none is equal


def _iterations(rank: RankTrace) -> npt.NDArray[np.int32]:
    return np.unique(rank.of(Phase.ITERATION)["iteration"])


def _trained(spans: Spans) -> Spans:
    """What of them begins before TRAINING ends; all, if there is no one such span."""
    end_ns = spans["end_ns"][spans["phase"] == Phase.TRAINING]
    if len(end_ns) != 1:
        return spans
    begun = (spans["posted_ns"] < end_ns[0]) | (spans["phase"] == Phase.TRAINING)
    if begun.all():
        return spans
    kept: Spans = spans[begun]
    return kept


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
    within &= (spans["end_ns"] <= end_ns) | ~IS_WAIT[spans["phase"]]  # it is over before such a wait is
    kept = (within & ~is_iteration & (spans["phase"] != Phase.TRAINING)) | kept_iterations
    return np.concatenate([spans[kept], training_span(start_ns, end_ns)])
