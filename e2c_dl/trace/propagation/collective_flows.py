"""Which collective a link's bytes were of: those that the link moved while it was in flight, told by time alone.

::

    link 0 -> 1     ....[==== 9 MB ====]....[= 2 MB =]...      its FLOW spans, each even over its time
    collective 7         |------ in flight ------|             6 MB of the first, half of it shared with 8, 2 MB ...
    collective 8              |----|                           what it has of the time is shared evenly
                                                               nobody's: what moved while none was under way

In flight is a collective from when all its ranks have joined it until the later one of the link's two ends is ready.
Where none is, bytes are of those that one end has joined already: a library may send ahead; where there is none
either, of those within a jiffy, by which a FLOW span's ends may be off. No socket tells more: of collectives in flight
together, such as DDP's buckets, it is not known whose bytes went first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.collectives import Collectives, Longs, collectives
from e2c_dl.trace.model import Phase, Spans, Trace
from e2c_dl.trace.propagation.tcp_info import JIFFY_NS

COLLECTIVE_FLOW: np.dtype[Any] = np.dtype(
    [
        ("src", "<i4"),
        ("dst", "<i4"),
        ("group", "<i4"),  # -2: all ranks
        ("seq", "<i8"),  # number of the collective in its group; -1: moved while none was under way
        ("iteration", "<i4"),  # of the collective; -1: outside of iterations, or none
        ("kind", "<u2"),  # Collective
        ("nbytes", "<f8"),  # that the link moved for it: acknowledged payload
        ("busy_ns", "<f8"),  # of the link's busy time, what was for it
    ]
)

_Numbers = npt.NDArray[np.float64]


def collective_flows(trace: Trace, reach_ns: int = JIFFY_NS) -> npt.NDArray[Any]:
    """Rows of COLLECTIVE_FLOW, in order of (src, dst, group, seq): what each link moved for each collective, if any.

    Of a link ``nbytes`` add up to those of its FLOW spans, whose ends may be off by ``reach_ns``.
    Raises: AnalysisError, if a rank names a collective twice.
    """
    known = collectives(trace)
    found = [np.empty(0, dtype=COLLECTIVE_FLOW)]
    for rank in trace.ranks:
        flows = rank.of(Phase.FLOW)
        found += [
            _of_link(flows[flows["dst"] == dst], rank.rank, dst, known, reach_ns)
            for dst in np.unique(flows["dst"]).tolist()
        ]
    return np.concatenate(found)


def _of_link(flows: Spans, src: int, dst: int, known: Collectives, reach_ns: int) -> npt.NDArray[Any]:
    ends, joined_ns, all_joined_ns, ready_ns = _under_way(known, src, dst)
    in_flight, ahead = (all_joined_ns, np.maximum(ready_ns, all_joined_ns)), (joined_ns, all_joined_ns)
    near = (joined_ns - reach_ns, np.maximum(ready_ns, joined_ns) + reach_ns)
    edges_ns = np.unique(np.concatenate([flows["start_ns"], flows["end_ns"], *in_flight, *ahead, *near]))
    nbytes, busy_ns = _between(flows, edges_ns)
    rows = np.zeros(len(ends) + 1, dtype=COLLECTIVE_FLOW)  # the last: nobody's
    rows["src"], rows["dst"] = src, dst
    for name in ("group", "seq", "iteration", "kind"):
        rows[name][:-1] = ends[name]
    rows["group"][-1], rows["seq"][-1], rows["iteration"][-1] = -2, -1, -1
    free = np.ones(len(nbytes), dtype=bool)
    for begin_ns, end_ns in (in_flight, ahead, near):
        begin, end = np.searchsorted(edges_ns, begin_ns), np.searchsorted(edges_ns, end_ns)
        sharing = _counts(begin, end, len(nbytes))
        for name, values in (("nbytes", nbytes), ("busy_ns", busy_ns)):
            shares = np.divide(values, sharing, out=np.zeros(len(values)), where=free & (sharing > 0))
            passed = np.concatenate([[0.0], np.cumsum(shares)])
            rows[name][:-1] += passed[end] - passed[begin]
        free &= sharing == 0
    rows["nbytes"][-1], rows["busy_ns"][-1] = nbytes[free].sum(), busy_ns[free].sum()
    rows = rows[rows["busy_ns"] > 0]
    return rows[np.lexsort((rows["seq"], rows["group"]))]


def _under_way(known: Collectives, src: int, dst: int) -> tuple[npt.NDArray[Any], Longs, Longs, Longs]:
    """Of each collective of an end of the link: a part of it, when the first end joined, all had, both were ready."""
    parts = known.parts
    at_end = np.flatnonzero(np.isin(parts["rank"], (src, dst)))
    of, first = np.unique(known.of_part[at_end], return_index=True)
    if not len(of):
        none = np.empty(0, dtype=np.int64)
        return parts[:0], none, none, none
    joined_ns = np.minimum(np.minimum.reduceat(parts["joined_ns"][at_end], first), known.joined_ns[of])
    ready_ns = np.maximum.reduceat(parts["ended_ns"][at_end], first)
    return parts[at_end][first], joined_ns, known.joined_ns[of], ready_ns


def _between(flows: Spans, edges_ns: Longs) -> tuple[_Numbers, _Numbers]:
    """(bytes, busy time) from each of ``edges_ns``, among which are those of ``flows``, to the next."""
    flows = np.sort(flows[flows["end_ns"] > flows["start_ns"]], order="start_ns")
    lengths = np.diff(edges_ns).astype(np.float64)
    if not len(flows):
        return np.zeros(len(lengths)), np.zeros(len(lengths))
    row = np.searchsorted(flows["start_ns"], edges_ns[:-1], side="right") - 1
    inside = (row >= 0) & (edges_ns[:-1] < flows["end_ns"][row])
    busy_ns = np.where(inside, lengths, 0.0)
    return busy_ns * (flows["nbytes"] / (flows["end_ns"] - flows["start_ns"]))[row], busy_ns


def _counts(begin: Sequence[int] | Longs, end: Sequence[int] | Longs, segments: int) -> Longs:
    """How many of the intervals from edge ``begin`` to edge ``end`` each segment lies in."""
    changes = np.bincount(begin, minlength=segments + 1) - np.bincount(end, minlength=segments + 1)
    return np.asarray(np.cumsum(changes)[:segments], dtype=np.int64)
