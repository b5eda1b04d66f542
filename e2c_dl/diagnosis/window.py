"""The last iterations of a run that goes on, as a trace of its own: what a verdict is given on while it trains.

::

    rank 0  |--20--|--21--|--22--|--23--|--24-        iterations are numbered anew: 0, 1, 2
    rank 1  |--20---|--21---|--22---|--23--
                    |<-- the last three --->|         of which both have finished all

Where ranks go at their own pace they are cut at a time instead, each where its first iteration since then began.

A message that only one of its ends has within, and a wait for such a one, are left out: what is left is a run that
began in the middle. When training itself began stands in the trace's facts: schedules count from then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.prefix import training_span
from e2c_dl.errors import AnalysisError
from e2c_dl.trace.clocks.unaligned import laid
from e2c_dl.trace.messages import keys
from e2c_dl.trace.model import Phase, RankTrace, Spans, Trace
from e2c_dl.trace.propagation.connections import LinkTraffic

BEGAN = "began_ns"
"""Of a trace's facts: when training began, where its spans do not tell."""

CUT_BY_TIME = "cut_by_time"
"""Of a trace's facts: ranks that still train of those that go at their own pace, and end where one stopped looking."""

IDLE = 4.0  # times its longest iteration
_NEVER_NS = 1 << 62
_ENDS = (Phase.SEND, Phase.RECEIVE)
_OF_MESSAGES = (*_ENDS, Phase.AWAIT_MESSAGE, Phase.AWAIT_SENT)


def began_ns(trace: Trace) -> int:
    """When training began: the start of the earliest iteration, unless the trace's facts say so."""
    if BEGAN in trace.facts:
        return int(trace.facts[BEGAN])
    return min(int(rank.of(Phase.ITERATION)["start_ns"].min(initial=_NEVER_NS)) for rank in trace.ranks)


def growing(ranks: Sequence[RankTrace], own_began_ns: Mapping[str, int], unaligned: Sequence[str]) -> Trace:
    """The trace of ``ranks`` so far, each on the clock that it has; ``own_began_ns``: when each host began to train, on
    its own. Clocks of hosts ``unaligned``, of which nobody knows how they go, are laid where they contradict nothing.
    """
    trace = Trace(
        ranks=tuple(sorted(ranks, key=lambda rank: rank.rank)), facts={"hosts_without_clock": tuple(unaligned)}
    )
    with suppress(AnalysisError):  # of what is named twice, whoever analyses it tells
        trace = laid(trace, unaligned)
    began = (int(rank.clock.align(np.array([own_began_ns[rank.host]]))[0]) for rank in trace.ranks)
    return replace(trace, facts={**trace.facts, BEGAN: min(began)})


def window(trace: Trace, first: int, stop: int) -> Trace:
    """Iterations ``first`` to ``stop - 1`` of ``trace``, all of which every rank has finished."""
    return _cut(trace, [_within(rank.spans, first, stop) for rank in trace.ranks])


def longest(trace: Trace) -> tuple[Trace, int]:
    """(the most iterations in a row that every rank has finished, the first of them), of ranks in step.

    ``trace`` itself, and 0, where it begins with them: what is lost is behind, if anything.
    """
    own = [np.unique(_iterations(rank.spans)["iteration"]) for rank in trace.ranks]
    shared = reduce(np.intersect1d, own) if own else np.empty(0, dtype=np.int32)
    most = max(np.split(shared, np.flatnonzero(np.diff(shared) != 1) + 1), key=len)
    first = int(most[0]) if len(most) else 0
    if not first:
        return trace, 0
    connections = replace(
        trace.connections, links=tuple(_from_iteration(link, first) for link in trace.connections.links)
    )
    return replace(window(trace, first, first + len(most)), connections=connections), first


def _from_iteration(link: LinkTraffic, first: int) -> LinkTraffic:
    rows = link.per_iteration[link.per_iteration["iteration"] >= first]
    rows["iteration"] -= first  # a copy's
    return replace(link, per_iteration=rows)


def last_of(trace: Trace, *, last: int, fewest: int, own_pace: bool) -> tuple[Trace, dict[str, int]] | None:
    """(the ``last`` iterations of ``trace``, host -> the first of them); None, if some rank has fewer than ``fewest``.

    Where ranks go at their ``own_pace`` they are of the rank in the middle of those that still train, of all once none
    does, and those of the others are of that time.
    """
    own = [_iterations(rank.spans) for rank in trace.ranks]
    if min(len(each) for each in own) < fewest:
        return None
    if own_pace:
        trains = _training(trace, own)
        start_ns = int(np.median([own[rank]["start_ns"][-min(last, len(own[rank]))] for rank in trains]))
        cut = _since(trace, start_ns, fewest, trains)
        firsts = [int(min(each["iteration"][-fewest], _first(each, start_ns))) for each in own]
    else:
        stop = min(int(each["iteration"][-1]) + 1 for each in own)
        firsts = [max(0, stop - last, int(max(each["iteration"][0] for each in own)))] * len(own)
        cut = window(trace, firsts[0], stop)
    return cut, {rank.host: first for rank, first in zip(trace.ranks, firsts, strict=True)}


