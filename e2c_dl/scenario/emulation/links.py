"""The ``links:`` and ``bottlenecks:`` of ``emulation.yaml``: qualities that ``network.yaml`` cannot say, shared rates.

::

    links:                                    key by key, on top of network.yaml; of several entries the last holds
    - {src: edge.*, dst: cloud.*, symmetric: true,
       jitter: 5ms, distribution: normal,     uniform (default), normal, pareto
       reorder: 1%,                           of segments skip the delay
       queue: 64KiB,                          or 200 frames, or 2 bdp (rate x round trip, twice the link's delay)
       burst: {good_to_bad: 1%, bad_to_good: 30%, loss_in_bad: 100%, loss_in_good: 0%}}
    bottlenecks:                              one rate that several directed links share
    - {name: campus, rate: 100mbit, queue: 2 bdp, discipline: fair,     one queue for each link (default: fifo)
       links: [{src: edge.*, dst: cloud.*}, {src: fog.*, dst: cloud.*}]}

Keys of links refine each other, so what fits together is asked of the link as it came out, once all entries are read.
Each link stays held to its own quality beside a bottleneck. With ``symmetric: true`` both directions share the one
rate, as on a half-duplex link; an access link of two directions is two bottlenecks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from e2c_dl import units
from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import DELAY, LOSS, RATE, SHARE, Key, Keys, Kind, listed, matching, needed, one_of
from e2c_dl.scenario.documents.patterns import LINKS, pairs_of, shown
from e2c_dl.topology import Bottleneck, BurstLoss, Discipline, Distribution, Host, Link, Pair

DISCIPLINES = tuple(discipline.value for discipline in Discipline)
DISTRIBUTIONS = tuple(distribution.value for distribution in Distribution)

_FRAMES = re.compile(r"\s*([0-9]{1,9})\s+frames?\s*")
_BDP = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s+bdp\s*")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Length of a queue: one of these is set."""

    size_bytes: int | None = None
    bdp: float | None = None  # times rate x round trip

    def bytes_at(self, rate_bps: float, delay_s: float, place: Field, of: str) -> int:
        """Bytes ``of`` something at this rate, with a round trip of twice ``delay_s``; at least one full frame.

        Raises: ScenarioError at ``place``, if it would be a bdp of no delay.
        """
        if self.size_bytes is not None:
            return self.size_bytes
        if delay_s == 0:
            raise place.error(f"{of}, so its bdp is 0", "write e.g. 64KiB or 200 frames")
        # A queue that holds no full frame would drop them all.
        return max(units.FULL_FRAME_BYTES, math.ceil((self.bdp or 0.0) * rate_bps * 2 * delay_s / 8))


def read_links(
    section: Field, designed: Mapping[Pair, Link], hosts: Sequence[Host], found: Findings
) -> dict[Pair, Link]:
    """The ``designed`` links with what ``section`` says of some of them, noting in ``found`` what is wrong."""
    said: dict[Pair, dict[str, tuple[Field, Any]]] = {}
    for entry in found.attempt(section.items) or []:
        values = _entry(entry, found)
        pairs = found.attempt(pairs_of, entry, hosts, found) if values else None
        for pair in pairs or ():
            said.setdefault(pair, {}).update(values)  # with their places: an error names the entry that holds
    links = dict(designed)
    misfits: dict[tuple[int, str], ScenarioError] = {}
    for pair, values in said.items():
        try:
            links[pair] = _refined(pair, designed.get(pair, Link()), values)
        except ScenarioError as error:  # the first link stands for all that an entry speaks of
            misfits.setdefault((error.line or 0, error.key), error)
    found.errors += misfits.values()
    return links


def read_queue(field: Field) -> Queue:
    """The queue that the text asks for. Raises: ScenarioError."""
    text = field.text()
    frames, bdp = _FRAMES.fullmatch(text), _BDP.fullmatch(text)
    if bdp:
        if not 0 < float(bdp[1]) <= 1000:
            raise field.error(f"{text.strip()!r} is out of range", "write above 0, at most 1000 bdp")
        return Queue(bdp=float(bdp[1]))
    if not frames and re.search(r"[0-9.]\s+\S", text):
        raise field.error(f"{text[:40]!r} is no queue", "write e.g. 64KiB, 200 frames or 2 bdp")
    size_bytes = int(frames[1]) * units.FULL_FRAME_BYTES if frames else field.quantity(units.parse_size)
    if not units.FULL_FRAME_BYTES <= size_bytes <= units.SIZE_MAX_BYTES:
        remedy = f"write from {units.FULL_FRAME_BYTES}B, one full frame, to 1024GiB"
        raise field.error(f"{text[:40]!r} is out of range", remedy)
    return Queue(size_bytes=size_bytes)


def check_jitter(link: Link, place: Field, what: str, remedy: str = "") -> None:
    """Raises: ScenarioError at ``place``, of ``what``, if the link's jitter would be cut off at no delay at all."""
    if link.jitter_s == 0:
        return
    delay, jitter = units.format_delay(link.delay_s), units.format_delay(link.jitter_s)
    if link.delay_s == 0:
        problem = f"{what}: jitter of {jitter} on a link without delay"
        raise place.error(problem, remedy or "give it a delay in network.yaml")
    # The others have tails, of which some is cut off however narrow they are.
    if link.distribution is Distribution.UNIFORM and link.jitter_s > link.delay_s:
        problem = f"{what}: uniform jitter of {jitter} around a delay of {delay} would be cut off at 0"
        raise place.error(problem, remedy or f"write at most {delay}, or distribution: normal")


