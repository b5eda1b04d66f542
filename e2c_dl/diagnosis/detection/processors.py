"""What computing waited for a processor that others had, or a quota withheld: taken off each phase, judged by itself.

::

    rank 0  |FORWARD|BACKWARD|STEP|
    rank 1  |FORWARD|BACK...........WARD|STEP|     its iteration tells how long that was in all, not in which phase

In an iteration a phase waited for what it took beyond its usual, as far as all of them waited; for what is left, each
did in proportion. Usual is a quantile of what each took in all iterations, of all phases the same one: that at which
they add up to what iterations take without their waits. Of a phase that seldom waits it is what it mostly takes.

A host that waits for longer than its peers, beside what it computes, is named for that and not for its computing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.host_series import PHASES, HostSeries, begins_s, seconds_in, series_of
from e2c_dl.diagnosis.model import Part
from e2c_dl.trace.model import Phase, RankTrace
from e2c_dl.trace.warm_up import warm_up

LEAST_RAN = 0.01  # of its computing: for less it can not have had a processor
LEVELS = np.linspace(0.0, 0.5, 51)  # of quantiles: at the median nothing waits
OFTEN = 0.5  # of the iterations: of a part that is in fewer there is nothing to add up
EACH = tuple(part for part in PHASES if part is not Part.PROCESSOR)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """One host's waits for a processor, as on a host of factor 1; arrays are of shape (iterations,)."""

    waited_s: Doubles  # NaN: it is not known
    took_s: Doubles  # all that it computed, those waits included
    spent_s: Doubles  # the same, as slow as it is by design
    ran: Mapping[Part, Doubles]  # share of each part for which it had a processor

    @classmethod
    def of(cls, rank: RankTrace, design: Design) -> Kept | None:
        """Those of ``rank`` beyond what ``design`` has it wait, by a quota; None if its trace does not tell of any."""
        own = rank.of(Phase.ITERATION)
        told = own[(own["seq"] >= 0) & (own["iteration"] >= 0)]
        if not len(told):
            return None
        count = int(own["iteration"].max()) + 1
        waited_s = np.full(count, np.nan)
        waited_s[told["iteration"]] = told["seq"] / 1e6
        spent_s, took_s = (
            np.stack([seconds_in(rank, PHASES[part], count, by) for part in EACH]) for by in (None, design)
        )
        spent_s, whole_s = spent_s.sum(axis=0), took_s.sum(axis=0)
        waited_s = np.maximum(0.0, waited_s - (spent_s - whole_s))
        known = np.isfinite(waited_s) & (whole_s > 0)
        if not known.any():
            return None
        usual = waited_s[known].sum() / whole_s[known].sum()
        waits_s = np.minimum(np.where(known, waited_s, usual * whole_s), (1 - LEAST_RAN) * whole_s)
        ran = 1 - _share(_waits_of_parts(took_s, waits_s), took_s)
        return cls(waited_s=waited_s, took_s=whole_s, spent_s=spent_s, ran=dict(zip(EACH, ran, strict=True)))


def _waits_of_parts(took_s: Doubles, waits_s: Doubles) -> Doubles:
    """For how long each part waited, (parts, iterations), of what all of them took, and waited for together."""
    beyond_s = np.maximum(0.0, took_s - _usual_s(took_s, waits_s)[:, None])
    first_s = beyond_s * np.minimum(1.0, _share(waits_s, beyond_s.sum(axis=0)))
    left_s = took_s - first_s
    return np.asarray(first_s + left_s * _share(waits_s - first_s.sum(axis=0), left_s.sum(axis=0)))


def _usual_s(took_s: Doubles, waits_s: Doubles) -> Doubles:
    """What each part takes while it has a processor, (parts,)."""
    after = warm_up(len(waits_s))
    took_s, waits_s = took_s[:, after:], waits_s[after:]
    of_parts = np.stack([np.quantile(each[each > 0], LEVELS) if each.any() else 0 * LEVELS for each in took_s])
    often = (took_s > 0).mean(axis=1) >= OFTEN
    computed_s = np.median(took_s[often].sum(axis=0) - waits_s)
    place = np.searchsorted(of_parts[often].sum(axis=0), computed_s)
    return np.asarray(of_parts[:, min(int(place), len(LEVELS) - 1)])


def _share(part: Doubles, whole: Doubles) -> Doubles:
    """part / whole; 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def processor_series(
    ranks: Sequence[RankTrace], kept: Mapping[str, Kept], design: Design, left_out: Mapping[str, Collection[int]]
) -> Iterator[HostSeries]:
    """How many times longer each host computes for its waits for a processor; nothing of one that tells of none.

    ``left_out``: host -> iterations that say nothing of it.
    """
    for rank in ranks:
        waits = kept.get(rank.host)
        if waits is None:
            continue
        own, count = rank.of(Phase.ITERATION), len(waits.waited_s)
        begun_s = begins_s(own, design, count)
        chosen = (waits.took_s > waits.waited_s) & np.isfinite(begun_s) & (np.arange(count) >= warm_up(count))
        chosen[[each for each in left_out.get(rank.host, ()) if each < count]] = False
        if not chosen.any():
            continue
        ran_s = np.maximum(waits.took_s - waits.waited_s, LEAST_RAN * waits.took_s)  # what is long waits for little
        longer = np.divide(waits.took_s, ran_s, out=np.ones(count), where=chosen)
        series = series_of(own, design, begun_s, longer, waits.spent_s, chosen)
        yield HostSeries(host=rank.host, part=Part.PROCESSOR, series=series, factors=np.ones(len(series)), spans=1)
