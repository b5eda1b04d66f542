"""Clean-up of what a run has on this machine, found from its id alone: after a crash at any moment, too.

::

    processes   E2CDL_RUN=ID in their environment, or in one of the run's cgroups, or the run's live controller
    devices     of the machine's own network, with ID in their name
    groups      cgroups e2cdl-ID and below
    mounts      of the machine's own mount namespace, on the run's directory or from it
    directory   of the registry; removed last, so that what is not finished is found again

Killing a host's pid 1 makes the kernel kill all that is in the host, whatever its environment, and drop its network.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.this_machine import cpu, kept, processes
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH

_TIMEOUT_S = 20.0
_PAUSE_S = 0.005


@dataclass(frozen=True, kw_only=True)
class LeftOnMachine:
    """What was found of one run. False if that is nothing."""

    processes: frozenset[int] = frozenset()
    devices: tuple[str, ...] = ()
    groups: tuple[Path, ...] = ()  # inner ones first
    mounts: tuple[str, ...] = ()  # inner ones first
    directory: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.processes or self.devices or self.groups or self.mounts or self.directory)

    def lines(self) -> tuple[str, ...]:
        """One line for people about each thing."""
        return (
            *(f"process {pid} ({processes.command(pid)})" for pid in sorted(self.processes)),
            *(f"network device {device}" for device in self.devices),
            *(f"cgroup {group}" for group in self.groups),
            *(f"mount {mount}" for mount in self.mounts),
            *([f"directory {self.directory}"] if self.directory else []),
        )


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead, and remove all it has here; what that was, one line each, empty if nothing.

    The run directories of the hosts ``keep`` stay. Spares this process and its ancestors.

    Raises: TestbedError if something cannot be removed.
    """
    removed: dict[str, None] = {}
    deadline_s = time.monotonic() + _TIMEOUT_S
    while found := find(run_id, base, keep):  # until nothing is: what was just being started shows up the next time
        if removed:
            time.sleep(_PAUSE_S)
        if time.monotonic() > deadline_s:
            raise TestbedError(f"run {run_id}: cannot remove {'; '.join(found.lines())}; remove that by hand")
        removed |= dict.fromkeys(found.lines())
        _remove(found, run_id, base, keep)
    return tuple(removed)


def leftovers(run_id: str, base: Path | None = None) -> tuple[str, ...]:
    """What there is of ``run_id``, one line each; empty after ``destroy``."""
    return find(run_id, base).lines()


def find(run_id: str, base: Path | None = None, keep: Collection[str] = ()) -> LeftOnMachine:
    """What there is of ``run_id``, but for this process and its ancestors, and what is to ``keep``."""
    directory = registry.run_directory(run_id, base)
    groups = _groups(run_id)
    return LeftOnMachine(
        processes=processes.all_of(run_id, directory, groups),
        devices=tuple(name for _, name in socket.if_nameindex() if run_id in name),  # normally gone with its other end
        groups=groups,
        mounts=_mounts(run_id, directory),
        directory=directory if directory.exists() and not kept.alone(directory, keep) else None,
    )


def _remove(found: LeftOnMachine, run_id: str, base: Path | None, keep: Collection[str]) -> None:
    """One round: ``find`` says afterwards what it did not get."""
    directory = registry.run_directory(run_id, base)
    if found.processes:
        processes.kill(lambda: processes.all_of(run_id, directory, found.groups), _TIMEOUT_S)
    for device in found.devices:
        _run("ip", "link", "delete", device)
    for group in found.groups:
        with suppress(OSError):  # gone, or busy for a moment after its last process is; looked at again
            group.rmdir()
    for mount in found.mounts:
        _run("umount", "--lazy", mount)  # lazy: also while something still looks into it
    if found.directory and not (found.processes or found.devices or found.groups or found.mounts):
        with suppress(OSError):  # two `destroy` at once take files from each other; what stays is looked at again
            kept.strip(found.directory, keep)  # last: while it stands, `destroy` knows the run and tries again


def _groups(run_id: str) -> tuple[Path, ...]:
    hierarchy = cpu.controller()
    if hierarchy is None:
        return ()
    # Of any depth: a program on a host may have made some below its own. One with children is not removed.
    return tuple(Path(place) for place, _, _ in os.walk(hierarchy.group(run_id), topdown=False))


def _mounts(run_id: str, directory: Path) -> tuple[str, ...]:
    """Mount points of the machine's own that are the run's: none, unless something went wrong."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    ours = [line[1] for line in lines if line[0] == f"e2cdl-{run_id}" or f"{line[1]}/".startswith(f"{directory}/")]
    return tuple(reversed(ours))  # the last one mounted lies on top


def _run(*argv: str) -> None:
    """Run ``argv``, whatever comes of it: that it failed because the thing is gone is seen by looking again.

    Raises: TestbedError if there is no such program.
    """
    try:
        subprocess.run(
            argv,
            env={"PATH": SYSTEM_PATH},  # the user's may lack what made these things
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise TestbedError(f"{argv[0]}: not found on this machine; `e2c-dl doctor` names the package") from error
