"""One run of the campaign, by seed and number alone: its system, and what is injected into it.

Most of what may happen to a host or link of a drawn system costs nothing, for others are slower by design. So most
runs hold several tries of one plan (what, when, how much), whose hosts and links differ; ``truth`` simulates them. Of
hosts and links, those that are likely to cost something are drawn more often: the slowest, and those whose transfers
take longest. The system is drawn so that what is planned may matter in it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.diagnosis.draws import MOST_SEGMENT_BYTES, Balance, drawn_system
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.system import System
from e2c_dl.topology import Pair

K = TypeVar("K")

SMALL = 1.2
FACTORS = (SMALL, 1.5, 2.0, 3.0, 5.0)
LOSSES = {1.2: 0.002, 1.5: 0.005, 2.0: 0.01, 3.0: 0.02, 5.0: 0.05}
"""Fractions of segments, drawn as often as the factors; TCP makes of each what the link's delay lets it."""
LEAST_DELAY_S = 0.02  # an added delay is (factor - 1) times the link's, or times this if that is shorter
WHATS = {What.COMPUTE: 4, What.DATA: 2, What.STEP: 2, What.RATE: 5, What.DELAY: 2, What.LOSS: 1}
WHENS = {When.PERSISTENT: 4, When.LAST_THIRD: 3, When.ONCE: 2, When.PERIODIC: 2}
NONE, ONE, TWO, LAYER = "none", "one", "two", "layer"
CULPRITS = {NONE: 4, ONE: 10, TWO: 4, LAYER: 2}
MOST_TRIES = 4
WANTED = 0.8  # of the runs are looked for where they matter
LIKELY = 0.75  # of the draws are among the likely
SAME = 0.9  # as much of the greatest time: as likely


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One run. Of ``tries``, all of one plan, ``truth`` takes the first in which every injection is material."""

    seed: int
    number: int
    system: System
    tries: tuple[tuple[Injection, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What stays the same from try to try: all but whom it meets, and where its windows lie."""

    what: What
    when: When
    factor: float
    layer: bool


def drawn(seed: int, number: int) -> Drawn:
    """Run ``number`` of the campaign of ``seed``."""
    chance = random.Random(f"{seed}/{number}")
    plan = planned(chance)
    system = drawn_system(chance, _balance(plan))
    tries = MOST_TRIES if chance.random() < WANTED else 1  # what comes of a single try is mostly immaterial
    return Drawn(
        seed=seed, number=number, system=system, tries=tuple(_injections(chance, system, plan) for _ in range(tries))
    )


def planned(chance: random.Random) -> tuple[Planned, ...]:
    """What is to be injected, whatever the system."""
    culprits = _of(chance, CULPRITS)
    if culprits == LAYER:
        what = _of(chance, {What.COMPUTE: 2, What.RATE: 2, What.DELAY: 1})
        return (Planned(what=what, when=_of(chance, WHENS), factor=chance.choice(FACTORS), layer=True),)
    return tuple(_planned(chance) for _ in range({NONE: 0, ONE: 1, TWO: 2}[culprits]))


def _planned(chance: random.Random) -> Planned:
    what, when, factor = _of(chance, WHATS), _of(chance, WHENS), chance.choice(FACTORS)
    if factor == SMALL and chance.random() < WANTED:  # it costs 5 % only of what takes most of the time, all the time
        what, when = chance.choice((What.COMPUTE, What.RATE)), When.PERSISTENT
    return Planned(what=what, when=when, factor=factor, layer=False)


def _balance(plan: Sequence[Planned]) -> Balance:
    """Of a system in which what is planned may matter."""
    whats = {each.what for each in plan}
    of_hosts, of_links = any(each.of_host for each in whats), any(not each.of_host for each in whats)
    gradient = {(True, False): (0.8, 4.0), (False, True): (0.05, 0.8), (True, True): (0.4, 1.5)}
    if any(each.factor == SMALL for each in plan):
        gradient = {(True, False): (3.0, 6.0), (False, True): (0.02, 0.1), (True, True): (0.4, 1.5)}
    usual = Balance()
    return Balance(
        gradient=gradient.get((of_hosts, of_links), usual.gradient),
        data=(0.2, 0.8) if What.DATA in whats else usual.data,
        step=(0.2, 0.8) if What.STEP in whats else usual.step,
    )


def _injections(chance: random.Random, system: System, plan: Sequence[Planned]) -> tuple[Injection, ...]:
    found: list[Injection] = []
    for each in plan:
        made = _of_layer(chance, system, each) if each.layer else _of_one(chance, system, each)
        met = {whom for other in found for whom in (*other.hosts, *other.links)}
        if made is not None and not {*made.hosts, *made.links} & met:
            found.append(made)
    return tuple(found)


def _of_one(chance: random.Random, system: System, plan: Planned) -> Injection | None:
    what, when, factor = plan.what, plan.when, plan.factor
    stretch = _stretch(chance, when, system.scenario.training.iterations)
    if what.of_host:
        host = _likely(chance, {name: _gradient_s(system, name) for name in sorted(system.profiles)})
        if when is When.PERSISTENT and system.hardware[host] is None:
            when, stretch = When.LAST_THIRD, (2 / 3, 1 / 3, 0.0)  # what hosts are unlike in is not known: by history
        return _made(what, when, factor, factor, stretch, hosts=(host,))
    shared = system.scenario.topology.bottlenecks
    if shared and what is What.RATE and chance.random() < 0.5:
        (line,) = shared
        return _made(what, when, factor, factor, stretch, links=line.links, shared=line.name)
    through = {pair for each in shared for pair in each.links}
    links = system.scenario.topology.links
    free = {pair: _transfer_s(system, pair) for pair in sorted(links) if pair not in through and not links[pair].loss}
    if not free:
        return None
    pair = _likely(chance, free)
    return _made(what, when, factor, amount_of(what, factor, links[pair].delay_s), stretch, links=(pair,))


