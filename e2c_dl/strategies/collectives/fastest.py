"""Fastest links that still mix: of all pairs, as few and as fast as the spectral gap of averaging over them allows.

::

    rates of pairs (the slower way counts) -> a spanning tree of the fastest links -> more of them, fastest first,
    until the gap of Metropolis's weights W on them is at least what is asked: gap = 1 - max |lambda(W) but the first|

Averaging over W brings models together by a factor 1 - gap each time. The slowest link of a tree of the fastest links
is as fast as that of any connected graph can be. All ranks that have the same rates choose the same links.

Source: Xiao and Boyd, "Fast linear iterations for distributed averaging", Systems and Control Letters 53 (2004),
section 4; Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017, assumption 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl.strategies.collectives.graph import weights

Link = tuple[int, int]
"""(smaller rank, larger rank): both ways."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Links to average over. ``enough``: their gap is what was asked; else they are all there are."""

    links: tuple[Link, ...]  # sorted
    gap: float
    enough: bool

    @property
    def directed(self) -> list[tuple[int, int]]:
        """Both ways of each, sorted."""
        return sorted([*self.links, *((dst, src) for src, dst in self.links)])


def fastest(size: int, rates: Mapping[Link, float], least_gap: float) -> Chosen:
    """The links to average over among ``size`` ranks, of those that have a rate.

    If none of them together has the gap, or they do not connect all ranks, all are kept.
    """
    in_order = sorted(rates, key=lambda link: (-rates[link], link))  # of equal ones the first
    links = _tree(size, in_order)
    gap = spectral_gap(size, links) if size == 1 or len(links) == size - 1 else 0.0
    for link in in_order:
        if gap >= least_gap:
            return Chosen(links=tuple(sorted(links)), gap=gap, enough=True)
        if link not in links:
            links.append(link)
            gap = spectral_gap(size, links)
    return Chosen(links=tuple(sorted(rates)), gap=gap, enough=gap >= least_gap)


def spectral_gap(size: int, links: Iterable[Link]) -> float:
    """1 less the second largest modulus of the eigenvalues of W; 0 for a graph that is not connected."""
    if size == 1:
        return 1.0
    moduli = np.sort(np.abs(np.linalg.eigvalsh(mixing(size, links))))
    return float(max(0.0, 1.0 - moduli[-2]))


def mixing(size: int, links: Iterable[Link]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """W: doubly stochastic, symmetric; row i has the weights of what rank i averages."""
    directed = sorted({pair for src, dst in links for pair in ((src, dst), (dst, src))})
    matrix = np.zeros((size, size))
    for rank in range(size):
        for other, weight in weights(directed, rank).items():
            matrix[rank, other] = weight
    return matrix


def slower_ways(rows: Sequence[Sequence[float]]) -> dict[Link, float]:
    """The rate of each pair: that of its slower way, of ``rows[src][dst]``; pairs without a rate (0) are left out."""
    size = len(rows)
    pairs = {(one, other): min(rows[one][other], rows[other][one]) for one in range(size) for other in range(one)}
    return {(other, one): rate for (one, other), rate in pairs.items() if rate > 0}


def _tree(size: int, in_order: Sequence[Link]) -> list[Link]:
    """Links that connect what can be connected, each the first in order that does."""
    group, links = list(range(size)), []
    for src, dst in in_order:
        if group[src] != group[dst]:
            links.append((src, dst))
            group = [group[src] if each == group[dst] else each for each in group]
    return links
