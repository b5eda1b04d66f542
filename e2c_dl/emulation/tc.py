"""A topology as the kernel's own queueing: the commands for one host's data interface, as values.

::

    root HTB 1:   not matched -> straight out, unlimited
      |-- 1:1  rate of the link to the first destination    -- netem 1: (delay, loss)  where either is asked,
      |-- 1:2  ... to the second                            -- pfifo 2:               elsewhere
    u32 filters: IP destination -> class

HTB counts what the relay counts: Ethernet frames with their headers, per segment. All destinations of an interface are
given at once, sorted, so that nothing depends on the order in which a scenario's rules are read. Rendering is pure:
whoever runs these commands must check that each one succeeded, and measure what came out.
"""

from __future__ import annotations

from collections.abc import Mapping

from e2c_dl.emulation.frames import FULL_FRAME_BYTES
from e2c_dl.emulation.shaping import HOLD_S, QUEUE_FRAMES
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link, Topology

Command = tuple[str, ...]

UNLIMITED_BPS = 100_000_000_000  # a class must have a rate; no interface between hosts of one machine is this fast
UNLIMITED_QUEUE_BPS = 10_000_000_000  # the rate for which the queue of a link without a rate is sized
BURST_S = 0.001
"""How long a class may run ahead of its rate: timers of busy machines are late by less, and a late timer costs rate."""

MAX_SEGMENTS = 65535  # the kernel's own limit of segments per frame


def needs_netem(topology: Topology) -> bool:
    """Whether any link asks for what HTB cannot do: delay or loss."""
    return any(_needs_netem(link) for link in topology.links.values())


def commands(topology: Topology, host: str, device: str, addresses: Mapping[str, str]) -> tuple[Command, ...]:
    """What to run on ``host``, in order, so that ``device`` shapes its outgoing links; whatever stood there goes.

    ``addresses``: host name -> IPv4 address on the data network. Nothing but clearing is left of a host without links.

    Raises: EmulationError when a destination has no address.
    """
    outgoing = sorted((dst, link) for (src, dst), link in topology.links.items() if src == host)
    for dst, _ in outgoing:
        if dst not in addresses:
            raise EmulationError(f"tc: {host} -> {dst}: {dst} has no data address; give every host one")
    rendered: list[Command] = list(_emptied(device))
    if not outgoing:
        return tuple(rendered)
    rendered.append(("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "htb", "default", "0"))
    for number, (dst, link) in enumerate(outgoing, 1):
        rendered += _link_commands(device, f"{number:x}", addresses[dst], link)
    segments = min(_segments_within_hold(link) for _, link in outgoing)
    # A frame that is segmented later would hold a slow link for up to 0.5 s: make the kernel build smaller ones.
    rendered.append(("ip", "link", "set", "dev", device, "gso_max_segs", str(segments)))
    return tuple(rendered)


def clear(device: str) -> tuple[Command, ...]:
    """What to run so that ``device`` shapes nothing any more; succeeds whether or not it did."""
    return (
        *_emptied(device),
        ("tc", "qdisc", "del", "dev", device, "root"),
        ("ip", "link", "set", "dev", device, "gso_max_segs", str(MAX_SEGMENTS)),
    )


def _emptied(device: str) -> tuple[Command, ...]:
    # Replacing by another kind always works; deleting fails where nothing stands, replacing HTB by HTB where HTB does.
    return (("tc", "qdisc", "replace", "dev", device, "root", "handle", "2:", "pfifo"),)


def _needs_netem(link: Link) -> bool:
    return link.delay_s > 0 or link.loss > 0


def _link_commands(device: str, number: str, address: str, link: Link) -> list[Command]:
    """Class, leaf and filter of one destination. Numbers of classes and handles are hexadecimal for tc."""
    rate_bps = UNLIMITED_BPS if link.rate_bps is None else max(8, round(link.rate_bps))
    rate, flow = f"{rate_bps}bit", f"1:{number}"
    burst = str(max(2 * FULL_FRAME_BYTES, round(min(rate_bps, UNLIMITED_QUEUE_BPS) * BURST_S / 8)))
    on, under = ("dev", device), ("parent", flow, "handle", f"1{number}:")
    shaped: Command = ("htb", "rate", rate, "ceil", rate, "burst", burst, "cburst", burst)
    quantum = ("quantum", str(FULL_FRAME_BYTES))
    return [
        ("tc", "class", "add", *on, "parent", "1:", "classid", flow, *shaped, *quantum),
        ("tc", "qdisc", "add", *on, *under, *_leaf(link)),
        ("tc", "filter", "add", *on, "parent", "1:", "protocol", "ip", "prio", "1", *_match(address), "flowid", flow),
    ]


def _match(address: str) -> Command:
    return ("u32", "match", "ip", "dst", f"{address}/32")


def _leaf(link: Link) -> Command:
    limit = ("limit", str(_queue_packets(link)))
    if not _needs_netem(link):
        return ("pfifo", *limit)
    delay = ("delay", f"{round(link.delay_s * 1e6)}us") if link.delay_s > 0 else ()
    loss = ("loss", f"{link.loss * 100:.6f}".rstrip("0").rstrip(".") + "%") if link.loss > 0 else ()
    return ("netem", *delay, *loss, *limit)


def _queue_packets(link: Link) -> int:
    """Twice rate times round trip (netem's limit also counts what is on its way); at least the default."""
    rate_bps = UNLIMITED_QUEUE_BPS if link.rate_bps is None else link.rate_bps
    return max(QUEUE_FRAMES, -int(-2 * rate_bps * 2 * link.delay_s // (8 * FULL_FRAME_BYTES)))


def _segments_within_hold(link: Link) -> int:
    if link.rate_bps is None:
        return MAX_SEGMENTS
    return max(1, min(MAX_SEGMENTS, int(link.rate_bps * HOLD_S / 8 / FULL_FRAME_BYTES)))
