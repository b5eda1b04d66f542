"""Values of links that relay, tc, agent and measuring share: a link as JSON, and how much waits before one by default.

>>> link_from_json({"rate_bps": 10e6, "delay_s": 0.02}).rate_bps
10000000.0
>>> default_queue_bytes(1e9, 0.1)  # twice 1 Gbit/s times the round trip of 0.2 s
50000000
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Link, Pair
from e2c_dl.units import FULL_FRAME_BYTES

HOLD_S = 0.005
"""A piece of a frame holds its link no longer than this, unless it is a single segment."""

QUEUE_FRAMES = 1000
"""Full frames that a queue takes at least, unless the link says otherwise (what pfifo and netem take by default)."""

IN_FLIGHT_BYTES = 64 * 1024 * 1024
"""What a link without a rate may hold in memory, unless it says otherwise: it has no queue, only a delay."""

_FIELDS = {field.name for field in dataclasses.fields(Link)}


def default_queue_bytes(rate_bps: float | None, delay_s: float) -> int:
    """The default limit of a queue: twice rate times round trip (``delay_s`` both ways), or QUEUE_FRAMES if more."""
    if rate_bps is None:
        return IN_FLIGHT_BYTES
    return max(QUEUE_FRAMES * FULL_FRAME_BYTES, math.ceil(2 * rate_bps * 2 * delay_s / 8))


def link_to_json(link: Link) -> dict[str, Any]:
    """``link`` as JSON knows it: ``link_from_json`` takes it back."""
    return dict(msgspec.to_builtins(link))


def link_from_json(value: Any) -> Link:
    """The link; what ``value`` does not name is as in ``Link()``. Raises: EmulationError for what is no link."""
    try:
        # msgspec passes over keys that a dataclass does not have; a misspelt one would leave its default in force.
        if unknown := ", ".join(sorted(set(value) - _FIELDS)):
            raise ValueError(f"no field {unknown}")
        return msgspec.convert(value, Link)
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
