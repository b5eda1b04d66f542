"""Draws of faults: from planned ones to those that happen, each entry of the file by a random stream of its own.

How the draws are ordered, and so what stays the same when a scenario is edited:
:mod:`e2c_dl.scenario.emulation.faults`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from e2c_dl import units
from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.patterns import both_ways, shown
from e2c_dl.scenario.model import LINK_FAULTS, Fault, FaultKind
from e2c_dl.topology import Host, Pair

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Hosts and links that faults may befall."""

    hosts: Sequence[Host]
    used_pairs: Callable[[], Sequence[Pair]]  # in a fixed order; asked only to draw one
    least_rate_bps: Mapping[Pair, float]  # of every link that has a rate, the lowest before any fault
    iterations: int  # of the training


@dataclass(frozen=True, kw_only=True)
class Moment:
    """From ``low`` to ``high``, in seconds of training or in iterations; both are one if nothing is to be drawn."""

    low: float
    high: float
    iteration: bool

    def drawn(self, rng: random.Random) -> tuple[float | None, int | None]:
        """(at_s, None) or (None, at_iteration). Draws once, if there is a choice."""
        # An iteration is rounded down, so one more makes the last as likely as the others.
        width = self.high - self.low + (1 if self.iteration else 0)
        value = self.low if self.low == self.high else self.low + rng.random() * width
        return (None, int(value)) if self.iteration else (value, None)


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Again and again, ``every_s`` in the mean after it was over, as long as it begins before ``until_s``."""

    every_s: float
    until_s: float

    def gap_s(self, rng: random.Random) -> float:
        """Exponentially distributed, of mean ``every_s``."""
        return -self.every_s * math.log1p(-rng.random())  # not rng.expovariate: only random() is promised to stay


@dataclass(frozen=True, kw_only=True)
class Place:
    """Place where an entry happens: hosts, or links, some of them to be drawn."""

    hosts: tuple[str, ...] = ()
    links: tuple[Pair, ...] = ()
    drawn: tuple[bool, ...] = ()  # one per random host or link; of a link: whether it is symmetric
    place: Field


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One sound entry: ``index`` from 0 in the list."""

    index: int
    kind: FaultKind
    value: float | None
    moment: Moment
    for_s: float | None
    repeat: Repeat | None
    where: Place


@dataclass
class _Drawing:
    """What drawing needs, and has done so far: nobody is killed twice."""

    ground: Ground
    found: Findings
    killed: set[str] = field(default_factory=set)


def drawn(entries: Sequence[Planned], seed: int, ground: Ground, found: Findings) -> tuple[Fault, ...]:
    """Every time that one of ``entries`` happens, by entry and then by time, noting in ``found`` what is wrong."""
    drawing = _Drawing(ground=ground, found=found)
    for entry in entries:  # named hosts first: a random kill before them in the file must not take one
        if entry.kind is FaultKind.KILL:
            for host in entry.where.hosts:
                if host in drawing.killed:
                    found.errors.append(entry.where.place.error(f"{host} is killed already", "name another host"))
                drawing.killed.add(host)
    streams = (random.Random(f"{seed}:faults:{entry.index}") for entry in entries)
    return tuple(fault for entry, rng in zip(entries, streams, strict=True) for fault in _times(entry, rng, drawing))


def _times(entry: Planned, rng: random.Random, drawing: _Drawing) -> Iterator[Fault]:
    """Every time that ``entry`` happens."""
    at_s, at_iteration = entry.moment.drawn(rng)
    while True:
        hosts, links = _place(entry, rng, drawing)
        fault = Fault(
            kind=entry.kind, at_s=at_s, at_iteration=at_iteration, for_s=entry.for_s, links=links, value=entry.value
        )
        yield from [fault] if links else [replace(fault, host=host) for host in hosts]
        if entry.repeat is None or at_s is None:
            return
        at_s += (entry.for_s or 0.0) + entry.repeat.gap_s(rng)
        if at_s >= entry.repeat.until_s:  # what has begun by then is carried out to its end
            return


def _place(entry: Planned, rng: random.Random, drawing: _Drawing) -> tuple[tuple[str, ...], tuple[Pair, ...]]:
    """The hosts and the links of one time that ``entry`` happens: those named, then those drawn."""
    hosts, links = dict.fromkeys(entry.where.hosts), dict.fromkeys(entry.where.links)
    for symmetric in entry.where.drawn:
        if entry.kind in LINK_FAULTS:
            links.update(dict.fromkeys(_random_link(entry, symmetric, links, rng, drawing)))
        else:
            hosts.update(dict.fromkeys(_random_host(entry, rng, drawing)))
    if entry.kind is FaultKind.SLOW_LINK:  # checked now: only a draw says which link it is
        drawing.found.attempt(_check_rates, entry, tuple(links), drawing.ground)
    return tuple(hosts), tuple(links)


def _random_host(entry: Planned, rng: random.Random, drawing: _Drawing) -> list[str]:
    # Other faults may befall a host that is killed later, or twice.
    taken = drawing.killed if entry.kind is FaultKind.KILL else ()
    free = [each.name for each in drawing.ground.hosts if each.rank is not None and each.name not in taken]
    hosts = draw(free, rng, entry.where.place, drawing.found)
    if entry.kind is FaultKind.KILL:
        drawing.killed.update(hosts)
    return hosts


def _random_link(
    entry: Planned, symmetric: bool, taken: Mapping[Pair, None], rng: random.Random, drawing: _Drawing
) -> list[Pair]:
    ground = drawing.ground
    slowed = entry.kind is FaultKind.SLOW_LINK  # it has to have a rate
    could = [pair for pair in ground.used_pairs() if not slowed or pair in ground.least_rate_bps]
    pairs = draw([pair for pair in could if pair not in taken], rng, entry.where.place, drawing.found)
    return both_ways(pairs) if symmetric else pairs


def draw(free: Sequence[T], rng: random.Random, place: Field, found: Findings) -> list[T]:
    """One of ``free``; none after noting that there is none."""
    number = rng.random()  # of Python's draws only this one is promised to stay the same in later versions
    if free:
        return [free[int(number * len(free))]]
    found.errors.append(place.error("nothing is left to draw from", "remove one of the random ones"))
    return []


def _check_rates(entry: Planned, links: Sequence[Pair], ground: Ground) -> None:
    for pair in links:
        left_bps = ground.least_rate_bps.get(pair, math.inf) * (entry.value or 1.0)
        if left_bps < units.RATE_MIN_BPS:
            problem = f"leaves {shown(pair)} with {units.format_rate(left_bps)}"
            raise entry.where.place.error(problem, f"leave at least {units.format_rate(units.RATE_MIN_BPS)}")
