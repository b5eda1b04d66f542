"""Design of one run over its seconds, as the scenario designed it: rates, delays, shares and slowness.

::

    Reference (schedules by name) --> Design (values that hold, from training's beginning to its end)
                                     |-- link a -> b: its own rate, its delay
                                     |-- shared bottleneck: its capacity
                                     '-- host: times slower than a host of factor 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.shown.sharing import left_for
from e2c_dl.diagnosis.window import began_ns
from e2c_dl.scenario.model import LinkSchedule
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Bottleneck, Pair
from e2c_dl.trace.model import Phase, Trace

FORESEEN = 20.0
"""Times the run: what is simulated with something changed goes by schedules for so long, then by their last value."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """``reference`` from ``began_ns`` on, the trace's time at which training began, for ``seconds``."""

    reference: Reference
    began_ns: int
    seconds: float
    judged_s: float  # how long those iterations lasted that the trace holds: of a run's last ones, not since it began

    @classmethod
    def of(cls, trace: Trace, reference: Reference) -> Design:
        """The design of the run that left ``trace``, in which every rank has an iteration."""
        spans = [rank.of(Phase.ITERATION) for rank in trace.ranks]
        begun_ns = began_ns(trace)
        first_ns = min(int(each["start_ns"].min()) for each in spans)
        ended_ns = max(int(each["end_ns"].max()) for each in spans)
        seconds, judged_s = (ended_ns - begun_ns) / 1e9, (ended_ns - first_ns) / 1e9
        return cls(reference=reference, began_ns=begun_ns, seconds=seconds, judged_s=judged_s)

    @property
    def foreseen(self) -> Design:
        """This design for far longer than the run took: what is slower meets what its schedules have for later."""
        return replace(self, seconds=FORESEEN * self.seconds)

    @property
    def some(self) -> bool:
        """Whether anything was designed."""
        return self.reference.network_emulated or self.of_hosts

    @property
    def of_hosts(self) -> bool:
        """Whether anything was designed of hosts."""
        return bool(self.reference.compute_factors)

    def alone(self, pair: Pair) -> Designed:
        """Design of a link whose bottleneck, if it passes one, nobody else uses."""
        if not self.reference.network_emulated:
            return Designed()
        link, schedule = self.reference.topology.link(*pair), self.reference.schedules.links.get(pair, LinkSchedule())
        limited = schedule.rate_bps is not None or link.rate_bps is not None
        return Designed(
            own=self._held(schedule.rate_bps, link.rate_bps or 0.0) if limited else None,  # 0.0 is never held
            delay_s=self._held(schedule.delay_s, link.delay_s),
            jitter_s=link.delay_s if link.reorder else link.jitter_s,  # segments that overtake skip the delay
            loss=self._held(schedule.loss, link.loss), burst=link.burst if schedule.loss is None else None,
        )  # fmt: skip

    def factor(self, host: str) -> Piecewise:
        """How many times slower than a host of factor 1 ``host`` is."""
        return self._held(self.reference.compute_factors.get(host), 1.0)

    def speed(self, host: str) -> Piecewise:
        """Seconds of work, on a host of factor 1, that ``host`` does per second: they add up, factors do not."""
        return self.factor(host).mapped(np.reciprocal)

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        return self.reference.topology.bottlenecks if self.reference.network_emulated else ()

    @property
    def line_of(self) -> Mapping[Pair, str]:
        """Link -> the name of the bottleneck that it passes, if it passes one."""
        return {pair: each.name for each in self.bottlenecks for pair in each.links}

    def capacity(self, bottleneck: Bottleneck) -> Piecewise:
        """Bits per second that all links of ``bottleneck`` have together."""
        return self._held(self.reference.schedules.bottlenecks.get(bottleneck.name), bottleneck.rate_bps)

    def shared(
        self, bottleneck: Bottleneck, carried: Sequence[ObservedLink], times: float = 1.0
    ) -> dict[Pair, Piecewise]:
        """Link of ``bottleneck`` that carried something -> what the others leave it, at ``times`` the capacity."""
        users = {each.pair: each for each in carried if each.pair in bottleneck.links}
        capacity = self.capacity(bottleneck)
        own = {pair: each.designed.own for pair, each in users.items() if each.designed.own is not None}
        busy = {pair: each.busy_s for pair, each in users.items()}
        return left_for(own, busy, capacity.mapped(lambda bps: bps * times)) if users else {}

    def with_shares(self, carried: Sequence[ObservedLink]) -> tuple[ObservedLink, ...]:
        """``carried``, of whose links each has what its bottleneck left it."""
        left = {pair: held for each in self.bottlenecks for pair, held in self.shared(each, carried).items()}
        return tuple(
            replace(each, designed=replace(each.designed, left=left[each.pair])) if each.pair in left else each
            for each in carried
        )

    def _held(self, schedule: Schedule | None, otherwise: float) -> Piecewise:
        return Piecewise.constant(otherwise) if schedule is None else Piecewise.of(schedule, self.seconds)
