"""Batches of a run that is simulated again: of how many samples each gradient was, and what more of them take.

Where nothing else says what a gradient of another size takes, the changes of batches in the run do, for all hosts of
one hardware class alike (:mod:`e2c_dl.diagnosis.detection.batches`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl.diagnosis.detection.batches import PerSample, Sized
from e2c_dl.diagnosis.references import UNKNOWN
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost
from e2c_dl.trace.model import Phase, RankTrace


@dataclass(frozen=True, kw_only=True)
class ByChanges:
    """What a gradient takes, in samples of the pivot: a value, so that worlds can be sent to processes.

    By samples, as what nothing is known of does: so hosts of all classes compare.
    """

    per_sample: PerSample

    def __call__(self, samples: int) -> float:
        return self.per_sample.pivot * float(np.exp(self.per_sample.log(samples)))


def recorded_batches(rank: RankTrace, begun_ns: Sequence[int]) -> list[int]:
    """Samples of its gradients, begun at ``begun_ns``, rising; empty, if its trace does not tell."""
    spans = np.sort(rank.of(Phase.FORWARD), order="start_ns", kind="stable")
    place = np.searchsorted(spans["start_ns"], begun_ns)  # of some, spans may be lost
    if not len(spans) or (spans["seq"] < 1).any() or (place >= len(spans)).any():
        return []
    found: list[int] = spans["seq"][place].tolist()
    return found


def by_changes(hosts: Sequence[MeasuredHost], hardware: Mapping[str, str]) -> tuple[MeasuredHost, ...]:
    """``hosts``, of which batches of other sizes take what changes of batches on their ``hardware`` tell."""
    alike: dict[Hashable, list[MeasuredHost]] = {}
    for host in hosts:
        kind = hardware.get(host.name, "")
        alike.setdefault(host.name if kind == UNKNOWN else (kind,), []).append(host)
    told: dict[str, ByChanges] = {}
    for group in alike.values():
        if any(len({samples for samples, _ in host.gradients}) > 1 for host in group):
            by = ByChanges(per_sample=PerSample.of([_sized(host) for host in group]))
            told |= {host.name: by for host in group}
    return tuple(replace(host, seconds_of=told[host.name]) if host.name in told else host for host in hosts)


def _sized(host: MeasuredHost) -> Sized:
    took_ns = [max(1.0, float(pieces[-1].end_ns)) for _, pieces in host.gradients]
    samples = np.array([of for of, _ in host.gradients], dtype=np.float64)
    return Sized(np.arange(len(samples), dtype=np.float64), np.log(np.array(took_ns)), samples)
