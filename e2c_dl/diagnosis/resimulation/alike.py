"""Hosts that are alike: how much of what one took longer than the others was chance, and does not come again.

::

    in the run     a |----|     b |------|    c |-----|     by the noise of its gradients, of which the sum keeps some
    drawn anew     a |---|      b |-------|   c |-----|     each by that, and by that of the draw: further apart
    by other luck  a |----|     b |-----|     c |------|    less by that, and by that of the draw: as far apart

A lap that draws a host's gradients from its own has its luck twice. Where all wait for the last of many hosts, that one
is then later than by any seed, and hides what a slow host costs. So in other laps than the run's own, hosts of one kind
are nearer to their mean by as much as the draw takes them apart: nearly all of the way if only noise told them apart,
next to nothing if they are unlike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.resimulation.hosts import NEIGHBOURS, MeasuredHost

LEAST_ALIKE = 4  # hosts of one kind: of three, the mean is as uncertain as each


def by_other_luck(
    hosts: Sequence[MeasuredHost], kinds: Mapping[str, Hashable], departing: Collection[str] = ()
) -> tuple[MeasuredHost, ...]:
    """``hosts``, each with what it takes in other laps; ``kinds``: of hardware, by name. Those ``departing`` stay."""
    alike: dict[Hashable, list[MeasuredHost]] = {}
    for host in hosts:
        if host.name not in departing and len(host.gradients) > 1 and len({of for of, _ in host.gradients}) == 1:
            alike.setdefault((kinds.get(host.name), host.layer, host.gradients[0][0]), []).append(host)
    again: dict[str, float] = {}
    for group in alike.values():
        if len(group) >= LEAST_ALIKE:
            again |= zip((host.name for host in group), _again(group), strict=True)
    return tuple(replace(host, again=again.get(host.name, 1.0)) for host in hosts)


def _again(group: Sequence[MeasuredHost]) -> list[float]:
    """Of each, what it takes by other luck, as part of what it took."""
    lengths = [np.array([pieces[-1].end_ns for _, pieces in host.gradients], dtype=np.float64) for host in group]
    means = np.array([each.mean() for each in lengths])
    apart = float(means.var(ddof=1))
    if apart == 0:
        return [1.0] * len(group)
    by_draw = float(np.mean([_variance_by_draw(each) for each in lengths]))
    nearer = 1 - math.sqrt(max(0.0, 1 - by_draw / apart))
    return [float(each) for each in 1 + nearer * (means.mean() / means - 1)]


def _variance_by_draw(lengths: npt.NDArray[np.float64]) -> float:
    """Of the mean of ``lengths``, each drawn from its neighbours."""
    near = [lengths[first : first + NEIGHBOURS] for first in range(0, len(lengths), NEIGHBOURS)]
    return float(sum(len(each) * each.var() for each in near)) / len(lengths) ** 2
