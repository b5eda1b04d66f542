"""Changes during a simulated run: schedules, faults and heat, put in force in virtual time, and logged as live.

::

    LinksInForce --conditions--> LinkModel     HostSpeed --ChangingSpeed--> HostModel     faults --> pauses, kills
    a rank begins an iteration --> what begins with it --> links asked for anew, slower hosts, pauses, kills

Every change is in force at its very moment. Clocks are one, so what makes a clock step or drift cannot happen here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import host_records
from e2c_dl.drivers.virtual.late import LatePace
from e2c_dl.dynamics.faults import BegunFaults, Window, own_faults
from e2c_dl.dynamics.lateness import Lateness
from e2c_dl.dynamics.links import LinksInForce
from e2c_dl.dynamics.speed import ChangingSpeed, HostSpeed
from e2c_dl.emulation.link_values import link_to_json
from e2c_dl.scenario.model import Fault, FaultKind, Scenario
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.changes import Change, ChangeLog
from e2c_dl.worlds.virtual import HostModel, LinkModel, Onset, SharedRate, bottlenecks, link_model, link_models
from e2c_dl.worlds.virtual.computing import pace_of
from e2c_dl.worlds.virtual.kernel import FOREVER, Pauses
from e2c_dl.worlds.virtual.links import RankPair

_OF_HOSTS = {FaultKind.PAUSE: Change.PAUSE, FaultKind.KILL: Change.KILL}
_METRICS_EVERY_NS = 1_000_000_000
CLOCKS = (FaultKind.CLOCK_STEP, FaultKind.CLOCK_DRIFT)  # without effect here: in virtual time there is one clock


class RunChanges:
    """One simulated run's. ``archive`` gets the logs of changes, in the folders of the hosts, which are there."""

    def __init__(self, scenario: Scenario, archive: Path) -> None:
        self._scenario, self._in_force = scenario, LinksInForce(scenario)
        self._faults = tuple(enumerate(scenario.injected.faults))
        self._hosts = [host.name for host in scenario.topology.ranks]
        self._rank = {name: rank for rank, name in enumerate(self._hosts)}
        self._own = [own_faults(scenario, host) for host in self._hosts]  # by rank: asked in every iteration
        self._begun = BegunFaults()  # one for all hosts: all see the same moment
        self._speeds: dict[str, ChangingSpeed] = {}
        self._archive = archive
        self._logs: dict[Path, ChangeLog] = {}

    def hosts(self, models: Sequence[HostModel]) -> tuple[HostModel, ...]:
        """``models``, by rank, with what changes of them."""
        return tuple(self._host(model) for model in models)

    def links(self) -> Mapping[RankPair, LinkModel]:
        """The emulated links between ranks. Raises: InputError if TCP is asked to be one that has no model."""
        tcp = self._scenario.tcp
        models = dict(link_models(self._scenario.emulated_topology(), tcp))
        for src, dst in self._changing:
            pair = self._rank[src], self._rank[dst]
            # Before training, and so at its begin, the link is as the emulated topology has it; rtt is of that moment.
            conditions = partial(self._conditions, (src, dst))
            models[pair] = replace(models.get(pair, LinkModel(tcp=tcp)), conditions=conditions)
        return models

    @property
    def bottlenecks(self) -> tuple[SharedRate, ...]:
        """What links between ranks share."""
        found = []
        names = [each.name for each in self._scenario.topology.bottlenecks if self._between(each.links)]
        for name, model in zip(names, bottlenecks(self._scenario.topology), strict=True):
            schedule = self._scenario.schedules.bottlenecks.get(name)
            rates = None if schedule is None else lambda schedule=schedule: schedule.steps(math.inf)
            found.append(replace(model, rates=rates))
        return tuple(found)

    @property
    def unsteady(self) -> frozenset[RankPair]:
        """The links that change when an iteration begins, or whose source is paused then."""
        found: set[RankPair] = set()
        for _, fault in self._faults:
            if fault.at_iteration is None:
                continue
            found |= set(self._ranks(fault.links))
            if fault.kind is FaultKind.PAUSE and fault.host in self._rank:  # one that does not train is left alone
                found |= {(self._rank[fault.host], rank) for rank in range(len(self._hosts))}
        return frozenset(found)

    def on_iteration(self, rank: int, iteration: int, now_ns: int) -> Onset | None:
        now_s, onset = now_ns / 1e9, None
        for numbered in self._own[rank]:
            if self._begun.begin([numbered], iteration, now_s):  # one by one: each is told and logged by itself
                onset = self._begins(onset or Onset(), self._hosts[rank], numbered[1], now_s)
        return onset

    def conclude(self, end_ns: int) -> None:
        """Log what links and bottlenecks were like, and what happened to hosts, until ``end_ns``."""
        for pair in self._changing:
            log, whom = self._log(pair[0], layout.CHANGES), f"{pair[0]} -> {pair[1]}"
            for at_s, link in self._schedule_of(pair):
                at_ns = round(at_s * 1e9)
                if at_ns > end_ns:  # schedules may go on for ever
                    break
                log.add(Change.LINK, whom, at_ns, asked_s=at_s, **link_to_json(link))
        for name, schedule in self._scenario.schedules.bottlenecks.items():
            log = self._log(self._hosts[0], layout.CHANGES)  # a bottleneck is no host's
            for at_s, rate_bps in schedule.steps(end_ns / 1e9):
                log.add(Change.BOTTLENECK, name, round(at_s * 1e9), asked_s=at_s, rate_bps=rate_bps)
        for host in self._hosts:
            self._log_process(host, end_ns)
            self._log_lateness(host, end_ns)
            host_records(self._archive, host).write_signs_of_life(self._seen(host, end_ns))
        for log in self._logs.values():
            log.close()

    @property
    def _changing(self) -> list[Pair]:
        return sorted(self._between(self._in_force.changing))  # a set's order differs from run to run

    def _between(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Those of ``pairs`` that join two ranks."""
        return [(src, dst) for src, dst in pairs if src in self._rank and dst in self._rank]

    def _ranks(self, pairs: Iterable[Pair]) -> tuple[RankPair, ...]:
        return tuple((self._rank[src], self._rank[dst]) for src, dst in self._between(pairs))

    def _host(self, model: HostModel) -> HostModel:
        faults = [fault for _, fault in self._faults if fault.host == model.name and fault.at_s is not None]
        pauses = [fault for fault in faults if fault.kind is FaultKind.PAUSE]
        killed = [fault.at_s for fault in faults if fault.kind is FaultKind.KILL and fault.at_s is not None]
        of_host = HostSpeed.of(self._scenario, model.name, 1 / model.factor)
        changing = replace(
            model,
            speed=self._speed(model.name, of_host) if of_host.changes else None,
            pauses=tuple((f.at_s or 0.0, (f.at_s or 0.0) + (f.for_s or 0.0)) for f in pauses),
            killed_at_s=min(killed, default=None),  # who is dead cannot die again
        )
        lateness = Lateness.of(self._scenario, model.name)
        return replace(changing, pace=partial(self._late, changing, lateness)) if lateness.faults else changing

    def _late(self, model: HostModel, lateness: Lateness) -> LatePace:
        rank, seed = self._rank[model.name], self._scenario.training.seed
        return LatePace(pace_of(model, rank=rank, seed=seed), lateness, self._begun)

    def _speed(self, host: str, of_host: HostSpeed) -> ChangingSpeed:
        log = self._log(host, layout.WORKER_CHANGES)

        def changed(what: Change, at_s: float, value: float, iteration: int | None) -> None:
            named = {"factor" if what is Change.COMPUTE else "temperature_c": value}
            log.add(what, host, round(at_s * 1e9), asked_s=at_s, asked_iteration=iteration, **named)

        speed = self._speeds[host] = ChangingSpeed(of_host, changed, lambda _: None, self._begun)
        speed.began(0)  # virtual time is training time
        return speed

    def _conditions(self, pair: Pair) -> Iterator[tuple[float, LinkModel]]:
        return ((at_s, link_model(link, self._scenario.tcp)) for at_s, link in self._schedule_of(pair))

    def _schedule_of(self, pair: Pair) -> Iterator[tuple[float, Link]]:
        """(when in s, what ``pair`` is like from then on), as far as it is known by now; maybe for ever."""
        at_s, last = 0.0, None
        while at_s < math.inf:
            link = self._in_force.link(pair, at_s, self._begun)
            if link != last:  # a moment at which nothing is other than before is no change
                yield at_s, link
            last = link
            at_s = self._in_force.next_change_s([pair], (), at_s, self._begun)

    def _begins(self, onset: Onset, host: str, fault: Fault, now_s: float) -> Onset:
        if fault.links:
            return onset._replace(links=(*onset.links, *self._ranks(fault.links)))
        if fault.kind is FaultKind.SLOW_HOST:
            self._speeds[host].slowed(fault.at_iteration or 0, now_s)
        paused_s = fault.for_s or 0.0 if fault.kind is FaultKind.PAUSE else 0.0
        return onset._replace(
            killed=onset.killed or fault.kind is FaultKind.KILL, paused_s=max(onset.paused_s, paused_s)
        )

    def _log_process(self, host: str, end_ns: int) -> None:
        """Log when ``host``'s rank was stopped, whatever pauses overlapped then, and when it was killed, for good."""
        own = self._windows(host)
        begins_ns = [(window.fault, round(window.begin_s * 1e9)) for window in own if window.fault.kind in _OF_HOSTS]
        iterations = {(_OF_HOSTS[fault.kind], at_ns): fault.at_iteration for fault, at_ns in begins_ns}
        killed_ns, pauses = _killed_ns(own), _pauses(own)
        stops = [each for begin, end in pauses for each in ((Change.PAUSE, begin), (Change.RESUME, end))]
        for what, at_ns in (*stops, (Change.KILL, killed_ns)):
            if at_ns <= min(killed_ns, end_ns):
                iteration = iterations.get((what, at_ns))
                log = self._log(host, layout.CHANGES)
                log.add(what, host, at_ns, asked_s=at_ns / 1e9, asked_iteration=iteration)

    def _log_lateness(self, host: str, end_ns: int) -> None:
        for change, at_s, later_s, iteration in Lateness.of(self._scenario, host).changes(self._begun, end_ns / 1e9):
            log = self._log(host, layout.WORKER_CHANGES)
            log.add(change, host, round(at_s * 1e9), asked_s=at_s, asked_iteration=iteration, later_s=later_s)

    def _seen(self, host: str, end_ns: int) -> Iterator[int]:
        """When ``host``'s worker, were it live, would have written a line of its metrics: each second, as it runs."""
        own = self._windows(host)
        pauses, until_ns = _pauses(own), min(_killed_ns(own), end_ns)
        at_ns = pauses.runs_ns(0)
        while at_ns < until_ns:
            yield at_ns
            at_ns = pauses.runs_ns(at_ns + _METRICS_EVERY_NS)
        if pauses.runs_ns(until_ns) == until_ns:
            yield until_ns

    def _windows(self, host: str) -> tuple[Window, ...]:
        return self._begun.windows((number, fault) for number, fault in self._faults if fault.host == host)

    def _log(self, host: str, name: str) -> ChangeLog:
        path = host_records(self._archive, host).path / name
        if path not in self._logs:
            self._logs[path] = ChangeLog(path, host, lambda ns: ns)  # virtual time is every host's clock
        return self._logs[path]


def _pauses(windows: Iterable[Window]) -> Pauses:
    return Pauses((each.begin_s, each.end_s) for each in windows if each.fault.kind is FaultKind.PAUSE)


def _killed_ns(windows: Iterable[Window]) -> int:
    """When the first of ``windows`` that kills begins."""
    return min((round(each.begin_s * 1e9) for each in windows if each.fault.kind is FaultKind.KILL), default=FOREVER)
