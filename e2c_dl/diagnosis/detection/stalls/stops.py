"""Short stops of hosts, by a collection of garbage, a signal or a scheduler, and the messages that they held up.

::

    computing, b   |=|  |=|  |=====   stopped   ====|  |=|     far longer than those before and after it
    a -> b                      due |................|end      a message that was due meanwhile, and late by no more
    b -> c                   sent |..................|end      than that: b's, whatever the link could have done

A host that is stopped neither reads nor writes. That it was is told by what it computed meanwhile, which lasted twice
as long as the median of it and its NEIGHBOURS, and LEAST_NS longer; or by its signs of life, one a second, if any are
missing. A host that is slow for a while has neighbours that are as slow, and a link that is slow by itself is late at
other times, too. Who waits, and gives no sign of life, may be stopped for as long as a stall takes, and nothing tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.batches import samples_of
from e2c_dl.diagnosis.links import BY_DESTINATION, BY_SOURCE, ObservedLink
from e2c_dl.trace.model import COMPUTE, RankTrace, Spans, Trace
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS

SILENCE_NS = 1_500_000_000  # signs of life are seen once a second: one that is late is not missing
LEAST_NS = 100_000_000.0  # what computing takes longer: by less, schedulers and caches make it
LEAST_HELD_NS = 10_000_000.0  # what a message is late by: less is no stop's
TWICE = 2.0
NEIGHBOURS = 5  # spans of a kind, itself in the middle: most of them tell what is usual

Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


class Stop(NamedTuple):
    """Some time within which a host was stopped, ns of the trace's clock."""

    begin_ns: int
    end_ns: int
    most_ns: float  # for so long at most


def with_stops(trace: Trace, carried: Sequence[ObservedLink], design: Design) -> list[ObservedLink]:
    """``carried``, of which each knows the messages that a stop of its source or of its destination held up.

    Of one without expected rate nobody knows which are late.
    """
    stops = {rank.host: stops_of(rank, design, trace.alive.get(rank.host)) for rank in trace.ranks}
    unaligned = trace.facts.get("hosts_without_clock", ())
    return [
        link if link.by_receiver or any(host in unaligned for host in link.pair) else _with_stops(link, stops)
        for link in carried
    ]  # fmt: skip


def stops_of(rank: RankTrace, design: Design, alive_ns: Longs | None = None) -> list[Stop]:
    """The stops of ``rank``'s host, as its computing, and its signs of life if anybody saw these, have them."""
    silent = [] if alive_ns is None else silences(alive_ns).tolist()
    found = [Stop(begin_ns, end_ns, end_ns - begin_ns) for begin_ns, end_ns in silent]
    spans, larger = rank.of(*COMPUTE), times_larger(rank, design)
    for same in alike(spans[spans["iteration"] >= WARM_UP_ITERATIONS]):
        if (same["end_ns"] - same["start_ns"]).max() < LEAST_NS:
            continue
        longer_ns, usual_ns = beside_usual_ns(same, _middling, rank.host, design, larger)
        stopped = (longer_ns >= LEAST_NS) & (longer_ns >= (TWICE - 1) * usual_ns)
        bounds = (same[end][stopped].tolist() for end in ("start_ns", "end_ns"))
        found += map(Stop, *bounds, longer_ns[stopped].tolist())
    return found


def silences(alive_ns: Longs) -> Longs:
    """Beginnings and ends, shape (silences, 2), of the times in which a host was not seen alive."""
    long = np.diff(alive_ns) > SILENCE_NS
    return np.stack([alive_ns[:-1][long], alive_ns[1:][long]], axis=1)


def alike(spans: Spans) -> Iterator[Spans]:
    """``spans`` of one phase and bucket together."""
    kinds = np.stack([spans["phase"].astype(np.int64), spans["bucket"].astype(np.int64)], axis=1)
    for kind in np.unique(kinds, axis=0):
        yield spans[(kinds == kind).all(axis=1)]


def times_larger(rank: RankTrace, design: Design) -> Doubles | None:
    """Of each iteration, times larger than the usual batch, at least 1; None: all are alike, or nothing tells."""
    if not design.reference.batches_change:
        return None
    samples = samples_of(rank, int(rank.spans["iteration"].max(initial=-1)) + 1)
    return None if samples is None else np.asarray(np.maximum(1.0, samples / np.median(samples[samples > 0])))


def beside_usual_ns(
    same: Spans, usual: Callable[[Doubles], Doubles], host: str, design: Design, larger: Doubles | None
) -> tuple[Doubles, Doubles]:
    """By how much longer than ``usual`` each of ``same``, alike spans of ``host``, took, and what that would have been.

    ``usual``: of the seconds that each would have taken on a host of factor 1, with a usual batch, what is usual there.
    """
    begin_s, end_s = ((same[end] - design.began_ns) / 1e9 for end in ("start_ns", "end_ns"))
    speed, times = design.speed(host), 1.0 if larger is None else larger[same["iteration"]]
    usual_s = usual(speed.between(begin_s, end_s) / times) * times
    usual_ns = np.asarray((speed.when(speed.total(begin_s) + usual_s) - begin_s) * 1e9)
    return np.asarray(same["end_ns"] - same["start_ns"] - usual_ns), usual_ns


def _middling(took_s: Doubles) -> Doubles:
    """Of each, the median of it and its NEIGHBOURS; at both ends, of as many."""
    if len(took_s) <= NEIGHBOURS:
        return np.full(len(took_s), np.median(took_s))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(took_s, NEIGHBOURS), axis=1)
    return np.pad(medians, NEIGHBOURS // 2, mode="edge")


def _with_stops(link: ObservedLink, stops: Mapping[str, Sequence[Stop]]) -> ObservedLink:
    least_ns = LEAST_HELD_NS + link.uncertainty_ns
    late_ns = link.services_ns - link.expected_ns
    asked = np.flatnonzero(late_ns > least_ns)
    if link.designed.rate is None or not len(asked) or not any(stops[host] for host in link.pair):
        return link
    late_ns, there_ns = late_ns[asked], link.rows["recv_end_ns"][asked]
    left_ns = link.expected_ns[asked] + link.round_trip_ns + least_ns  # what was not on its way is, once it goes on
    stopped = np.zeros(len(link.rows), dtype=np.int8)
    for end, host in ((BY_SOURCE, link.src), (BY_DESTINATION, link.dst)):
        for begin_ns, end_ns, most_ns in stops[host]:
            within = (there_ns - late_ns >= begin_ns - least_ns) & (there_ns <= end_ns + left_ns)
            stopped[asked[within & (late_ns <= most_ns + left_ns)]] = end
    return replace(link, stopped=stopped) if stopped.any() else link
