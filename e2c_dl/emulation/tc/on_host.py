"""Runs tc on the host it shapes: ``python -m e2c_dl.emulation.tc.on_host apply|change|show|clear``, JSON in and out.

::

    stdin   {"device": "eth1", "commands": [["tc", "qdisc", ...], ...]}     from tc.commands and tc.changes
    stdout  {"device": "eth1", "shaped": true, "destinations": [...], ...}  what is in force afterwards
    stderr  one line why not, exit status 1

The commands go, unseen by any shell, to ``tc -batch``: one process for all that stand in a row, which ends with the
first that fails and names its line. Then everything is read back and compared: a kernel may accept what it does not do.
What would remove a thing that is not there is left out. Starts fast: nothing here needs numpy or torch.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from e2c_dl.emulation import tc
from e2c_dl.emulation.tc import device_state
from e2c_dl.emulation.tc.shared_class import ifb
from e2c_dl.errors import E2cDlError, EmulationError, InputError

VERBS = ("apply", "change", "show", "clear")
TIMEOUT_S = 30.0

_PROGRAMS = ("ip", "tc")
_WORD = re.compile(r"[A-Za-z0-9_.:/%@-]+\Z")  # nothing that a batch would take for more than one word
_FAILED = re.compile(r"^Command failed -:(\d+)", re.MULTILINE)


def run(commands: Sequence[tc.Command]) -> int:
    """Runs ``commands`` in order; CLOCK_MONOTONIC nanoseconds when the last was in force.

    Raises: EmulationError naming the one that failed; those before it are in force.
    """
    for command in commands:
        if len(command) < 2 or command[0] not in _PROGRAMS or not all(map(_WORD.match, command)):
            raise EmulationError(f"tc: {' '.join(command)!r} is no command of tc or ip")
    # Not sorted by program: an IFB device must be there before tc names it, and gone after.
    for program, group in groupby(filter(_has_object, commands), key=lambda command: command[0]):
        _batch(program, list(group))
    return time.monotonic_ns()  # before it is read back, which takes longer than the change


def read_back(device: str) -> dict[str, Any]:
    """What is in force on ``device``, as JSON. Raises: EmulationError."""
    states = _states(device)
    state, through = states[device], states.get(ifb(device))
    within = {name for name, rates in state.classes.items() if rates.parent is None} & {
        rates.parent for rates in state.classes.values()
    }
    return {
        "device": device,
        "shaped": state.root == "htb" or through is not None,
        "destinations": state.destinations(),
        "bottlenecks": [{"class": name, "rate_bps": state.classes[name].ceil_bps} for name in sorted(within)],
        "arriving": [] if through is None else through.destinations(),
    }


def check(device: str, commands: Sequence[tc.Command]) -> None:
    """Nothing, if all that ``commands`` asked for is in force. Raises: EmulationError naming the first that is not."""
    differing = device_state.deviations(commands, _states(device))
    if differing:
        more = f" ({len(differing) - 1} more differ)" if len(differing) > 1 else ""
        raise EmulationError(f"tc on {device} accepted a command that is not in force: {differing[0]}{more}")


def put_in_force(device: str, commands: Sequence[tc.Command]) -> int:
    """:func:`run` and :func:`check`."""
    done_ns = run(commands)
    check(device, commands)
    return done_ns


def clear(device: str) -> None:
    """Nothing is shaped on ``device`` any more. Raises: EmulationError."""
    run(tc.clear(device))
    if read_back(device)["shaped"]:
        raise EmulationError(f"tc on {device}: the device still shapes; remove it with: tc qdisc del dev {device} root")


def main(argv: Sequence[str], text: str) -> dict[str, Any]:
    """What is printed for the verb in ``argv`` and the request ``text``. Raises: E2cDlError."""
    if len(argv) != 1 or argv[0] not in VERBS:
        raise InputError(f"on_host takes one of {', '.join(VERBS)} and a JSON request on stdin; not {' '.join(argv)!r}")
    device, commands = _request(text)
    if argv[0] in ("apply", "change"):
        put_in_force(device, commands)
    elif argv[0] == "clear":
        clear(device)
    return read_back(device)


def _request(text: str) -> tuple[str, list[tc.Command]]:
    try:
        request = json.loads(text)
        device = request["device"]
        commands = [tuple(command) for command in request.get("commands", [])]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f'on_host: {error!r}; write {{"device": NAME, "commands": [[WORD, ...], ...]}}') from error
    if not all(isinstance(word, str) for command in [(device,), *commands] for word in command):
        raise InputError("on_host: the device and every word of a command are texts")
    if not _WORD.match(device):
        raise InputError(f"on_host: {device!r} is no name of a device")
    return device, commands


def _has_object(command: tc.Command) -> bool:
    """Whether there is what ``command`` would remove; True for those that remove nothing."""
    if command[:3] == ("ip", "link", "del"):
        return command[-1] in _devices()
    if command[:3] == ("tc", "qdisc", "del") and command[-1] == "ingress":
        return device_state.read(command[4], _shown("qdisc", command[4]), "", "").ingress
    return True


def _devices() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def _states(device: str) -> dict[str, device_state.DeviceState]:
    there = _devices()
    if device not in there:
        raise EmulationError(f"tc: no device {device} on this host; there are {', '.join(sorted(there))}")
    return {name: _state(name) for name in (device, ifb(device)) if name in there}


def _state(device: str) -> device_state.DeviceState:
    qdiscs = _shown("qdisc", device)
    state = device_state.read(device, qdiscs, "", "")
    if state.root != "htb" and not state.ingress:  # nothing of ours: two processes less
        return state
    arriving = _shown("filter", device, "parent", "ffff:") if state.ingress else ""
    return device_state.read(device, qdiscs, _shown("class", device), _shown("filter", device), arriving)


def _shown(what: str, device: str, *more: str) -> str:
    form = ("-s", "-json") if what == "qdisc" else ()
    return _run(["tc", *form, what, "show", "dev", device, *more], "").stdout


def _batch(program: str, commands: list[tc.Command]) -> None:
    lines = "".join(" ".join(command[1:]) + "\n" for command in commands)
    done = _run([program, "-batch", "-"], lines, may_fail=True)
    if done.returncode:
        failed = _FAILED.search(done.stderr)
        blamed = commands[int(failed[1]) - 1] if failed else commands[0]
        said = "; ".join(line for line in done.stderr.splitlines() if line and not _FAILED.match(line))
        remedy = ""
        if "kind is unknown" in said or "qdisc kind" in said:
            remedy = "; this kernel lacks it: load its module (sch_netem, ifb ...), or emulate with the relay"
        raise EmulationError(f"{' '.join(blamed)}: {said or f'status {done.returncode}'}{remedy}")


def _run(argv: list[str], text: str, *, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise EmulationError(f"{argv[0]} is not on this host: install the package iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise EmulationError(f"{' '.join(argv)} took longer than {TIMEOUT_S:g} s") from error
    if done.returncode and not may_fail:
        raise EmulationError(f"{' '.join(argv)}: {' '.join(done.stderr.split())}")
    return done


if __name__ == "__main__":
    try:
        print(json.dumps(main(sys.argv[1:], sys.stdin.read())))
    except E2cDlError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
