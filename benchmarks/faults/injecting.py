"""Faults put in force: who is hit is looked for until it is there, or the run is over."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.faults import processes
from benchmarks.faults.drawn import Fault
from benchmarks.faults.running import Running
from benchmarks.faults.site import Site

_MORE_BYTES = 200_000  # that a process may still have when its memory is limited
_LATER_S = 1.5  # beyond what counts as the same wish


def inject(fault: Fault, running: Running, site: Site) -> str | None:
    """Put ``fault`` in force now; what was hit, None if the run was over before there was anything to hit."""
    act = _ACTS[fault.kind]
    while not running.over:
        hit = act(fault, running, site)
        if hit is not None:
            return f"{hit} in {running.stage}"
        time.sleep(0.01)  # what is to be hit is not there yet
    return None


Act = Callable[[Fault, Running, Site], str | None]


def _send(number: signal.Signals) -> Act:
    def send(_: Fault, running: Running, __: Site) -> str:
        running.signal(number)
        return f"{number.name} to e2c-dl"

    return send


def _interrupt(_: Fault, running: Running, __: Site) -> str:
    running.interrupt()
    return "SIGINT to e2c-dl's group"


def _interrupt_twice(fault: Fault, running: Running, site: Site) -> str:
    _interrupt(fault, running, site)
    deadline_s = time.monotonic() + _LATER_S
    while time.monotonic() < deadline_s and not running.over:
        time.sleep(0.01)
    running.interrupt()
    return "SIGINT twice to e2c-dl's group"


def _on_host(number: signal.Signals, chosen: Callable[[processes.Process], bool], what: str) -> Act:
    def hit(fault: Fault, _: Running, __: Site) -> str | None:
        found = [each for each in processes.in_hosts().get(fault.host, []) if chosen(each)]
        return _hit(found, number, f"{what} of {fault.host}")

    return hit


def _on_machine(number: signal.Signals, chosen: Callable[[processes.Process], bool], what: str) -> Act:
    def hit(_: Fault, __: Running, ___: Site) -> str | None:
        return _hit([each for each in processes.every() if chosen(each)], number, what)

    return hit


def _hit(found: list[processes.Process], number: signal.Signals, what: str) -> str | None:
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
    return f"{number.name} to {what}" if found else None


def _fork(_: Fault, running: Running, __: Site) -> str | None:
    """One of Ansible's: a child of e2c-dl that is a copy of it."""
    own = [each for each in processes.every() if each.pid == running.pid]
    forks = [each for each in processes.every() if own and each.parent == running.pid and each.words == own[0].words]
    return _hit(forks[:1], signal.SIGKILL, "a fork of e2c-dl")


def _fill(place: Callable[[Site], Path]) -> Act:
    def fill(_: Fault, __: Running, site: Site) -> str:
        disk = place(site)
        with (disk / site.FILLER).open("ab", buffering=0) as file:
            with suppress(OSError):
                while True:
                    file.write(b"\0" * (1 << 16))
            with suppress(OSError):
                while True:
                    file.write(b"\0" * 512)
        return f"the disk of {disk} was filled"

    return fill


def _remove(_: Fault, __: Running, site: Site) -> str | None:
    if not site.archive.is_dir():
        return None
    shutil.rmtree(site.archive, ignore_errors=True)
    return "the archive was removed"


def _move(_: Fault, __: Running, site: Site) -> str | None:
    if not site.archive.is_dir():
        return None
    site.archive.rename(site.moved)
    return "the archive was moved"


def _close_reader(_: Fault, running: Running, __: Site) -> str:
    running.close_reader()
    return "the reader of standard error ended"


def _limit_memory(_: Fault, running: Running, __: Site) -> str | None:
    try:
        pages = int(Path(f"/proc/{running.pid}/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MORE_BYTES
        resource.prlimit(running.pid, resource.RLIMIT_AS, (most, most))
    except (OSError, IndexError):
        return None
    return "no more memory for e2c-dl"


def _limit_host_memory(fault: Fault, _: Running, site: Site) -> str | None:
    worker = processes.workers().get(fault.host)
    if worker is None:
        return None
    site.limit_memory(worker.pid, _MORE_BYTES)
    return f"no more memory for the worker of {fault.host}"


def _worker(process: processes.Process) -> bool:
    return process.is_worker


def _agent(process: processes.Process) -> bool:
    return process.is_agent


def _relay(process: processes.Process) -> bool:
    return process.is_relay


def _sshd(process: processes.Process) -> bool:
    return process.is_sshd


def _init(process: processes.Process) -> bool:
    return process.number == 1


def _any(_: processes.Process) -> bool:
    return True


KILL, STOP = signal.SIGKILL, signal.SIGSTOP

_ACTS: Mapping[str, Act] = {
    "sigint": _interrupt,
    "sigint-twice": _interrupt_twice,
    "sigterm": _send(signal.SIGTERM),
    "sighup": _send(signal.SIGHUP),
    "sigkill": _send(signal.SIGKILL),
    "worker-killed": _on_host(KILL, _worker, "the worker"),
    "worker-stopped": _on_host(STOP, _worker, "the worker"),
    "agent-killed": _on_host(KILL, _agent, "the agent"),
    "agent-stopped": _on_host(STOP, _agent, "the agent"),
    "relay-killed": _on_machine(KILL, _relay, "the relay"),
    "relay-stopped": _on_machine(STOP, _relay, "the relay"),
    "sshd-killed": _on_host(KILL, _sshd, "sshd"),
    "sshd-stopped": _on_host(STOP, _sshd, "sshd"),
    "host-killed": _on_host(KILL, _init, "the first process"),
    "host-frozen": _on_host(STOP, _any, "all processes"),
    "fork-killed": _fork,
    "archive-disk-full": _fill(lambda site: site.disk),
    "state-disk-full": _fill(lambda site: site.state),
    "archive-removed": _remove,
    "archive-moved": _move,
    "reader-gone": _close_reader,
    "memory": _limit_memory,
    "host-memory": _limit_host_memory,
}
