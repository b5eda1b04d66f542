"""A topology as the kernel's own queueing: the commands for one host's data interface, as values.

::

    eth1, leaving                                                      eth1, arriving (only at the one destination
    root HTB 1:     not matched -> straight out, unlimited             of a bottleneck's links)
      |-- 1:1       rate to the first destination -- netem 11:         ingress: u32 on the IP source -> ifb-eth1
      |-- 1:2       ... to the second             -- netem 12:           root HTB 1:
      |-- 1:1001    rate of a bottleneck                                   |-- 1:1  rate of the bottleneck -- bfifo
      |     `-- 1:3 ceil: rate to the third       -- netem 13:
      `-- 1:2000    cut                           -- blackhole
    u32 filters: IP destination -> class

What is emulated in which order: delay, jitter, loss and reordering, then the rate of the link, then the bottleneck.
(The relay delays last; a frame's arrival is the same unless jitter or a burst comes into it.) A bottleneck whose links
leave one host shares its rate among them in turns, each waiting in its own queue; one whose links reach one host is a
single queue in front of that host, behind the delays. HTB counts Ethernet frames with their headers, per segment. ARP
and IPv6 match no filter: neighbours are found at once and never lost.

:func:`changes` alters all of it in place: what waits keeps waiting, no connection notices. netem keeps a table of
delays once it has one, so a link's distribution cannot change. Rendering is pure: :mod:`~e2c_dl.emulation.tc.on_host`
runs these commands, checks each, and reads back what came of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from e2c_dl.emulation.link_values import HOLD_S
from e2c_dl.emulation.tc import link_class, shared_class
from e2c_dl.emulation.tc.link_class import Command
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Discipline, Link, Pair, Topology
from e2c_dl.units import FULL_FRAME_BYTES

MAX_SEGMENTS = 65535  # the kernel's own limit of segments per frame
MAX_DESTINATIONS = 0xFFF  # that the numbers of classes leave room for

SEGMENT_BY_SEGMENT_BPS = 1e9
"""Up to this rate the kernel hands netem single segments: it would lose, delay and count a large frame as one."""


def needs_netem(topology: Topology) -> bool:
    """Whether any link asks for what HTB cannot do: delay, jitter, loss or reordering."""
    return any(link_class.beyond_htb(link) for link in topology.links.values())


def unsupported(topology: Topology, *, netem: bool) -> tuple[str, ...]:
    """What of ``topology`` tc on the hosts cannot do, in sentences; empty if it can do all of it."""
    said = [
        f"bottleneck {each.name}: its links share neither source nor destination, and tc shapes where links begin or "
        "end; use the relay, or split it"
        for each in topology.bottlenecks
        if shared_class.end(each) is None
    ]
    said += [
        f"bottleneck {each.name}: discipline fair where its links arrive: tc serves it first come, first served; use "
        "the relay, or write fifo"
        for each in topology.bottlenecks
        if each.discipline is Discipline.FAIR and shared_class.end(each) is shared_class.End.DESTINATION
    ]
    if not netem:
        for wanted in sorted({name for link in topology.links.values() for name in link_class.beyond_htb(link)}):
            pairs = [pair for pair, link in topology.links.items() if wanted in link_class.beyond_htb(link)]
            src, dst = min(pairs)
            more = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
            said.append(f"{wanted} on {src} -> {dst}{more}: tc needs netem for it, and the kernel has none")
    return tuple(said)


def commands(
    topology: Topology, host: str, device: str, addresses: Mapping[str, str], *, netem: bool = True
) -> tuple[Command, ...]:
    """What to run on ``host``, in order, so that ``device`` shapes its links; whatever stood there goes.

    ``addresses``: host name -> IPv4 address on the data network. Without ``netem`` rates alone are set:
    :func:`unsupported` says what is missing then. Nothing but clearing is left of a host without links.

    Raises: EmulationError when a destination has no address, or for a bottleneck that tc cannot emulate.

    >>> two = Topology(hosts=(), links={("h1", "h2"): Link(rate_bps=10e6, delay_s=0.02)})
    >>> for command in commands(two, "h1", "eth1", {"h2": "198.19.0.2"}):
    ...     print(" ".join(command).removeprefix("tc "))
    qdisc replace dev eth1 root handle 2: pfifo
    qdisc del dev eth1 ingress
    ip link del dev ifb-eth1
    qdisc replace dev eth1 root handle 1: htb default 0
    class add dev eth1 parent 1: classid 1:2000 htb rate 1000bit quantum 1514
    qdisc add dev eth1 parent 1:2000 handle 2000: blackhole
    class add dev eth1 parent 1: classid 1:1 htb rate 10000000bit ceil 10000000bit burst 3028 cburst 3028 quantum 1514
    qdisc add dev eth1 parent 1:1 handle 11: netem limit 1017 delay 20000us
    filter add dev eth1 parent 1: protocol ip prio 1 handle 800::1 u32 match ip dst 198.19.0.2/32 flowid 1:1
    ip link set dev eth1 gso_max_segs 1
    """
    outgoing = _outgoing(topology, host)  # sorted: numbers of classes stay those of the set-up
    leaving = shared_class.leaving(topology, host)
    arriving = shared_class.arriving(topology, host)
    if not outgoing and not arriving:
        return clear(device)
    rendered: list[Command] = list(_emptied(device))
    if outgoing:
        # default 0: what no filter matches (ARP, IPv6, hosts without a link) goes straight out.
        rendered.append(("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "htb", "default", "0"))
        rendered += link_class.cut(device)
        rendered += shared_class.shared_classes(device, leaving)
        for number, dst in enumerate(outgoing, 1):
            at = _place(device, number, addresses, leaving, (host, dst))
            rendered += link_class.rendered(at, topology.link(host, dst), netem=netem, stands=False)
        segments = min(_segments(topology.link(host, dst), netem=netem) for dst in outgoing)
        # A frame that is segmented later would hold a slow link for up to 0.5 s: make the kernel build smaller ones.
        rendered.append(("ip", "link", "set", "dev", device, "gso_max_segs", str(segments)))
    if arriving:
        sources = {pair[0]: _address(addresses, pair, pair[0]) for each in arriving for pair in each.links}
        rendered += shared_class.arriving_set_up(topology, device, arriving, sources)
    return tuple(rendered)


def changes(
    topology: Topology,
    host: str,
    device: str,
    addresses: Mapping[str, str],
    links: Mapping[Pair, Link],
    bottlenecks: Mapping[str, float],
    *,
    netem: bool = True,
) -> tuple[Command, ...]:
    """What to run on ``host`` so that its ``links`` and ``bottlenecks`` (name -> bits per second) are as given here.

    ``topology`` is as it was set up, or as :func:`changed` since; links of other hosts and bottlenecks elsewhere are
    passed over. The same commands run twice do no harm. No queue is flushed: what waits leaves at the new rate, with
    the delay it came in with. Queues grow and shrink with the rate that is the least on their way.

    Raises: EmulationError for a link or bottleneck that was not set up, or another distribution of its jitter.
    """
    for name in sorted(bottlenecks):
        if not any(each.name == name for each in topology.bottlenecks):
            known = ", ".join(each.name for each in topology.bottlenecks) or "none"
            raise EmulationError(f"tc: bottleneck {name} was not set up; those that were: {known}")
    outgoing, now = _outgoing(topology, host), changed(topology, {}, bottlenecks)
    before, leaving = shared_class.leaving(topology, host), shared_class.leaving(now, host)
    arriving = shared_class.arriving(now, host)
    rendered = shared_class.changed(now, device, leaving, arriving, bottlenecks)
    for number, dst in enumerate(outgoing, 1):
        if (host, dst) not in links:
            places = (_place(device, number, addresses, each, (host, dst)) for each in (before, leaving))
            was, leaf = (link_class.leaf("change", at, topology.link(host, dst), netem=netem) for at in places)
            rendered += [] if leaf == was else [leaf]
    for (src, dst), link in sorted(links.items()):
        if src != host:
            continue
        if dst not in outgoing:
            raise EmulationError(f"tc: {src} -> {dst} was not set up; only links that were shaped before can change")
        set_up = topology.link(src, dst)
        if netem and link.jitter_s and link.distribution is not set_up.distribution:
            raise EmulationError(
                f"tc: {src} -> {dst}: netem cannot change the distribution of jitter from "
                f"{set_up.distribution.value} to {link.distribution.value} in place; set the link up anew"
            )
        number = outgoing.index(dst) + 1  # as when it was set up
        at = _place(device, number, addresses, leaving, (src, dst))
        rendered += link_class.rendered(at, link, netem=netem, stands=True)
    return tuple(rendered)


def changed(topology: Topology, links: Mapping[Pair, Link], bottlenecks: Mapping[str, float]) -> Topology:
    """``topology`` once ``links`` and ``bottlenecks`` (name -> bits per second) are in force."""
    shared = (replace(each, rate_bps=bottlenecks.get(each.name, each.rate_bps)) for each in topology.bottlenecks)
    return replace(topology, links={**topology.links, **links}, bottlenecks=tuple(shared))


def clear(device: str) -> tuple[Command, ...]:
    """What to run so that ``device`` shapes nothing any more.

    ``on_host`` leaves out what removes a thing that is not there, and so succeeds whether or not anything was shaped.
    """
    return (
        *_emptied(device),
        ("tc", "qdisc", "del", "dev", device, "root"),
        ("ip", "link", "set", "dev", device, "gso_max_segs", str(MAX_SEGMENTS)),
    )


def _emptied(device: str) -> tuple[Command, ...]:
    return (
        # Replacing by another kind always works; deleting fails where nothing is, replacing HTB by HTB where HTB is.
        ("tc", "qdisc", "replace", "dev", device, "root", "handle", "2:", "pfifo"),
        ("tc", "qdisc", "del", "dev", device, "ingress"),
        ("ip", "link", "del", "dev", shared_class.ifb(device)),
    )


def _outgoing(topology: Topology, host: str) -> list[str]:
    """The destinations of ``host``, sorted: nothing depends on the order in which a scenario's rules are read."""
    pairs = set(topology.links).union(*(each.links for each in shared_class.leaving(topology, host)))
    found = sorted(dst for src, dst in pairs if src == host)
    if len(found) > MAX_DESTINATIONS:
        raise EmulationError(f"tc: {host} has {len(found)} outgoing links; {MAX_DESTINATIONS} are possible")
    return found


def _place(
    device: str, number: int, addresses: Mapping[str, str], leaving: tuple[Bottleneck, ...], pair: Pair
) -> link_class.LinkPlace:
    around = (link_class.Within(number=n, bottleneck=each) for n, each in enumerate(leaving, 1) if pair in each.links)
    address = _address(addresses, pair, pair[1])
    return link_class.LinkPlace(device=device, number=number, address=address, within=next(around, None))


def _address(addresses: Mapping[str, str], pair: Pair, name: str) -> str:
    if name not in addresses:
        raise EmulationError(f"tc: {pair[0]} -> {pair[1]}: {name} has no data address; give every host one")
    return addresses[name]


def _segments(link: Link, *, netem: bool) -> int:
    """How many segments the kernel may hand over as one frame."""
    random = link.loss or link.burst or link.jitter_s or link.reorder or link.queue_bytes is not None
    if netem and (random or (link.rate_bps is not None and link.rate_bps <= SEGMENT_BY_SEGMENT_BPS)):
        return 1
    if link.rate_bps is None:
        return MAX_SEGMENTS
    return max(1, min(MAX_SEGMENTS, int(link.rate_bps * HOLD_S / 8 / FULL_FRAME_BYTES)))
