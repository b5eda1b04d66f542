"""Values of links that relay, tc, agent and measuring share: how long a piece holds a link, and a link as JSON.

>>> link_from_json({"rate_bps": 10e6, "delay_s": 0.02}).rate_bps
10000000.0
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from e2c_dl import typed
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Link, Pair

HOLD_S = 0.005
"""A piece of a frame holds its link no longer than this, unless it is a single segment."""

_FIELDS = {field.name for field in dataclasses.fields(Link)}


def link_to_json(link: Link) -> dict[str, Any]:
    """``link`` as JSON knows it: ``link_from_json`` takes it back."""
    return dict(msgspec.to_builtins(link))


def link_from_json(value: Any) -> Link:
    """The link; what ``value`` does not name is as in ``Link()``. Raises: EmulationError for what is no link."""
    try:
        # msgspec passes over keys that a dataclass does not have; a misspelt one would leave its default in force.
        if unknown := ", ".join(sorted(set(value) - _FIELDS)):
            raise ValueError(f"no field {unknown}")
        return typed.convert(value, Link)
    except (TypeError, ValueError) as error:
        raise EmulationError(f"link: {error}; write its fields by name, as in link_to_json") from error


def links_to_json(links: Mapping[Pair, Link], bottlenecks: Sequence[Bottleneck]) -> dict[str, Any]:
    """{"links": [{"src", "dst", the link's fields}], "bottlenecks": [its fields]}, as the relay shows them, too."""
    return {
        "links": [{"src": src, "dst": dst, **link_to_json(link)} for (src, dst), link in links.items()],
        "bottlenecks": [msgspec.to_builtins(one) for one in bottlenecks],
    }


def links_from_json(rows: Any) -> dict[Pair, Link]:
    """The links of ``links_to_json``. Raises: EmulationError for anything else, or when one is given twice."""
    links: dict[Pair, Link] = {}
    try:
        for row in map(dict, rows):
            pair = row.pop("src"), row.pop("dst")
            if pair in links:
                raise EmulationError(f"relay: {pair[0]} -> {pair[1]} is given twice; merge the two")
            links[pair] = link_from_json(row)
    except (TypeError, ValueError, KeyError) as error:
        raise EmulationError(f"relay: {error!r} in links; write src and dst by name, as links_to_json does") from error
    return links
