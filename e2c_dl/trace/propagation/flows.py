"""Propagation that a library hides, from what the ranks' sockets counted: FLOW spans, and a table per directed link.

::

    samples of all ranks --peers--> per link: its connections' curves --iterations of its source--> LinkTraffic
                                              their busy times, united  --------------------------> FLOW spans

A FLOW span is an interval in which a link was busy, cut where iterations begin and end; ``nbytes`` is what was
acknowledged meanwhile. Which collectives it belonged to is told by time (``collective_flows``). Where ranks
recorded their messages themselves there are no such spans, which would tell the same bytes twice: only the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from e2c_dl.trace.model import MOST_S, SPAN, Collective, Phase, RankTrace, Spans, Trace
from e2c_dl.trace.propagation.connections import Connections, LinkTraffic
from e2c_dl.trace.propagation.counters import Times, at, curves, decoded, united
from e2c_dl.trace.propagation.peers import peer_ranks
from e2c_dl.trace.propagation.samples import Samples
from e2c_dl.trace.propagation.tcp_info import JIFFY_NS
from e2c_dl.trace.propagation.traffic import Iterations, Seen, since_birth, traffic

DATA_SHARE = 0.02
"""Of the bytes of the busiest link: what carries less is no gradient's, but rendezvous and replies."""

_HIDDEN_SHARE = 0.25
"""Of what all-reduces moved: a ring sends at least as much as each rank's tensor; less went past the sockets."""

_Links = dict[tuple[int, int], list[Seen]]


def with_flows(trace: Trace, of_all: Sequence[Samples], problems: Sequence[str] = ()) -> Trace:
    """``trace`` with what its ranks' sockets counted; ``problems``: sentences on what of it could not be read.

    Left out: samples of ranks that it does not have, and those of no time of the run.
    """
    ranks = {rank.rank: rank for rank in trace.ranks}
    known = [_of_the_run(samples, ranks[samples.rank]) for samples in of_all if samples.rank in ranks]
    if not known:
        return replace(trace, connections=Connections(links=(), limitations=tuple(problems))) if problems else trace
    iterations = {samples.rank: _iterations(ranks[samples.rank], samples) for samples in known}
    links, strangers, wire_bytes = _links(ranks, known, iterations)
    tables = [traffic(src, dst, seen, iterations[src]) for (src, dst), seen in sorted(links.items())]
    most = max((_acked(table) for table in tables), default=0.0)
    tables = [replace(table, is_data=bool(0 < _acked(table) >= DATA_SHARE * most)) for table in tables]
    messages = any((rank.spans["phase"] == Phase.SEND).any() for rank in trace.ranks)
    flows = {
        rank: [
            _spans(table, links[table.src, table.dst], iterations[rank])
            for table in tables
            if table.src == rank and table.is_data and not messages
        ]
        for rank in ranks
    }
    limitations = (
        *problems,
        *_unseen(trace, known),
        *_untold(known, ranks),
        *_strange(strangers, most),
        *_hidden(trace, tables),
    )
    return replace(
        trace,
        ranks=tuple(replace(rank, spans=np.concatenate([rank.spans, *flows[rank.rank]])) for rank in trace.ranks),
        connections=Connections(links=tuple(tables), limitations=limitations, wire_bytes=wire_bytes),
    )


def _of_the_run(samples: Samples, rank: RankTrace) -> Samples:
    """Of ``samples`` those that any run may have taken: within its longest time of the rank's first span."""
    if not len(rank.spans):
        return samples
    away = np.abs(rank.clock.align(samples.time_ns) - rank.spans["start_ns"][0])
    kept = np.flatnonzero(away <= MOST_S * 1e9)
    if len(kept) == len(away):
        return samples
    return replace(
        samples, time_ns=samples.time_ns[kept], cookie=samples.cookie[kept], iteration=samples.iteration[kept],
        family=samples.family[kept], raw=tuple(samples.raw[row] for row in kept),
        lost=samples.lost + len(away) - len(kept),
    )  # fmt: skip


