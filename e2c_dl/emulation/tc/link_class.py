"""One directed link as HTB class, leaf and filter: how it is set up, and how it is changed in place.

A leaf is netem wherever the kernel has it, also for a link that asks for a rate alone: a leaf cannot be exchanged
without losing what waits in it, and a schedule may ask for delay or loss later. Its ``limit`` counts frames that wait
and frames that are under way::

    limit = (queue + rate * (delay + 4 * jitter)) / full frame

A link that is cut keeps class and leaf: its filter leads into a blackhole, and what waits already still arrives. The
numbers of classes and handles are hexadecimal for tc. Source: tc-htb(8), tc-netem(8), tc-u32(8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from e2c_dl.topology import Bottleneck, Distribution, Link, default_queue_bytes
from e2c_dl.units import FULL_FRAME_BYTES

Command = tuple[str, ...]

UNLIMITED_BPS = 100_000_000_000  # a class must have a rate; no interface between hosts of one machine is this fast
UNLIMITED_QUEUE_BPS = 10_000_000_000  # the rate for which the queue of a link without a rate is sized
BURST_S = 0.001
"""How long a class may run ahead of its rate: timers of busy machines are late by less, and a late timer costs rate."""

SHARE_BPS = 1000
"""What HTB guarantees to each link of a bottleneck, its own rate being the ceiling: next to nothing, since guaranteed
rates are granted even where the bottleneck is full. The rest is lent in turns."""

MOST_BYTES = (1 << 32) - 1  # of a queue that counts bytes: the kernel keeps its limit in 32 bits

CUT = "2000"  # class and leaf of links that are cut: beyond those of links (to fff) and of bottlenecks (from 1000)

PARETO_SCALE = math.sqrt(0.75)
"""netem's table of the Pareto distribution is (x - 1.5) * 4/3; times this it has the standard deviation 1.

The table ends at 4: the longest percent of the delays is cut to ``delay_s + 3.46 * jitter_s``.
"""


@dataclass(frozen=True, kw_only=True)
class Within:
    """The bottleneck that a link passes where it begins, and its number there, from 1."""

    number: int
    bottleneck: Bottleneck

    @property
    def flow(self) -> str:
        return self.flow_of(self.number)

    @staticmethod
    def flow_of(number: int) -> str:
        """The class of the bottleneck ``number`` of a device."""
        return f"1:{0x1000 + number:x}"


@dataclass(frozen=True, kw_only=True)
class LinkPlace:
    """Where a link stands: its number among the links of ``device``, from 1, and the address it leads to."""

    device: str
    number: int
    address: str
    within: Within | None = None

    @property
    def flow(self) -> str:
        return f"1:{self.number:x}"

    @property
    def leaf(self) -> str:
        return f"1{self.number:x}:"


def beyond_htb(link: Link) -> tuple[str, ...]:
    """What ``link`` asks for that HTB cannot do."""
    asked = {
        "delay": link.delay_s > 0,
        "jitter": link.jitter_s > 0,
        "loss": link.loss > 0 or link.burst is not None,
        "reordering": link.reorder > 0,
    }
    return tuple(name for name, wanted in asked.items() if wanted)


def cut(device: str) -> list[Command]:
    """The class that filters of links that are cut lead into."""
    on, rate = ("dev", device), f"{SHARE_BPS}bit"
    quantum = ("quantum", str(FULL_FRAME_BYTES))
    return [
        ("tc", "class", "add", *on, "parent", "1:", "classid", f"1:{CUT}", "htb", "rate", rate, *quantum),
        ("tc", "qdisc", "add", *on, "parent", f"1:{CUT}", "handle", f"{CUT}:", "blackhole"),
    ]


def htb(rate_bps: float | None, share_bps: float | None = None) -> Command:
    """HTB's parameters for ``rate_bps``; ``share_bps`` of it for certain, if that is less."""
    # tc counts bytes per second inside: 0 is refused.
    ceil = UNLIMITED_BPS if rate_bps is None else max(8, round(rate_bps))
    rate = ceil if share_bps is None else min(ceil, round(share_bps))
    burst = str(max(2 * FULL_FRAME_BYTES, round(min(ceil, UNLIMITED_QUEUE_BPS) * BURST_S / 8)))
    rates = ("rate", f"{rate}bit", "ceil", f"{ceil}bit", "burst", burst, "cburst", burst)
    return ("htb", *rates, "quantum", str(FULL_FRAME_BYTES))


