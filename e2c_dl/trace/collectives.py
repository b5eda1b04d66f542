"""Collectives: every COLLECTIVE of one rank joined to those of its group's other ranks, times on the reference clock.

::

    rank 0   joined |~~~~~~~~~ waits ~~~~~~~~~|== transfer ==| ended
    rank 1                joined |~~~ waits ~~|==============| ended
    rank 2                             joined |==============| ended
                                              '-- the last one has joined: from here on it is the network's time

One is known by (group, seq). Its ranks are those that took part in any of its group's; one that lacks a rank (a run
broke off) is counted, not guessed. A rank that is ready before the last one has joined (the source of a broadcast) did
not wait for all: :attr:`Collectives.held` is False of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import AnalysisError
from e2c_dl.trace.model import Collective, Phase, RankTrace, Spans, Trace

PART: np.dtype[Any] = np.dtype(
    [
        ("joined_ns", "<i8"),
        ("waited_ns", "<i8"),  # the rank began to wait for it
        ("ended_ns", "<i8"),  # its result was there
        ("nbytes", "<i8"),  # of this rank's tensor
        ("seq", "<i8"),
        ("iteration", "<i4"),
        ("group", "<i4"),  # WORLD, or the number of a smaller one
        ("rank", "<i4"),
        ("bucket", "<i2"),
        ("kind", "<u2"),
    ]
)

Parts = npt.NDArray[Any]
"""A one-dimensional structured array of :data:`PART`: what each rank did in each collective."""

Longs = npt.NDArray[np.int64]

WORLD = -2
"""Group of all ranks."""

MOST_GROUP = (1 << 21) - 3
"""Largest number of a group."""

_OF_SEQ, _OF_RANK = 27, 15  # bits of a key: with these, of a group's 137 million collectives

WAITED_NS = 200_000
"""A rank that waited for less than that found its result there."""

OWN = (Phase.SEND, Phase.RECEIVE, Phase.SPAWN)

ONE_SIDED = (Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER, Collective.OTHER)
"""Kinds in which a rank may be ready before all have joined."""


@dataclass(frozen=True, kw_only=True)
class Collectives:
    """Those that all ranks of their group took part in; ``parts`` are sorted by (group, seq, rank)."""

    parts: Parts
    first: Longs  # of each collective, its first part
    torn: int = 0  # collectives that lack a rank

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def sizes(self) -> Longs:
        """How many ranks took part in each."""
        return np.diff(np.append(self.first, len(self.parts)))

    @cached_property
    def of_part(self) -> Longs:
        """Of each part, which collective it is of."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def joined_ns(self) -> Longs:
        """When the last rank of each had joined, shape (collectives,)."""
        return _reduced(np.maximum, self.parts["joined_ns"], self.first)

    @cached_property
    def held(self) -> npt.NDArray[np.bool_]:
        """Of each part, whether its rank was ready only when all had joined, shape (parts,)."""
        early = self.parts["ended_ns"] < self.joined_ns[self.of_part]
        return ~(early & np.isin(self.parts["kind"], ONE_SIDED))

    @cached_property
    def done_ns(self) -> Longs:
        """When the first of those held was ready, at least when the last had joined, shape (collectives,)."""
        ended_ns = np.where(self.held, self.parts["ended_ns"], np.iinfo(np.int64).max)
        first_ns = _reduced(np.minimum, ended_ns, self.first)
        return np.where(first_ns == np.iinfo(np.int64).max, self.joined_ns, np.maximum(first_ns, self.joined_ns))

    @cached_property
    def found(self) -> npt.NDArray[np.bool_]:
        """Of each part, whether its rank did not wait for it: it was ready by then, who knows since when."""
        return np.asarray(self.parts["ended_ns"] - self.parts["waited_ns"] < WAITED_NS)

    @cached_property
    def unwaited(self) -> npt.NDArray[np.bool_]:
        """Of each, whether no rank had to wait for it once all had joined, shape (collectives,)."""
        return np.asarray(_reduced(np.minimum, self.found | ~self.held, self.first), dtype=bool)

    def in_flight(self, rank: int) -> Longs:
        """(all have joined, this rank is ready) of each in which ``rank`` took part, shape (n, 2)."""
        own = (self.parts["rank"] == rank) & self.held
        begin_ns = self.joined_ns[self.of_part[own]]
        return np.stack([begin_ns, np.maximum(begin_ns, self.parts["ended_ns"][own])], axis=1)


