"""Reference that comparable elements give each other: the level of the fastest group of them.

What is wrong with an element makes it slower, so of several groups of alike elements the fastest tells what they can
do, whichever is largest::

    levels      . ..:.              .. .
               fastest group  gap   slow            a gap: wider than what noise and FLOOR explain

Whoever is beyond a gap is further than FLOOR from the slowest of those before it, and than noise explains from all of
them together: by its own noise alone, one of them that is hardly known would draw whoever is slow into the group.

Where no element is apart by itself, a whole layer may be: the mean of its m members is more certain by the root of m.
Then those of the fastest layers are the peers of all.

*Settled*: at least half of them are in the fastest group. Where fewer are, the others depart from these all the same,
but that it is not the few who are favoured, levels alone do not tell: the sentence names both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL
from e2c_dl.diagnosis.detection.series import CERTAINTY, FLOOR

APART = 3.0  # times the spread of the fastest group
LEAST_ERROR = 1e-6


@dataclass(frozen=True, kw_only=True)
class Peers:
    """The fastest group of some elements."""

    reference: float  # its median level
    apart: float  # how far above it an element must be to be no member of it
    fastest: tuple[int, ...]  # places of its members
    count: int

    @property
    def settled(self) -> bool:
        return 2 * len(self.fastest) >= self.count


def peers(levels: Sequence[float], errors: Sequence[float]) -> Peers:
    """The fastest group of elements of ``levels``, at least one, each with its standard error."""
    order = np.argsort(levels, kind="stable")
    ranked, error = np.asarray(levels)[order], np.maximum(LEAST_ERROR, np.asarray(errors)[order])
    weights = np.cumsum(error**-2.0)
    together, together_error = np.cumsum(ranked * error**-2.0) / weights, weights**-0.5
    beyond = ranked[1:] - together[:-1] > CERTAINTY * np.hypot(error[1:], together_error[:-1])
    gaps = np.flatnonzero(beyond & (np.diff(ranked) > FLOOR))
    members = order[: int(gaps[0]) + 1 if len(gaps) else len(order)]
    own = np.asarray(levels)[members]
    reference = float(np.median(own))
    spread = float(np.median(np.abs(own - reference))) / MAD_OF_NORMAL if len(own) > 2 else 0.0
    apart = max(APART * spread, CERTAINTY * float(np.median(np.asarray(errors)[members])) / np.sqrt(len(own)))
    return Peers(reference=reference, apart=float(apart), fastest=tuple(sorted(members.tolist())), count=len(order))


def peers_by_layers(levels: Sequence[float], errors: Sequence[float], layers: Sequence[Hashable]) -> Peers:
    """The same of elements of ``layers``, of which some may be slower as a whole, though no element shows it alone."""
    found = peers(levels, errors)
    of_layers = [np.flatnonzero([each == layer for each in layers]) for layer in dict.fromkeys(layers)]
    if len(found.fastest) < len(levels) or len(of_layers) == 1:
        return found
    own, error = np.asarray(levels), np.asarray(errors)
    means = [float(own[places].mean()) for places in of_layers]
    left = np.concatenate([own[places] - mean for places, mean in zip(of_layers, means, strict=True)])
    apart = float(np.sqrt((left**2).sum() / max(1, len(own) - len(of_layers))))  # members of one layer, by themselves
    mean_errors = [
        max(float(np.sqrt((error[places] ** 2).mean())), apart) / float(np.sqrt(len(places))) for places in of_layers
    ]
    places = np.concatenate([of_layers[layer] for layer in peers(means, mean_errors).fastest])
    fastest = peers(own[places].tolist(), error[places].tolist())
    return replace(fastest, fastest=tuple(sorted(places[[*fastest.fastest]].tolist())), count=len(own))
