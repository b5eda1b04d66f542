"""State of a device as ``tc`` shows it, as values; and where that differs from the commands that were run.

::

    tc qdisc show (JSON)      kind, handle, options of netem, counters     text where iproute2 older than 6.3 knows no
    tc class show (text)      rates                                        JSON or writes it wrong
    tc filter show (text)     address -> class

Everything is compared: classes, leaves and filters that a command made or changed, with each of their parameters. tc
rounds rates to four digits when it prints them. It does not say which distribution a jitter has.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

from e2c_dl.emulation.tc.link_class import CUT, Command
from e2c_dl.errors import EmulationError

_CLASS = re.compile(
    r"^class htb (?P<flow>\S+) (?:root|parent (?P<parent>\S+)) .*?\brate (?P<rate>\S+) ceil (?P<ceil>\S+)"
)
_FILTER = re.compile(r"\bfh (?P<handle>[0-9a-f]+:[0-9a-f]*:[0-9a-f]+) .*?(?:flowid (?P<flow>[0-9a-f]+:[0-9a-f]+)|$)")
_MATCH = re.compile(r"^\s+match (?P<address>[0-9a-f]{8})/ffffffff at (?:12|16)$")
_RATE = re.compile(r"^(\d+)([KMGT]?)bit$")
_RATE_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

_INGRESS = ("ingress", "clsact")
_GEMODEL = ("p", "r", "loss_in_bad", "loss_in_good")
_WORDS = {  # word of a command -> what the numbers behind it are
    "limit": ("limit",),
    "delay": ("delay_s", "jitter_s"),
    "random": ("loss",),
    "gemodel": _GEMODEL,
    "reorder": ("reorder",),
}
_OPTIONS = (  # the same in tc's JSON: group, key, name
    *(("delay", "delay", "delay_s"), ("delay", "jitter", "jitter_s")),
    *(("loss-random", "loss", "loss"), ("reorder", "reorder", "reorder")),
    *(("loss-gemodel", key, name) for key, name in zip(("p", "r", "1-h", "1-k"), _GEMODEL, strict=True)),
)

PRINTED = 1.1e-3  # relative error of a printed rate
EXACT = 1e-5  # of everything else, and the least difference of a fraction or of seconds that counts


@dataclass(frozen=True, kw_only=True)
class Rates:
    """An HTB class."""

    parent: str | None  # None: the root
    rate_bps: float
    ceil_bps: float


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A queueing discipline under a class. Counters count from its making; changes do not reset them."""

    kind: str
    parent: str | None
    parameters: Mapping[str, float]  # limit, delay_s, jitter_s, loss, p, r, loss_in_bad, loss_in_good, reorder
    counters: Mapping[str, int] = field(default_factory=dict)  # packets, bytes, drops, qlen


@dataclass(frozen=True, kw_only=True)
class Match:
    """An u32 filter: an IPv4 address and the class it leads to (None: no class, but an action)."""

    address: str
    flow: str | None


@dataclass(frozen=True, kw_only=True)
class DeviceState:
    """What is in force on one device."""

    device: str
    root: str | None  # kind of the root discipline
    ingress: bool
    classes: Mapping[str, Rates]
    leaves: Mapping[str, Leaf]  # by handle
    filters: Mapping[str, Match]  # by handle
    arriving: Mapping[str, Match]  # the same, of the ingress

    def destinations(self) -> list[dict[str, Any]]:
        """One JSON object per filter: where it leads, and what is in force there."""
        shown = []
        leaves = {leaf.parent: leaf for leaf in self.leaves.values()}
        for handle, match in self.filters.items():
            own = f"1:{handle.rpartition(':')[2]}"
            flow = own if own in self.classes else str(match.flow)  # of a link that is cut, its own
            rates, leaf = self.classes.get(flow), leaves.get(flow)
            shown.append(
                {
                    "address": match.address,
                    "down": match.flow == f"1:{CUT}",
                    "rate_bps": None if rates is None else rates.ceil_bps,
                    "within": None if rates is None else rates.parent,
                    **({} if leaf is None else {"queue": leaf.kind, **leaf.parameters, **leaf.counters}),
                }
            )
        return shown


def read(device: str, qdiscs: str, classes: str, filters: str, arriving: str = "") -> DeviceState:
    """The state, of what ``tc -s -json qdisc``, ``tc class``, ``tc filter`` (root and ingress) showed.

    Raises: EmulationError for what tc never says.
    """
    try:
        entries = json.loads(qdiscs or "[]")
        ingress = any(entry["kind"] in _INGRESS for entry in entries)
        root = next((entry["kind"] for entry in entries if entry.get("root")), None)
        below = [entry for entry in entries if entry["kind"] not in _INGRESS and not entry.get("root")]
        leaves = {entry["handle"]: _leaf(entry) for entry in below}
    except (ValueError, KeyError, TypeError) as error:
        raise EmulationError(
            f"tc on {device}: its list of queues is unreadable ({error}); iproute2 5 is needed"
        ) from error
    return DeviceState(
        device=device, root=root, ingress=ingress, leaves=leaves,
        classes=_classes(classes), filters=_filters(filters), arriving=_filters(arriving),
    )  # fmt: skip