def of_library(trace: Trace) -> bool:
    """Whether a library that hides its messages carried the training of ``trace``, or nobody but its ranks is known."""
    return not any(len(rank.rows(*OWN)) for rank in trace.ranks)


def collectives(trace: Trace) -> Collectives:
    """All collectives of ``trace``. Raises: AnalysisError, if a rank names one twice."""
    parts = np.concatenate([_parts(rank) for rank in trace.ranks] or [np.empty(0, dtype=PART)])
    parts = parts[np.lexsort((parts["rank"], parts["seq"], parts["group"]))]
    if not len(parts):
        return Collectives(parts=parts, first=np.empty(0, dtype=np.int64))
    _refuse_repeated(parts)
    changes = (np.diff(parts["group"]) != 0) | (np.diff(parts["seq"]) != 0)
    first = np.append(0, np.flatnonzero(changes) + 1)
    sizes = np.diff(np.append(first, len(parts)))
    ranks_of = {
        int(group): len(np.unique(parts["rank"][parts["group"] == group])) for group in np.unique(parts["group"])
    }
    expected = np.array([ranks_of[group] for group in parts["group"][first].tolist()])
    whole = sizes == expected
    kept = np.repeat(whole, sizes)
    return Collectives(
        parts=parts[kept], first=np.append(0, np.cumsum(sizes[whole])[:-1])[: int(whole.sum())],
        torn=int((~whole).sum()),
    )  # fmt: skip


def flow_spans(trace: Trace) -> Spans:
    """All FLOW spans, whoever recorded them."""
    return np.concatenate([rank.of(Phase.FLOW) for rank in trace.ranks])


def keys(group: npt.NDArray[Any], seq: npt.NDArray[Any], rank: npt.NDArray[Any] | int) -> Longs:
    """(group, seq, rank) as one number that sorts like the triple."""
    return np.asarray(
        ((group.astype(np.int64) + 2) << _OF_SEQ + _OF_RANK) + (seq.astype(np.int64) << _OF_RANK) + rank
    )  # fmt: skip


def _parts(rank: RankTrace) -> Parts:
    spans = rank.of(Phase.COLLECTIVE)
    parts = np.empty(len(spans), dtype=PART)
    for name in ("nbytes", "seq", "iteration", "bucket", "kind"):
        parts[name] = spans[name]
    parts["joined_ns"], parts["ended_ns"] = spans["start_ns"], spans["end_ns"]
    parts["waited_ns"] = _waited_ns(rank.of(Phase.AWAIT_COLLECTIVE), spans["end_ns"])
    parts["group"], parts["rank"] = spans["peer_task"], rank.rank
    return parts


def _waited_ns(waits: Spans, ended_ns: Longs) -> Longs:
    """When each of the ``waits`` began that are over as a collective ended; where none is, then.

    One wait may be for several: what was over before nobody waits for.
    """
    waits = waits[np.argsort(waits["end_ns"], kind="stable")]
    place = np.searchsorted(waits["end_ns"], ended_ns)
    there = np.append(waits["end_ns"], -1)[place] == ended_ns
    return np.where(there, np.append(waits["start_ns"], 0)[place], ended_ns)


def _refuse_repeated(parts: Parts) -> None:
    repeated = np.flatnonzero(np.diff(keys(parts["group"], parts["seq"], parts["rank"])) == 0)
    if len(repeated):
        row = parts[repeated[0]]
        raise AnalysisError(
            f"trace: rank {row['rank']} recorded collective {row['seq']} of group {row['group']} twice; "
            "the archive mixes two runs or is damaged: run e2c-dl verify on it"
        )


def _reduced(ufunc: np.ufunc, values: npt.NDArray[Any], first: Longs) -> Longs:
    return np.asarray(ufunc.reduceat(values, first)) if len(first) else np.empty(0, dtype=np.int64)