def _entry(entry: Field, found: Findings) -> dict[str, tuple[Field, Any]]:
    """Key -> its place and value; empty after noting errors."""
    own = Findings()
    said = {key: value for key, value in ENTRY.gather(entry, own).items() if key not in LINKS}
    if not own.errors and not said:
        keys = ", ".join(key for key in ENTRY if key not in LINKS)
        own.errors.append(entry.error("says nothing of its links", f"write one of {keys}"))
    found.take(own)
    return {} if own.errors else {key: (entry.required(key), value) for key, value in said.items()}


def _refined(pair: Pair, link: Link, values: Mapping[str, tuple[Field, Any]]) -> Link:
    """``link`` with these values. Raises: ScenarioError, if they do not fit together, or not this link."""
    fields = {key: field for key, (field, _) in values.items()}
    of = {key: value for key, (_, value) in values.items()}
    refined = replace(
        link,
        jitter_s=of.get("jitter", link.jitter_s),
        distribution=Distribution(of.get("distribution", link.distribution)),
        reorder=of.get("reorder", link.reorder),
        burst=of.get("burst", link.burst),
    )
    if "distribution" in fields and refined.jitter_s == 0:
        raise fields["distribution"].error(f"{shown(pair)} has no jitter to distribute", "add jitter, such as 2ms")
    if place := fields.get("jitter") or fields.get("distribution"):  # else it is network.yaml's, and checked there
        check_jitter(refined, place, shown(pair))
    if refined.burst is not None and refined.loss > 0:
        problem = f"{shown(pair)} already loses {units.format_loss(refined.loss)}, independently"
        raise fields["burst"].error(problem, "remove loss from its rule in network.yaml, or burst here")
    # netem reorders by sending some segments at once, so others must wait.
    if refined.reorder > 0 and refined.delay_s == 0:
        problem = f"{shown(pair)} has no delay that a segment could skip"
        raise fields["reorder"].error(problem, "give it a delay in network.yaml, or remove reorder")
    if "queue" in of:
        field = fields["queue"]
        if link.rate_bps is None:
            raise field.error(f"{shown(pair)} has no rate, so nothing queues", "add a rule for it to network.yaml")
        waiting = of["queue"].bytes_at(link.rate_bps, link.delay_s, field, f"{shown(pair)} has no delay")
        refined = replace(refined, queue_bytes=waiting)
    return refined


def _burst(field: Field) -> BurstLoss:
    burst = BurstLoss(**BURST.read(field))
    if burst.bad_to_good == 0:
        raise field.required("bad_to_good").error("0% never ends a burst", "write above 0%, such as 30%")
    if burst.good_to_bad == 0:
        raise field.required("good_to_bad").error("0% never begins a burst", "write above 0%, or remove burst")
    if burst.mean >= 1:
        raise field.error("loses every segment", "write a loss_in_bad or a loss_in_good below 100%")
    return burst


QUEUE = Kind(
    read=read_queue,
    schema={
        "type": "string",
        "pattern": rf"^\s*({units.SIZE.pattern}|[0-9]+\s+frames?|[0-9]+(\.[0-9]+)?\s+bdp)\s*$",
        "description": "What may wait: 64KiB, 200 frames (full ones, of 1514 bytes), 2 bdp (rate x round trip, twice "
        "the delay).",
    },
)
BURST = Keys(
    good_to_bad=needed(SHARE, "Probability, per segment, that a burst begins."),
    bad_to_good=needed(SHARE, "That it ends."),
    loss_in_bad=Key(SHARE, "Share lost within a burst.", default="100%"),
    loss_in_good=Key(SHARE, "Share lost outside.", default="0%"),
)
ENTRY = Keys(
    **LINKS,
    jitter=Key(DELAY, "Spread of the delay."),
    distribution=Key(
        one_of(DISTRIBUTIONS),
        "How delays are spread: jitter is half the width (uniform) or the standard deviation.",
        default="uniform",
    ),
    reorder=Key(LOSS, "Share of segments that skip the delay, and so overtake."),
    queue=Key(QUEUE),
    burst=Key(
        Kind(read=_burst, schema=BURST.schema), "Bursty loss (Gilbert, Elliott), instead of the loss of network.yaml."
    ),
)
"""What an entry may say."""

NAME = matching("[a-z][a-z0-9-]{0,30}", "name", "write lower-case letters, digits and '-', such as campus")
BOTTLENECK = Keys(
    name=needed(NAME, "Unique; schedules and reports call it so."),
    rate=needed(RATE),
    queue=Key(QUEUE),
    discipline=Key(
        one_of(DISCIPLINES),
        "Which link is served next: fifo, first come, first served; fair, in turns, each from a queue of its own.",
        default=Discipline.FIFO.value,
    ),
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
        pairs: list[Pair] = []
        if "links" in said:
            pairs = sorted(_shared_pairs(entry.required("links"), said["links"], name, hosts, owners, own))
        if not own.errors:
            queue, rate_bps, waiting = said.get("queue"), said["rate"], None
            if queue is not None:
                # Of the longest of its links: a queue made for a short one would drop what a long one needs on its way.
                delay_s = max(links.get(pair, Link()).delay_s for pair in pairs)
                place = entry.required("queue")
                waiting = own.attempt(queue.bytes_at, rate_bps, delay_s, place, "its links have no delay")
            bottlenecks.append(
                Bottleneck(
                    name=name, rate_bps=rate_bps, links=tuple(pairs), queue_bytes=waiting,
                    discipline=Discipline(said.get("discipline", Discipline.FIFO.value)),
                )
            )  # fmt: skip
    return tuple(bottlenecks)


def _shared_pairs(
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
