"""Transfers: how long each collective occupied the network, and what of that each link would have needed alone.

::

    joined    last rank of c0         last rank of c1      done
                 |======= c0 ============|=== c1 ===|         one after another, as buckets of one group go
                  |<---- service ------->|<-- s1 --->|

    service = done - max(joined, the earlier one's done)     of one whose end the ranks saw
            = max(most of alone, sum of turn + sum of way)   of the links, scaled to what was observed

    alone   = how long a link carries its bytes of the collective, nobody keeping it waiting: a saturated link
    turn    = alone / links, way = crossings * delay: a piece of data crosses all links in turn, as often in the mean

In a ring of n ranks a piece makes 2 (n - 1) crossings in an all-reduce, n - 1 in others; data of other shapes is held
to the same. Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009, 3.

Where several became known to be done at the same moment (a rank waits for its last bucket alone), each takes by its
bytes: ``done = max over k of (joined_k + s * (bytes_k + ... + bytes_n))``, solved for ``s``. Where no rank had to wait
for it (all were busy with something else), it was done before, who knows when: it takes no more than links need, or
than nobody notices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.replay.columns import NONE, Doubles, Longs
from e2c_dl.trace.collectives import WAITED_NS, Collectives
from e2c_dl.trace.model import Collective

TOGETHER_NS = 200_000  # done within it: seen by one wait that ended, not one by one
MOST_LINKS = 16  # of each transfer: those that needed most


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfers:
    """By collective, all of shape (collectives,), in nanoseconds of the reference clock."""

    after: Longs  # the one that its group carried before it; NONE
    begin_ns: Doubles  # all have joined, and that one is done
    service_ns: Doubles  # at least 0


def transfers(of: Collectives, needed_ns: Doubles) -> Transfers:
    """The transfers of ``of``; ``needed_ns``: what links need for each, 0 where none is known."""
    count = len(of)
    after, begin_ns, service_ns = np.full(count, NONE, dtype=np.int64), np.zeros(count), np.zeros(count)
    groups = of.parts["group"][of.first]
    most_ns = np.where(of.unwaited, np.maximum(needed_ns, WAITED_NS), np.inf)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        own = own[np.lexsort((own, of.done_ns[own]))]
        after[own[1:]] = own[:-1]
        begin_ns[own], service_ns[own] = _one_after_another(
            of.joined_ns[own].astype(np.float64), of.done_ns[own].astype(np.float64),
            of.parts["nbytes"][of.first[own]].astype(np.float64), most_ns[own],
        )  # fmt: skip
    return Transfers(after=after, begin_ns=begin_ns, service_ns=service_ns)


def _one_after_another(
    joined_ns: Doubles, done_ns: Doubles, nbytes: Doubles, most_ns: Doubles
) -> tuple[Doubles, Doubles]:
    """(begin, service) of each, in the order in which they were done; of ``most_ns``, if nobody waited for any."""
    begin_ns, service_ns = np.zeros(len(done_ns)), np.zeros(len(done_ns))
    previous_ns = -np.inf
    for first, stop in _trains(done_ns):
        ready_ns = np.maximum(joined_ns[first:stop], previous_ns)
        remaining = np.cumsum(np.maximum(1.0, nbytes[first:stop])[::-1])[::-1]  # of each, its own and what follows
        per_byte_ns = max(0.0, float(((done_ns[stop - 1] - ready_ns) / remaining).min()))
        waited = bool(np.isinf(most_ns[first:stop]).any())
        for place in range(first, stop):
            begin_ns[place] = max(joined_ns[place], previous_ns)
            took_ns = per_byte_ns * max(1.0, float(nbytes[place]))
            service_ns[place] = took_ns if waited else min(took_ns, most_ns[place])
            previous_ns = begin_ns[place] + service_ns[place]
    return begin_ns, service_ns


def _trains(done_ns: Doubles) -> Sequence[tuple[int, int]]:
    """(first, beyond the last) of those that became known together."""
    apart = np.flatnonzero(np.diff(done_ns) > TOGETHER_NS) + 1
    edges = [0, *apart.tolist(), len(done_ns)]
    return list(pairwise(edges))


@dataclass(frozen=True, kw_only=True, eq=False)
class Loads:
    """What links do for the transfers, a row for each of both, in order of the collectives; nanoseconds."""

    collective: Longs
    link: Longs  # place among the flows
    alone_ns: Doubles  # of each collective rising
    turn_ns: Doubles
    way_ns: Doubles
    others_ns: Doubles  # shape (collectives,): turns and ways of links that are not among the MOST_LINKS
    needed_ns: Doubles  # shape (collectives,): what all take together; 0: no link's part is known

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Of each collective, whether some link's part in it is."""
        return np.asarray(self.needed_ns > 0)

    @property
    def first(self) -> Longs:
        """Where each collective's begin."""
        return np.flatnonzero(np.diff(self.collective, prepend=-1))

    @property
    def last(self) -> Longs:
        """Where each collective's end."""
        return np.flatnonzero(np.diff(self.collective, append=-1))

    def scaled(self, service_ns: Doubles) -> Loads:
        """The same, of transfers that took ``service_ns``, shape (collectives,)."""
        scale = np.divide(service_ns, self.needed_ns, out=np.zeros(len(service_ns)), where=self.known)
        each = scale[self.collective]
        return replace(
            self, alone_ns=self.alone_ns * each, turn_ns=self.turn_ns * each, way_ns=self.way_ns * each,
            others_ns=self.others_ns * scale,
        )  # fmt: skip


