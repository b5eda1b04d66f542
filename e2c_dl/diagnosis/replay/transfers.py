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
to the same. Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009, 3. So a link carries
``crossings * nbytes / n`` of each transfer whose ranks are at both its ends, whatever their group, and what it needs
in an iteration is divided among them by that.

Any link may be what a transfer waits for, once those that need more are faster. Where there are far more links than a
ring or a tree has, those that need little are counted as one, which nothing changes.

Where several became known to be done at the same moment (a rank waits for its last bucket alone), each takes by its
bytes: ``done = max over k of (joined_k + s * (bytes_k + ... + bytes_n))``, solved for ``s``. Where no rank had to wait
for it (all were busy with something else), it was done before, who knows when: it takes no more than links need, or
than nobody notices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.replay.columns import NONE, Doubles, Longs
from e2c_dl.trace.collectives import WAITED_NS, Collectives
from e2c_dl.trace.model import Collective

TOGETHER_NS = 200_000  # done within it: seen by one wait that ended, not one by one
LINKS_A_RANK = 4  # of a transfer, that are told apart whatever they need: two rings both ways, or two trees
FAR = 8  # times less than the link that needs most: of the others, those that need so little are counted as one


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
    link: Longs  # place among the flows; NONE: all those that are not told apart
    alone_ns: Doubles  # of each collective rising
    turn_ns: Doubles
    way_ns: Doubles
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
            self, alone_ns=self.alone_ns * each, turn_ns=self.turn_ns * each, way_ns=self.way_ns * each
        )  # fmt: skip


class _Group(NamedTuple):
    """What some ranks did together."""

    own: Longs  # collectives
    ranks: int
    links: Longs  # whose both ends are among them


Rows = npt.NDArray[np.float64]
"""(collective, link, alone, turn, way) in columns, shape (5, rows)."""


def loads(of: Collectives, flows: Sequence[ObservedFlow]) -> Loads:
    """What ``flows`` need for each transfer of ``of`` between whose ranks they are."""
    usual = [place for place, each in enumerate(flows) if each.is_usual]
    rows = [np.empty((5, 0)), *_rows(of, [flows[place] for place in usual])]
    collective, link, alone_ns, turn_ns, way_ns = np.concatenate(rows, axis=1)
    order = np.lexsort((alone_ns, collective))
    collective = collective[order].astype(np.int64)
    alone_ns, turn_ns, way_ns = alone_ns[order], turn_ns[order], way_ns[order]
    needed_ns = np.bincount(collective, turn_ns + way_ns, len(of)).astype(np.float64)
    np.maximum.at(needed_ns, collective, alone_ns)
    return Loads(
        collective=collective, link=np.array([*usual, NONE], dtype=np.int64)[link[order].astype(np.int64)],
        alone_ns=alone_ns, turn_ns=turn_ns, way_ns=way_ns, needed_ns=needed_ns,
    )  # fmt: skip


def _rows(of: Collectives, flows: Sequence[ObservedFlow]) -> Iterator[Rows]:
    """By group; a link is its place among ``flows``."""
    groups = _groups(of, flows)
    if not groups:
        return
    part = of.parts[of.first]
    crossings = np.where(part["kind"] == Collective.ALL_REDUCE, 2.0, 1.0) * (of.sizes - 1)
    carried = np.maximum(1.0, crossings * part["nbytes"] / of.sizes)
    iterations, place = np.unique(part["iteration"], return_inverse=True)
    together = np.zeros((len(flows), len(iterations)))  # what each link carried of all groups' transfers
    for own, _, links in groups:
        together[links] += np.bincount(place[own], carried[own], len(iterations))
    need_ns = _needed_s(flows, iterations) * 1e9
    delay_ns = np.array([each.delay_s for each in flows]) * 1e9
    for own, ranks, links in groups:
        at = place[own]
        share = np.where(iterations[at] >= 0, carried[own] / together[links][:, at], 1.0)
        alone_ns = need_ns[links][:, at] * share
        way_ns = delay_ns[links][:, None] * (crossings[own] / len(links))
        kept = _told_apart(alone_ns + way_ns, LINKS_A_RANK * ranks)
        turn_ns = alone_ns / len(links)
        link, collective = np.nonzero(kept)
        yield np.stack([own[collective], links[link], alone_ns[kept], turn_ns[kept], way_ns[kept]])
        rest = np.flatnonzero(~kept.all(axis=0))
        left, blank = ~kept[:, rest], np.zeros(len(rest))
        longest_ns, in_turn_ns = (
            (alone_ns[:, rest] * left).max(axis=0),
            ((turn_ns + way_ns)[:, rest] * left).sum(axis=0),
        )
        yield np.stack([own[rest], blank + NONE, longest_ns, blank, in_turn_ns])


def _groups(of: Collectives, flows: Sequence[ObservedFlow]) -> list[_Group]:
    """Those that have links among ``flows``."""
    leaving: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, each in enumerate(flows):
        src, dst = each.ranks
        leaving[src].append((dst, place))
    found = []
    group = of.parts["group"][of.first]
    stops = np.flatnonzero(np.append(group[1:] != group[:-1], True)[: len(of)]) + 1  # its collectives follow each other
    for start, stop in pairwise([0, *stops.tolist()]):
        first = of.first[start]
        ranks = {*of.parts["rank"][first : first + of.sizes[start]].tolist()}
        links = sorted(place for rank in ranks for dst, place in leaving.get(rank, ()) if dst in ranks)
        if links:
            found.append(_Group(own=np.arange(start, stop), ranks=len(ranks), links=np.array(links)))
    return found


def _told_apart(need_ns: Doubles, most: int) -> npt.NDArray[np.bool_]:
    """Of links and collectives, by what they need: those of the ``most``, or not FAR from the one that needs most."""
    if len(need_ns) <= most:
        return np.full(need_ns.shape, True)
    least_ns = np.partition(need_ns, -most, axis=0)[-most]
    return np.asarray(need_ns >= np.minimum(least_ns, need_ns.max(axis=0) / FAR))


def _needed_s(flows: Sequence[ObservedFlow], iterations: npt.NDArray[np.int32]) -> Doubles:
    """Seconds that each link needed in each of ``iterations``, shape (links, iterations)."""
    need_s = np.stack([each.need_s for each in flows])
    inside = (iterations >= 0) & (iterations < need_s.shape[1])
    return np.where(inside, need_s[:, np.where(inside, iterations, 0)], np.median(need_s, axis=1)[:, None])
