"""Plots of each changing element as values: the schedule requested, and what training's own trace measured.

::

    link        wire bits of a message / the time it occupied the link          messages of at least 32 KiB
    bottleneck  wire bits of its links' messages, stacked by link: per second, and a few typical iterations closer
    host        time of a gradient / (sum of agreed segments / speed at factor 1)
    late host   time of a batch, or of a step, beside by how much it is made late
    heat        the emulated temperature, as logged, and the limit from which the host throttles itself

A bottleneck has plots whether its rate changes or not: what its links share is asked for, too. Changing links that
carried no such message are told of in a sentence, as long as another one did.

The value requested is the one in force, from the logs of changes; before a first change it is the scenario's, where the
run left one. Seconds count from the beginning of training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.archive.records import ComputeFacts
from e2c_dl.diagnosis.carried import (
    ARROW,
    LARGE_BYTES,
    Carried,
    Observed,
    Points,
    lasted,
    observed,
    share_sentences,
    shares,
    together,
)  # fmt: skip
from e2c_dl.diagnosis.shown.changes import LATE, Stretch, in_order, naming, sentences, steps, stretches, whom
from e2c_dl.dynamics.speed import HostSpeed
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.changes import Change, ChangeInForce
from e2c_dl.trace.model import Phase, Trace

BULK_OF_RATES = 0.9  # a message that was read late makes the next one look as fast as memory
CLOSE_ITERATIONS, CLOSE_STEPS = 3, 150  # what a bottleneck's closer look lasts, and its steps
OF_HOSTS = (Change.COMPUTE, Change.PAUSE, Change.KILL, Change.THROTTLE, Change.RECOVER)
LASTED = {Change.DATA: Phase.DATA, Change.STEP: Phase.STEP}
SWITCHES = {Change.THROTTLE: "throttled", Change.RECOVER: "recovered"}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something that happened at a moment; ``value`` None: to the whole element."""

    at_s: float
    word: str
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot. ``requested`` are steps: each value holds until the next; NaN: no limit.

    Where ``measured`` has ``shares``, both are steps too.
    """

    title: str
    unit: str
    requested: Points = ()
    measured: Points = ()
    joined: bool = False  # measured values are one line
    bulk: float = 0.98  # of measured values that are not joined: the axis reaches so many of them
    shares: Mapping[str, Points] = field(default_factory=dict)  # name -> its part of ``measured``, at the same moments
    window_s: tuple[float, float] | None = None  # nothing else is shown; None: the whole run
    bands: Sequence[tuple[float, float]] = ()  # (begin, end) of cuts and pauses
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, kw_only=True)
class Changed:
    """Everything that changed or was shared, as plots and as sentences; the plots end at ``end_s``."""

    panels: tuple[Panel, ...]
    sentences: tuple[str, ...]
    end_s: float


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What one run left of its changes; ``scenario`` is None, and ``trace`` without ranks, if the run left none."""

    trace: Trace
    changes: Sequence[ChangeInForce]
    scenario: Scenario | None = None
    compute: Mapping[str, ComputeFacts] = field(default_factory=dict)  # host -> how it was paced, of its facts
    heat: Mapping[str, Mapping[str, npt.NDArray[np.float64]]] = field(default_factory=dict)  # host -> its heat.csv

    def changed(self) -> Changed | None:
        """What changed or was shared; None if nothing did and was, or no worker began to train.

        Raises: AnalysisError, if the trace contradicts itself.
        """
        bottlenecks = self.scenario.topology.bottlenecks if self.scenario else ()
        if not (self.changes or bottlenecks) or not self._end_s:
            return None
        return Changed(
            panels=(*self._bottlenecks(), *self._links(), *self._hosts(), *self._late()),
            sentences=(*share_sentences(bottlenecks, self._seen), *sentences(self.changes), *self._not_plotted()),
            end_s=self._end_s,
        )

    @cached_property
    def _seen(self) -> Observed:
        return observed(self.trace, self._delays_s())

    @cached_property
    def _end_s(self) -> float:
        return max([self._seen.end_s, *(change.in_force_s for change in self.changes)])

    def _of(self, what: Change, name: str) -> list[ChangeInForce]:
        return [change for change in self.changes if change.what is what and change.whom == name]

    def _delays_s(self) -> dict[Pair, float]:
        """The least that is ever requested: a message never occupies its link before it can have arrived there."""
        links = {} if self.scenario is None else self.scenario.emulated_topology().links
        least = {pair: link.delay_s for pair, link in links.items()}
        for change in in_order(self.changes, Change.LINK):
            pair, delay_s = _pair(change.whom), float(change.value.get("delay_s", 0.0))
            least[pair] = min(least.get(pair, delay_s), delay_s)
        return least

    def _links(self) -> Iterator[Panel]:
        for name in self._plotted:
            own, pair = self._of(Change.LINK, name), _pair(name)
            before = None if self.scenario is None else self.scenario.emulated_topology().link(*pair)
            bands = self._bands(stretches(own))
            rate = _requested([_stopped(change) for change in own], "rate_bps", 1e-6, before)
            others = {"delay, one way": ("ms", _requested(own, "delay_s", 1e3, before))}
            others["loss"] = "%", _requested(own, "loss", 100, before)
            changing = {what: each for what, each in others.items() if _varies(each[1])}
            if _varies(rate) or bands or not changing:
                rates = self._seen.carried[pair].rates() if pair in self._seen.carried else ()
                shown = Panel(title=f"{name}: rate", unit="Mbit/s", requested=rate, measured=rates, bands=bands)
                yield replace(shown, bulk=BULK_OF_RATES)
            for what, (unit, requested) in changing.items():
                yield Panel(title=f"{name}: {what}", unit=unit, requested=requested, bands=bands)

    @cached_property
    def _plotted(self) -> Sequence[str]:
        """The changing links that carried large messages; all, if none did."""
        names, carried = whom(self.changes, Change.LINK), self._seen.carried
        used = [name for name in names if (own := carried.get(_pair(name))) is not None and own.large.any()]
        return used or names  # a run without traffic still shows what was requested

    def _not_plotted(self) -> Iterator[str]:
        left_out = [name for name in whom(self.changes, Change.LINK) if name not in self._plotted]
        if left_out:
            large = formatting.size(LARGE_BYTES)
            yield f"{naming(left_out)}: not plotted, as no message of at least {large} went there"

    def _bottlenecks(self) -> Iterator[Panel]:
        known = {} if self.scenario is None else {each.name: each for each in self.scenario.topology.bottlenecks}
        for name in sorted({*known, *whom(self.changes, Change.BOTTLENECK)}):
            shared, seen = known.get(name), self._seen
            rates = steps(self._of(Change.BOTTLENECK, name), "rate_bps", None if shared is None else shared.rate_bps)
            requested = [(moment, rate / 1e6) for moment, rate in rates]
            bare = Panel(title=f"bottleneck {name}: rate", unit="Mbit/s", requested=requested)
            links = shares(shared, seen) if shared else {}
            yield _filled(bare, links, np.arange(math.floor(seen.end_s) + 1.0), "all links together, per second")
            length_s = min(CLOSE_ITERATIONS * seen.iteration_s, seen.end_s)
            if links and length_s:
                window_s = together(links.values()).typical_s(length_s, seen.end_s)
                edges_s = np.linspace(*window_s, CLOSE_STEPS + 1)  # fine enough to see single messages
                close = _filled(bare, links, edges_s, f"a typical {formatting.seconds(length_s)}")
                yield replace(close, window_s=window_s)

    def _hosts(self) -> Iterator[Panel]:
        for host in whom(self.changes, *OF_HOSTS):
            own = in_order([change for change in self.changes if change.whom == host], *OF_HOSTS, Change.RESUME)
            bands = self._bands(stretches(own))
            kills = [Mark(at_s=change.in_force_s, word="killed") for change in own if change.what is Change.KILL]
            slowness, heat = self._slowness(own, host), self.heat.get(host, {})
            if _varies(slowness) or bands or kills or heat:
                yield Panel(
                    title=f"{host}: time of a gradient", unit="× at factor 1", requested=slowness,
                    measured=self._relative(host), bands=bands, marks=kills,
                )  # fmt: skip
            if heat:
                line = list(zip(heat["training_s"].tolist(), heat["temperature_c"].tolist(), strict=True))
                device = None if self.scenario is None else self.scenario.schedules.thermal.get(host)
                yield Panel(
                    title=f"{host}: temperature, and the limit", unit="°C", measured=line, joined=True,
                    requested=[] if device is None else [(0.0, device.limit_c)], marks=_switches(own),
                )  # fmt: skip

    def _late(self) -> Iterator[Panel]:
        """Of hosts whose batches come later, and whose steps take longer."""
        ranks = self.trace.ranks if self._seen.end_s else ()  # else nobody knows when training began
        for kind, noun in LATE.items():
            for host in whom(self.changes, kind):
                later_s = [(moment, value * 1e3) for moment, value in steps(self._of(kind, host), "later_s", 0.0)]
                spans = [lasted(each, LASTED[kind], self._seen.began_ns) for each in ranks if each.host == host]
                took = [(moment, seconds * 1e3) for own in spans for moment, seconds in own]
                yield Panel(
                    title=f"{host}: {noun}, and how much later they are asked to be", unit="ms",
                    requested=later_s, measured=took,
                )  # fmt: skip

    def _slowness(self, own: Sequence[ChangeInForce], host: str) -> Points:
        """Times slower than a host of factor 1, heat included where the scenario tells what throttling does."""
        device = None if self.scenario is None else self.scenario.schedules.thermal.get(host)
        if not any(change.what is Change.COMPUTE for change in own):
            return [] if self.scenario is None else [(0.0, self.scenario.emulated_factor(host))]
        made: list[tuple[float, float]] = []
        factor, throttled = math.nan, 1.0
        for change in own:
            if change.what is Change.COMPUTE:
                factor = float(change.value["factor"])
            elif change.what in SWITCHES:
                throttled = device.factor if device is not None and change.what is Change.THROTTLE else 1.0
            made.append((change.in_force_s, factor * throttled))
        return made

    def _relative(self, host: str) -> Points:
        """Gradients' times over that of a host of factor 1; none of a host not paced, or whose batch changes."""
        compute = self.compute.get(host, ComputeFacts())
        agreed_s, speed = sum(compute.agreed_s), compute.speed
        trained = None if self.scenario is None else self.scenario.trained
        if self.scenario is None or not agreed_s or not speed or trained is None or trained.batching == "dynamic":
            return ()
        shortest_s = agreed_s / HostSpeed.of(self.scenario, host, speed).base
        return [(moment, lasted_s / shortest_s) for moment, lasted_s in self._seen.gradients.get(host, ())]

    def _bands(self, found: Iterable[Stretch]) -> list[tuple[float, float]]:
        return [(stretch.begun.in_force_s, min(stretch.end_s, self._end_s)) for stretch in found]


