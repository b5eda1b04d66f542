"""The ``injected:`` section of ``emulation.yaml``: departures from the design, some placed at random by a seed.

::

    injected:
      seed: 1
      compute: [{host: random, factor: 3}, {host: edge-1, factor: 2}]           times slower than designed
      links: [{src: random, dst: random, rate_factor: 0.2}]                     fraction of the designed rate
      faults: [...]                                                             see ``faults``

``host``, ``src`` and ``dst`` are host names (``edge-1``), patterns (``edge.*``) or ``random``. Random hosts are drawn
among all ranks, random links among the directed links that the strategy uses and that have a designed rate. Named ones
are placed first, then the random ones in the order of the file, each among what is still free: no two land on the same
element. The draw of number i, from 0, of a list is ``random.Random(f"{seed}:compute:{i}")`` (or ``:links:``): the same
on every machine, and it stays when another random line is added behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.keys import Keys, integer, needed, number
from e2c_dl.scenario.documents.patterns import PLACE, RANDOM, hosts_of, pairs_of, shown
from e2c_dl.scenario.emulation.draws import draw
from e2c_dl.scenario.emulation.hosts import MAX_FACTOR
from e2c_dl.scenario.model import Injected
from e2c_dl.topology import Host, Link, Pair
from e2c_dl.units import RATE_MIN_BPS, format_rate

T = TypeVar("T")

NOTHING = Injected(seed=0, compute=MappingProxyType({}), links=MappingProxyType({}))

MORE_TIMES_SLOWER = number(1, MAX_FACTOR, above=True)
RATE_FACTOR = number(0, 1, above=True, below=True)
SEED = integer(0, 2**32 - 1)
HOSTS = Keys(host=needed(PLACE), factor=needed(MORE_TIMES_SLOWER, "Times slower than designed, all the time."))
LINKS = Keys(
    src=needed(PLACE, "Where the links begin."),
    dst=needed(PLACE, "Where they end."),
    rate_factor=needed(RATE_FACTOR, "Times the designed rate, all the time."),
)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One line of a list: ``index`` from 0, and what it multiplies with."""

    field: Field
    index: int
    factor: float
    drawn: bool  # its place is random


def read_injected(
    fields: Mapping[str, Field],
    seed: int | None,
    hosts: Sequence[Host],
    links: Mapping[Pair, Link],
    used_pairs: Callable[[], Sequence[Pair]],
    found: Findings,
) -> Injected:
    """The departures in the section's ``fields``, placed, but for the faults, noting in ``found`` what is wrong.

    ``used_pairs`` tells the directed links that training uses, in a fixed order; it is asked only to draw one.
    """
    ranks = [host.name for host in hosts if host.rank is not None]
    rated = {pair for pair, link in links.items() if link.rate_bps is not None}

    def named_hosts(entry: Field) -> list[str]:
        return [host.name for host in hosts_of(entry.required("host"), hosts)]

    # Sound lines are placed even if others are wrong, so that what is wrong with their places is said, too.
    slow_hosts = _entries(fields.get("compute"), HOSTS, found)
    slow_links = _entries(fields.get("links"), LINKS, found)
    compute = _place(f"{seed}:compute", slow_hosts, named_hosts, lambda: ranks, found)
    slowed = _place(
        f"{seed}:links",
        slow_links,
        lambda entry: rated_pairs(entry, hosts, rated),
        lambda: [pair for pair in used_pairs() if pair in rated],  # asked late: the strategy is imported for it
        found,
    )
    for pair, entry in slowed.items():
        found.attempt(_check_rate, entry, links[pair])
    return Injected(
        seed=seed or 0,
        compute=MappingProxyType({host: entry.factor for host, entry in compute.items()}),
        links=MappingProxyType({pair: entry.factor for pair, entry in slowed.items()}),
    )


def _entries(field: Field | None, keys: Keys, found: Findings) -> list[_Entry]:
    """The sound lines of the list ``field``, of places and, as the last key, a factor; the others are noted."""
    *places, factor = keys
    entries = []
    for index, (item, own) in enumerate(found.each((found.attempt(field.items) or []) if field else ())):
        said = keys.gather(item, own)
        drawn = own.attempt(is_drawn, item, places) if not own.errors else None
        if drawn is not None:
            entries.append(_Entry(field=item, index=index, factor=said[factor], drawn=drawn))
    return entries


def is_drawn(entry: Field, places: Sequence[str]) -> bool:
    """True if its place is random. Raises: ScenarioError, if it is in part."""
    drawn = [entry.required(place).text() == RANDOM for place in places]
    if any(drawn) and not all(drawn):
        raise entry.error("a link with one random end", "write random for both src and dst, or for none")
    return all(drawn)


def _place(
    stream: str,
    entries: Sequence[_Entry],
    named: Callable[[Field], Sequence[T]],
    candidates: Callable[[], Sequence[T]],
    found: Findings,
) -> dict[T, _Entry]:
    """Element -> the entry that landed on it: the named ones first, then the drawn ones, each on a free element."""
    placed: dict[T, _Entry] = {}
    for entry in entries:
        for element in (found.attempt(named, entry.field) or ()) if not entry.drawn else ():
            if element in placed:
                found.errors.append(entry.field.error("lands where an earlier one did", "name another place"))
            placed[element] = entry
    for entry in entries:
        if entry.drawn:
            free = [element for element in candidates() if element not in placed]
            # A stream for each entry, by its number: another entry added behind does not move the ones before.
            rng = random.Random(f"{stream}:{entry.index}")
            placed.update(dict.fromkeys(draw(free, rng, entry.field, found), entry))
    return placed


def rated_pairs(entry: Field, hosts: Sequence[Host], rated: Container[Pair]) -> list[Pair]:
    """The links that ``entry`` names, all of them ``rated``: none else can be slowed. Raises: ScenarioError."""
    pairs = pairs_of(entry, hosts)
    for pair in pairs:
        if pair not in rated:
            problem = f"{shown(pair)} has no rate that could be multiplied"
            raise entry.error(problem, "add a rule for it to network.yaml, or name another link")
    return pairs


def _check_rate(entry: _Entry, link: Link) -> None:
    rate_bps = link.slowed(entry.factor).rate_bps
    if rate_bps is not None and rate_bps < RATE_MIN_BPS:  # what units.parse_rate would refuse, too
        raise entry.field.error(f"leaves {format_rate(rate_bps)}", f"leave at least {format_rate(RATE_MIN_BPS)}")
