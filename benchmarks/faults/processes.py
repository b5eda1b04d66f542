"""Processes of a run as they are seen in /proc: hosts by their namespaces of process ids, and who does what on them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SERVICE_IDS = {"1_1_1": "edge-1", "2_1_1": "cloud-1"}
_NODES = {"node-1": "edge-1", "node-2": "cloud-1"}  # machines of the static testbed, in the order of their inventory


@dataclass(frozen=True)
class Process:
    """One process: ``space`` is its namespace of process ids, ``number`` its pid there."""

    pid: int
    parent: int
    words: tuple[str, ...]
    space: str
    number: int

    @property
    def is_worker(self) -> bool:
        return self.words[1:4] == ("-m", "e2c_dl.drivers.live", "train")

    @property
    def is_agent(self) -> bool:
        return any(word.startswith("e2c_dl.emulation.agent") for word in self.words)

    @property
    def is_relay(self) -> bool:
        return self.words[1:3] == ("-m", "e2c_dl.emulation.relay.main")

    @property
    def is_sshd(self) -> bool:
        return bool(self.words) and "sshd" in self.words[0] and "listener" in " ".join(self.words)


def every() -> Iterator[Process]:
    """All processes that are seen from here, but for zombies."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _look(int(entry.name))) is not None:
            yield found


def in_hosts() -> dict[str, list[Process]]:
    """host -> its processes, as far as there are hosts."""
    here = os.readlink("/proc/self/ns/pid")
    spaces: dict[str, list[Process]] = {}
    for process in every():
        if process.space != here:
            spaces.setdefault(process.space, []).append(process)
    named = {_host_name(members): members for members in spaces.values()}
    return {_NODES.get(name, name): members for name, members in named.items() if name is not None}


def workers() -> dict[str, Process]:
    """host -> its worker."""
    found = (process for process in every() if process.is_worker)
    return {SERVICE_IDS[process.words[5]]: process for process in found if process.words[5] in SERVICE_IDS}


def traced_bytes(worker: Process) -> int:
    """How much of its trace ``worker`` has written so far."""
    with suppress(OSError):
        return os.stat(f"/proc/{worker.pid}/root/{worker.words[4]}/spans.bin").st_size
    return 0


def _look(pid: int) -> Process | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        space = os.readlink(f"/proc/{pid}/ns/pid")
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    said = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    if said["State"][0] in "ZX":
        return None
    number = int(said["NSpid"].split()[-1])
    return Process(pid=pid, parent=int(said["PPid"]), words=tuple(words), space=space, number=number)


def _host_name(members: list[Process]) -> str | None:
    """What the host of ``members`` calls itself."""
    argv = ["nsenter", "--target", str(members[0].pid), "--uts", "hostname"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None