def loads(of: Collectives, flows: Sequence[ObservedFlow]) -> Loads:
    """What ``flows`` need for each transfer of ``of`` between whose ranks they are."""
    groups, found = of.parts["group"][of.first], []
    others_ns = np.zeros(len(of))
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        ranks = {*of.parts["rank"][of.parts["group"] == group].tolist()}
        theirs = [row for row, each in enumerate(flows) if each.is_usual and {*each.ranks} <= ranks]
        links = np.array(theirs, dtype=np.int64)
        if len(links):
            rows, others_ns[own] = _of_group(of, own, links, flows)
            found.append(rows)
    columns = [np.concatenate(column) for column in zip(*found, strict=True)] or [np.empty(0)] * 5
    collective, link, alone_ns, turn_ns, way_ns = columns
    order = np.lexsort((alone_ns, collective))
    collective = collective[order].astype(np.int64)
    alone_ns, turn_ns, way_ns = alone_ns[order], turn_ns[order], way_ns[order]
    needed_ns = np.maximum(
        np.bincount(collective, turn_ns + way_ns, len(of)) + others_ns, _greatest(collective, alone_ns, len(of))
    )
    return Loads(
        collective=collective, link=link[order].astype(np.int64), alone_ns=alone_ns, turn_ns=turn_ns, way_ns=way_ns,
        others_ns=others_ns, needed_ns=needed_ns,
    )  # fmt: skip


def _of_group(
    of: Collectives, own: Longs, links: Longs, flows: Sequence[ObservedFlow]
) -> tuple[tuple[Longs, Longs, Doubles, Doubles, Doubles], Doubles]:
    """(collective, link, alone, turn, way) of the links that need most in each of ``own``; and what is left out."""
    part = of.parts[of.first[own]]
    nbytes = np.maximum(1.0, part["nbytes"])
    inside = part["iteration"] >= 0
    of_iteration = np.bincount(part["iteration"][inside], nbytes[inside])
    whole = np.where(inside, of_iteration[np.maximum(0, part["iteration"])] if inside.any() else 1.0, nbytes)
    alone_ns = _needed_s([flows[link] for link in links], part["iteration"]) * (nbytes / whole) * 1e9
    delay_ns = np.array([flows[link].delay_s for link in links]) * 1e9
    way_ns = delay_ns[:, None] * (_crossings(of)[own] / len(links))
    kept = np.argsort(-(alone_ns + way_ns), axis=0, kind="stable")[:MOST_LINKS]
    alone, way = np.take_along_axis(alone_ns, kept, axis=0), np.take_along_axis(way_ns, kept, axis=0)
    others_ns = (alone_ns.sum(axis=0) - alone.sum(axis=0)) / len(links) + way_ns.sum(axis=0) - way.sum(axis=0)
    rows = np.broadcast_to(own, kept.shape).ravel(), links[kept].ravel(), alone.ravel()
    return (*rows, alone.ravel() / len(links), way.ravel()), np.maximum(0.0, others_ns)


def _crossings(of: Collectives) -> Doubles:
    """How many links a piece of data of each of ``of`` crosses, one after another."""
    twice = of.parts["kind"][of.first] == Collective.ALL_REDUCE
    return np.where(twice, 2.0, 1.0) * (of.sizes - 1)


def _needed_s(flows: Sequence[ObservedFlow], iteration: npt.NDArray[np.int32]) -> Doubles:
    """Seconds that each link needed in the iteration of each collective, shape (links, collectives)."""
    need_s = np.stack([each.need_s for each in flows])
    inside = (iteration >= 0) & (iteration < need_s.shape[1])
    return np.where(inside, need_s[:, np.where(inside, iteration, 0)], np.median(need_s, axis=1)[:, None])


def _greatest(collective: Longs, values: Doubles, count: int) -> Doubles:
    found = np.zeros(count)
    np.maximum.at(found, collective, values)
    return found
