"""``network.yaml`` to one :class:`Link` per directed pair of hosts.

Rules are read from top to bottom; where several speak of the same directed pair, the last holds, as a whole: a rule
without ``loss`` takes away the loss of an earlier one. (E2Clab itself would lose all but the last rule of a *source*.)
``symmetric: true`` makes a rule hold both ways. A host has no link to itself. ``delay`` may carry jitter as tc spells
it, ``"10ms 2ms distribution normal"``: E2Clab hands it on to tc unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e2c_dl import units
from e2c_dl.scenario.documents.document import Document
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import BOOLEAN, DELAY, LOSS, RATE, Key, Keys, Kind, needed, unread
from e2c_dl.scenario.documents.patterns import between, both_ways, select
from e2c_dl.scenario.emulation.links import DISTRIBUTIONS, check_jitter
from e2c_dl.topology import Distribution, Host, Link, Pair


def read_network(document: Document, hosts: Sequence[Host] | None, found: Findings) -> dict[Pair, Link]:
    """The links between ``hosts``, noting in ``found`` what is wrong.

    Without hosts (they could not be read) only what a rule says of itself is checked.
    """
    top = Field(document=document, value=document.value)
    networks = top.keys(found, known=["networks"], required=["networks"]).get("networks")
    links: dict[Pair, Link] = {}
    if networks is None or networks.value is None:  # "networks:" alone is E2Clab's way to shape nothing
        return links
    for entry, own in found.each(found.attempt(networks.items) or []):
        said = RULE.gather(entry, own)
        sound = not own.errors
        if hosts is not None and isinstance(entry.value, dict):  # also of a wrong rule, patterns are looked at
            pairs = own.attempt(_pairs, entry, hosts, own)
            if sound and pairs:
                link = replace(said["delay"], rate_bps=said["rate"], loss=said.get("loss", 0.0))
                # As a whole: a key of an earlier rule does not shine through.
                links.update(dict.fromkeys(both_ways(pairs) if said.get("symmetric") else pairs, link))
    return links


def _delayed(field: Field) -> Link:
    """What ``DELAY [JITTER [distribution NAME]]``, tc's spelling, says of a link. Raises: ScenarioError."""
    if not isinstance(field.value, str):
        return Link(delay_s=DELAY.read(field))  # which says what a number lacks
    words = field.text().split()
    match words[1:]:
        case []:
            return Link(delay_s=field.quantity(units.parse_delay))
        case [jitter]:
            distribution = Distribution.UNIFORM  # netem's own, where no table is named
        case [jitter, "distribution", name] if name in DISTRIBUTIONS:
            distribution = Distribution(name)
        case _:
            problem = f"{described(field.value)} is not emulated: a delay, its jitter and one distribution are"
            names = ", ".join(DISTRIBUTIONS)
            raise field.error(problem, f"write e.g. '10ms 2ms distribution normal', or one of {names}")
    delay_s, jitter_s = (replace(field, value=word).quantity(units.parse_delay) for word in (words[0], jitter))
    link = Link(delay_s=delay_s, jitter_s=jitter_s, distribution=distribution)
    check_jitter(link, field, described(field.value))
    return link


def _pairs(entry: Field, hosts: Sequence[Host], found: Findings) -> list[Pair] | None:
    """Every (source, destination) that the rule speaks of; None after noting errors. Raises: ScenarioError."""
    # Both are looked at, so that two wrong patterns are said at once.
    ends = [found.attempt(select, field, hosts) for field in (entry.get("src"), entry.get("dst")) if field is not None]
    if len(ends) < 2 or ends[0] is None or ends[1] is None:
        return None
    return between(entry, ends[0], ends[1], found)


RULE = Keys(
    src=needed(unread({})),  # read when the hosts are known
    dst=needed(unread({})),
    delay=needed(Kind(read=_delayed, schema={})),
    rate=needed(RATE),
    loss=Key(LOSS),
    symmetric=Key(BOOLEAN),
)
"""The keys of one rule; E2Clab has its own schema of the file."""
