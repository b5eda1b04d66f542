"""``network.yaml`` to one :class:`Link` per directed pair of hosts.

Rules are read from top to bottom; where several speak of the same directed pair, the last holds, as a whole: a rule
without ``loss`` takes away the loss of an earlier one. (E2Clab itself would lose all but the last rule of a *source*.)
``symmetric: true`` makes a rule hold both ways. A host has no link to itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from e2c_dl import units
from e2c_dl.scenario.document import Document
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.patterns import select
from e2c_dl.topology import Host, Link, Pair

_REQUIRED = ("src", "dst", "delay", "rate")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One entry of ``networks:``."""

    field: Field
    link: Link
    symmetric: bool


def read_network(document: Document, hosts: Sequence[Host] | None, found: Findings) -> dict[Pair, Link]:
    """The links between ``hosts``, noting in ``found`` what is wrong.

    Without hosts (they could not be read) only what a rule says of itself is checked.
    """
    top = Field(document=document, value=document.value)
    networks = top.keys(found, known=["networks"], required=["networks"]).get("networks")
    links: dict[Pair, Link] = {}
    if networks is None or networks.value is None:  # "networks:" alone is E2Clab's way to shape nothing
        return links
    for entry in found.attempt(networks.items) or []:
        rule = _rule(entry, found)
        if hosts is not None and isinstance(entry.value, dict):
            pairs = found.attempt(_pairs, entry, hosts, found)
            if rule is not None and pairs is not None:
                links.update(dict.fromkeys(pairs, rule.link))
                if rule.symmetric:
                    links.update({(dst, src): rule.link for src, dst in pairs})
    return links


def _rule(entry: Field, found: Findings) -> Rule | None:
    own = Findings()
    fields = entry.keys(own, known=(*_REQUIRED, "loss", "symmetric"), required=_REQUIRED)
    rate_bps = own.attempt(fields["rate"].quantity, units.parse_rate) if "rate" in fields else None
    delay_s = own.attempt(_delay_s, fields["delay"]) if "delay" in fields else None
    loss = own.attempt(fields["loss"].quantity, units.parse_loss) if "loss" in fields else 0.0
    symmetric = own.attempt(fields["symmetric"].boolean) if "symmetric" in fields else False
    found.errors += own.errors
    if own.errors:
        return None
    link = Link(rate_bps=rate_bps, delay_s=delay_s or 0.0, loss=loss or 0.0)
    return Rule(field=entry, link=link, symmetric=bool(symmetric))


def _delay_s(field: Field) -> float:
    words = field.text().split()
    if len(words) > 1 and re.fullmatch(r"[0-9.]+[a-z]*", words[0]):
        problem = f"{described(field.value)}: jitter and distributions are not emulated"
        raise field.error(problem, f"write the delay alone, {words[0]}")
    return field.quantity(units.parse_delay)


def _pairs(entry: Field, hosts: Sequence[Host], found: Findings) -> list[Pair] | None:
    """Every (source, destination) that the rule speaks of; None after noting errors. Raises: ScenarioError."""
    ends = [found.attempt(select, field, hosts) for field in (entry.get("src"), entry.get("dst")) if field is not None]
    if len(ends) < 2 or ends[0] is None or ends[1] is None:
        return None
    pairs = [(src.name, dst.name) for src in ends[0] for dst in ends[1] if src is not dst]
    if not pairs:
        raise entry.error("src and dst are one and the same host", "name two, or remove the rule")
    return pairs
