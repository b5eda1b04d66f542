"""``network.yaml`` to one :class:`Link` per directed pair of hosts.

Rules are read from top to bottom; where several speak of the same directed pair, the last holds, as a whole: a rule
without ``loss`` takes away the loss of an earlier one. (E2Clab itself would lose all but the last rule of a *source*.)
``symmetric: true`` makes a rule hold both ways. A host has no link to itself. ``delay`` may carry jitter as tc spells
it, ``"10ms 2ms distribution normal"``: E2Clab hands it on to tc unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from e2c_dl import units
from e2c_dl.scenario.document import Document
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.patterns import select
from e2c_dl.scenario.quality import DISTRIBUTIONS, JitterMisfit, check_jitter
from e2c_dl.topology import Distribution, Host, Link, Pair

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
    delayed = own.attempt(_delayed, fields["delay"]) if "delay" in fields else None
    loss = own.attempt(fields["loss"].quantity, units.parse_loss) if "loss" in fields else 0.0
    symmetric = own.attempt(fields["symmetric"].boolean) if "symmetric" in fields else False
    found.errors += own.errors
    if own.errors or delayed is None:
        return None
    return Rule(field=entry, link=replace(delayed, rate_bps=rate_bps, loss=loss or 0.0), symmetric=bool(symmetric))


def _delayed(field: Field) -> Link:
    """What ``DELAY [JITTER [distribution NAME]]``, tc's spelling, says of a link. Raises: ScenarioError."""
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
    delay_s, jitter_s = (_word(field, word).quantity(units.parse_delay) for word in (words[0], jitter))
    link = Link(delay_s=delay_s, jitter_s=jitter_s, distribution=distribution)
    try:
        check_jitter(link)
    except JitterMisfit as misfit:
        raise field.error(f"{described(field.value)}: {misfit.problem}", misfit.remedy) from misfit
    return link


def _word(field: Field, word: str) -> Field:
    """One word of ``field``'s text, as a value to ask."""
    return Field(document=field.document, path=field.path, value=word)


def _pairs(entry: Field, hosts: Sequence[Host], found: Findings) -> list[Pair] | None:
    """Every (source, destination) that the rule speaks of; None after noting errors. Raises: ScenarioError."""
    ends = [found.attempt(select, field, hosts) for field in (entry.get("src"), entry.get("dst")) if field is not None]
    if len(ends) < 2 or ends[0] is None or ends[1] is None:
        return None
    pairs = [(src.name, dst.name) for src in ends[0] for dst in ends[1] if src is not dst]
    if not pairs:
        raise entry.error("src and dst are one and the same host", "name two, or remove the rule")
    return pairs
