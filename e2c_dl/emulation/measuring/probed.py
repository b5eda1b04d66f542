"""Hosts and links as they are before training begins, held against the design: who would slow it down.

::

    host   a gradient's time       / the one designed, if the host is paced; else the peers' median, times its factor
    link   the rate designed       / the one measured                                departure: at least SLOW
           the round trip measured - the one designed                                at least LATE and LATE_S
           too little came through to measure anything                               slow

A host is said to be better left out if its gradients are slow, or most of its links are (at least two): a link that is
slow by itself is named, and its ends are not. Where that would be all hosts, nobody is: all are slow alike, which no
choice among them mends. Pure values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from e2c_dl import formatting
from e2c_dl.archive.records import HostFacts
from e2c_dl.emulation.measuring import expected
from e2c_dl.emulation.measuring.datagrams import PING_FRAME_BYTES
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Link, Pair, Topology

SLOW = 1.25
"""Times slower: a probe takes seconds, and what shares a machine scatters by some 10 %."""
SLOW_S = 0.005  # of a gradient: less is a wake-up
LATE, LATE_S = 0.25, 0.005  # of a round trip
MIN_PEERS = 3  # of two, neither tells which is wrong
MIN_SLOW_LINKS = 2  # of a host: of one link, either end or the link itself may be why


@dataclass(frozen=True, kw_only=True)
class ProbedHost:
    """One host's gradient: what it took, and what it takes by design."""

    name: str
    like: str  # hardware and batch: hosts of the same are comparable
    factor: float  # times slower by design than a host of factor 1, as training begins
    gradient_s: float
    designed_s: float | None = None  # None: not known of this host by itself


