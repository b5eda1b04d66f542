"""What ``--set`` and ``--without`` ask, as one Changed.

::

    host:fog-2.speed=2x                  twice as fast
    layer:edge.speed=1.5x                every host of the layer
    link:edge-1->cloud-1.rate=50mbit     of a link; also 2x: times what it has
    link:edge->cloud.delay=5ms           of all links that training used from one layer to another; a host is a layer
    '--- which ---'.what =value          of one

    host:edge-2, edge-2                  without this host
    layer:fog                            without all hosts of the layer
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from e2c_dl import units
from e2c_dl.errors import InputError
from e2c_dl.scenario.documents.field import instead
from e2c_dl.scenario.what_if import Changed, LinkChange, together
from e2c_dl.topology import Host, Pair

KINDS = ("host", "layer", "link")
OF_LINKS, OF_HOSTS = ("rate", "delay"), ("speed",)
_SPELLED = re.compile(r"(?P<kind>[^:]*):(?P<place>.*)\.(?P<what>[^.=]*)=(?P<value>.*)", re.DOTALL)
_TIMES = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)x")
_EXAMPLE = "write e.g. host:fog-2.speed=2x or link:edge-1->cloud-1.rate=50mbit"
MOST_TIMES = 1e6


def asked(sets: Iterable[str], without: Iterable[str], hosts: Sequence[Host], used: Collection[Pair] | None) -> Changed:
    """All that is asked of ``hosts``, which train, and of the links ``used``; None: it is not known which carried
    something. Raises: InputError, one line.
    """
    gone = tuple(dict.fromkeys(name for text in without for name in _without(text.strip(), hosts)))
    changed = []
    for text in sets:
        one = _one(text, hosts, used)
        if not replace(one, without=gone).of_those_left:
            raise InputError(
                f"--set {text[:80]}: nothing of it is left without {', '.join(gone)}; leave one of both out"
            )
        changed.append(one)
    if not changed and not gone:
        raise InputError("nothing is changed; name what with --set or --without: e2c-dl whatif --help")
    _check_once(changed)
    return together([*changed, Changed(without=gone)])


def written(sets: Sequence[str], without: Sequence[str], hosts: Sequence[Host]) -> None:
    """Nothing, if what is asked can be read, and names what there is. Raises: InputError, one line.

    Which links carried something, and can be changed, is not asked.
    """
    asked(sets, without, hosts, None)


def _one(text: str, hosts: Sequence[Host], used: Collection[Pair] | None) -> Changed:
    where = f"--set {text[:80]}"
    spelled = _SPELLED.fullmatch(text.strip())
    if spelled is None:
        raise InputError(f"{where}: is not WHICH.WHAT=VALUE; {_EXAMPLE}")
    kind, place, what, value = (part.strip() for part in spelled.groups())
    _check(where, kind, KINDS, "kind of element")
    if kind == "link":
        _check(where, what, OF_LINKS, "property of a link")
        return Changed(links=dict.fromkeys(_links(where, place, hosts, used), _link_change(where, what, value)))
    _check(where, what, OF_HOSTS, f"property of a {kind}")
    known = [host.name if kind == "host" else host.layer for host in hosts]
    _check(where, place, list(dict.fromkeys(known)), kind)
    speed = _times(where, value)
    return Changed(
        speeds={host.name: speed for host in hosts if place == (host.name if kind == "host" else host.layer)}
    )


def _without(text: str, hosts: Sequence[Host]) -> list[str]:
    """The hosts that ``text``, host:NAME, NAME or layer:NAME, leaves out."""
    kind, colon, place = text.rpartition(":")
    names, layers = [host.name for host in hosts], list(dict.fromkeys(host.layer for host in hosts))
    if kind == "layer":
        _check(f"--without {text[:80]}", place, layers, "layer")
        return [host.name for host in hosts if host.layer == place]
    if not colon and text in layers and text not in names:
        raise InputError(f"--without {text}: is a layer; leave out all of its hosts with --without layer:{text}")
    name = text.removeprefix("host:")
    _check("--without", name, names, "host")
    return [name]


def _check_once(changed: Sequence[Changed]) -> None:
    """Raises: InputError where a link is told twice what its rate, or its delay, is. Factors multiply."""
    for name in ("rate_bps", "delay_s"):
        of = [pair for each in changed for pair, change in each.links.items() if getattr(change, name) is not None]
        twice = next((pair for pair in of if of.count(pair) > 1), None)
        if twice is not None:
            what = "rate" if name == "rate_bps" else "delay"
            raise InputError(f"--set: {twice[0]}->{twice[1]} is given a {what} twice; leave one of both out")


def _links(where: str, place: str, hosts: Sequence[Host], used: Collection[Pair] | None) -> list[Pair]:
    """The links of ``used``, None: of all, between the ends that ``place`` names, each a host or a layer."""
    ends = [end.strip() for end in place.split("->")]
    if len(ends) != 2:
        raise InputError(f"{where}: {place[:60]!r} is no link; {_EXAMPLE}")
    known = list(dict.fromkeys([*(host.layer for host in hosts), *(host.name for host in hosts)]))
    for end in ends:
        _check(where, end, known, "host or layer")
    sources, destinations = ({host.name for host in hosts if end in (host.name, host.layer)} for end in ends)
    if used is None:
        found = [(src, dst) for src in sorted(sources) for dst in sorted(destinations) if src != dst]
        if not found:
            raise InputError(f"{where}: no link leads from a host to itself; {_EXAMPLE}")
        return found
    found = [(src, dst) for src, dst in sorted(used) if src in sources and dst in destinations]
    if not found:
        there = ", ".join(f"{src}->{dst}" for src, dst in sorted(used) if src in sources) or "none"
        raise InputError(f"{where}: nothing was sent there; links that carried something from {ends[0]}: {there}")
    return found


def _link_change(where: str, what: str, value: str) -> LinkChange:
    if what == "rate" and _TIMES.fullmatch(value):
        return LinkChange(rate_factor=_times(where, value))
    if what == "rate":
        return LinkChange(rate_bps=_parsed(where, value, units.parse_rate))
    if _TIMES.fullmatch(value):
        return LinkChange(delay_factor=_times(where, value, zero=True))
    return LinkChange(delay_s=_parsed(where, value, units.parse_delay))


def _times(where: str, value: str, *, zero: bool = False) -> float:
    spelled = _TIMES.fullmatch(value)
    times = float(spelled[1]) if spelled else -1.0
    if not 1 / MOST_TIMES <= times <= MOST_TIMES and not (zero and times == 0):
        raise InputError(f"{where}: {value[:40]!r} is no factor; write e.g. 2x for twice as much, 0.5x for half")
    return times


def _parsed(where: str, value: str, parse: Callable[[str], float]) -> float:
    try:
        return parse(value)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


def _check(where: str, word: str, known: Sequence[str], what: str) -> None:
    if word not in known:
        raise InputError(f"{where}: there is no {what} {word[:60]!r}; {instead(word, known)}")
