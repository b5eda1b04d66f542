"""tc on the hosts themselves: a topology put in force, read back and cleared, on all hosts side by side.

::

    controller                                       host
    tc.commands(topology, host, ...) = values  --->  python -m e2c_dl.emulation.tc.on_host apply    JSON on stdin
                                                     every command checked, then what is in force read back
                                       <-----------  JSON on stdout, one line of reason if it failed

The way there is SSH, or straight into the host's network where it shares this machine (``Access.netns_pid``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from e2c_dl.emulation import tc
from e2c_dl.errors import EmulationError
from e2c_dl.testbeds.access import enter_network, ssh_argv
from e2c_dl.testbeds.base import Access
from e2c_dl.topology import Topology

_TIMEOUT_S = 60.0
_AT_ONCE = 32  # connections
DIRECTORY_VARIABLE = "E2CDL_RUN_DIR"


def apply(accesses: Sequence[Access], topology: Topology, *, netem: bool) -> dict[str, Any]:
    """Every host's outgoing links as ``topology`` has them; host -> what is in force there, read back.

    Raises: EmulationError, naming the first host that could not do it; others may be shaped already.
    """
    reached = {access.name: access.data_address for access in accesses}
    wanted = {
        access.name: tc.commands(topology, access.name, access.data_device, reached, netem=netem) for access in accesses
    }
    return _on_all(accesses, "apply", wanted)


def show(accesses: Sequence[Access]) -> dict[str, Any]:
    """host -> what is in force on its data device. Raises: EmulationError."""
    return _on_all(accesses, "show", {})


def clear(accesses: Sequence[Access]) -> dict[str, Any]:
    """Nothing is shaped any more; host -> what is in force then. Raises: EmulationError."""
    return _on_all(accesses, "clear", {access.name: tc.clear(access.data_device) for access in accesses})


def _on_all(accesses: Sequence[Access], verb: str, commands: Mapping[str, Sequence[tc.Command]]) -> dict[str, Any]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        said = pool.map(lambda access: _on_one(access, verb, commands.get(access.name, ())), accesses)
        return {access.name: answer for access, answer in zip(accesses, said, strict=True)}


def _found_by(access: Access) -> list[str]:
    """In front of a program on a run's machine: what ends the run there finds it by its environment."""
    return ["env", f"{DIRECTORY_VARIABLE}={access.run_dir}"] if access.run_dir else []


def _on_one(access: Access, verb: str, commands: Sequence[tc.Command]) -> Any:
    program = ["-m", "e2c_dl.emulation.tc.on_host", verb]
    if access.netns_pid is None:
        argv = ssh_argv(access, *_found_by(access), access.python, *program)
    else:
        argv = enter_network(access, [sys.executable, *program])
    request = json.dumps({"device": access.data_device, "commands": commands})
    try:
        done = subprocess.run(argv, input=request, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise EmulationError(
            f"host {access.name}: tc did not answer within {_TIMEOUT_S:g} s; is it reachable?"
        ) from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"status {done.returncode}"
        raise EmulationError(f"host {access.name}: {said}")
    return json.loads(done.stdout)
