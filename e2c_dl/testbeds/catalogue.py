"""The testbeds there are, by the name that is written after ``--on``; each is imported when it is asked for.

::

    local    namespaces of this machine
    docker   containers on this machine          --image, --memory
    vagrant  virtual machines of this machine    --box, --memory
    static   hosts that are there, over SSH      --inventory
    g5k      nodes reserved on Grid'5000         --wait
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Foreseen, Testbed


@dataclass(frozen=True, kw_only=True)
class _Kind:
    module: str
    kind: str  # its class
    cleanup: str  # module
    options: tuple[str, ...]  # what a user may say about it
    required: tuple[str, ...] = ()
    elsewhere: bool = False  # its hosts are other machines, with an installation of their own
    entrance: str = ""  # module whose ``enter()`` puts this process where it may make such hosts
    # hosts take much for as long as they are up: its module's ``foreseen(scenario)`` says how much, and none is kept
    # for what it still holds
    reserves: bool = False


_KINDS = {
    "local": _Kind(
        module="e2c_dl.testbeds.namespaces.testbed",
        kind="NamespacesTestbed",
        cleanup="e2c_dl.testbeds.namespaces.cleanup",
        options=(),
        entrance="e2c_dl.testbeds.this_machine.rootless",
    ),
    "docker": _Kind(
        module="e2c_dl.testbeds.docker.testbed",
        kind="DockerTestbed",
        cleanup="e2c_dl.testbeds.docker.cleanup",
        options=("image", "memory"),
    ),
    "vagrant": _Kind(
        module="e2c_dl.testbeds.vagrant.testbed",
        kind="VagrantTestbed",
        cleanup="e2c_dl.testbeds.vagrant.cleanup",
        options=("box", "memory"),
        elsewhere=True,
        reserves=True,
    ),
    "static": _Kind(
        module="e2c_dl.testbeds.machines.testbed",
        kind="MachinesTestbed",
        cleanup="e2c_dl.testbeds.machines.cleanup",
        options=("inventory",),
        required=("inventory",),
        elsewhere=True,
    ),
    "g5k": _Kind(
        module="e2c_dl.testbeds.grid5000.testbed",
        kind="Grid5000Testbed",
        cleanup="e2c_dl.testbeds.grid5000.cleanup",
        options=("wait",),
        elsewhere=True,
        reserves=True,
    ),
}


def names() -> tuple[str, ...]:
    """Of all testbeds."""
    return tuple(_KINDS)


def check_name(name: str) -> None:
    """Does nothing. Raises: InputError: no such testbed."""
    _entry(name)


def is_elsewhere(name: str) -> bool:
    """Whether its hosts may have installed what this machine has not. Raises: InputError: no such testbed."""
    return _entry(name).elsewhere


def testbed(name: str, options: Mapping[str, str]) -> Testbed:
    """The testbed ``name`` with what a user said about it: option name -> value, without dashes.

    Raises: InputError: no such testbed, an option that it does not have or needs, or what an option names is wrong.
    """
    entry = _entry(name)
    for option in options:
        if option not in entry.options:  # refused: passed over, it would be a setting that is silently not in force
            takers = [other for other, its in _KINDS.items() if option in its.options]
            raise InputError(f"--{option}: not for --on {name}; leave it out, or write --on {' or '.join(takers)}")
    for option in entry.required:
        if option not in options:
            raise InputError(f"--on {name}: needs --{option}; say which file")
    # only now: `check --on` wants the name alone, and need not wait for imports
    made: Testbed = getattr(importlib.import_module(entry.module), entry.kind).of(options)
    return made


def enter(name: str) -> None:
    """Put this process where it may make hosts of testbed ``name``; that may start it again, in its own place.

    To be called first, before anything of a run exists. Raises: InputError: no such testbed.
    """
    entry = _entry(name)
    if entry.entrance:
        importlib.import_module(entry.entrance).enter()


def keeps_hosts(name: str) -> bool:
    """Whether what could not be collected stays on the hosts of testbed ``name`` when a run is released."""
    return name not in _KINDS or not _KINDS[name].reserves  # of a run that another version began, that is not known


def foreseen(name: str, scenario: Scenario) -> Foreseen:
    """What running ``scenario`` would reserve; nothing where hosts are there, or take little.

    Raises: InputError: no such testbed.
    """
    entry = _entry(name)
    if not entry.reserves:
        return Foreseen()
    found: Foreseen = importlib.import_module(entry.module).foreseen(scenario)
    return found


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead, and remove all it has, wherever it is; what that was, one line each.

    The run directories of the hosts ``keep`` stay, and with them what the registry knows of the run.

    Where its state.json cannot be read, that is what can be found on this machine from the id alone.

    Raises: TestbedError if something cannot be removed; InputError if it is no run's id.
    """
    name = registry.name_of_testbed(run_id, base)
    if name in _KINDS:
        return _cleanup(name)(run_id, base, keep=keep)
    return _destroy_here(run_id, base)


def _destroy_here(run_id: str, base: Path | None) -> tuple[str, ...]:
    """End a run of which nobody knows what testbed it is on: what can be found from its id, on this machine."""
    try:
        return _cleanup("docker")(run_id, base)  # what it has of docker, then what any local run has
    except TestbedError as error:  # no docker, or no daemon
        removed = _cleanup("local")(run_id, base)
        return (
            *removed,
            f"not known: what it had of docker ({error}), or on static hosts (/tmp/e2c-dl-{run_id}-* there)",
        )


def _cleanup(name: str) -> Callable[..., tuple[str, ...]]:
    destroy: Callable[..., tuple[str, ...]] = importlib.import_module(_KINDS[name].cleanup).destroy
    return destroy


def _entry(name: str) -> _Kind:
    if name not in _KINDS:
        close = get_close_matches(name, _KINDS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"write one of {', '.join(_KINDS)}"
        raise InputError(f"--on {name}: no such testbed; {remedy}")
    return _KINDS[name]
