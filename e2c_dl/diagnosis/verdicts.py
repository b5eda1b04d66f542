"""Verdicts on a training that goes on, for the training itself: who is slow now, by what its hosts have traced so far.

::

    spans, host by host --> GrowingSpans --> the last iterations --> observe --> who departs, and still does --> Verdict
                                             (window.py)
    link named before, and not used since    stays named: nothing says that it is well again
    link named before, used since            stays named as long as its last message was nearer to that than to design

A strategy that leaves a slow link alone takes away what the link is judged by; so what was named is remembered, and a
strategy that wants to know uses it now and then. All that departs is told, whatever it costs: what matters to a
strategy it knows itself. Pure: whoever holds a Judge says when to look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.detection.hosts import host_departures
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS
from e2c_dl.diagnosis.detection.series import WORTH
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import ElementKind
from e2c_dl.diagnosis.observed import Observed, observe
from e2c_dl.diagnosis.references import reference_of
from e2c_dl.diagnosis.window import growing, last_of
from e2c_dl.errors import AnalysisError
from e2c_dl.scenario.model import Scenario
from e2c_dl.strategies.base import Slow, Verdict
from e2c_dl.trace.model import ClockAlignment, RankTrace, Spans, Trace
from e2c_dl.trace.recording.growing import GrowingSpans
from e2c_dl.worlds.allotment import own_pace

FEWEST = 6
"""Iterations of every rank that a verdict needs: the first two warm up, and TCP learns how much links carry."""

EVERY_S = 1.0  # between two looks, in both worlds

LAST = 12
"""Iterations that it is given on, of the rank in the middle where ranks go at their own pace."""

Ranks = tuple[int, ...]


class Judge:
    """What is known of a training by now. ``emulation`` is how hosts and links are emulated, as in run.json.

    Clocks and facts of hosts may come late, or never.
    """

    def __init__(self, scenario: Scenario, emulation: Mapping[str, Any]) -> None:
        self._scenario, self._emulation = scenario, emulation
        self._own_pace = own_pace(scenario.training)
        hosts = [host.name for host in scenario.topology.ranks]
        self._hosts = {name: rank for rank, name in enumerate(hosts)}
        self._grown = [GrowingSpans(name) for name in hosts]
        self._clocks: list[ClockAlignment | None] = [None] * len(hosts)
        self._facts: dict[str, HostFacts | None] = dict.fromkeys(hosts)
        self._named: dict[Ranks, Slow] = {}
        self._firsts = [0] * len(hosts)
        self._judged = -1
        self.trained_s = 0.0  # at the last look that told something

    def add(self, rank: int, content: bytes) -> None:
        """``content`` is what came to the file of spans of ``rank``. Raises: ArchiveError, if it is none."""
        self._grown[rank].add(content)

    def aligned(self, rank: int, clock: ClockAlignment) -> None:
        """The clock of ``rank``, as it is known by now."""
        self._clocks[rank] = clock

    def is_host(self, rank: int, facts: HostFacts) -> None:
        """What the host of ``rank`` is."""
        self._facts[self._scenario.topology.ranks[rank].name] = facts

    def look(self, now_ns: int | None = None) -> Verdict | None:
        """Who is slow now; None if there is nothing new to judge, or too little. Nothing after ``now_ns`` is known."""
        finished = sum(each.finished for each in self._grown)
        if finished == self._judged or min(each.finished for each in self._grown) < FEWEST:
            return None
        self._judged = finished
        trace = self._cut(self._trace(now_ns))
        if trace is None:
            return None
        reference = reference_of(self._scenario, trace, (), self._emulation, self._facts)
        try:
            observed = observe(trace, reference, by_luck=False)
            departing = {each.ranks: each for each in self._departing(observed)}
        except AnalysisError:  # of so small a piece: the next look has another
            return None
        named: dict[Ranks, Slow] = {ranks: slow for ranks, slow in self._named.items() if len(ranks) == 2} | departing
        still = (self._now(slow, observed) for slow in named.values())
        self._named = {each.ranks: each for each in still if each is not None}
        self.trained_s = observed.windows.until_s
        return Verdict(slow=tuple(self._named[ranks] for ranks in sorted(self._named)))

    def _trace(self, now_ns: int | None) -> Trace:
        """All that is kept, on one clock."""
        ranks, began_ns = [], {}
        for number, (grown, host) in enumerate(zip(self._grown, self._scenario.topology.ranks, strict=True)):
            clock = self._clocks[number] or ClockAlignment()
            spans = _on_reference(grown.spans, clock)
            if now_ns is not None:
                spans = spans[spans["end_ns"] <= now_ns]
            ranks.append(RankTrace(rank=number, host=host.name, layer=host.layer, spans=spans, clock=clock))
            began_ns[host.name] = grown.began_ns or 0
        return growing(ranks, began_ns, [host for host, rank in self._hosts.items() if self._clocks[rank] is None])

    def _cut(self, trace: Trace) -> Trace | None:
        """The iterations to judge by; what is older is forgotten. None: some rank has too few in ``trace``."""
        found = last_of(trace, last=LAST, fewest=FEWEST, own_pace=self._own_pace)
        if found is None:
            return None
        cut, firsts = found
        self._firsts = [firsts[host] for host in self._hosts]
        for grown, first in zip(self._grown, self._firsts, strict=True):
            grown.forget_before(first, by_time=self._own_pace)
        return cut

    def _departing(self, observed: Observed) -> Iterator[Slow]:
        """Who departs in the last window of what was ``observed``."""
        trace, design = observed.trace, observed.design
        throttled = self._scenario.schedules.thermal  # slow by design when hot, which nobody tells while training
        hosts = host_departures(trace, design, observed.left_out, {*observed.untrusted.within, *throttled})
        least_s = WORTH * design.judged_s
        for each in (*hosts.departures, *observed.links.departures):
            if each.excess_s >= least_s and each.when.ends_s[-1] > observed.windows.begins_s[-1]:
                yield from self._slow(each)

    def _slow(self, departure: Departure) -> Iterator[Slow]:
        """``departure`` as ranks are told it: a shared line as each of its links."""
        element = departure.element
        pairs: Sequence[tuple[str, ...]]
        match element.kind:
            case ElementKind.SHARED:
                lines = self._scenario.topology.bottlenecks
                pairs = [pair for line in lines if line.name == element.src for pair in line.links]
            case ElementKind.LINK:
                pairs = [(element.src, element.dst or "")]
            case _:
                pairs = [(element.src,)]
        for names in pairs:
            if all(name in self._hosts for name in names):
                ranks = tuple(self._hosts[name] for name in names)
                began = self._firsts[ranks[0]] + departure.when.onset_iteration
                since_iteration = self._named[ranks].since if ranks in self._named else began
                yield Slow(ranks=ranks, factor=float(departure.slowdown), since=since_iteration)

    def _now(self, slow: Slow, observed: Observed) -> Slow | None:
        """``slow`` as it is by now; None of a link that is nearer to its design again."""
        lately = None
        for link in observed.carried if len(slow.ranks) == 2 else ():
            if (self._hosts[link.src], self._hosts[link.dst]) == slow.ranks:
                lately = _lately(link, observed)
        if lately is None:
            return slow
        return replace(slow, factor=lately) if lately >= np.sqrt(slow.factor) else None


def _lately(link: ObservedLink, observed: Observed) -> float | None:
    """Times slower than designed that ``link`` was in the last window in which it carried anything."""
    if not link.judgeable or not len(link.rows):
        return None
    windows = observed.windows.of_messages(link.rows, link.began_ns)
    last = windows == windows.max()
    return float((link.services_ns[last].sum() + GRAIN_NS) / (link.expected_ns[last].sum() + GRAIN_NS))


def _on_reference(spans: Spans, clock: ClockAlignment) -> Spans:
    aligned = spans.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        aligned[name] = clock.align(aligned[name])
    return np.asarray(aligned)