def deviations(commands: Sequence[Command], states: Mapping[str, DeviceState]) -> tuple[str, ...]:
    """What of ``commands`` is not in force, in sentences. ``states``: device -> what was read there.

    Of several commands for one thing the last counts; what is removed again is not asked for.
    """
    wanted: dict[tuple[str, ...], Command] = {}
    for command in commands:
        if command[0] != "tc":
            continue
        words = _words(command)
        if command[2] == "del":
            wanted = {key: value for key, value in wanted.items() if key[0] != words["dev"]}
            continue
        name = words["classid"] if command[1] == "class" else words.get("handle", "")
        # A root of another kind may have been replaced before.
        named = "root" if "root" in command else name
        wanted[words["dev"], command[1], words.get("parent", ""), named] = command
    return tuple(said for command in wanted.values() if (said := _deviation(command, states)) is not None)


def asked_of_leaf(command: Command) -> tuple[str, dict[str, float]]:
    """(kind, parameters) that a ``tc qdisc`` command gives a leaf."""
    kind, *words = command[command.index("handle") + 2 :]
    asked: dict[str, float] = {}
    for at, word in enumerate(words):
        values = takewhile(lambda value: value[0].isdigit(), words[at + 1 :])  # a delay may stand without a jitter
        asked |= dict(zip(_WORDS.get(word, ()), map(_number, values), strict=False))
    return kind, asked


def _deviation(command: Command, states: Mapping[str, DeviceState]) -> str | None:
    words = _words(command)
    state = states.get(words["dev"])
    said = " ".join(command)
    if state is None:
        return f"{said}: the device is not there"
    found: Rates | Match | Leaf | str | None
    if command[1] == "class":
        found = rates = state.classes.get(words["classid"])
        asked, ceil = _bps(words["rate"]), _bps(words.get("ceil", words["rate"]))
        same = rates is not None and _near(rates.rate_bps, asked, PRINTED) and _near(rates.ceil_bps, ceil, PRINTED)
    elif command[1] == "filter":
        found = (state.arriving if words["parent"] == "ffff:" else state.filters).get(words["handle"])
        address = (words.get("dst") or words["src"]).removesuffix("/32")
        same = found == Match(address=address, flow=words.get("flowid"))
    elif "ingress" in command:
        found, same = None, state.ingress
    elif "root" in command:
        found = state.root
        same = found == command[command.index("handle") + 2]
    else:
        kind, parameters = asked_of_leaf(command)
        found = leaf = state.leaves.get(words["handle"])
        same = leaf is not None and leaf.kind == kind and _same(leaf.parameters, parameters)
    return None if same else f"{said}: in force is {found}"


def _words(command: Command) -> dict[str, str]:
    """Each word -> the one behind it, where it stands first."""
    return dict(reversed(list(pairwise(command))))


def _same(found: Mapping[str, float], asked: Mapping[str, float]) -> bool:
    """What is not asked for is 0, or not there."""
    names = found.keys() | asked.keys()
    return all(_near(found.get(name, 0.0), asked.get(name, 0.0), EXACT) for name in names)


def _near(found: float, asked: float, relative: float) -> bool:
    return math.isclose(found, asked, rel_tol=relative, abs_tol=EXACT)


def _leaf(entry: Mapping[str, Any]) -> Leaf:
    options = entry.get("options", {})
    parameters = {"limit": float(options["limit"])} if "limit" in options else {}
    for group, key, name in _OPTIONS:
        if (value := options.get(group, {}).get(key)) is not None:
            parameters[name] = float(value)
    counters = {name: int(entry[name]) for name in ("packets", "bytes", "drops", "qlen") if name in entry}
    return Leaf(kind=entry["kind"], parent=entry.get("parent"), parameters=parameters, counters=counters)


def _classes(text: str) -> dict[str, Rates]:
    found = filter(None, map(_CLASS.match, text.splitlines()))
    return {
        one["flow"]: Rates(parent=one["parent"], rate_bps=_bps(one["rate"]), ceil_bps=_bps(one["ceil"]))
        for one in found
    }


def _filters(text: str) -> dict[str, Match]:
    found: dict[str, Match] = {}
    handle, flow = "", None
    for line in text.splitlines():
        if match := _FILTER.search(line):
            handle, flow = match["handle"], match["flow"]
        elif (match := _MATCH.match(line)) and handle:
            found[handle] = Match(address=str(ipaddress.IPv4Address(int(match["address"], 16))), flow=flow)
            handle = ""
    return found


def _bps(text: str) -> float:
    match = _RATE.match(text)
    if match is None:
        raise EmulationError(f"tc says a rate is {text!r}; expected one in bit, Kbit, Mbit or Gbit")
    return float(match[1]) * _RATE_UNITS[match[2]]


def _number(text: str) -> float:
    for unit, scale in (("us", 1e6), ("%", 100)):  # the units in which link_class writes times and fractions
        if text.endswith(unit):
            return float(text.removesuffix(unit)) / scale
    return float(text)
