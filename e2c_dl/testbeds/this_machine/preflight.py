"""Preflight of hosts on this machine: what would go wrong, found without starting anything."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import e2c_dl
from e2c_dl import units
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import InputError
from e2c_dl.memory import memory_available_bytes
from e2c_dl.testbeds.registry import STATE_VARIABLE, state_base
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine import rootless
from e2c_dl.testbeds.this_machine.addresses import MOST_HOSTS

WORKER_BYTES = 350 * 2**20
"""What one training process takes: an interpreter with torch and a small network; nearly all of it is torch."""

HOST_BYTES = 10 * 2**20
"""What a host takes beside it: its pid 1, sshd and a connection or two, the kernel's tables and buffers."""

_STATE_BYTES_PER_HOST = 32 * 2**20  # what a worker traces stands there until it is collected
_NEEDED_FILES = ("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf")
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # E2Clab never matches roles with capitals
_MIB = 2**20


def memory_needed(hosts: int) -> int:
    """Bytes of memory that ``hosts`` hosts take, each with one training process."""
    return hosts * (WORKER_BYTES + HOST_BYTES)


def preflight(hosts: Sequence[str], backend: Backend) -> tuple[str, ...]:
    """Everything that stands in the way of bringing up hosts of these names, one line each, with its remedy."""
    return (*names(hosts), *_rights(), *_programs(), *unseen(), *_devices(backend), *_capacity(len(hosts)))


def names(hosts: Sequence[str]) -> list[str]:
    """What is wrong with hosts of these names in one network."""
    problems = [
        f"host {name!r}: not a host name; use lower-case letters, digits and hyphens, at most 63"
        for name in hosts
        if not _HOST_NAME.fullmatch(name)
    ]
    problems += [f"host {name!r}: named twice; names must differ" for name, n in Counter(hosts).items() if n > 1]
    if len(hosts) > MOST_HOSTS:
        problems.append(f"{len(hosts)} hosts: at most {MOST_HOSTS} fit in one network; ask for fewer")
    return problems


def _rights() -> list[str]:
    problem = None if rootless.rights() else rootless.problem()
    return [] if problem is None else [f"hosts without root: {problem}"]


def _programs() -> list[str]:
    files = (file for file in _NEEDED_FILES if not os.path.exists(file))
    return [*machine.missing_programs(), *(f"{file}: missing; apt-get install base-files" for file in files)]


def unseen() -> list[str]:
    """Hosts run this very interpreter and package; of /run they see only their own."""
    places = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, Path(e2c_dl.__file__).parent)}
    return [
        f"{place}: hosts do not see it, their /run is their own; install e2c_dl elsewhere"
        for place in sorted(places)
        if Path(place).is_relative_to("/run")
    ]


def _devices(backend: Backend) -> list[str]:
    problem = machine.tun_problem() if backend is Backend.RELAY else None
    return [] if problem is None else [f"/dev/net/tun: {problem}; {machine.TUN_REMEDY}"]


def memory(hosts: int) -> list[str]:
    """What is wrong with so many hosts on this machine's memory."""
    needed, available = memory_needed(hosts), memory_available_bytes()
    if needed <= available:
        return []
    return [
        f"{hosts} hosts need about {needed // _MIB} MiB of memory, {available // _MIB} MiB are available; "
        f"ask for at most {available // memory_needed(1)}, or end other programs"
    ]


def memory_option(said: str, least_bytes: int) -> int:
    """Bytes that ``--memory`` gives to a host. Raises: InputError: no size, or less than ``least_bytes``."""
    try:
        size_bytes = units.parse_size(said)
    except ValueError as error:
        raise InputError(f"--memory: {error}") from error
    if size_bytes < least_bytes:
        raise InputError(f"--memory {said}: too little for a worker; write {units.format_size(least_bytes)} or more")
    return size_bytes


def _capacity(hosts: int) -> list[str]:
    problems = memory(hosts)
    place = _existing(state_base())
    free = shutil.disk_usage(place).free
    if free < hosts * _STATE_BYTES_PER_HOST:
        problems.append(
            f"{place}: {free // _MIB} MiB free, {hosts} hosts may need {hosts * _STATE_BYTES_PER_HOST // _MIB}; "
            f"make room, or set {STATE_VARIABLE} to a directory on another disk"
        )
    return problems


def _existing(place: Path) -> Path:
    while not place.exists():  # disk_usage wants a path that is there, and the registry may not be yet
        place = place.parent
    return place