def _first(iterations: Spans, start_ns: int) -> int:
    began = iterations["iteration"][iterations["start_ns"] >= start_ns]
    return int(began[0]) if len(began) else int(iterations["iteration"][-1])


def so_far(trace: Trace) -> Trace:
    """All iterations that each rank has finished, at least one: of ranks at their own pace that broke off."""
    return _since(trace, began_ns(trace), 1, _training(trace, [_iterations(rank.spans) for rank in trace.ranks]))


def _training(trace: Trace, own: Sequence[Spans]) -> list[int]:
    """Places of the ranks that still train, of which are their ``own`` iterations; all of them, once none does.

    One does not that has ended none for far longer than any of them took: it may serve others, or evaluate.
    """
    now_ns = max(int(rank.spans["end_ns"].max()) for rank in trace.ranks)
    idle_ns = [now_ns - int(each["end_ns"].max()) for each in own]
    longest_ns = [int((each["end_ns"] - each["start_ns"]).max()) for each in own]
    found = [rank for rank in range(len(own)) if idle_ns[rank] <= IDLE * longest_ns[rank]]
    return found or list(range(len(own)))


def _since(trace: Trace, start_ns: int, fewest: int, trains: Sequence[int]) -> Trace:
    """The iterations of each rank of ``trace`` that began at ``start_ns`` or later, of each the last ``fewest`` at
    least; every rank has finished so many. Each rank's are numbered anew, and messages, whose numbers are their
    senders', have none. One that is not of those that ``trains`` may serve others: what it does then is left to it."""
    parts = [_later(rank.spans, start_ns, fewest, over=place not in trains) for place, rank in enumerate(trace.ranks)]
    cut = _cut(trace, parts)
    return replace(cut, facts={**cut.facts, CUT_BY_TIME: tuple(trace.ranks[place].rank for place in trains)})


def _later(spans: Spans, start_ns: int, fewest: int, *, over: bool) -> Spans:
    own = _iterations(spans)
    own = own[(own["start_ns"] >= start_ns) | (own["iteration"] > own["iteration"].max() - fewest)]
    first, began_ns = own["iteration"].min(), own["start_ns"].min()
    end_ns = spans["end_ns"].max() if over else own["end_ns"].max()
    kept = (spans["posted_ns"] >= began_ns) & (spans["end_ns"] <= end_ns)
    kept &= ~np.isin(spans["phase"], (Phase.TRAINING, Phase.ITERATION)) | np.isin(spans["iteration"], own["iteration"])
    found = spans[kept & (spans["phase"] != Phase.TRAINING)]  # a copy: the trace stays as it is
    of_message = np.isin(found["phase"], _OF_MESSAGES)
    whole = of_message | (found["iteration"] <= own["iteration"].max())  # of none that is still under way
    found, of_message = found[whole], of_message[whole]
    found["iteration"] = np.where(of_message, -1, np.maximum(-1, found["iteration"] - first))
    return np.concatenate([found, training_span(began_ns, end_ns)])


def _cut(trace: Trace, parts: list[Spans]) -> Trace:
    """``trace``, of whose ranks only ``parts`` are left."""
    facts = {**trace.facts, BEGAN: began_ns(trace)}
    whole = np.intersect1d(_keys(parts, Phase.SEND), _keys(parts, Phase.RECEIVE))
    ranks = (
        replace(rank, spans=_without_halves(part, whole), complete=True)  # what it did until then is all there
        for rank, part in zip(trace.ranks, parts, strict=True)
    )
    return replace(trace, ranks=tuple(ranks), facts=facts)


def _iterations(spans: Spans) -> Spans:
    found: Spans = spans[spans["phase"] == Phase.ITERATION]
    return found


def _within(spans: Spans, first: int, stop: int) -> Spans:
    own = _iterations(spans)
    own = own[(own["iteration"] >= first) & (own["iteration"] < stop)]
    start_ns, end_ns = own["start_ns"].min(), own["end_ns"].max()
    kept = (spans["posted_ns"] >= start_ns) & (spans["posted_ns"] <= end_ns)
    numbers = spans["iteration"]
    kept &= ((numbers >= first) & (numbers < stop)) | (numbers == -1)  # -1: of no iteration
    found = spans[kept & (spans["phase"] != Phase.TRAINING)]  # a copy: the trace stays as it is
    found["iteration"][found["iteration"] >= 0] -= first
    return np.concatenate([found, training_span(start_ns, end_ns)])


def _keys(parts: list[Spans], phase: Phase) -> npt.NDArray[np.int64]:
    return np.concatenate([keys(spans[spans["phase"] == phase]) for spans in parts])


def _without_halves(spans: Spans, whole: npt.NDArray[np.int64]) -> Spans:
    kept: Spans = spans[~np.isin(spans["phase"], _OF_MESSAGES) | np.isin(keys(spans), whole)]
    return kept
