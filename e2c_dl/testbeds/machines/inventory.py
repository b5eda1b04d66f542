"""The inventory: which machines there are, how to reach them, which network training shall use.

::

    defaults: {user: root, key: ~/.ssh/id_ed25519}   for every host that does not say otherwise
    hosts:
    - address: 10.0.0.11          for SSH and Ansible: an IPv4 address or a name
      name: edge-1                the host of a scenario that this is; or
      layer: edge                 any host of that layer; neither: whatever host is left
      user: root                  links are emulated by root only
      key: id_ed25519             private key, seen from this file; mode 0600
      port: 22
      known_hosts: known_hosts    its host key stands in this file [in one of ssh's own]; or
      host_keys: unchecked        whatever key it shows; "known": as without either
      data_address: 192.168.7.11  training talks here [the address that SSH came in by]
      data_device: eth1           ... on this device [the one that has data_address]
      shared_device: shape        if SSH uses it too: shape it all the same, or "leave" it as it is
      python: /opt/venv/bin/python   has e2c_dl already [it is installed into /opt/e2c_dl]
      gpus: 2                     as many as there must be

Whatever is wrong is said with file, line and key. Machines are matched with the hosts of a scenario in this order::

    1. the machine whose name is the host's
    2. of the others, in the order of the file: the first whose layer is the host's
    3. then the first that says neither name nor layer

Hosts are served in the scenario's order: first all by name, then all by layer, then the rest. Machines may be
left over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from e2c_dl.errors import InputError
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.documents.field import Field, Findings, spelled
from e2c_dl.testbeds.host_keys import KNOWN, UNCHECKED
from e2c_dl.topology import Host, Topology

KEYS = ("host_keys", "known_hosts")
SHARED_KEYS = ("user", "key", "port", "data_device", "shared_device", "python", "gpus", *KEYS)
HOST_KEYS = ("address", "name", "layer", "data_address", *SHARED_KEYS)

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")  # no hyphen first, here and below: ssh and ip would take it for an option
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")  # the kernel's names have 15 characters at most
_PATH = re.compile(r"/[A-Za-z0-9_./+-]{1,200}")  # Ansible hands it to a shell, ssh expands it

Fields = Mapping[str, Field]


class SharedDevice(Enum):
    """What to do where SSH and training share one device."""

    SHAPE = "shape"
    LEAVE = "leave"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine of the inventory."""

    where: str  # inventory.yaml:7: hosts[0]
    address: str
    name: str | None = None
    layer: str | None = None
    user: str = "root"
    key: str
    port: int = 22
    host_keys: str = KNOWN  # or UNCHECKED, or the file that has them
    data_address: str | None = None
    data_device: str | None = None
    shared_device: SharedDevice | None = None
    python: str | None = None
    gpus: int | None = None
    jump: str | None = None  # of no inventory file: USER@HOST on the way there


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """All machines, in the order of the file."""

    path: Path
    machines: tuple[Machine, ...] = field(default_factory=tuple)


def load(path: Path) -> Inventory:
    """The inventory in the file ``path``. Raises: ScenarioError (InputError) for the first thing that is wrong."""
    found = Findings()
    document = read(path)
    top = Field(document=document, value=document.value).keys(found, known=("defaults", "hosts"), required=("hosts",))
    defaults = top["defaults"].keys(found, known=SHARED_KEYS) if "defaults" in top else {}
    machines = []
    for entry in (found.attempt(top["hosts"].items) or []) if "hosts" in top else []:
        said = entry.keys(found, known=HOST_KEYS, required=("address",))
        if "key" not in said and "key" not in defaults and not found.errors:
            found.errors.append(entry.error("key 'key' is missing", "name the private key here, or under defaults"))
        if not found.errors:
            machine = found.attempt(_machine, entry, said, defaults, path.parent)
            machines += [] if machine is None else [machine]
    for error in found.errors:  # the first: others may only follow from it
        raise error
    if not machines:
        raise top["hosts"].error("is empty", "list at least one host under it")
    _check_distinct(machines)
    return Inventory(path=path, machines=tuple(machines))


