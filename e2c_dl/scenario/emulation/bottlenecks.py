"""The ``bottlenecks:`` section of ``emulation.yaml``: one rate that several directed links share.

::

    bottlenecks:
    - {name: campus, rate: 100mbit, queue: 2 bdp, links: [{src: edge.*, dst: cloud.*}, {src: fog.*, dst: cloud.*}]}

Each link stays held to its own quality beside it. With ``symmetric: true`` both directions share the one rate, as on a
half-duplex link; an access link of two directions is two bottlenecks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from e2c_dl import units
from e2c_dl.scenario.ends import LINK_KEYS, pairs_of, shown
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.quality import Queue, read_queue
from e2c_dl.topology import Bottleneck, Host, Link, Pair

KEYS = ("name", "rate", "queue", "links")

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def read_bottlenecks(
    section: Field, links: Mapping[Pair, Link], hosts: Sequence[Host], found: Findings
) -> tuple[Bottleneck, ...]:
    """The bottlenecks in the order of the file, noting in ``found`` what is wrong."""
    bottlenecks: list[Bottleneck] = []
    names: set[str] = set()
    owners: dict[Pair, str] = {}
    for entry in found.attempt(section.items) or []:
        own = Findings()
        fields = entry.keys(own, known=KEYS, required=("name", "rate", "links"))
        name = own.attempt(_new_name, fields["name"], names) if "name" in fields else None
        rate_bps = own.attempt(fields["rate"].quantity, units.parse_rate) if "rate" in fields else None
        queue = own.attempt(read_queue, fields["queue"]) if "queue" in fields else None
        pairs = _pairs(fields["links"], name or "", hosts, owners, own) if "links" in fields else []
        if name is not None and rate_bps is not None and not own.errors:
            waiting = own.attempt(_queue_bytes, queue, fields["queue"], rate_bps, pairs, links) if queue else None
            made = Bottleneck(name=name, rate_bps=rate_bps, links=tuple(sorted(pairs)), queue_bytes=waiting)
            bottlenecks.append(made)
        found.errors += own.errors
    return tuple(bottlenecks)


def _new_name(field: Field, names: set[str]) -> str:
    name = field.text()
    if not _NAME.fullmatch(name):
        raise field.error(f"{described(name)} is no name", "write lower-case letters, digits and '-', such as campus")
    if name in names:
        raise field.error(f"{described(name)} is the name of an earlier one", "write another name, or add links to it")
    names.add(name)
    return name


def _pairs(field: Field, name: str, hosts: Sequence[Host], owners: dict[Pair, str], found: Findings) -> list[Pair]:
    """The links, each once; which bottleneck has which is kept in ``owners``."""
    pairs: dict[Pair, None] = {}
    entries = found.attempt(field.items)
    if entries == []:
        found.errors.append(field.error("names no link", "write e.g. [{src: edge.*, dst: cloud.*}]"))
    for entry in entries or ():
        own = Findings()
        entry.keys(own, known=LINK_KEYS, required=("src", "dst"))
        selected = own.attempt(pairs_of, entry, hosts) if not own.errors else None
        taken = [pair for pair in selected or () if owners.get(pair, name) != name]
        if taken:
            problem = f"{shown(taken[0])} is in bottleneck {owners[taken[0]]} already"
            own.errors.append(entry.error(problem, "leave each link in one bottleneck"))
        found.errors += own.errors
        pairs.update(dict.fromkeys(selected or ()))
    owners.update({pair: name for pair in pairs if pair not in owners})
    return list(pairs)


def _queue_bytes(queue: Queue, field: Field, rate_bps: float, pairs: Sequence[Pair], links: Mapping[Pair, Link]) -> int:
    """Of the longest of its links, where the queue is a multiple of the bandwidth-delay product."""
    delay_s = max(links.get(pair, Link()).delay_s for pair in pairs)
    if queue.bdp is not None and delay_s == 0:
        raise field.error("its links have no delay, so their bdp is 0", "write e.g. 64KiB or 200 frames")
    return queue.bytes_at(rate_bps, delay_s)
