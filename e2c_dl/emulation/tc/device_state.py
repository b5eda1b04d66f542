"""What ``tc`` says is in force on a device, as values; and where that differs from the commands that were run.

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
from itertools import pairwise
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
    leaves: dict[str, Leaf] = {}
    root, ingress = None, False
    try:
        for entry in json.loads(qdiscs or "[]"):
            if entry["kind"] in ("ingress", "clsact"):
                ingress = True
            elif entry.get("root"):
                root = entry["kind"]
            else:
                leaves[entry["handle"]] = _leaf(entry)
    except (ValueError, KeyError, TypeError) as error:
        raise EmulationError(
            f"tc on {device}: its list of queues is unreadable ({error}); iproute2 5 is needed"
        ) from error
    return DeviceState(
        device=device,
        root=root,
        ingress=ingress,
        classes=_classes(classes),
        leaves=leaves,
        filters=_filters(filters),
        arriving=_filters(arriving),
    )


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
    words = list(command[command.index("handle") + 2 :])
    asked: dict[str, float] = {}
    kind = words.pop(0)
    while words:
        word = words.pop(0)
        if word == "limit":
            asked["limit"] = float(words.pop(0))
        elif word == "delay":
            asked["delay_s"] = _seconds(words.pop(0))
            if words and words[0].endswith("us"):
                asked["jitter_s"] = _seconds(words.pop(0))
        elif word == "reorder":
            asked["reorder"] = _fraction(words.pop(0))
        elif word == "random":
            asked["loss"] = _fraction(words.pop(0))
        elif word == "gemodel":
            asked |= {name: _fraction(words.pop(0)) for name in ("p", "r", "loss_in_bad", "loss_in_good")}
    return kind, asked


def _deviation(command: Command, states: Mapping[str, DeviceState]) -> str | None:
    words = _words(command)
    state = states.get(words["dev"])
    said = " ".join(command)
    if state is None:
        return f"{said}: the device is not there"
    if command[1] == "class":
        found = state.classes.get(words["classid"])
        asked, ceil = _bps(words["rate"]), _bps(words.get("ceil", words["rate"]))
        if found is None or not (_near(found.rate_bps, asked, PRINTED) and _near(found.ceil_bps, ceil, PRINTED)):
            return f"{said}: in force is {found}"
    elif command[1] == "filter":
        return _filter_deviation(said, words, state)
    elif "ingress" in command:
        return None if state.ingress else f"{said}: there is none"
    elif "root" in command:
        kind = command[command.index("handle") + 2]
        return None if state.root == kind else f"{said}: in force is {state.root}"
    else:
        kind, parameters = asked_of_leaf(command)
        leaf = state.leaves.get(words["handle"])
        if leaf is None or leaf.kind != kind or not _same(leaf.parameters, parameters):
            return f"{said}: in force is {leaf}"
    return None


def _filter_deviation(said: str, words: Mapping[str, str], state: DeviceState) -> str | None:
    filters = state.arriving if words["parent"] == "ffff:" else state.filters
    found = filters.get(words["handle"])
    address = (words.get("dst") or words["src"]).removesuffix("/32")
    if found is None or found.address != address or found.flow != words.get("flowid"):
        return f"{said}: in force is {found}"
    return None


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
    delay, burst = options.get("delay", {}), options.get("loss-gemodel", {})
    named = {
        "delay_s": delay.get("delay"),
        "jitter_s": delay.get("jitter"),
        "loss": options.get("loss-random", {}).get("loss"),
        "reorder": options.get("reorder", {}).get("reorder"),
        "p": burst.get("p"),
        "r": burst.get("r"),
        "loss_in_bad": burst.get("1-h"),
        "loss_in_good": burst.get("1-k"),
    }
    parameters |= {name: float(value) for name, value in named.items() if value is not None}
    counters = {name: int(entry[name]) for name in ("packets", "bytes", "drops", "qlen") if name in entry}
    return Leaf(kind=entry["kind"], parent=entry.get("parent"), parameters=parameters, counters=counters)


def _classes(text: str) -> dict[str, Rates]:
    found = {}
    for line in text.splitlines():
        if match := _CLASS.match(line):
            rates = {name: _bps(match[key]) for name, key in (("rate_bps", "rate"), ("ceil_bps", "ceil"))}
            found[match["flow"]] = Rates(parent=match["parent"], **rates)
    return found


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


def _seconds(text: str) -> float:
    return float(text.removesuffix("us")) / 1e6


def _fraction(text: str) -> float:
    return float(text.removesuffix("%")) / 100
