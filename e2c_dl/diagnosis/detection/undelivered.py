"""Links that carried nothing at the end of a trace that breaks off, though something was sent over them.

::

    a -> b      sent |==| received    sent |- - - - - - - - - - -    never received
    alive, a    .    .    .    .    .    .    .    .    .    .    .
    alive, b    .    .    .    .    .    .    .    .    .    .    .
                                           |------ silent -------|   at least 2 s, and 10 times as long as expected

No iteration in which a link is cut for good is ever finished by all, so that what all finished does not show it. A host
that was stopped or killed is not seen alive afterwards: what was sent to it, or by it, names no link.

Links without expected rate, or with many losses by design, and links of hosts whose clock or signs of life are not
known, are not judged; nor are links to ranks whose own traces lack what they did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.links import MIN_RATIO, MIN_STALL_NS
from e2c_dl.diagnosis.piecewise import least
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Pair
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Trace


def silent_s(trace: Trace, design: Design) -> Mapping[Pair, float]:
    """Link -> seconds for which it carried nothing of what was sent, to the end of ``trace``; the longest first.

    ``trace`` is a whole one, not cut to what all ranks finished; nothing is silent in one that does not break off.
    """
    if all(rank.complete for rank in trace.ranks):
        return {}
    messages = join(trace)
    joined, none = messages.by_link(), messages.joined[:0]
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    ends = np.stack([messages.unreceived["src"], messages.unreceived["dst"]], axis=1)
    # Whose sends are missing, of that receives are, too: it has not told all that it did.
    untold = {rank.rank for rank in trace.ranks if rank.lost} | {*messages.unsent["src"].tolist()}
    found = {}
    for src, dst in np.unique(ends, axis=0).tolist():
        if dst not in hosts or dst in untold:
            continue
        pair = hosts[src], hosts[dst]
        own = messages.unreceived[(ends == (src, dst)).all(axis=1)]
        since_ns = max(int(own["start_ns"].min()), int(joined.get((src, dst), none)["recv_end_ns"].max(initial=0)))
        silent_ns = _seen_ns(trace, pair) - since_ns
        if silent_ns >= max(MIN_STALL_NS, MIN_RATIO * _expected_ns(pair, own["nbytes"][:1], since_ns, design)):
            found[pair] = silent_ns / 1e9
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _seen_ns(trace: Trace, pair: Pair) -> int:
    """Until when both hosts were seen to run; 0: nobody looked, or their clocks do not tell."""
    unaligned = trace.facts.get("hosts_without_clock", ())
    if any(host in unaligned for host in pair):
        return 0
    return min(int(trace.alive[host].max(initial=0)) if host in trace.alive else 0 for host in pair)


def _expected_ns(pair: Pair, nbytes: npt.NDArray[np.int64], since_ns: int, design: Design) -> float:
    """How long a message of ``nbytes``, shape (1,), takes as designed, in turns with all links that share its line."""
    foreseen = design.foreseen
    designed = foreseen.alone(pair)
    if not designed.may_stall or designed.own is None:
        return math.inf
    rate, since_s = designed.own, np.array([(since_ns - design.began_ns) / 1e9])
    for line in foreseen.bottlenecks:
        if pair in line.links:
            rate = least(rate, foreseen.capacity(line).mapped(partial(np.multiply, 1 / len(line.links))))
    carried_s = rate.when(rate.total(since_s) + wire_bits_of(nbytes)) - since_s
    return float(carried_s[0] + designed.delay_s.at(since_s)[0]) * 1e9
