"""Find the processes of a run, and end them for certain.

A pid alone may come to mean another process between finding and killing; a pidfd does not. So each process found is
held by a pidfd, looked at again, killed through it, and waited for.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.pids import start_ticks
from e2c_dl.testbeds.registry import RUN_VARIABLE

_PROC = Path("/proc")
_AT_ONCE = 256  # processes: each is held by a descriptor, of which a program often may have 1024


def all_of(run_id: str, directory: Path, groups: Iterable[Path] = ()) -> frozenset[int]:
    """``processes_of`` the run whose registry entry is ``directory``, and its controller while that is alive."""
    return processes_of(run_id, groups, controller_of(directory))


def controller_of(directory: Path) -> frozenset[int]:
    """The run's controller while that is alive: it does not carry the run's id, as the run began after it."""
    controller = registry.live_controller(directory)
    return frozenset() if controller is None else frozenset((controller,))


def processes_of(run_id: str, groups: Iterable[Path] = (), others: Iterable[int] = ()) -> frozenset[int]:
    """Pids of what carries the run's id in its environment, or is in one of ``groups``, or ssh shares; and ``others``.

    This process and its ancestors are not among them, nor are zombies, which their parents must reap.
    """
    mark = f"\0{RUN_VARIABLE}={run_id}\0".encode()  # whole entries: one id may begin another
    pids = {int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()}
    found = {pid for pid in pids if mark in b"\0" + _read(_PROC / str(pid) / "environ") or _is_shared_ssh(pid, run_id)}
    for group in groups:
        found |= {int(pid) for pid in _read(group / "cgroup.procs").split()}
    return frozenset(pid for pid in (found | set(others)) - lineage() if start_ticks(pid) is not None)


def _is_shared_ssh(pid: int, run_id: str) -> bool:
    """Whether ``pid`` is an ssh that stays for later connections of the run: its title, the path of its socket, has
    overwritten its environment."""
    title = _read(_PROC / str(pid) / "cmdline")
    return title.startswith(b"ssh: ") and f"/{run_id}/".encode() in title


def lineage() -> frozenset[int]:
    """This process and its ancestors."""
    pids, pid = set(), os.getpid()
    while pid > 0:  # 0: the parent of pid 1, or one outside of this pid namespace
        pids.add(pid)
        pid = _parent(pid)
    return frozenset(pids)


def command(pid: int) -> str:
    """The name of what ``pid`` runs; empty if it is gone."""
    return _read(_PROC / str(pid) / "comm").decode(errors="replace").strip()


def kill(find: Callable[[], frozenset[int]], timeout_s: float) -> None:
    """SIGKILL to all that ``find`` names, and wait until they are gone, or ``timeout_s`` is over.

    A process that was the first of its pid namespace is gone when all others of it are.
    """
    deadline_s = time.monotonic() + timeout_s
    pids = sorted(find())
    for begin in range(0, len(pids), _AT_ONCE):
        _kill(pids[begin : begin + _AT_ONCE], find, deadline_s)


def _kill(pids: Sequence[int], find: Callable[[], frozenset[int]], deadline_s: float) -> None:
    with ExitStack() as held:
        descriptors: dict[int, int] = {}
        for pid in pids:
            try:
                descriptors[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            held.callback(os.close, descriptors[pid])
        waiting = select.poll()
        left = 0
        for pid in find() & descriptors.keys():  # held now: before, a pid may have changed hands
            with suppress(ProcessLookupError):  # it ended by itself
                signal.pidfd_send_signal(descriptors[pid], signal.SIGKILL)
            waiting.register(descriptors[pid], select.POLLIN)  # a pidfd can be read once its process has ended
            left += 1
        while left and time.monotonic() < deadline_s:
            for descriptor, _ in waiting.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
                waiting.unregister(descriptor)
                left -= 1


def _parent(pid: int) -> int:
    stat = _read(_PROC / str(pid) / "stat").rpartition(b")")[2].split()
    return int(stat[1]) if stat else 0


def _read(file: Path) -> bytes:
    """What ``file`` holds; nothing if its process or cgroup is gone, or is another user's."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
