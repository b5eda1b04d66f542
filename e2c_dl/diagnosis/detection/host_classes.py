"""Comparable hosts in one part: of one hardware class, and of one batch size, or of what batches of any size take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.batches import PerSample, nearest
from e2c_dl.diagnosis.detection.host_series import AT_ONCE_S, BY_BATCH, HostSeries
from e2c_dl.diagnosis.detection.series import CERTAINTY
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.references import UNKNOWN

ALIKE = 0.1  # as logarithms: sizes of batches that are no further apart count as one
NOT_KNOWN = ("", UNKNOWN)
LEAST_AT_ONCE = 2  # hosts that tell that it may be
ITSELF = "at its fastest it took"


@dataclass(frozen=True, kw_only=True, eq=False)
class HostClass:
    """Hosts that are comparable in one part; where batches change, as if all of them were of one size, the pivot."""

    alike: Sequence[HostSeries]
    per_sample: PerSample | None = None  # None: batches do not change, or this part does not go by them
    first: Mapping[str, int] = field(default_factory=dict)  # host -> samples that it began with
    known: bool = True  # whether it is known of what hardware they are
    at_once: int = 0  # others, who did it too, and took no time for it

    @classmethod
    def of(cls, several: Sequence[HostSeries], design: Design) -> HostClass:
        """That of ``several``, as they were measured."""
        sized = [each.sized for each in several]
        known = [each for each in sized if each is not None]
        if not known or len(known) < len(sized):
            return cls(alike=several)
        per_sample = PerSample.of(known)
        alike = [each.of_pivot(per_sample) for each in several]
        return cls(alike=alike, per_sample=per_sample, first=design.reference.batch_sizes)

    @property
    def usually_at_once(self) -> bool:
        """Whether as many others, and enough, take no time for it."""
        return self.at_once >= max(LEAST_AT_ONCE, len(self.alike))

    def held_to(self, base: float) -> tuple[float, str]:
        """(what a host that is itself at ``base`` is held to, as a logarithm; what that is, for people).

        Itself, or others who take no time for it.
        """
        if not self.usually_at_once or base <= np.log(AT_ONCE_S):
            return base, ITSELF
        return float(np.log(AT_ONCE_S)), f"{self.at_once} others of that hardware take less than"

    def of_first(self, host: str) -> float:
        """Logarithm of what the first batches of ``host`` take beside one of the pivot."""
        if self.per_sample is None:
            return 0.0
        return float(self.per_sample.log(self.first.get(host, self.per_sample.pivot)))

    def nearest(self, each: HostSeries, others: Sequence[HostSeries]) -> list[int]:
        """Places of those of ``others``, at least one, whose batches are the nearest in size to those of ``each``."""
        if each.samples is None:
            return [*range(len(others))]
        own = np.log(np.median(each.samples))
        apart = [abs(float(np.log(np.median(other.samples)) - own)) for other in others if other.samples is not None]
        return [place for place, far in enumerate(apart) if far <= min(apart) + ALIKE]

    def unsure(self, each: HostSeries, beside: Sequence[HostSeries] = ()) -> float:
        """How far off, as a logarithm, ``each`` may be for the sizes of its batches alone.

        Held to the one ``beside`` it whose batches are the nearest in size; of none, to how it usually is itself.
        """
        usual = [float(np.median(other.samples)) for other in beside or [each] if other.samples is not None]
        return self._unsure(each, None if each.samples is None else nearest(float(np.median(each.samples)), usual))

    def unsure_of_first(self, each: HostSeries) -> float:
        """The same, held to its first batches."""
        return self._unsure(each, self.first.get(each.host))

    def error(self, each: HostSeries) -> float:
        """As a standard error, how far off ``each`` may be for the sizes of its batches alone, held to the pivot."""
        return self._unsure(each) / CERTAINTY

    def _unsure(self, each: HostSeries, size: float | None = None) -> float:
        """Held to batches of ``size``; None: of the pivot."""
        if self.per_sample is None or each.samples is None:
            return 0.0
        return self.per_sample.unsure(each.samples, size or self.per_sample.pivot)

    @property
    def fastest_s(self) -> Mapping[str, float]:
        """Host -> seconds that the fastest host takes for such batches as this one began with, at a factor of 1."""
        if self.per_sample is None:
            least_s = min(float(np.median(each.series.spent_s)) / each.factor for each in self.alike)
            return {each.host: least_s for each in self.alike}
        least = min(float(np.median(each.series.values - np.log(each.factors))) for each in self.alike)
        return {each.host: float(np.exp(least + self.of_first(each.host))) for each in self.alike}


def classes(
    every: Sequence[HostSeries], design: Design, at_once: Collection[str] = ()
) -> list[HostClass]:  # fmt: skip
    """Comparable ones together: hosts that do not say what they are, each by itself.

    ``at_once``: hosts that have no series, since they took no time for what they did.
    """
    hardware_of, batches = design.reference.hardware, design.reference.batch_sizes
    known = [host for host in at_once if hardware_of.get(host, "") not in NOT_KNOWN]
    done: list[tuple[str, ...]] = [(hardware_of[host], str(batches.get(host, 1))) for host in known]
    found: dict[tuple[str, ...], list[HostSeries]] = {}
    for each in every:
        hardware = hardware_of.get(each.host, "")
        batch = batches.get(each.host, 1)
        same: tuple[str, ...] = (hardware,)
        if hardware == UNKNOWN:
            same = (hardware, each.host)
        elif each.part in BY_BATCH and each.samples is None:
            same = (hardware, str(batch))
        elif each.part is Part.REDUCE:
            same = (hardware, str(each.spans))
        found.setdefault(same, []).append(each)
    return [
        replace(HostClass.of(alike, design), known=same[0] not in NOT_KNOWN, at_once=done.count(same))
        for same, alike in found.items()
    ]
