"""Links and gradients over time, as a trace tells, to be held against what was requested.

::

    message   wire bits / the time it occupied its link, as diagnosis.links defines it; at least that from its header's
              arrival to its end
    gradient  from its data, or forward, to its last bucket's backward

What links carried together is the sum of their messages, each one's bits spread evenly over the time it occupied its
link::

    Mbit/s |       ______
           |  ____|::::::|        two links, each at half of what they share;
           | |:::::::::::|__      at either end only one of them sends
           | |////////|:::::|
           '-------------------> s

Whose the messages of a bottleneck were::

    a -> b: 40 %    c -> b: 35 %    a -> d: 15 %    2 more: 10 %
    '---------- those that carried most ---------'

Seconds count from the first worker's first iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.diagnosis.links import in_service_order, services_ns
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Bottleneck, Pair
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import GRADIENT, Phase, RankTrace, Trace

Points = Sequence[tuple[float, float]]
"""(seconds of training, value)."""

ARROW = " -> "  # of a link's name
MOST_SHARES = 4  # links of a bottleneck that are told apart
LARGE_BYTES = 32 * 1024  # smaller messages measure latency
SHORTEST_S = 1e-9  # a message of no time would have an infinite rate


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
        chosen = self.large & (lasted_s > 0)  # clocks that err may let one arrive before it began
        rate = self.bits[chosen] / lasted_s[chosen] / 1e6
        return list(zip(((self.begin_s + self.end_s) / 2)[chosen].tolist(), rate.tolist(), strict=True))

    def passed_bits(self, moments_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Bits that had passed by each of ``moments_s``, a message's spread evenly over its time; the same shape."""
        lasted_s = np.maximum(self.end_s - self.begin_s, SHORTEST_S)
        rate_bps = self.bits / lasted_s
        knots_s = np.concatenate([self.begin_s, self.begin_s + lasted_s])
        order = np.argsort(knots_s, kind="stable")
        together_bps = np.cumsum(np.concatenate([rate_bps, -rate_bps])[order])
        so_far = np.cumsum(together_bps[:-1] * np.diff(knots_s[order]))
        return np.asarray(np.interp(moments_s, knots_s[order], np.concatenate([[0.0], so_far])))

    def steps(self, edges_s: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
        """(begin, mean Mbit/s until the next) at each of ``edges_s``, at least two; the last repeats the one before."""
        rate = np.diff(self.passed_bits(edges_s)) / np.diff(edges_s) / 1e6
        return list(zip(edges_s.tolist(), [*rate.tolist(), float(rate[-1])], strict=True))

    def typical_s(self, length_s: float, end_s: float) -> tuple[float, float]:
        """(begin, end) of ``length_s``, at most ``end_s``, from where the idle link begins to carry.

        Of all such the one in which a median amount passed: the greatest would be the least well measured.
        """
        order = np.argsort(self.begin_s, kind="stable")
        begins_s, busy_until_s = self.begin_s[order], np.maximum.accumulate(self.end_s[order])
        from_idle = np.concatenate([[True], begins_s[1:] > busy_until_s[:-1]])
        begins_s = np.clip(begins_s[from_idle], 0.0, end_s - length_s)  # a window lies within the run
        passed = self.passed_bits(begins_s + length_s) - self.passed_bits(begins_s)
        begin_s = float(begins_s[np.argsort(passed, kind="stable")[len(passed) // 2]])
        return begin_s, begin_s + length_s


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the trace tells; nothing, if no worker left one."""

    began_ns: int = 0  # the first iteration, from which seconds count
    end_s: float = 0.0
    iteration_s: float = 0.0  # median over all workers
    carried: Mapping[Pair, Carried] = field(default_factory=dict)
    gradients: Mapping[str, Points] = field(default_factory=dict)  # host -> (middle, seconds it took)


def observed(trace: Trace, delays_s: Mapping[Pair, float]) -> Observed:
    """What ``trace`` tells of links and gradients; ``delays_s`` of the links where it is asked for, one way."""
    spans = [rank.spans[rank.spans["phase"] == Phase.ITERATION] for rank in trace.ranks]
    if not any(len(each) for each in spans):
        return Observed()
    iterations = np.concatenate(spans)
    began_ns, end_ns = int(iterations["start_ns"].min()), int(iterations["end_ns"].max())
    names = {rank.rank: rank.host for rank in trace.ranks}
    carried = {}
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
            bits=wire_bits_of(rows["nbytes"]),
            large=rows["nbytes"] >= LARGE_BYTES,
        )
    gradients = {rank.host: _gradients(rank, began_ns) for rank in trace.ranks}
    return Observed(
        began_ns=began_ns,
        end_s=(end_ns - began_ns) / 1e9,
        iteration_s=float(np.median(iterations["end_ns"] - iterations["start_ns"])) / 1e9,
        carried=carried,
        gradients=gradients,
    )


def together(links: Iterable[Carried]) -> Carried:
    """All messages of ``links``, at least one, as if one link had carried them."""
    columns = zip(*((each.begin_s, each.end_s, each.bits, each.large) for each in links), strict=True)
    begin_s, end_s, bits, large = map(np.concatenate, columns)
    return Carried(begin_s=begin_s, end_s=end_s, bits=bits, large=large)


def shares(shared: Bottleneck, seen: Observed) -> Mapping[str, Carried]:
    """What the links of ``shared`` carried, by name; beyond MOST_SHARES, those that carried least are one."""
    found = {pair: seen.carried[pair] for pair in shared.links if pair in seen.carried}
    most = sorted(found, key=lambda pair: -found[pair].bits.sum())[:MOST_SHARES]
    made = {ARROW.join(pair): found[pair] for pair in sorted(most)}
    others = [carried for pair, carried in found.items() if pair not in most]
    return {**made, f"{len(others)} more": together(others)} if others else made


def share_sentences(bottlenecks: Iterable[Bottleneck], seen: Observed) -> Sequence[str]:
    """One per bottleneck: what it carried, and whose that was."""
    return tuple(f"bottleneck {shared.name}: {_said(shares(shared, seen), seen.end_s)}" for shared in bottlenecks)


def _said(links: Mapping[str, Carried], end_s: float) -> str:
    bits = {name: float(carried.bits.sum()) for name, carried in links.items()}
    total = sum(bits.values())
    if not total:
        return "training sent nothing through it"
    parts = ", ".join(f"{formatting.percent(own / total)} {name}" for name, own in bits.items())
    return f"carried {formatting.rate(total / end_s)} in the mean, of which {parts}"


def lasted(rank: RankTrace, phase: Phase, began_ns: int) -> Points:
    """(middle, seconds) of every span of ``phase``; seconds of training count from ``began_ns``."""
    spans = rank.spans[rank.spans["phase"] == phase]
    middle_s = ((spans["start_ns"] + spans["end_ns"]) / 2 - began_ns) / 1e9
    return list(zip(middle_s.tolist(), ((spans["end_ns"] - spans["start_ns"]) / 1e9).tolist(), strict=True))


def _gradients(rank: RankTrace, began_ns: int) -> list[tuple[float, float]]:
    """(middle, seconds) of every whole gradient: from its data, or forward, to its last bucket's backward."""
    spans = np.sort(rank.spans[np.isin(rank.spans["phase"], sorted(GRADIENT | {Phase.DATA}))], order="start_ns")
    backward = spans["phase"] == Phase.BACKWARD
    first = np.flatnonzero(~backward & np.append(True, backward)[:-1])
    if not len(first):
        return []  # nobody knows when they began
    buckets = np.add.reduceat(backward.astype(np.int64), first)
    whole = buckets == buckets.max()  # one that breaks off has fewer
    begin_ns = spans["start_ns"][first][whole]
    end_ns = np.maximum.reduceat(spans["end_ns"], first)[whole]
    middle_s = ((begin_ns + end_ns) / 2 - began_ns) / 1e9
    return list(zip(middle_s.tolist(), ((end_ns - begin_ns) / 1e9).tolist(), strict=True))
