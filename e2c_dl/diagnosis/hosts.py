"""Hosts that compute slower than designed: each against its peers of the same hardware and batch size.

A host's *pace* is its median time of FORWARD + BACKWARD per iteration, per sample of its batch, as it would be without
the factor that the scenario slows it by, which may change over time; hosts of one hardware class and batch size would
all have the same (of a small batch a sample takes longer: some of a gradient's time is always the same). The reference
is the class's median (the lower one of two)::

    slowdown = pace / reference         departure: slowdown >= 1.3  and  pace > reference + 5 * MAD

1.3, because workers that share a machine's cores differ by some 10 % in their medians over a run, and a departure below
that is rarely worth a visit; 5 median absolute deviations, because on hosts that scatter more than that by themselves
1.3 is nothing special. The median over iterations ignores a few disturbed ones, and so a host that is slow for less
than half of the run. In a class of fewer than three hosts peers cannot tell which of two is wrong: no verdict. Nor is
there one where batches follow speed while it runs: a slow host makes itself a smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.departures import Departure, Judgement, low_median, warm_up
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.model import Element, ElementKind, Limitation
from e2c_dl.diagnosis.replay.whatif import GRADIENT, scaled
from e2c_dl.trace.model import RankTrace, Spans, Trace

MIN_SLOWDOWN = 1.3
MIN_SEPARATION_MADS = 5.0
MIN_PEERS = 3  # of two, neither tells which of them is wrong


@dataclass(frozen=True, kw_only=True)
class ComputePace:
    """How fast one host computes. ``normal_s`` is per sample, on a host of factor 1."""

    host: str
    factor: float  # median over iterations
    per_iteration_s: float  # median, FORWARD + BACKWARD
    normal_s: float
    batch_size: int


def compute_s(rank: RankTrace, iterations: int) -> npt.NDArray[np.float64]:
    """Seconds of FORWARD + BACKWARD in iterations 0 .. iterations - 1, shape (iterations,)."""
    spans = _gradients(rank, iterations)
    return _per_iteration(spans, (spans["end_ns"] - spans["start_ns"]) / 1e9, iterations)


def pace(rank: RankTrace, iterations: int, design: Design) -> ComputePace:
    """The pace of one rank's host, warm-up left out."""
    spans, first = _gradients(rank, iterations), warm_up(iterations)
    begin_s, end_s = ((spans[end] - design.began_ns) / 1e9 for end in ("start_ns", "end_ns"))
    speed = design.factor(rank.host).mapped(np.reciprocal)  # work per second adds up, a factor does not
    per_iteration_s = _per_iteration(spans, end_s - begin_s, iterations)[first:]
    normal_s = _per_iteration(spans, speed.total(end_s) - speed.total(begin_s), iterations)[first:]
    batch_size = design.reference.batch_sizes.get(rank.host, 1)
    return ComputePace(
        host=rank.host,
        factor=float(np.median(per_iteration_s[normal_s > 0] / normal_s[normal_s > 0])) if normal_s.any() else 1.0,
        per_iteration_s=float(np.median(per_iteration_s)), normal_s=float(np.median(normal_s)) / batch_size,
        batch_size=batch_size,
    )  # fmt: skip


def _gradients(rank: RankTrace, iterations: int) -> Spans:
    spans = rank.spans[np.isin(rank.spans["phase"], sorted(GRADIENT))]
    return spans[(spans["iteration"] >= 0) & (spans["iteration"] < iterations)]  # -1: of no iteration


def _per_iteration(spans: Spans, weights: npt.NDArray[np.float64], iterations: int) -> npt.NDArray[np.float64]:
    return np.bincount(spans["iteration"], weights=weights, minlength=iterations).astype(np.float64)


def host_departures(trace: Trace, iterations: int, design: Design) -> Judgement:
    """The hosts that compute slower than designed, in rank order, and what could not be judged."""
    if not design.reference.compute_valid:
        oversubscribed = "No verdict on compute: the hosts were given more cores than the machine has."
        return (), (Limitation(sentence=oversubscribed),)
    if design.reference.batches_change:
        return (), (Limitation(sentence="No verdict on compute: batches changed while it ran."),)
    classes: dict[tuple[str, int], list[ComputePace]] = {}
    for rank in trace.ranks:
        own = pace(rank, iterations, design)
        classes.setdefault((design.reference.hardware.get(rank.host, ""), own.batch_size), []).append(own)
    departures: list[Departure] = []
    limitations: list[Limitation] = []
    for peers in classes.values():
        if len(peers) < MIN_PEERS:
            why = f"fewer than {MIN_PEERS} hosts of that hardware and batch size"
            sentence = f"No verdict on the compute of {{}}: {why}."
            limitations.append(Limitation.of(sentence, "host", [peer.host for peer in peers]))
        else:
            departures += _in_class(peers)
    return tuple(departures), tuple(limitations)


def _in_class(peers: list[ComputePace]) -> list[Departure]:
    normal_s = low_median([peer.normal_s for peer in peers])
    mad_s = low_median([abs(peer.normal_s - normal_s) for peer in peers])
    found = []
    for peer in peers:
        slowdown = peer.normal_s / normal_s if normal_s else 1.0
        if slowdown >= MIN_SLOWDOWN and peer.normal_s > normal_s + MIN_SEPARATION_MADS * mad_s:
            found.append(_departure(peer, slowdown, len(peers)))
    return found


def _departure(peer: ComputePace, slowdown: float, peers: int) -> Departure:
    element = Element(kind=ElementKind.HOST, src=peer.host)
    expected_s = peer.per_iteration_s / slowdown
    designed = "" if round(peer.factor, 6) == 1.0 else f", its designed factor of {peer.factor:.4g} included"
    evidence = (
        f"{peer.host} computes {peer.per_iteration_s * 1e3:.1f} ms per iteration for a batch of {peer.batch_size}; "
        f"the median of {peers} hosts of its hardware makes it {expected_s * 1e3:.1f} ms{designed}."
    )
    return Departure(
        element=element, slowdown=slowdown, observed=peer.per_iteration_s, expected=expected_s, evidence=evidence,
        restored=scaled(element, 1 / slowdown),
    )  # fmt: skip
