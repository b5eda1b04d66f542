"""Kinds of faults: where and when each may come, which exit codes are right after it, and what names it to a user.

``named`` is a regular expression, in which ``{host}`` is the host that was hit: a line that it finds names the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TESTBEDS = ("local", "rootless", "docker", "static")
STAGES = ("provision", "deploy", "emulate", "prepare", "train", "collect", "release", "verify", "report")
_UP = ("emulate", "prepare", "train", "collect")  # hosts are reached, and must still be
_TRAINING = ("train",)
_ALL = frozenset(TESTBEDS)
_HERE = frozenset({"local", "rootless", "docker"})  # the relay runs on this machine
_DEAD = r"{host}\b"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind. Exit code 0 is right after each of them if the run is whole: it came too late, or did no harm."""

    named: str
    stages: tuple[str, ...] = STAGES
    exit_codes: frozenset[int] = frozenset({1})
    testbeds: frozenset[str] = _ALL
    of_host: bool = False  # it hits one host
    loses_host: bool = False  # nothing can be had of that host any more
    loses_archive: bool = False
    limit_s: float = 90.0  # for the whole run
    weight: float = 1.0


def _signal(name: str, weight: float = 1.0) -> Kind:
    return Kind(named=rf"\b{name}\b", exit_codes=frozenset({130}), weight=weight)


def _of_host(stages: tuple[str, ...], named: str = _DEAD, **more: object) -> Kind:
    return Kind(named=named, stages=stages, of_host=True, **more)  # type: ignore[arg-type]


_SILENT_S = 120.0  # what says nothing is waited for, and given up

KINDS: Mapping[str, Kind] = {
    "sigint": _signal("SIGINT"),
    "sigint-twice": _signal("SIGINT"),
    "sigterm": _signal("SIGTERM"),
    "sighup": _signal("SIGHUP"),
    "sigkill": Kind(named="", exit_codes=frozenset({-9}), weight=2.0),
    "worker-killed": _of_host(_TRAINING, weight=2.0),
    "worker-stopped": _of_host(_TRAINING, limit_s=_SILENT_S),
    "agent-killed": _of_host(_TRAINING, named=rf"{_DEAD}|\bagent\b"),
    "agent-stopped": _of_host(_TRAINING, named=rf"{_DEAD}|\bagent\b", limit_s=_SILENT_S),
    "relay-killed": Kind(named=r"\brelay\b", stages=_UP, testbeds=_HERE),
    "relay-stopped": Kind(named=r"\brelay\b", stages=_UP, testbeds=_HERE, limit_s=_SILENT_S),
    "sshd-killed": _of_host(_UP, loses_host=True),  # a host made of namespaces, or of a container, ends with it
    "sshd-stopped": _of_host(_UP, limit_s=_SILENT_S),
    "host-killed": _of_host(("deploy", *_UP), loses_host=True, weight=2.0),
    "host-frozen": _of_host(_UP, loses_host=True, limit_s=_SILENT_S),
    "fork-killed": Kind(named=r"(?i)ansible|\bfork\b", stages=("deploy", "prepare", "train", "collect")),
    "archive-disk-full": Kind(named=r"(?i)disk is full|no space"),
    "state-disk-full": Kind(named=r"(?i)disk is full|no space"),
    "archive-removed": Kind(named=r"(?i)archive was removed|archive .*(removed|moved|gone)", loses_archive=True),
    "archive-moved": Kind(named=r"(?i)archive was removed|archive .*(removed|moved|gone)", loses_archive=True),
    "reader-gone": Kind(named="", exit_codes=frozenset()),
    "memory": Kind(named=r"(?i)memory", stages=STAGES),
    "host-memory": _of_host(_TRAINING, named=rf"{_DEAD}|(?i:memory)"),
}
