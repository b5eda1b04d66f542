"""Clean-up of what a run has of docker, found by its label: after a crash at any moment, too.

::

    processes    docker's own command lines, the relay, ssh ...   as on the local testbed; then nobody makes more
    containers   label e2cdl.run=ID
    networks     label e2cdl.run=ID
    directory    of the registry; removed last, and only if docker's daemon has answered that nothing is left

A daemon finishes a request whose sender was killed: so where one was, it is asked again a moment later.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.docker.containers import LABEL
from e2c_dl.testbeds.docker.engine import docker
from e2c_dl.testbeds.namespaces import cleanup as local
from e2c_dl.testbeds.this_machine import processes

_TIMEOUT_S = 60.0
_LATE_S = 0.5  # a daemon takes less to make a container whose request it has


@dataclass(frozen=True, kw_only=True)
class LeftInDocker:
    """What docker has of one run: id -> name. False if that is nothing."""

    containers: Mapping[str, str]
    networks: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.containers or self.networks)

    def lines(self) -> tuple[str, ...]:
        """One line for people about each thing."""
        return (
            *(f"container {name}" for name in self.containers.values()),
            *(f"docker network {name}" for name in self.networks.values()),
        )


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead, and remove all it has here; what that was, one line each, empty if nothing.

    The run directories of the hosts ``keep`` stay.

    Raises: TestbedError if the daemon does not answer (then the run stays known), or something cannot be removed.
    """
    daemon = _daemon(run_id, base)
    found = find(run_id, daemon)
    ended = _end_processes(run_id, base)
    removed = dict.fromkeys((*ended, *found.lines()))  # each once: what takes two rounds is found twice
    deadline_s = time.monotonic() + _TIMEOUT_S
    if any("(docker)" in line for line in ended):  # the daemon may still be at what a killed one asked for
        time.sleep(_LATE_S)
    while found := find(run_id, daemon):
        if time.monotonic() > deadline_s:
            raise TestbedError(f"run {run_id}: cannot remove {'; '.join(found.lines())}; remove that by hand")
        removed |= dict.fromkeys(found.lines())
        _remove(found, daemon)
    return (*removed, *(line for line in local.destroy(run_id, base, keep=keep) if line not in removed))


def leftovers(run_id: str, base: Path | None = None) -> tuple[str, ...]:
    """What there is of ``run_id``, one line each; empty after ``destroy``. Raises: TestbedError."""
    return (*find(run_id, _daemon(run_id, base)).lines(), *local.leftovers(run_id, base))


def find(run_id: str, daemon: Mapping[str, str] | None = None) -> LeftInDocker:
    """What the daemon has of ``run_id``. Raises: TestbedError if it does not answer."""
    chosen = f"--filter=label={LABEL}={run_id}"
    containers = docker("container", "ls", "--all", chosen, "--format={{.ID}} {{.Names}}", daemon=daemon)
    networks = docker("network", "ls", chosen, "--format={{.ID}} {{.Name}}", daemon=daemon)
    return LeftInDocker(containers=_named(containers), networks=_named(networks))


def _remove(found: LeftInDocker, daemon: Mapping[str, str] | None) -> None:
    """One round: ``find`` says afterwards what it did not get."""
    for kind, things in (("container", found.containers), ("network", found.networks)):  # a network in use would stay
        force = ["--force", "--volumes"] if kind == "container" else []  # running ones too, with nameless volumes
        try:
            if things:
                docker(kind, "rm", *force, *things, daemon=daemon)
        except TestbedError:
            time.sleep(_LATE_S / 10)  # gone meanwhile, or busy for a moment: looked at again


def _end_processes(run_id: str, base: Path | None) -> tuple[str, ...]:
    """Nothing of the run makes or changes anything any more; one line about each process."""
    directory = registry.run_directory(run_id, base)
    found = sorted(processes.all_of(run_id, directory))
    lines = tuple(f"process {pid} ({processes.command(pid)})" for pid in found)  # before: the dead have no names
    processes.kill(lambda: processes.all_of(run_id, directory), _TIMEOUT_S)
    return lines


def _daemon(run_id: str, base: Path | None) -> Mapping[str, str] | None:
    """Which daemon the run was on; None, the environment's, if that was not kept."""
    try:
        return registry.load(run_id, base).details.get("daemon")
    except (InputError, TestbedError):  # never written, or damaged
        return None


def _named(listed: str) -> dict[str, str]:
    pairs = (line.partition(" ") for line in listed.splitlines())
    return {id_: name for id_, _, name in pairs}
