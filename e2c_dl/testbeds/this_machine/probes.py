"""Probes of this machine, one per capability, each tried rather than looked up; nothing is left behind.

What needs a device or a rule is tried in a network namespace that ends with the probe.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from e2c_dl.memory import memory_available_bytes
from e2c_dl.testbeds.base import Probe
from e2c_dl.testbeds.registry import state_base
from e2c_dl.testbeds.this_machine import cpu, private_root, rootless
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH, with_system

PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "umount": "mount",
    "pivot_root": "util-linux",
    "hostname": "hostname",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
"""Programs that hosts on one machine need -> the Debian package that has them."""

DEPLOYING = ("torch", "e2clab", "enoslib", "ansible-core")
"""Python packages without which nothing is deployed from here."""

ROOTLESS = "hosts without root"
"""The probe of what an ordinary user needs in place of root."""

_PACKAGES = (*DEPLOYING, "plotly", "rocrate")
_QDISCS = {"netem": "delay 1ms", "htb": "", "tbf": "rate 1mbit burst 10kb latency 10ms"}
_TUN = Path("/dev/net/tun")
TUN_REMEDY = "as root: modprobe tun, chmod 0666 /dev/net/tun; in a container, add --device /dev/net/tun"
_TIMEOUT_S = 5.0
_GIB = 2**30


def probes() -> tuple[Probe, ...]:
    """All of them, in the order to show them."""
    return tuple(_all())


def program(name: str) -> str | None:
    """Where ``name`` is, in the system's directories too, which a user's PATH may lack."""
    return shutil.which(name, path=with_system(os.environ.get("PATH")))


def has_netem() -> bool:
    """Whether this kernel shapes delay and loss itself, tried in a network namespace that ends with the try."""
    return _qdisc_problem("netem") is None


def tun_problem(device: Path = _TUN) -> str | None:
    """Why no TAP device can be made; None if one can."""
    try:
        os.close(os.open(device, os.O_RDWR))  # it may be there without its driver, or forbidden in a container
    except OSError as error:
        return error.strerror
    return None


def _all() -> Iterator[Probe]:
    yield Probe(name="kernel", ok=platform.system() == "Linux", detail=f"{platform.system()} {platform.release()}")
    root = os.geteuid() == 0
    remedy = "" if root else "not needed; as root (sudo), CPU quotas can be had and the relay is more punctual"
    yield Probe(name="root", ok=root, detail="yes" if root else "no", remedy=remedy)
    yield from _capacity()
    failure = _failure("unshare", *_become(), "--net", "true")
    yield _tried("network namespaces", failure, "a container needs --privileged")
    lacking, _, remedy = (rootless.problem() or "").partition("; ")
    yield _tried(ROOTLESS, lacking, remedy, "user namespaces can be made")
    for kind in _QDISCS:
        remedy = f"modprobe sch_{kind}; without it, links are emulated by a relay on TAP devices"
        yield _tried(f"tc {kind}", _qdisc_problem(kind), remedy)
    problem = tun_problem()
    yield _tried("TAP devices", problem and f"{_TUN}: {problem}", TUN_REMEDY, f"{_TUN}: can be opened")
    remedy = "modprobe overlay; without it, hosts share this machine's files"
    yield _tried("files of hosts", private_root.problem(), remedy, "their own, over this machine's: overlayfs")
    yield _cpu_quota()
    for name in PROGRAMS:
        yield program_probe(name)
    yield _docker()
    for package in _PACKAGES:
        yield package_probe(package, remedy="make setup")


def _capacity() -> Iterator[Probe]:
    cores = len(os.sched_getaffinity(0))  # not cpu_count: a container or taskset may allow fewer
    yield Probe(name="cores", ok=True, detail=f"{cores}")
    yield Probe(name="memory", ok=True, detail=f"{memory_available_bytes() / _GIB:.1f} GiB available")
    for name, place in (("disk here", Path.cwd()), ("disk for runs' state", state_base())):
        while not place.exists():
            place = place.parent
        yield Probe(name=name, ok=True, detail=f"{shutil.disk_usage(place).free / _GIB:.1f} GiB free on {place}")


def _tried(name: str, failure: str | None, remedy: str, found: str = "available") -> Probe:
    return Probe(name=name, ok=not failure, detail=failure or found, remedy=remedy if failure else "")


def _become() -> tuple[str, ...]:
    """Options of unshare that let an ordinary user try what root can."""
    return () if os.geteuid() == 0 else ("--user", "--map-root-user")


def _qdisc_problem(kind: str) -> str | None:
    """It is added and read back: tc may say yes to what the kernel does not do."""
    script = f"tc qdisc add dev lo root {kind} {_QDISCS[kind]} && tc qdisc show dev lo | grep -q 'qdisc {kind} '"
    return _failure("unshare", *_become(), "--net", "sh", "-c", script)


def _cpu_quota() -> Probe:
    """A cgroup is made, limited, read back and removed; no process is in it."""
    hierarchy = cpu.controller()
    if hierarchy is None:
        return _tried("CPU quota", "no cgroup cpu controller", "compute is emulated by sleep")
    failure = cpu.try_quota(f"probe-{os.getpid()}")  # by pid: two of these at a time must not share it
    detail = f"cgroup version {hierarchy.version} at {hierarchy.root}"
    remedy = "run as root; without it, compute is emulated by sleep"
    return _tried("CPU quota", failure and f"{detail}: {failure}", remedy, detail)


def missing_programs(names: Iterable[str] = tuple(PROGRAMS)) -> tuple[str, ...]:
    """Which of ``names`` this machine lacks, one line each, with the remedy."""
    lacking = (name for name in names if program(name) is None)
    return tuple(f"{name}: not found on this machine; apt-get install {PROGRAMS[name]}" for name in lacking)


def program_probe(name: str) -> Probe:
    """Whether the program ``name`` of PROGRAMS is here."""
    where = program(name)
    remedy = "" if where else f"apt-get install {PROGRAMS[name]}"
    return Probe(name=name, ok=where is not None, detail=where or "not found", remedy=remedy)


def _docker() -> Probe:
    if program("docker") is None:
        return _tried("docker", "not found", "only needed for hosts as containers: docker.io")
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.settimeout(1.0)
        try:
            daemon.connect("/var/run/docker.sock")
        except OSError as error:
            return Probe(name="docker", ok=False, detail=f"daemon: {error.strerror}", remedy="start dockerd")
    return Probe(name="docker", ok=True, detail="daemon answers")


def package_probe(name: str, *, remedy: str) -> Probe:
    """Whether the Python package ``name`` is installed; not by importing it, which takes seconds for some."""
    try:
        return Probe(name=name, ok=True, detail=importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Probe(name=name, ok=False, detail="not installed", remedy=remedy)


def _failure(*argv: str) -> str | None:
    """Why ``argv`` fails, in a line; None if it does not."""
    environ = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}  # messages untranslated
    try:
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return " ".join(done.stderr.split()) or f"{argv[0]} ended with status {done.returncode}"
