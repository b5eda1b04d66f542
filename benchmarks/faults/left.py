"""What a run has left on this machine: the difference between two looks at it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults import processes
from benchmarks.faults.site import Site

_GROUPS = Path("/sys/fs/cgroup")
_WITHIN_S = 3.0
"""Processes that were killed may need a moment."""


@dataclass(frozen=True)
class Look:
    """Everything in it is a line that says what it is."""

    seen: frozenset[str]


def look(site: Site, run_id: str = "") -> Look:
    """Processes, devices, rules, mounts, cgroups of ``run_id``, containers and files, as they are now."""
    own = _lineage()
    others = [each for each in processes.every() if each.pid not in own]
    found = [f"process {each.pid} ({' '.join(each.words)[:120]})" for each in others if _is_left(each)]
    commands = {
        "rule": ["ip", "rule"], "route": ["ip", "route"],
        "firewall": ["iptables-save"], "namespace": ["ip", "netns"],
    }  # fmt: skip
    for what, argv in commands.items():
        found += [f"{what} {line}" for line in _lines(argv) if not line.startswith("#")]
    found += [f"device {name}" for _, name in socket.if_nameindex()]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line.split()[1]}" for line in mounts]
    found += [f"cgroup {path}" for path in _groups(run_id)]
    if site.testbed == "docker":
        found += [f"container {line}" for line in _lines(["docker", "ps", "--all", "--format={{.Names}}"])]
        found += [f"docker network {line}" for line in _lines(["docker", "network", "ls", "--format={{.Name}}"])]
    for place in (Path("/tmp"), site.state, Path("/dev/shm")):
        found += [f"file {path}" for path in place.glob("*") if path.name != site.FILLER]
    for home in (Path.home(), site.home):
        with suppress(OSError):
            found.append(f"known hosts of {home}: {(home / '.ssh' / 'known_hosts').read_text()}")
    return Look(frozenset(found))


def left(before: Look, now: Callable[[], Look]) -> tuple[str, ...]:
    """What was not there before, after a moment in which it may still go."""
    deadline_s = time.monotonic() + _WITHIN_S
    while (more := sorted(now().seen - before.seen)) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return tuple(more)


def _is_left(process: processes.Process) -> bool:
    """Not the daemon that the lane has, nor what the kernel shows without words."""
    return bool(process.words[0]) and Path(process.words[0]).name not in ("dockerd", "containerd")


def _groups(run_id: str) -> list[Path]:
    found = []
    if run_id:
        for folder, names, _ in os.walk(_GROUPS):
            found += [Path(folder, name) for name in names if run_id in name]
    return found


def _lines(argv: list[str]) -> list[str]:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines()


def _lineage() -> set[int]:
    """This process, and whose child it is."""
    parents = {process.pid: process.parent for process in processes.every()}
    found, pid = set(), os.getpid()
    while pid > 0:
        found.add(pid)
        pid = parents.get(pid, 0)
    return found
