"""One rate that several links share, where they begin (a class above theirs) or where they end (an IFB device).

::

    edge-1 --.                        all links leave one host:   HTB class with the rate, the links' classes below it
    edge-2 ---+-- Bottleneck --> fog  all links reach one host:   what arrives from those sources is led through an IFB
                                                                  device whose HTB has one class per bottleneck

A bottleneck of one link stands where the link begins. One whose links share neither end is beyond tc on the hosts.
Source: Linux, Documentation of ifb (iproute2, tc-mirred(8)).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from e2c_dl.emulation.tc.link_class import Command, Within, fifo, htb
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Topology, default_queue_bytes

NAME_CHARS = 15  # of an interface


class End(Enum):
    """Which end the links of a bottleneck have in common."""

    SOURCE = 0
    DESTINATION = 1


def end(bottleneck: Bottleneck) -> End | None:
    """The end that all links share; None if there is none."""
    for which in End:
        if len({pair[which.value] for pair in bottleneck.links}) == 1:
            return which
    return None


def leaving(topology: Topology, host: str) -> tuple[Bottleneck, ...]:
    """The bottlenecks that are emulated where ``host`` sends. Raises: EmulationError if tc cannot do one of them."""
    return _at(topology, host, End.SOURCE)


def arriving(topology: Topology, host: str) -> tuple[Bottleneck, ...]:
    """The bottlenecks that are emulated where ``host`` receives. Raises: as :func:`leaving`."""
    return _at(topology, host, End.DESTINATION)


def ifb(device: str) -> str:
    """The device through which what arrives at ``device`` is led."""
    return "ifb-" + device[-(NAME_CHARS - 4) :]


def shared_classes(device: str, shared: tuple[Bottleneck, ...]) -> list[Command]:
    """The classes above those of the links."""
    return [_class("add", device, Within.flow_of(number), each.rate_bps) for number, each in enumerate(shared, 1)]


def arriving_set_up(
    topology: Topology, device: str, shared: tuple[Bottleneck, ...], sources: Mapping[str, str]
) -> list[Command]:
    """The IFB device of ``device``, through which those ``shared`` of ``topology`` go; ``sources``: host -> address."""
    through = ifb(device)
    rendered: list[Command] = [
        ("ip", "link", "add", "name", through, "type", "ifb"),
        ("ip", "link", "set", "dev", through, "up"),
        ("tc", "qdisc", "replace", "dev", through, "root", "handle", "1:", "htb", "default", "0"),
    ]
    filters: list[Command] = [("tc", "qdisc", "replace", "dev", device, "ingress")]
    count = 0
    for number, each in enumerate(shared, 1):
        rendered += [
            _class("add", through, f"1:{number:x}", each.rate_bps),
            _queue("add", topology, through, number, each),
        ]
        for src, _ in each.links:
            count += 1
            match = ("handle", f"800::{count:x}", "u32", "match", "ip", "src", f"{sources[src]}/32")
            on = ("protocol", "ip", "prio", "1", *match)
            rendered.append(("tc", "filter", "add", "dev", through, "parent", "1:", *on, "flowid", f"1:{number:x}"))
            redirect = ("action", "mirred", "egress", "redirect", "dev", through)
            filters.append(("tc", "filter", "add", "dev", device, "parent", "ffff:", *on, *redirect))
    return rendered + filters  # nothing is led there before there is a way on


def changed(
    topology: Topology, device: str, leaves: tuple[Bottleneck, ...], arrives: tuple[Bottleneck, ...],
    names: Collection[str],
) -> list[Command]:  # fmt: skip
    """Those of these ``names`` that stand at this host as ``topology`` has them now, in place."""
    through, rendered = ifb(device), []
    for number, each in enumerate(leaves, 1):
        if each.name in names:
            rendered.append(_class("change", device, Within.flow_of(number), each.rate_bps))
    for number, each in enumerate(arrives, 1):
        if each.name in names:
            rendered.append(_class("change", through, f"1:{number:x}", each.rate_bps))
            rendered += [_queue("change", topology, through, number, each)] if each.queue_bytes is None else []
    return rendered


def _at(topology: Topology, host: str, which: End) -> tuple[Bottleneck, ...]:
    found = []
    for each in topology.bottlenecks:
        at = end(each)
        if at is None:
            raise EmulationError(f"tc: the links of bottleneck {each.name} share neither source nor destination")
        if at is which and each.links[0][which.value] == host:
            found.append(each)
    return tuple(found)


def _class(verb: str, device: str, flow: str, rate_bps: float) -> Command:
    return ("tc", "class", verb, "dev", device, "parent", "1:", "classid", flow, *htb(rate_bps))


def _queue(verb: str, topology: Topology, through: str, number: int, each: Bottleneck) -> Command:
    """The one queue of a bottleneck whose links arrive; by default for the longest of them."""
    longest_s = max(topology.link(*pair).delay_s for pair in each.links)
    waiting_bytes = default_queue_bytes(each.rate_bps, longest_s) if each.queue_bytes is None else each.queue_bytes
    own = ("dev", through, "parent", f"1:{number:x}", "handle", f"1{number:x}:")
    return ("tc", "qdisc", verb, *own, *fifo(waiting_bytes))