def _stopped(change: ChangeInForce) -> ChangeInForce:
    """``change``; of a link that it cuts, the rate is 0."""
    return replace(change, value={**change.value, "rate_bps": 0.0}) if change.value.get("down") else change


def _requested(changes: Sequence[ChangeInForce], key: str, scale: float, before: Link | None) -> Points:
    value = None if before is None else getattr(before, key)
    known = None if before is None else math.nan if value is None else float(value)
    return [(moment, number * scale) for moment, number in steps(changes, key, known)]


def _filled(bare: Panel, links: Mapping[str, Carried], edges_s: npt.NDArray[np.float64], how: str) -> Panel:
    """``bare`` with what ``links`` carried between ``edges_s``, if they carried anything at all."""
    title = f"{bare.title}, {how}"
    if not links or len(edges_s) < 2:
        return replace(bare, title=title)
    parts = {name: carried.steps(edges_s) for name, carried in links.items()}
    return replace(bare, title=title, measured=together(links.values()).steps(edges_s), joined=True, shares=parts)


def _switches(own: Sequence[ChangeInForce]) -> list[Mark]:
    hot = [(change, SWITCHES[change.what]) for change in own if change.what in SWITCHES]
    return [Mark(at_s=one.in_force_s, word=word, value=float(one.value["temperature_c"])) for one, word in hot]


def _varies(points: Points) -> bool:
    return len({value for _, value in points}) > 1


def _pair(name: str) -> Pair:
    src, _, dst = name.partition(ARROW)
    return src, dst
