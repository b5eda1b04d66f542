"""The verdict on a run's last iterations, while it trains: from what its hosts have written of their traces so far.

::

    tails --new bytes--> GrowingSpans per host --last iterations that all have--> window --analyse--> Now
                         GrowingSamples           older spans are forgotten

Nothing is written where the run is, and nothing asked of its processes: it does not know that it is watched.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.run import read_run
from e2c_dl.campaign.watch.standstill import Standstill
from e2c_dl.campaign.watch.tails import tail_of
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.diagnose import Diagnosis, numbered_from
from e2c_dl.diagnosis.model import Element
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.references import reference_of
from e2c_dl.diagnosis.shown.activity import from_trace
from e2c_dl.diagnosis.shown.heat import heat_of
from e2c_dl.diagnosis.window import growing, last_of
from e2c_dl.errors import AnalysisError, ArchiveError
from e2c_dl.formatting import count
from e2c_dl.report.live import Now
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.trace.model import ClockAlignment, RankTrace, Trace
from e2c_dl.trace.propagation.flows import with_flows
from e2c_dl.trace.propagation.growing_samples import GrowingSamples
from e2c_dl.trace.recording.growing import GrowingSpans
from e2c_dl.worlds.allotment import own_pace

FEWEST = 4  # the first two warm up, and of fewer no median says anything
REFRESH_S = 10.0  # clocks and changes are asked for so often
_FILES = (layout.FACTS, layout.CLOCK, layout.CHANGES, layout.WORKER_CHANGES)
_TIMES = ("posted_ns", "start_ns", "end_ns")


class Watch:
    """A run that is up; :meth:`look` again and again, then :meth:`close`. ``last``: iterations that are judged."""

    def __init__(self, run: RegisteredRun, *, last: int) -> None:
        self._run, self._last = run, last
        self._archive = Path(run.archive)
        self._scenario: Scenario = load(self._archive / layout.SCENARIO)
        self._own_pace = own_pace(self._scenario.training)
        trains = {host.name for host in self._scenario.topology.ranks}
        hosts = [access for access in run.hosts if access.name in trains]
        self._tails, self._sockets = (
            {access.name: tail_of(access, run.directory, name) for access in hosts}
            for name in (layout.SPANS_RAW, layout.CONNECTIONS_RAW)
        )
        self._grown = {host: GrowingSpans(host) for host in self._tails}
        self._told = {host: GrowingSamples(host) for host in self._tails}
        self._scope = ExitStack()
        self._small = Path(self._scope.enter_context(TemporaryDirectory()))
        self._refreshed_s = -REFRESH_S
        self._latest: Now | None = None
        self._state: tuple[int, tuple[str, ...]] = (0, ())  # at the last look that told something
        self._since = dict[Element, int]()
        self._standstill = Standstill(time.monotonic())

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what reads from hosts; the run goes on."""
        for tail in (*self._tails.values(), *self._sockets.values()):
            tail.close()
        self._scope.close()

    def look(self) -> Now | None:
        """What can be said now; None if nothing is new. Raises: ArchiveError for a trace that cannot be read."""
        for host, tail in self._tails.items():
            while piece := tail.more():
                self._grown[host].add(piece)
            while piece := self._sockets[host].more():
                self._told[host].add(piece)
        over = all(grown.over for grown in self._grown.values()) or self._is_gone()
        finished = [grown.finished for grown in self._grown.values()]
        stop = min(finished, default=0)
        waiting = self._waiting(stop)
        state = sum(finished) if self._own_pace else stop, waiting
        if self._latest is not None and state == self._state and not over:
            still = self._standstill.said(time.monotonic(), self._grown)
            return replace(self._latest, standstill=still) if still else None
        self._state, self._standstill = state, Standstill(time.monotonic())
        seen = Now(run=read_run(self._archive), stop=stop, not_yet=waiting, over=over, own_pace=self._own_pace)
        self._latest = seen if seen.not_yet else self._judge(seen)
        return self._latest

    def _is_gone(self) -> bool:
        return registry.live_controller(self._run.directory) is None

    def _waiting(self, stop: int) -> tuple[str, ...]:
        """Why nothing can be judged, in sentences; none if it can."""
        silent = [host for host, grown in self._grown.items() if grown.facts is None]
        if silent:
            return (f"{', '.join(silent)}: no trace yet: it does not train, or cannot be reached.",)
        if stop < FEWEST:
            slowest = min(self._grown, key=lambda host: self._grown[host].finished)
            return (f"{slowest} has finished {count(stop, 'iteration')}; a verdict needs {FEWEST} of every worker.",)
        return ()

    def _judge(self, seen: Now) -> Now:
        self._refresh()
        found = last_of(self._trace(), last=self._last, fewest=FEWEST, own_pace=self._own_pace)
        if found is None:  # of a trace with gaps
            too_few = f"Too few iterations can be read; a verdict needs {FEWEST} of every worker."
            return replace(seen, not_yet=(too_few,))
        cut, firsts = found
        for host, first in firsts.items():
            self._grown[host].forget_before(first, by_time=self._own_pace)
            self._told[host].forget_before(first)
        cut = self._with_sockets(cut, firsts)
        seen = replace(seen, first=min(firsts.values()))
        records = {host: HostRecords(self._small / host) for host in self._tails}
        facts = {host: each.facts() for host, each in records.items()}
        changes = [change for each in records.values() for change in each.changes()]
        reference = reference_of(self._scenario, cut, changes, seen.run.emulation, facts)
        try:
            observed = observe(cut, reference, by_luck=False)
            report = analyse(cut, reference, observed=observed)
            activity = from_trace(observed.trace, observed.messages)
            heat = heat_of(observed)
        except AnalysisError as error:
            return replace(seen, not_yet=(str(error),))
        report = numbered_from(report, firsts)
        named = {finding.element for finding in report.culprits}
        self._since = {element: self._since.get(element, self._by_now(element, seen.stop)) for element in named}
        diagnosis = Diagnosis(
            report=report,
            activity=activity.numbered_from(firsts),
            heat=heat,
            critical=observed.replay.critical.steps(),
        )
        return replace(seen, diagnosis=diagnosis, since=dict(self._since), not_yet=report.limitations)

    def _by_now(self, element: Element, stop: int) -> int:
        """How many iterations are finished: by all, or by the host of ``element`` where each goes at its own pace."""
        own = self._grown.get(element.src) if self._own_pace else None
        return stop if own is None else own.finished

    def _with_sockets(self, cut: Trace, firsts: Mapping[str, int]) -> Trace:
        """``cut``, which begins with each host's of ``firsts``, with what its sockets told: whether they lose any."""
        samples, problems = [], []
        for host, told in self._told.items():
            try:
                samples.append(told.since(firsts[host]))
            except ArchiveError as error:
                problems.append(f"{error}; what its sockets told is left out")
        return with_flows(cut, [each for each in samples if each is not None], problems)

    def _trace(self) -> Trace:
        """All that was kept, on one clock."""
        ranks, began_ns, unaligned = [], {}, []
        for host, grown in self._grown.items():
            records = HostRecords(self._small / host)
            if not (records.path / layout.CLOCK).is_file():
                unaligned.append(host)
            ranks.append(own := _aligned(grown, records.clock()))
            began_ns[own.host] = grown.began_ns or 0
        return growing(ranks, began_ns, unaligned)

    def _refresh(self) -> None:
        """Fetch hosts' small files, if it is time: they say how clocks run, and what was changed on purpose."""
        if time.monotonic() - self._refreshed_s < REFRESH_S:
            return
        for host, tail in self._tails.items():
            folder = self._small / host
            folder.mkdir(exist_ok=True)
            for name in _FILES:
                content = tail.file(name)
                if content is not None:
                    (folder / name).write_bytes(content)
        self._refreshed_s = time.monotonic()


def _aligned(grown: GrowingSpans, clock: ClockAlignment) -> RankTrace:
    assert grown.facts is not None
    spans = grown.spans.copy()
    for name in _TIMES:
        spans[name] = clock.align(spans[name])
    facts = grown.facts
    return RankTrace(rank=facts.rank, host=facts.host, layer=facts.layer, spans=spans, clock=clock)
