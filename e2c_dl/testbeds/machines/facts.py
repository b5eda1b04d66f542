"""Machines of the inventory asked over SSH by the program ``host_side``, and what a run can use of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2c_dl import __version__
from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import VENV, Access
from e2c_dl.testbeds.machines.inventory import Machine, SharedDevice

LEAST_PYTHON = (3, 10)
TIMEOUT_S = 40.0  # more than ``host_side`` gives itself to end processes, and than ssh needs to connect


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A machine and its answer. ``told`` is empty where there is none: then ``unreachable`` says why."""

    machine: Machine
    told: Mapping[str, Any] = field(default_factory=dict)
    unreachable: str | None = None

    @property
    def data_device(self) -> str | None:
        """As the inventory says, else the one that has the data address; None if there is none."""
        address = self.machine.data_address or self.told["ssh_address"]
        having = (name for name, its in self.told["devices"].items() if address in its)
        return self.machine.data_device or next(having, None)

    @property
    def data_address(self) -> str | None:
        """As the inventory says, else the data device's first, else the one that SSH came in by."""
        if self.machine.data_address or not self.machine.data_device:
            return self.machine.data_address or str(self.told["ssh_address"])
        return next(iter(self.told["devices"].get(self.machine.data_device, [])), None)

    @property
    def shares_device(self) -> bool:
        """Whether what the host answers over SSH leaves by the data device."""
        return bool(self.told["ssh_device"] == self.data_device)

    @property
    def backend(self) -> Backend:
        """The most that this machine can do for its links."""
        return self._able[0]

    @property
    def python(self) -> str:
        return self.machine.python or f"{VENV}/bin/python"

    def why_not_more(self) -> str:
        """Why ``backend`` is not tc with netem, in a sentence; empty if it is."""
        return self._able[1]

    @property
    def _able(self) -> tuple[Backend, str]:
        backend, why = able(self.told["uid"], self.told["qdisc_problems"].get, self.machine.user)
        if backend is not Backend.NONE and self.shares_device and self.machine.shared_device is SharedDevice.LEAVE:
            return Backend.NONE, f"{self.data_device} carries SSH too, and the inventory says to leave it"
        return backend, why

    def problems(self, *, shaped: bool) -> tuple[str, ...]:
        """What stands in the way of using it, one line each, with its remedy. ``shaped``: links are to be emulated."""
        where = self.machine.where
        if self.unreachable is not None:
            address = f"{self.machine.user}@{self.machine.address} port {self.machine.port}"
            return (f"{where}.address: {address}: {self.unreachable}",)
        found = [*self._software(), *self._network()]
        if shaped and not found and self.backend is not Backend.NONE:  # before, it is not sure which device it is
            found += self._shaping()
        return tuple(f"{where}{problem}" for problem in found)

    def _software(self) -> list[str]:
        machine, version, found = self.machine, self.told["version"], []
        have = tuple(int(part) for part in self.told["python"].split("."))[:2]  # as text, 3.9 is more than 3.10
        if machine.python is None and have < LEAST_PYTHON:
            found.append(
                f": its python3 is {self.told['python']}; name one of 3.10 or later that has e2c_dl: python: PATH"
            )
        if machine.python is not None and version != __version__:
            what = "e2c_dl is not installed there" if version is None else f"it has e2c_dl {version}"
            found.append(f".python: {machine.python}: {what}; install {__version__} there, or leave python out")
        if machine.python is None and version is None and self.told["uid"] != 0:
            found.append(f".user: {machine.user} may not install to {VENV}; write user: root, or python: PATH")
        if machine.gpus is not None and len(self.told["gpus"]) < machine.gpus:
            found.append(f".gpus: {machine.gpus} asked for, nvidia-smi lists {len(self.told['gpus'])}; correct one")
        return found

    def _network(self) -> list[str]:
        devices = self.told["devices"]
        if not devices:
            return [": there is no `ip` that answers in JSON; apt-get install iproute2"]
        device, address = self.data_device, self.data_address
        known = ", ".join(name for name in devices if name != "lo")
        if device is None:
            return [f".data_address: no device there has {address}; devices: {known}"]
        if device not in devices:
            return [f".data_device: there is no {device}; devices: {known}"]
        if address is None or address not in devices[device]:
            return [f".data_device: {device} does not have {address or 'an IPv4 address'}; write data_address"]
        return []

    def _shaping(self) -> list[str]:
        device = self.data_device or ""
        if self.shares_device and self.machine.shared_device is None:
            return [
                f": {device} carries SSH and training alike; give data_address on another device, or write "
                "shared_device: shape (SSH itself is not held to any link) or shared_device: leave"
            ]
        run, kind = self.told["claimed_by"].get(device), self.told["shaped_by"].get(device)
        if run is not None:
            return [f": {device} is shaped by run {run}; wait, or `e2c-dl destroy {run}` where that was started"]
        if kind is not None:
            at = kind if kind in ("ingress", "clsact") else "root"  # these two hang beside the root
            return [f": somebody has put {kind} on {device}; `tc qdisc del dev {device} {at}` there, or another device"]
        return []


def able(uid: int, problem: Callable[[str], str | None], who: str) -> tuple[Backend, str]:
    """The most that a host can do for its links when ``who``, of that ``uid``, shapes them, and why it is no more.

    Empty if it is all. ``problem``: kind of queueing -> why the host's kernel does not have it, or None.
    """
    if uid != 0:
        return Backend.NONE, f"{who} is not root there"
    for kind, name, without in (("htb", "HTB", Backend.NONE), ("netem", "netem", Backend.HTB)):
        why = problem(kind)
        if why is not None:
            return without, f"its kernel has no {name} ({why})"
    return Backend.TC, ""


def ask(accesses: Sequence[Access], verb: str, arguments: Mapping[str, Sequence[str]]) -> dict[str, programs.Answer]:
    """host -> what ``host_side`` answers there to ``verb`` with ``arguments[host]``, all asked side by side."""
    program = (Path(__file__).parent / "host_side.py").read_text(encoding="utf-8")

    def one(access: Access) -> programs.Answer:
        # Whatever python3 is there, the program on its input: nothing of this project need be installed yet.
        argv = programs.ssh_argv(access, "python3", "-", verb, *arguments[access.name])
        return programs.answer(access, argv, program, TIMEOUT_S)

    return programs.on_all(accesses, one)


def asked(machines: Mapping[str, Machine]) -> dict[str, Facts]:
    """name -> what its machine is; all are asked side by side, nothing is changed on them."""
    ways = [way_to(name, machine) for name, machine in machines.items()]
    request = {name: [_request(machine)] for name, machine in machines.items()}
    answers = ask(ways, "probe", request)
    return {
        name: Facts(machine=machine, told=answers[name].value or {}, unreachable=answers[name].failure)
        for name, machine in machines.items()
    }


def way_to(name: str, machine: Machine) -> Access:
    """How to reach ``machine``, before anything else is known of it."""
    return Access(
        name=name,
        address=machine.address,
        data_address="",
        data_device="",
        user=machine.user,
        keyfile=machine.key,
        port=machine.port,
        python=machine.python or f"{VENV}/bin/python",
        run_dir="",
        ansible_python=machine.python or "/usr/bin/python3",  # Ansible runs before ours is there: it installs it
        host_keys=machine.host_keys,
        jump=machine.jump,
    )


def _request(machine: Machine) -> str:
    return json.dumps({"python": machine.python or f"{VENV}/bin/python"})