def _acked(table: LinkTraffic) -> float:
    return float(np.nan_to_num(table.total["acked_bytes"][0]))


def _links(
    ranks: Mapping[int, RankTrace], known: Sequence[Samples], iterations: Mapping[int, Iterations]
) -> tuple[_Links, list[tuple[str, float]], dict[int, float]]:
    """The connections of every link; of those to no rank, a description and the bytes sent; of all, bytes by rank."""
    peers = peer_ranks(known)
    links: _Links = defaultdict(list)
    strangers = []
    wire_bytes = {samples.rank: 0.0 for samples in known}
    for samples in known:
        at_ns = np.maximum.accumulate(ranks[samples.rank].clock.align(samples.time_ns))
        told = decoded(samples.raw)
        rows = _rows(samples, at_ns, iterations[samples.rank])
        order = np.argsort(samples.cookie, kind="stable")
        cookies, begins = np.unique(samples.cookie[order], return_index=True)
        for cookie, begin, end in zip(cookies.tolist(), begins, [*begins[1:], len(order)], strict=False):
            of_it = order[begin:end]
            connection = samples.connections[cookie]
            version = 6 if ":" in connection.local[0] else 4
            seen = Seen(
                at_ns=at_ns[of_it], row=rows[of_it], told=told[of_it], ip_version=version,
                curves=curves(at_ns[of_it], told[of_it], ip_version=version),
                within_machine=connection.local[0] == connection.remote[0],
            )  # fmt: skip
            if not seen.within_machine:
                wire_bytes[samples.rank] += since_birth([seen])["wire_bytes"]
            peer = peers.get((samples.rank, cookie))
            if peer is not None:
                links[samples.rank, peer].append(seen)
            elif connection.rank != samples.rank:
                where = f"rank {samples.rank} to {connection.remote[0]}:{connection.remote[1]}"
                strangers.append((where, float(seen.curves.values["bytes_acked"][-1])))
    return links, strangers, wire_bytes


def _rows(samples: Samples, at_ns: Times, iterations: Iterations) -> Times:
    """The row of the iteration that each sample ends or lies in, as it says itself, else by its time."""
    own = iterations.row_of_number(samples.iteration)
    return np.where(samples.iteration >= 0, own, iterations.row_of(at_ns))


def _iterations(rank: RankTrace, samples: Samples) -> Iterations:
    """From the rank's spans; without any, from what its samples say: one ends with the last that names it."""
    spans = rank.spans[rank.spans["phase"] == Phase.ITERATION]
    if len(spans):
        spans = spans[np.argsort(spans["start_ns"], kind="stable")]
        following = np.concatenate([spans["start_ns"][1:], spans["end_ns"][-1:]])
        short = following - spans["end_ns"] <= JIFFY_NS  # a gap that samples cannot tell is the iteration's
        ends = np.maximum(np.where(short, following, spans["end_ns"]), spans["start_ns"])
        return Iterations(number=spans["iteration"].copy(), start_ns=spans["start_ns"].copy(), end_ns=ends)
    at_ns = rank.clock.align(samples.time_ns)
    numbers, back = np.unique(samples.iteration[::-1], return_index=True)
    last_ns = at_ns[::-1][back]
    order = np.argsort(last_ns, kind="stable")
    numbers, last_ns = numbers[order], last_ns[order]
    starts = np.concatenate([at_ns[:1], last_ns[:-1]])
    inside = numbers >= 0
    return Iterations(number=numbers[inside], start_ns=starts[inside], end_ns=last_ns[inside])


