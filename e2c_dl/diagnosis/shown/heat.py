"""How slow every host and every link was in every iteration: what a heat map over the run draws.

::

    host   seconds of computation, the gradient's as on a host of factor 1, and in a script of what no phase names / the
           median of its class, or its own in a small one
    link   time its messages took, waiting for each other apart / what their sizes take by design, or its own median;
           of a library's, seconds per bit by its sender's counters / their median

1.0 is as expected, 2.0 twice as slow. It judges nobody: one iteration's value may be noise, which the verdict weighs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.departures import low_median
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.hosts import MIN_PEERS
from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.observed import Observed
from e2c_dl.diagnosis.prefix import most_iterations
from e2c_dl.diagnosis.window import CUT_BY_TIME
from e2c_dl.trace.model import GRADIENT, Phase, RankTrace, Trace
from e2c_dl.trace.warm_up import warm_up

UNPACED = (Phase.DATA, Phase.REDUCE, Phase.STEP, Phase.COPY, Phase.OTHER)  # an evaluation is not in every iteration

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Heat:
    """Times slower than expected, a row per element, a column per iteration; NaN: nothing was done in it."""

    elements: tuple[Element, ...]  # hosts in rank order, then links
    slowdown: Floats  # (elements, iterations)
    by_design: tuple[bool, ...]  # against what was designed of it, or what its peers do; else against its own median
    start_s: Floats  # (iterations,): the first worker to begin, since the run's first moment
    end_s: Floats  # the last worker to end
    most_iterations: int = 0  # of any host, where they went at their own pace, and these are the first of each; else 0


def heat_of(observed: Observed) -> Heat:
    """The heat of the iterations that all ranks finished."""
    prefix, iterations, design, links = observed.trace, observed.iterations, observed.design, observed.carried
    flows = observed.flows
    rows = [
        *_hosts(prefix.ranks, iterations, design),
        *(_link(link, _numbers(link, prefix), iterations) for link in links),
    ]
    rows += [_flow(flow, iterations) for flow in flows]
    start_ns, end_ns = _bounds_ns(prefix, iterations)
    return Heat(
        elements=(
            *(Element(kind=ElementKind.HOST, src=host) for host in prefix.hosts),
            *(each.element for each in links),
            *(each.element for each in flows),
        ),
        slowdown=np.array([row for row, _ in rows]).reshape(len(rows), iterations),
        by_design=tuple(by_design for _, by_design in rows),
        start_s=(start_ns - start_ns[0]) / 1e9,
        end_s=(end_ns - start_ns[0]) / 1e9,
        most_iterations=most_iterations(observed.whole),
    )


Row = tuple[Floats, bool]
"""(times slower in each iteration, whether by design)."""


def _hosts(ranks: Sequence[RankTrace], iterations: int, design: Design) -> list[Row]:
    normal = [_normal_s(rank, iterations, design) for rank in ranks]
    first = warm_up(iterations)
    medians = [_median(own[first:]) for own in normal]
    reference = design.reference
    classes = [(reference.hardware.get(rank.host, ""), reference.batch_sizes.get(rank.host, 1)) for rank in ranks]
    rows = []
    for own, median, kind in zip(normal, medians, classes, strict=True):
        peers = [other for other, its in zip(medians, classes, strict=True) if its == kind and other > 0]
        by_design = len(peers) >= MIN_PEERS and reference.compute_valid and not reference.batches_change
        rows.append((_over(own, low_median(peers) if by_design else median), by_design))
    return rows


def _normal_s(rank: RankTrace, iterations: int, design: Design) -> Floats:
    """Seconds that a host computed, its gradients as they would be on one of factor 1; NaN in an iteration without."""
    spans = rank.spans[np.isin(rank.spans["phase"], [*GRADIENT, *UNPACED])]
    spans = spans[(spans["iteration"] >= 0) & (spans["iteration"] < iterations)]
    begin_s, end_s = ((spans[end] - design.began_ns) / 1e9 for end in ("start_ns", "end_ns"))
    speed = design.speed(rank.host)
    normal_s = np.where(np.isin(spans["phase"], sorted(GRADIENT)), speed.between(begin_s, end_s), end_s - begin_s)
    spent = np.bincount(spans["iteration"], weights=normal_s, minlength=iterations)
    return np.where(spent > 0, spent, np.nan)


def _numbers(link: ObservedLink, prefix: Trace) -> npt.NDArray[np.int64]:
    """The iteration of each message of ``link``: in a trace that is cut by time, the one that its sender was in, or its
    receiver, where the sender trains no more.
    """
    trains = prefix.facts.get(CUT_BY_TIME)
    if trains is None:
        return np.asarray(link.rows["iteration"], dtype=np.int64)
    ranks = {rank.host: rank for rank in prefix.ranks}
    told = next((ranks[host] for host in link.pair if ranks[host].rank in trains), ranks[link.src])
    own = told.of(Phase.ITERATION)
    place = np.searchsorted(np.sort(own["start_ns"]), link.rows["send_start_ns"], side="right") - 1
    return np.where(place >= 0, np.sort(own["iteration"])[np.maximum(0, place)], -1)


def _link(link: ObservedLink, numbers: npt.NDArray[np.int64], iterations: int) -> Row:
    """Of one link; where no rate is designed, or segments are lost by design, against its own median."""
    kept = (numbers >= 0) & (numbers < iterations)
    number = numbers[kept]
    spent = np.bincount(number, weights=(link.services_ns + link.delay_ns)[kept], minlength=iterations)
    took_ns = np.where(np.bincount(number, minlength=iterations) > 0, spent, math.nan).astype(np.float64)
    if not link.judgeable:
        return _over(took_ns, _median(took_ns[warm_up(iterations) :])), False
    expected = (link.expected_ns + link.designed_delay_ns)[kept]
    expected_ns = np.bincount(number, weights=expected, minlength=iterations).astype(np.float64)
    return _over(took_ns, expected_ns), True


def _flow(flow: ObservedFlow, iterations: int) -> Row:
    """Of one link of a library: what its bytes needed / its own median."""
    per_bit_s = np.full(iterations, math.nan)
    known = flow.known[:iterations]
    per_bit_s[: len(known)][known] = (flow.need_s / np.maximum(1.0, flow.acked_bytes))[:iterations][known]
    return _over(per_bit_s, _median(per_bit_s[warm_up(iterations) :])), False


def _over(above: Floats, below: Floats | float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(above / below)
    return np.where(np.isfinite(ratio), ratio, np.nan)


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0


def _bounds_ns(prefix: Trace, iterations: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """When the first worker began each iteration, and when the last ended it."""
    start_ns = np.full(iterations, np.iinfo(np.int64).max)
    end_ns = np.full(iterations, np.iinfo(np.int64).min)
    for rank in prefix.ranks:
        spans = rank.spans[rank.spans["phase"] == Phase.ITERATION]
        spans = spans[(spans["iteration"] >= 0) & (spans["iteration"] < iterations)]
        np.minimum.at(start_ns, spans["iteration"], spans["start_ns"])
        np.maximum.at(end_ns, spans["iteration"], spans["end_ns"])
    return start_ns, end_ns
