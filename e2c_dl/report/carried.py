"""What a trace tells of links and gradients over time, to be held against what was asked for.

::

    message   wire bits / the time it occupied its link, as analysis.links defines it; at least that from its header's
              arrival to its end
    gradient  from its data, or forward, to its last bucket's backward

Seconds count from the first worker's first iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from e2c_dl.analysis.links import in_service_order, services_ns, wire_bits
from e2c_dl.report.changing import Points
from e2c_dl.topology import Pair
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase, RankTrace, Trace

LARGE_BYTES = 32 * 1024  # smaller messages measure latency


@dataclass(frozen=True, kw_only=True)
class Carried:
    """One directed link's messages: when each occupied the link (seconds of training), and its bits on the wire."""

    begin_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    bits: npt.NDArray[np.float64]
    large: npt.NDArray[np.bool_]

    def rates(self) -> list[tuple[float, float]]:
        """(middle, Mbit/s) of every large message."""
        lasted_s = self.end_s - self.begin_s
        chosen = self.large & (lasted_s > 0)
        rate = self.bits[chosen] / lasted_s[chosen] / 1e6
        return list(zip(((self.begin_s + self.end_s) / 2)[chosen].tolist(), rate.tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the trace tells; nothing, if no worker left one."""

    end_s: float = 0.0
    carried: Mapping[Pair, Carried] = field(default_factory=dict)
    gradients: Mapping[str, Points] = field(default_factory=dict)  # host -> (middle, seconds it took)


def observed(trace: Trace, delays_s: Mapping[Pair, float]) -> Observed:
    """What ``trace`` tells of links and gradients; ``delays_s`` of the links where it is asked for, one way."""
    starts = [rank.spans["start_ns"][rank.spans["phase"] == Phase.ITERATION] for rank in trace.ranks]
    if not any(len(each) for each in starts):
        return Observed()
    began_ns = min(int(each.min()) for each in starts if len(each))
    names = {rank.rank: rank.host for rank in trace.ranks}
    carried = {}
    end_ns = max(
        int(rank.spans["end_ns"][rank.spans["phase"] == Phase.ITERATION].max(initial=0)) for rank in trace.ranks
    )
    for (src, dst), found in join(trace).by_link().items():
        pair = names[src], names[dst]
        rows = in_service_order(found)
        # What the receiver's clock alone tells is the least: clocks that are not aligned must not make a link fast.
        read_ns = rows["recv_end_ns"] - rows["recv_start_ns"]
        service_ns = np.maximum(services_ns(rows, round(delays_s.get(pair, 0.0) * 1e9)), read_ns)
        end_s = (rows["recv_end_ns"] - began_ns) / 1e9
        carried[pair] = Carried(
            begin_s=end_s - service_ns / 1e9,
            end_s=end_s,
            bits=wire_bits(rows["nbytes"]),
            large=rows["nbytes"] >= LARGE_BYTES,
        )
    gradients = {rank.host: _gradients(rank, began_ns) for rank in trace.ranks}
    return Observed(end_s=(end_ns - began_ns) / 1e9, carried=carried, gradients=gradients)


def per_second(carried: Iterable[Carried], end_s: float) -> list[tuple[float, float]]:
    """(middle, Mbit/s together) of every whole second until ``end_s``; a message's bits are spread over its time."""
    edges = np.arange(math.floor(end_s) + 1, dtype=np.float64)
    passed = np.zeros(len(edges))
    for each in carried:
        lasted_s = np.maximum(each.end_s - each.begin_s, 1e-9)
        passed += [float(each.bits @ np.clip((edge - each.begin_s) / lasted_s, 0.0, 1.0)) for edge in edges]
    return list(zip((edges[:-1] + 0.5).tolist(), (np.diff(passed) / 1e6).tolist(), strict=True))


def _gradients(rank: RankTrace, began_ns: int) -> list[tuple[float, float]]:
    """(middle, seconds) of every whole gradient: from its data, or forward, to its last bucket's backward."""
    phases = [Phase.DATA, Phase.FORWARD, Phase.BACKWARD]
    spans = np.sort(rank.spans[np.isin(rank.spans["phase"], phases)], order="start_ns")
    if not len(spans):
        return []
    backward = spans["phase"] == Phase.BACKWARD
    first = np.flatnonzero(~backward & np.concatenate([[True], backward[:-1]]))
    buckets = np.add.reduceat(backward.astype(np.int64), first)
    whole = buckets == buckets.max()
    begin_ns = spans["start_ns"][first][whole]
    end_ns = np.maximum.reduceat(spans["end_ns"], first)[whole]
    middle_s = ((begin_ns + end_ns) / 2 - began_ns) / 1e9
    return list(zip(middle_s.tolist(), ((end_ns - begin_ns) / 1e9).tolist(), strict=True))
