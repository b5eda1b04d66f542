"""Whom an entry of ``emulation.yaml`` speaks of: hosts, or directed links between them.

::

    edge-1                                    the host of that very name
    edge.*                                    every host that the pattern selects
    random                                    drawn by the seed of ``injected:``, and only there
    {src: edge.*, dst: cloud.*}               the links from each of the first to each of the second
    {src: ..., dst: ..., symmetric: true}     and back
"""

from __future__ import annotations

from collections.abc import Sequence

from e2c_dl.scenario.field import Field
from e2c_dl.scenario.patterns import select
from e2c_dl.topology import Host, Pair

RANDOM = "random"
LINK_KEYS = ("src", "dst", "symmetric")


def hosts_of(field: Field, hosts: Sequence[Host]) -> tuple[Host, ...]:
    """The host of that very name, else those that the pattern selects. Raises: ScenarioError."""
    text = field.text()
    if text == RANDOM:
        raise field.error("nothing is drawn here", "write random under 'injected:' alone, or name hosts")
    return tuple(host for host in hosts if host.name == text) or select(field, hosts)


def pairs_of(entry: Field, hosts: Sequence[Host]) -> list[Pair]:
    """The directed links between the ``src`` and the ``dst`` of ``entry``, without a host to itself, each once.

    Raises: ScenarioError.
    """
    sources, destinations = (hosts_of(entry.required(end), hosts) for end in ("src", "dst"))
    pairs = [(src.name, dst.name) for src in sources for dst in destinations if src is not dst]
    if not pairs:
        raise entry.error("src and dst are one and the same host", "name two")
    back = [(dst, src) for src, dst in pairs] if is_symmetric(entry) else []
    return list(dict.fromkeys([*pairs, *back]))


def is_symmetric(entry: Field) -> bool:
    """Whether ``entry`` holds both ways. Raises: ScenarioError."""
    field = entry.get("symmetric")
    return field is not None and field.boolean()


def shown(pair: Pair) -> str:
    """``edge-1 -> cloud-1``."""
    return f"{pair[0]} -> {pair[1]}"