def _spans(table: LinkTraffic, connections: Sequence[Seen], iterations: Iterations) -> Spans:
    """The link's busy times, cut at the iterations' edges."""
    busy = united(np.concatenate([one.curves.busy_ns for one in connections]))
    pieces = _cut(busy, np.unique(np.concatenate([iterations.start_ns, iterations.end_ns])))
    spans = np.zeros(len(pieces), dtype=SPAN)
    start, end = pieces[:, 0], pieces[:, 1]
    spans["posted_ns"], spans["start_ns"], spans["end_ns"] = start, start, end
    rises = [
        at(one.curves.at_ns, acked, end) - at(one.curves.at_ns, acked, start)
        for one in connections
        for acked in (np.nan_to_num(one.curves.values["bytes_acked"]),)
    ]
    spans["nbytes"] = np.rint(sum(rises)).astype(np.int64)
    row = iterations.row_of(start + (end - start) // 2)
    spans["iteration"] = np.where(row >= 0, iterations.number[row] if len(iterations.number) else -1, -1)
    spans["seq"] = spans["bucket"] = -1
    spans["task"] = spans["peer_task"] = -2
    spans["src"], spans["dst"], spans["phase"] = table.src, table.dst, Phase.FLOW
    return spans


def _cut(intervals: Times, edges_ns: Times) -> Times:
    """``intervals`` (n, 2), cut at every edge inside one."""
    begin = np.searchsorted(edges_ns, intervals[:, 0], side="right")
    count = np.searchsorted(edges_ns, intervals[:, 1], side="left") - begin + 1
    of = np.repeat(np.arange(len(intervals)), count)
    place = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    edge = begin[of] + place
    padded = np.concatenate([edges_ns, [0]])  # an index beyond the last is not used
    start = np.where(place == 0, intervals[of, 0], padded[edge - 1])
    end = np.where(place == count[of] - 1, intervals[of, 1], padded[edge])
    return np.stack([start, end], axis=1)


def _unseen(trace: Trace, known: Sequence[Samples]) -> list[str]:
    seen = {samples.rank for samples in known}
    return [
        f"{rank.host}: its sockets were not looked at; the links from it are unknown"
        for rank in trace.ranks
        if rank.rank not in seen
    ]


def _untold(known: Sequence[Samples], ranks: Mapping[int, RankTrace]) -> list[str]:
    found = []
    for samples in known:
        host = ranks[samples.rank].host
        if samples.lost:
            found.append(f"{host}: {samples.lost} samples of its sockets are lost; its links' figures may have gaps")
        if samples.dropped:
            found.append(
                f"{host}: for lack of room, {samples.dropped} samples of its sockets were left out, those of slow "
                "iterations last: what its links carried is known, and less well when"
            )
        told = decoded(samples.raw[:1])
        if len(told) and np.isnan(told["busy_us"][0]):
            found.append(f"{host}: its kernel does not tell how long a connection was busy; take Linux 4.10 or newer")
    return found


def _strange(strangers: Sequence[tuple[str, float]], most: float) -> list[str]:
    return [
        f"{where}: {sent / 1e6:.1f} MB over a connection whose other end is no rank that left a trace"
        for where, sent in strangers
        if sent > 0 and sent >= DATA_SHARE * most
    ]


def _hidden(trace: Trace, tables: Sequence[LinkTraffic]) -> list[str]:
    """Whether collectives moved more than the sockets did."""
    moved = 0
    for rank in trace.ranks:
        its = rank.spans[(rank.spans["phase"] == Phase.COLLECTIVE) & (rank.spans["kind"] == Collective.ALL_REDUCE)]
        moved += int(its["nbytes"].sum())
    sent = sum(_acked(table) for table in tables)
    if len(trace.ranks) < 2 or sent >= _HIDDEN_SHARE * moved or not moved:
        return []
    return [
        f"all-reduces moved {moved / 1e6:.1f} MB, the ranks' sockets {sent / 1e6:.1f}: the rest went by a way that TCP "
        "does not count (shared memory, RDMA, NVLink, UCX, another process), or over connections that were open for "
        "less than 4 s: its links are unknown"
    ]