def rendered(place: LinkPlace, link: Link, *, netem: bool, stands: bool) -> list[Command]:
    """Class, leaf and filter of a link; one that ``stands`` is changed in place, whatever it was before."""
    verb, filter_verb = ("change", "replace") if stands else ("add", "add")
    on, match = ("dev", place.device), ("match", "ip", "dst", f"{place.address}/32")
    parent, share_bps = ("1:", None) if place.within is None else (place.within.flow, SHARE_BPS)
    number = ("protocol", "ip", "prio", "1", "handle", f"800::{place.number:x}")  # its own: it can be replaced by it
    flow = f"1:{CUT}" if link.down else place.flow
    return [
        ("tc", "class", verb, *on, "parent", parent, "classid", place.flow, *htb(link.rate_bps, share_bps)),
        leaf(verb, place, link, netem=netem),
        ("tc", "filter", filter_verb, *on, "parent", "1:", *number, "u32", *match, "flowid", flow),
    ]


def leaf(verb: str, place: LinkPlace, link: Link, *, netem: bool) -> Command:
    """The queue of a link, to ``add`` or to ``change``."""
    own = ("dev", place.device, "parent", place.flow, "handle", place.leaf)
    return ("tc", "qdisc", verb, *own, *_leaf(place, link, netem=netem))


def fifo(waiting_bytes: int) -> Command:
    """A queue that takes so many bytes, one full frame at least."""
    return ("bfifo", "limit", str(min(MOST_BYTES, max(FULL_FRAME_BYTES, waiting_bytes))))


def _leaf(place: LinkPlace, link: Link, *, netem: bool) -> Command:
    waiting_bytes = _waiting_bytes(place, link)
    if not netem:
        return fifo(waiting_bytes)
    under_way_bytes = _narrowest_bps(place, link) * (link.delay_s + 4 * link.jitter_s) / 8
    reorder = ("reorder", _percent(link.reorder)) if link.reorder and link.delay_s else ()  # refused without a delay
    limit = math.ceil((waiting_bytes + under_way_bytes) / FULL_FRAME_BYTES)
    return ("netem", "limit", str(limit), *_delay(link), *_loss(link), *reorder)


def _narrowest_bps(place: LinkPlace, link: Link) -> float:
    rates = [UNLIMITED_QUEUE_BPS if link.rate_bps is None else link.rate_bps]
    if place.within is not None:
        rates.append(place.within.bottleneck.rate_bps)
    return min(rates)


def _waiting_bytes(place: LinkPlace, link: Link) -> int:
    """What may wait; of a link in a bottleneck no more than in the bottleneck."""
    asked = [link.queue_bytes, None if place.within is None else place.within.bottleneck.queue_bytes]
    given = [each for each in asked if each is not None]
    return max(
        FULL_FRAME_BYTES, min(given) if given else default_queue_bytes(_narrowest_bps(place, link), link.delay_s)
    )


def _delay(link: Link) -> Command:
    if not link.delay_s and not link.jitter_s:
        return ()
    if not link.jitter_s:
        return ("delay", _time(link.delay_s))
    if link.distribution is Distribution.UNIFORM:  # what netem does without a table
        return ("delay", _time(link.delay_s), _time(link.jitter_s))
    jitter_s = link.jitter_s * (PARETO_SCALE if link.distribution is Distribution.PARETO else 1)
    return ("delay", _time(link.delay_s), _time(jitter_s), "distribution", link.distribution.value)


def _loss(link: Link) -> Command:
    if link.burst is not None:
        burst = link.burst
        chain = (burst.good_to_bad, burst.bad_to_good, burst.loss_in_bad, burst.loss_in_good)  # netem's p, r, 1-h, 1-k
        return ("loss", "gemodel", *map(_percent, chain))
    return ("loss", "random", _percent(link.loss)) if link.loss else ()


def _time(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"  # the finest unit that every tc takes


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.6f}".rstrip("0").rstrip(".") + "%"