def _of_layer(chance: random.Random, system: System, plan: Planned) -> Injection | None:
    """All hosts of a layer, or all links from one layer to another."""
    what, when, factor = plan.what, plan.when, plan.factor
    stretch = _stretch(chance, when, system.scenario.training.iterations)
    topology = system.scenario.topology
    layer_of = {host.name: host.layer for host in topology.hosts}
    if what is What.COMPUTE:
        layer = chance.choice(sorted(set(layer_of.values())))
        members = tuple(host for host in topology.names if layer_of[host] == layer)
        if when is When.PERSISTENT and not _have_peers(system, members):
            when, stretch = When.LAST_THIRD, (2 / 3, 1 / 3, 0.0)
        if len({system.hardware[host] for host in members}) > 1:
            return None  # what is slow of one kind is not of another: no one group
        return _made(what, when, factor, factor, stretch, hosts=members, layer=layer)
    through = {pair for each in topology.bottlenecks for pair in each.links}
    groups: dict[Pair, list[Pair]] = {}
    for pair in sorted(topology.links):
        groups.setdefault((layer_of[pair[0]], layer_of[pair[1]]), []).append(pair)
    several = {  # all of them: beside one that is on time no layer is slow
        ways: pairs for ways, pairs in groups.items()
        if len(pairs) > 1 and not any(pair in through or topology.links[pair].loss for pair in pairs)
    }  # fmt: skip
    if not several:
        return None
    (src, dst), pairs = chance.choice(sorted(several.items()))
    parameters = next(iter(system.profiles.values())).parameters
    if 8 * parameters * system.scenario.training.iterations * len(pairs) > MOST_SEGMENT_BYTES:
        when, stretch = When.PERSISTENT, (0.0, 1.0, 0.0)  # changing links cost much to simulate
    amount = amount_of(what, factor, topology.link(*pairs[0]).delay_s)
    return _made(what, when, factor, amount, stretch, links=tuple(pairs), layer=f"{src} -> {dst}")


def _have_peers(system: System, members: Sequence[str]) -> bool:
    """Whether at least a third of the hosts of ``members``' class are not among them."""
    kind = system.hardware[members[0]]
    alike = [host for host, of in system.hardware.items() if of == kind]
    return kind is not None and len(alike) - len(members) >= len(alike) / 3


def amount_of(what: What, factor: float, delay_s: float) -> float:
    """What is put in force of ``what``, on a link of ``delay_s``."""
    if what is What.DELAY:
        return (factor - 1) * max(delay_s, LEAST_DELAY_S)
    return LOSSES[factor] if what is What.LOSS else factor


def _made(
    what: What, when: When, factor: float, amount: float, stretch: tuple[float, float, float], *,
    hosts: tuple[str, ...] = (), links: tuple[Pair, ...] = (), shared: str | None = None, layer: str | None = None,
) -> Injection:  # fmt: skip
    begin, length, period = stretch
    return Injection(
        what=what, when=when, factor=factor, amount=amount, begin=begin, length=length, period=period, hosts=hosts,
        links=links, shared=shared, layer=layer,
    )  # fmt: skip


def _stretch(chance: random.Random, when: When, iterations: int) -> tuple[float, float, float]:
    """(begin, length, period) as parts of the undisturbed run: windows of some iterations."""
    match when:
        case When.PERSISTENT:
            return 0.0, 1.0, 0.0
        case When.LAST_THIRD:
            return 2 / 3, 1 / 3, 0.0
        case When.ONCE:
            return chance.uniform(0.2, 0.6), max(3 / iterations, chance.uniform(0.1, 0.3)), 0.0
        case When.PERIODIC:
            period = max(5 / iterations, chance.uniform(0.12, 0.3))
            return 0.0, period * chance.uniform(0.35, 0.5), period


def _gradient_s(system: System, host: str) -> float:
    """About how long an iteration of ``host`` computes by design."""
    scenario = system.scenario
    times = system.profiles[host].gradient(scenario.training.batch_sizes[system.ranks[host]])
    return (times.data_s + times.forward_s + sum(times.backward_s)) * scenario.compute.factor(host)


def _transfer_s(system: System, pair: Pair) -> float:
    link = system.scenario.topology.link(*pair)
    parameters = next(iter(system.profiles.values())).parameters
    return parameters * 32 / (link.rate_bps or 1e9) + link.delay_s


def _likely(chance: random.Random, times_s: Mapping[K, float]) -> K:
    """One of the keys of ``times_s``: mostly one whose time is about the longest."""
    most = max(times_s.values())
    likely = [key for key, time_s in times_s.items() if time_s >= SAME * most]
    return chance.choice(likely if chance.random() < LIKELY else list(times_s))


def _of(chance: random.Random, weights: Mapping[K, int]) -> K:
    return chance.choices(list(weights), list(weights.values()))[0]
