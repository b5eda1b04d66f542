"""The ``bottlenecks:`` section of ``emulation.yaml``: one rate that several directed links share.

::

    bottlenecks:
    - {name: campus, rate: 100mbit, queue: 2 bdp, links: [{src: edge.*, dst: cloud.*}, {src: fog.*, dst: cloud.*}]}

Each link stays held to its own quality beside it. With ``symmetric: true`` both directions share the one rate, as on a
half-duplex link; an access link of two directions is two bottlenecks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from e2c_dl.scenario.emulation.links import QUEUE, Queue
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.keys import RATE, Key, Keys, listed, matching, needed
from e2c_dl.scenario.patterns import LINKS, pairs_of, shown
from e2c_dl.topology import Bottleneck, Host, Link, Pair

NAME = matching("[a-z][a-z0-9-]{0,30}", "name", "write lower-case letters, digits and '-', such as campus")
BOTTLENECK = Keys(
    name=needed(NAME, "Unique; schedules and reports call it so."),
    rate=needed(RATE),
    queue=Key(QUEUE),
    links=needed(listed(LINKS.schema, least=1), "The links that share the rate, each in one bottleneck at most."),
)


def read_bottlenecks(
    section: Field, links: Mapping[Pair, Link], hosts: Sequence[Host], found: Findings
) -> tuple[Bottleneck, ...]:
    """The bottlenecks in the order of the file, noting in ``found`` what is wrong."""
    bottlenecks: list[Bottleneck] = []
    owners: dict[Pair, str] = {}
    for entry, own in found.each(found.attempt(section.items) or []):
        said = BOTTLENECK.gather(entry, own)
        name = said.get("name", "")
        if name in (each.name for each in bottlenecks):
            problem = f"{described(name)} is the name of an earlier one"
            own.errors.append(entry.required("name").error(problem, "write another name, or add links to it"))
        pairs = _pairs(entry.required("links"), said["links"], name, hosts, owners, own) if "links" in said else []
        if not own.errors:
            queue = said.get("queue")
            waiting = own.attempt(_queue_bytes, queue, entry, said["rate"], pairs, links) if queue else None
            bottlenecks.append(
                Bottleneck(name=name, rate_bps=said["rate"], links=tuple(sorted(pairs)), queue_bytes=waiting)
            )
    return tuple(bottlenecks)


def _pairs(
    field: Field, entries: Sequence[Field], name: str, hosts: Sequence[Host], owners: dict[Pair, str], found: Findings
) -> list[Pair]:
    """The links, each once; which bottleneck has which is kept in ``owners``."""
    pairs: dict[Pair, None] = {}
    for entry, own in found.each(entries):
        LINKS.fields(entry, own)
        selected = own.attempt(pairs_of, entry, hosts, own) if not own.errors else None
        taken = [pair for pair in selected or () if owners.get(pair, name) != name]  # twice in one is harmless
        if taken:
            problem = f"{shown(taken[0])} is in bottleneck {owners[taken[0]]} already"
            own.errors.append(entry.error(problem, "leave each link in one bottleneck"))
        pairs.update(dict.fromkeys(selected or ()))
    if not entries or not (pairs or found.errors):  # all of its links may have been remarks
        found.errors.append(field.error("names no link", "write e.g. [{src: edge.*, dst: cloud.*}]"))
    owners.update({pair: name for pair in pairs if pair not in owners})
    return list(pairs)


def _queue_bytes(queue: Queue, entry: Field, rate_bps: float, pairs: Sequence[Pair], links: Mapping[Pair, Link]) -> int:
    # Of the longest of its links: a queue made for a short one would drop what a long one needs on its way.
    delay_s = max(links.get(pair, Link()).delay_s for pair in pairs)
    if queue.bdp is not None and delay_s == 0:
        problem = "its links have no delay, so their bdp is 0"
        raise entry.required("queue").error(problem, "write e.g. 64KiB or 200 frames")
    return queue.bytes_at(rate_bps, delay_s)