@dataclass(frozen=True, kw_only=True)
class ProbedLink:
    """One directed link: what it carried, beside what it carries by design."""

    src: str
    dst: str
    designed: Link
    designed_round_trip_s: float
    measured: Measured | None  # None: too little came through

    @classmethod
    def of(cls, pair: Pair, design: Topology, measured: Measured | None) -> ProbedLink:
        """The link ``pair`` of ``design``, nobody else on its bottleneck."""
        src, dst = pair
        there, back = expected.alone(design, src, dst), expected.alone(design, dst, src)
        round_trip_s, _ = expected.round_trip_s(there, back, PING_FRAME_BYTES)
        return cls(src=src, dst=dst, designed=there, designed_round_trip_s=round_trip_s, measured=measured)

    @property
    def ends(self) -> Pair:
        return self.src, self.dst

    @property
    def slowdown(self) -> float | None:
        """Rate designed / measured; None if no rate is designed. What was seen to carry at least that is not slow."""
        if self.designed.rate_bps is None:
            return None
        if self.measured is None:
            return float("inf")
        slowdown = self.designed.rate_bps / self.measured.rate_bps if self.measured.rate_bps else float("inf")
        return min(1.0, slowdown) if self.measured.rate_is_floor else slowdown

    @property
    def departures(self) -> tuple[str, ...]:
        """In words, what of it is slower than designed."""
        if self.measured is None:
            return ("next to nothing comes through",)
        found = []
        if self.slowdown is not None and self.slowdown >= SLOW:
            rates = formatting.rate(self.measured.rate_bps), formatting.rate(self.designed.rate_bps or 0.0)
            found.append(f"{rates[0]} measured, {rates[1]} designed")
        late_s = self.measured.round_trip_s - self.designed_round_trip_s
        if late_s >= max(LATE_S, LATE * self.designed_round_trip_s):
            trips = formatting.seconds(self.measured.round_trip_s), formatting.seconds(self.designed_round_trip_s)
            found.append(f"round trip {trips[0]} measured, {trips[1]} designed")
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """All hosts and links that were probed.

    Worked example: of hosts whose gradients take 0.2, 0.2, 0.2 and 0.6 s on equal hardware, ``slow_hosts`` names the
    last, ``leave_out`` too, and ``sentences`` say that the slowest gradient then takes 0.2 s.
    """

    hosts: tuple[ProbedHost, ...]
    links: tuple[ProbedLink, ...]

    @classmethod
    def of(
        cls, scenario: Scenario, facts: Mapping[str, HostFacts | None], measured: Mapping[Pair, Measured | None]
    ) -> Probe:
        """What hosts found, by their ``facts``, held against ``scenario``; who did not come that far is left out.

        ``measured``: None of a link over which too little came through.
        """
        schedules, batches = scenario.schedules.compute, scenario.training.batch_sizes
        hosts = []
        for host in scenario.topology.ranks:
            known = facts.get(host.name)
            if known is None or known.compute.trial_s is None:
                continue
            schedule = schedules.get(host.name)
            factor = scenario.compute.factor(host.name) if schedule is None else schedule.at(0.0)
            like = f"{known.cpu_model}, batch {batches[host.rank or 0]}"
            hosts.append(ProbedHost(
                name=host.name, like=like, factor=factor, gradient_s=known.compute.trial_s,
                designed_s=known.compute.designed_s,
            ))  # fmt: skip
        links = (ProbedLink.of(pair, scenario.topology, seen) for pair, seen in sorted(measured.items()))
        return cls(hosts=tuple(hosts), links=tuple(links))

    def reference_s(self, host: ProbedHost) -> float | None:
        """What a gradient of ``host`` takes by design; None: nobody can tell."""
        if host.designed_s is not None:
            return host.designed_s
        peers = sorted(each.gradient_s / each.factor for each in self.hosts if each.like == host.like)
        return peers[(len(peers) - 1) // 2] * host.factor if len(peers) >= MIN_PEERS else None

    @cached_property
    def slow_hosts(self) -> Mapping[str, float]:
        """Host whose gradients are slower than designed -> how many times."""
        found = {}
        for host in self.hosts:
            reference_s = self.reference_s(host)
            if reference_s and host.gradient_s >= max(SLOW * reference_s, reference_s + SLOW_S):
                found[host.name] = host.gradient_s / reference_s
        return found

    @cached_property
    def slow_links(self) -> tuple[ProbedLink, ...]:
        return tuple(link for link in self.links if link.departures)

    @cached_property
    def leave_out(self) -> tuple[str, ...]:
        """Hosts without which training would be as designed, but for single links; sorted; none, if it were all."""
        return () if self._suspects >= self._names else tuple(sorted(self._suspects))

    @property
    def _names(self) -> frozenset[str]:
        return frozenset((*(host.name for host in self.hosts), *(end for link in self.links for end in link.ends)))

    @cached_property
    def _suspects(self) -> frozenset[str]:
        """Hosts that are slow by themselves, or most of whose links are."""
        found = {*self.slow_hosts}
        used = Counter(end for link in self.links for end in link.ends)
        slow = [link for link in self.slow_links if not {*link.ends} & found]
        while slow:  # those most of whose links are slow first: they may explain those of their neighbours
            counts = Counter(end for link in slow for end in link.ends)
            mostly = {host: n for host, n in counts.items() if n >= MIN_SLOW_LINKS and 2 * n > used[host]}
            if not mostly:
                break
            most = max((n / used[host], n) for host, n in mostly.items())
            found |= {host for host, n in mostly.items() if (n / used[host], n) == most}  # none explains its equals'
            slow = [link for link in slow if not {*link.ends} & found]
        return frozenset(found)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Hosts of which nobody can tell what a gradient takes by design."""
        return tuple(host.name for host in self.hosts if self.reference_s(host) is None)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "hosts": [
                msgspec.to_builtins(host)
                | {"reference_s": self.reference_s(host), "slowdown": self.slow_hosts.get(host.name)}
                for host in self.hosts
            ],
            "links": [{**msgspec.to_builtins(link), "departures": link.departures} for link in self.links],
            "leave_out": self.leave_out,
            "sentences": self.sentences(),
        }

    def sentences(self) -> tuple[str, ...]:
        """What is slower than designed, and whom to leave out; empty if all is as designed."""
        return (*self._of_hosts(), *self._of_links(), *self._advice())

    def _of_hosts(self) -> Iterable[str]:
        for host in self.hosts:
            if host.name in self.slow_hosts:
                times, takes = formatting.times(self.slow_hosts[host.name]), formatting.seconds(host.gradient_s)
                designed = formatting.seconds(self.reference_s(host) or 0.0)
                yield f"host {host.name}: a gradient takes {takes}, {times} as long as designed ({designed})"

    def _of_links(self) -> Iterable[str]:
        for link in self.slow_links:
            yield f"link {link.src} -> {link.dst}: {'; '.join(link.departures)}"

    def _advice(self) -> Iterable[str]:
        if not self.leave_out:
            if self._suspects:
                yield "to leave hosts out mends nothing: all are slow, or their links are"
            return
        advice = f"leave out {', '.join(self.leave_out)}, or mend what slows it down"
        rest = [host.gradient_s for host in self.hosts if host.name not in self.leave_out]
        slowest_s = max(host.gradient_s for host in self.hosts) if self.hosts else 0.0
        if rest and max(rest) < slowest_s:
            gain = f"{formatting.seconds(max(rest))} instead of {formatting.seconds(slowest_s)}"
            advice += f": the slowest gradient then takes {gain}"
        yield advice
