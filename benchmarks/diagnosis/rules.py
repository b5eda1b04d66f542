"""Rules in use elsewhere, written anew from what their documentation says, on the same traces: whom each names.

::

    NVRx        relative score of a section (data, forward, backward, step): the least median of any rank / its own;
                below 0.75: a straggler         nvidia.github.io/nvidia-resiliency-ext, straggler_det/usage_guide
    TraceML     the rank that waits least in the synchronised phase (backward and the exchange that it hides) against
                the upper median one: the gap, as a part of that one's iteration, at least 10 %; a cause is named if one
                phase of the first explains 80 % of the gap      traceopt-ai/traceml, docs: rank-straggler-policy
    TraceLens   pct_arrived_last: the rank that comes last to most exchanges; here, if that is more than half of them
                rocm.docs.amd.com/projects/tracelens, how-to/nccl-analysis
    S_w         all computing as long as in the mean, all exchanges as in the median, but this worker's as they were;
                T / T_ideal at least MATERIAL_SPEEDUP           Lin et al., OSDI'25, Eq. (4), for data parallelism alone

None of them can name a link, and none knows what was designed. An exchange here is an iteration's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP
from e2c_dl.trace.model import Phase, Trace

NVRX_SCORE = 0.75
LEAST_SECTION = 0.01  # of an iteration
TRACEML_WARNING = 0.10
TRACEML_CAUSE = 0.80
TRACELENS_SHARE = 0.5

Doubles = npt.NDArray[np.float64]


class PerIteration:
    """Seconds of every rank in every iteration that all finished, by phase; shapes (ranks, iterations)."""

    def __init__(self, trace: Trace) -> None:
        self.hosts = trace.hosts
        self._spans = [rank.spans for rank in trace.ranks]
        self.count = min(int((own["phase"] == Phase.ITERATION).sum()) for own in self._spans)
        self.whole = self.of(Phase.ITERATION)

    def of(self, *phases: Phase) -> Doubles:
        return np.array([self._sum(own, phases) for own in self._spans])

    def ready(self) -> Doubles:
        """When each rank's last bucket was computed, in seconds of the trace."""
        found = np.full((len(self._spans), self.count), -np.inf)
        for row, own in enumerate(self._spans):
            backward = self._of_iterations(own[own["phase"] == Phase.BACKWARD])
            np.maximum.at(found[row], backward["iteration"], backward["end_ns"] / 1e9)
        return found

    def _sum(self, own: npt.NDArray[np.void], phases: Iterable[Phase]) -> Doubles:
        chosen = self._of_iterations(own[np.isin(own["phase"], sorted(phases))])
        lasted_s = (chosen["end_ns"] - chosen["start_ns"]) / 1e9
        return np.bincount(chosen["iteration"], weights=lasted_s, minlength=self.count).astype(np.float64)

    def _of_iterations(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        return spans[(spans["iteration"] >= 0) & (spans["iteration"] < self.count)]


def nvrx(times: PerIteration) -> list[str]:
    """Hosts of which one section scores below NVRX_SCORE."""
    found: set[str] = set()
    for phase in (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.STEP):
        medians = np.median(times.of(phase), axis=1)
        if medians.max() < LEAST_SECTION * np.median(times.whole):  # nothing there that could be slow
            continue
        score = medians.min() / np.maximum(medians, 1e-12)
        found |= {host for host, own in zip(times.hosts, score, strict=True) if own < NVRX_SCORE}
    return sorted(found)


def traceml(times: PerIteration) -> list[str]:
    """The host that the others wait for, if they do."""
    culprit, victim, gap = _gap(times)
    return [times.hosts[culprit]] if gap >= TRACEML_WARNING * times.whole[victim].mean() else []


def traceml_with_cause(times: PerIteration) -> list[str]:
    """The same, where data or forward of that host explains TRACEML_CAUSE of the gap."""
    culprit, victim, gap = _gap(times)
    excess = [np.subtract(*times.of(phase)[[culprit, victim]].mean(axis=1)) for phase in (Phase.DATA, Phase.FORWARD)]
    return traceml(times) if gap > 0 and max(excess) >= TRACEML_CAUSE * gap else []


def _gap(times: PerIteration) -> tuple[int, int, float]:
    """(who waits least, the upper median, how much longer the second is in the synchronised phase, per iteration)."""
    visible = (times.whole - times.of(Phase.DATA, Phase.FORWARD, Phase.STEP)).mean(axis=1)
    order = np.argsort(visible, kind="stable")
    culprit, victim = int(order[0]), int(order[len(order) // 2])
    return culprit, victim, float(visible[victim] - visible[culprit])


def tracelens(times: PerIteration) -> list[str]:
    """The host that comes last to most exchanges."""
    last = np.bincount(np.argmax(times.ready(), axis=0), minlength=len(times.hosts)) / times.count
    return [times.hosts[int(np.argmax(last))]] if last.max() > TRACELENS_SHARE else []


def s_w(times: PerIteration) -> list[str]:
    """Hosts that alone, all others ideal, would have slowed the run down."""
    computing = times.of(Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.STEP)
    exchange_s = float(np.median(np.maximum(0.0, times.whole - computing)))
    ideal_s = float(computing.mean())
    alone = (np.maximum(computing, ideal_s) + exchange_s).mean(axis=1) / (ideal_s + exchange_s)
    return [host for host, slowdown in zip(times.hosts, alone, strict=True) if slowdown >= MATERIAL_SPEEDUP]


RULES: Mapping[str, Callable[[PerIteration], list[str]]] = {
    "NVRx": nvrx, "TraceML": traceml, "TraceML, cause named": traceml_with_cause, "TraceLens": tracelens, "S_w": s_w,
}  # fmt: skip


def named_by_rules(trace: Trace) -> dict[str, tuple[str, ...]]:
    """Rule -> the hosts that it names in ``trace``."""
    times = PerIteration(trace)
    return {name: tuple(rule(times)) for name, rule in RULES.items()}
