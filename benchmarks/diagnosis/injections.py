"""Departures that a run of the campaign meets: what, of whom, how much, and when; diagnosis is told nothing of them.

::

    PERSISTENT   ████████████████     from the beginning to the end
    LAST_THIRD   ----------██████     from two thirds of the undisturbed run on
    ONCE         -----███--------     one window
    PERIODIC     --██---██---██--     the same window again and again
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.model import Phase


class What(Enum):
    """Part of a host or link that is injured."""

    COMPUTE = "compute"  # forward and backward
    DATA = "data"
    STEP = "step"
    RATE = "rate"
    DELAY = "delay"
    LOSS = "loss"

    @property
    def phases(self) -> frozenset[Phase]:
        """The phases of a host that take longer; none of a link."""
        return _PHASES.get(self, frozenset())

    @property
    def of_host(self) -> bool:
        return bool(self.phases)


_PHASES = {
    What.COMPUTE: frozenset({Phase.FORWARD, Phase.BACKWARD}),
    What.DATA: frozenset({Phase.DATA}),
    What.STEP: frozenset({Phase.STEP}),
}


class When(Enum):
    """Stretch of the run in which it is in force."""

    PERSISTENT = "persistent"
    LAST_THIRD = "last third"
    ONCE = "once"
    PERIODIC = "periodic"


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One culprit: a host, a directed link, a shared line, or all hosts or links of a layer together."""

    what: What
    when: When
    factor: float  # how many times slower; of a delay and a loss what it is asked to be comparable to
    amount: float  # what is put in force: the factor, or seconds of delay, or the fraction of segments lost
    hosts: tuple[str, ...] = ()
    links: tuple[Pair, ...] = ()
    shared: str | None = None  # the name of the bottleneck whose rate is cut
    layer: str | None = None  # it is all of this layer
    begin: float = 0.0  # as parts of the undisturbed run's time
    length: float = 1.0  # of one window
    period: float = 0.0  # from one window to the next

    def during(self, run_s: float, slowed: float, normal: float = 1.0) -> Schedule:
        """``slowed`` in its windows, ``normal`` outside, for an undisturbed run of ``run_s``."""
        begin_s, length_s, period_s = self.begin * run_s, self.length * run_s, self.period * run_s
        match self.when:
            case When.PERSISTENT:
                return Schedule.constant(slowed)
            case When.LAST_THIRD:
                return Schedule(points=((0.0, normal), (begin_s, slowed)))
            case When.ONCE:
                return Schedule(points=((0.0, normal), (begin_s, slowed), (begin_s + length_s, normal)))
            case When.PERIODIC:
                return Schedule(points=((0.0, normal), (period_s - length_s, slowed)), period_s=period_s)

    def onset_s(self, run_s: float) -> float:
        """When it begins first."""
        return (self.period - self.length if self.when is When.PERIODIC else self.begin) * run_s

    def changed(self, link: Link) -> Link:
        """``link`` while it is in force."""
        match self.what:
            case What.RATE:
                return link.slowed(1 / self.amount)
            case What.DELAY:
                return replace(link, delay_s=link.delay_s + self.amount)
            case What.LOSS:
                return replace(link, loss=self.amount)
            case _:
                return link

    def __str__(self) -> str:
        whom = f"layer {self.layer}" if self.layer else self.shared or ", ".join(self.names)
        much = {What.DELAY: f"+{self.amount * 1e3:.0f} ms", What.LOSS: f"{self.amount:.1%}"}
        return f"{self.what.value} of {whom} {much.get(self.what, f'x {self.amount:g}')}, {self.when.value}"

    @property
    def names(self) -> tuple[str, ...]:
        """What a report may name it by: its hosts, its links, or the line that they share."""
        if self.shared is not None:
            return (self.shared,)
        return (*self.hosts, *(f"{src} -> {dst}" for src, dst in self.links))