def _machine(entry: Field, own: Fields, defaults: Fields, folder: Path) -> Machine:
    """Raises: ScenarioError."""
    said = {**defaults, **own}

    def plain(key: str, pattern: re.Pattern[str], what: str) -> str | None:
        return _plain(said[key], pattern, what) if key in said else None

    gpus = said["gpus"].integer(0, 64) if "gpus" in said else None
    shared = said["shared_device"].one_of(each.value for each in SharedDevice) if "shared_device" in said else None
    if "name" in said and "layer" in said:
        raise said["layer"].error("stands beside a name, which decides alone", "leave one of them out")
    return Machine(
        where=f"{entry.document.file}:{entry.document.line(entry.path)}: {spelled(entry.path)}",
        address=_plain(said["address"], _NAME, "an IPv4 address or a host's name, such as 10.0.0.11"),
        name=plain("name", _NAME, "a host of the scenario, such as edge-1"),
        layer=plain("layer", _NAME, "a layer of the scenario, such as edge"),
        user=plain("user", _USER, "a user's name, such as root") or "root",
        key=_key(said["key"], folder),
        port=said["port"].integer(1, 65535) if "port" in said else 22,
        # a pair: its own known_hosts wins over the defaults' host_keys, and is no contradiction
        host_keys=_host_keys(own, folder) or _host_keys(defaults, folder) or KNOWN,
        data_address=_ipv4(said["data_address"]) if "data_address" in said else None,
        data_device=plain("data_device", _DEVICE, "a network device's name, such as eth1"),
        shared_device=None if shared is None else SharedDevice(shared),
        python=plain("python", _PATH, "an interpreter's absolute path, such as /opt/venv/bin/python"),
        gpus=gpus,
    )


def _plain(field: Field, pattern: re.Pattern[str], what: str) -> str:
    text = field.text()
    if not pattern.fullmatch(text):
        raise field.error(f"{text[:60]!r} is not what is meant here", f"write {what}")
    return text


def _ipv4(field: Field) -> str:
    try:
        return str(IPv4Address(field.text()))
    except AddressValueError as error:
        raise field.error(f"{field.text()[:60]!r} is no IPv4 address", "write one, such as 192.168.7.11") from error


def _key(field: Field, folder: Path) -> str:
    """The private key's absolute path: there, readable, and for its owner's eyes only, as ssh wants it."""
    path = Path(_absolute(field.text(), folder))
    if not path.is_file():
        raise field.error(f"{path} does not exist", "name the private key that the host knows")
    if not os.access(path, os.R_OK):
        raise field.error(f"{path} cannot be read", "name a key of yours")
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise field.error(f"{path} has mode {mode:04o}, so ssh will not use it", f"chmod 600 {path}")
    return str(path)


def _host_keys(said: Fields, folder: Path) -> str | None:
    """What is said of host keys in one place; None: nothing."""
    if "known_hosts" not in said:
        return said["host_keys"].one_of((KNOWN, UNCHECKED)) if "host_keys" in said else None
    field = said["known_hosts"]
    if "host_keys" in said:
        raise said["host_keys"].error("stands beside known_hosts, which decides alone", "leave one of them out")
    path = _absolute(field.text(), folder)
    if not os.access(path, os.R_OK) or os.path.isdir(path):
        raise field.error(f"{path} cannot be read", "name a file that `ssh-keyscan HOST ...` wrote and you compared")
    if not _PATH.fullmatch(path):
        raise field.error(f"{path}: ssh would take it for something else", "use letters, digits and _ . / + - alone")
    return path


def _absolute(text: str, folder: Path) -> str:
    """Seen from ``folder``; ``~`` is a home, unless there is no such user: then a file that is not there, as others."""
    return os.path.abspath(os.path.join(folder, os.path.expanduser(text)))


def _check_distinct(machines: list[Machine]) -> None:
    """Raises: InputError: E2Clab takes machines of one address for one machine."""
    for key in ("address", "name", "data_address"):
        first: dict[str, str] = {}
        for machine in machines:
            value = getattr(machine, key)
            if value is not None and value in first:
                raise InputError(f"{machine.where}.{key}: {value} is that of {first[value]} already; give each its own")
            if value is not None:
                first[value] = machine.where


def matched(topology: Topology, inventory: Inventory) -> dict[str, Machine]:
    """host -> its machine, in the scenario's order; hosts for which there is none are left out."""
    free = list(inventory.machines)
    found: dict[str, Machine] = {}
    rules: tuple[Callable[[Host, Machine], bool], ...] = (
        lambda host, machine: machine.name == host.name,
        lambda host, machine: machine.layer == host.layer,
        lambda host, machine: machine.name is None and machine.layer is None,
    )
    for fits in rules:
        for host in topology.hosts:
            machine = next((each for each in free if fits(host, each)), None)
            if host.name not in found and machine is not None:
                found[host.name] = machine
                free.remove(machine)  # one host each: E2Clab takes hosts that share an address for one
    return {name: found[name] for name in topology.names if name in found}


def problems(topology: Topology, inventory: Inventory) -> tuple[str, ...]:
    """One line per host without a machine."""
    have = matched(topology, inventory)
    return tuple(
        f"{inventory.path.name}: no machine is left for host {host.name}; "
        f"add one with 'name: {host.name}', with 'layer: {host.layer}', or with neither"
        for host in topology.hosts
        if host.name not in have
    )
