"""Graphs of neighbours that ranks average over, and doubly stochastic weights on them.

::

    ring             directed-ring     ring-based              double-ring

    0 - 1 - 2        0 > 1 > 2         a ring, and each rank   two ring-based graphs of half the ranks each,
    |       |        ^       v         beside the one          and each rank beside its place's rank in the other
    5 - 4 - 3        5 < 4 < 3         farthest from it

A link (i, j) says that j averages over what i sends. All but the directed ring are symmetric. Weights are
Metropolis's: w_ij = 1 / (1 + max(d_i, d_j)) for d_i neighbours of i, and what is left of 1 for i itself; where all
ranks have as many, that is the mean over a rank and its neighbours.

Source: Luo et al., ASPLOS 2019, section 7 (ring, ring-based, double-ring); Xiao and Boyd, "Fast linear iterations for
distributed averaging", Systems and Control Letters 53 (2004), section 4 (weights).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def _ring(size: int) -> set[tuple[int, int]]:
    return {pair for rank in range(size) for pair in _both(rank, (rank + 1) % size)}


def _directed_ring(size: int) -> set[tuple[int, int]]:
    return {(rank, (rank + 1) % size) for rank in range(size)}


def _ring_based(size: int) -> set[tuple[int, int]]:
    return _ring(size) | {pair for rank in range(size) for pair in _both(rank, (rank + size // 2) % size)}


def _double_ring(size: int) -> set[tuple[int, int]]:
    half = (size + 1) // 2  # of an odd number, one rank has no other beside it in the second ring
    second = {(half + src, half + dst) for src, dst in _ring_based(size - half)}
    between = {pair for rank in range(size - half) for pair in _both(rank, half + rank)}
    return _ring_based(half) | second | between


def _both(one: int, other: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (one, other), (other, one)


GRAPHS: dict[str, Callable[[int], set[tuple[int, int]]]] = {
    "ring": _ring,
    "directed-ring": _directed_ring,
    "ring-based": _ring_based,
    "double-ring": _double_ring,
}
"""By name: from a number of ranks to links, some of which may lead from a rank to itself."""


def edges(graph: str, size: int) -> list[tuple[int, int]]:
    """The directed links (src, dst) of ``graph`` over ``size`` ranks, sorted: dst averages over what src sends."""
    return sorted(pair for pair in GRAPHS[graph](size) if pair[0] != pair[1])


def into(links: Sequence[tuple[int, int]], rank: int) -> list[int]:
    """Whom ``rank`` hears from, sorted."""
    return sorted(src for src, dst in links if dst == rank)


def out_of(links: Sequence[tuple[int, int]], rank: int) -> list[int]:
    """Whom ``rank`` sends to, sorted."""
    return sorted(dst for src, dst in links if src == rank)


def weights(links: Sequence[tuple[int, int]], rank: int) -> dict[int, float]:
    """Row ``rank`` of the doubly stochastic matrix on ``links``: the weight of itself and of all that it hears from.

    Every rank must hear from as many as it sends to, as it does on all GRAPHS.
    """
    degrees: dict[int, int] = {}
    for _, dst in links:
        degrees[dst] = degrees.get(dst, 0) + 1
    row = {src: 1 / (1 + max(degrees[src], degrees[rank])) for src in into(links, rank)}
    return {rank: 1 - sum(row.values()), **row}
