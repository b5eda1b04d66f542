"""Probes of ``e2c-dl doctor --on docker``: program, daemon, image, what containers may do; nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.base import Probe
from e2c_dl.testbeds.docker import image, interpreter
from e2c_dl.testbeds.docker.engine import asked, docker
from e2c_dl.testbeds.this_machine import probes as machine

LEAST_API = (1, 40)  # of Docker 19.03

_SHAPING = frozenset({"tc netem", "TAP devices"})  # one of the two, and root for the relay
_OF_THE_MACHINE = ("kernel", "root", "cores", "memory", *sorted(_SHAPING), *machine.DEPLOYING)
CONTROLLER_PROGRAMS = ("ssh", "ssh-keygen")  # sshd, ip and tc are the image's
_NEEDED = frozenset({"docker daemon", "docker API", "image", "containers", *CONTROLLER_PROGRAMS, *machine.DEPLOYING})


def blocking(found: tuple[Probe, ...]) -> tuple[str, ...]:
    """Names of the missing capabilities without which no run works here."""
    missing = {probe.name for probe in found if not probe.ok}
    stops = missing & _NEEDED
    if "tc netem" in missing:  # then the relay carries everything
        stops |= missing & {"TAP devices", "root"}
    return tuple(probe.name for probe in found if probe.name in stops)


def relay_problems() -> list[str]:
    """Why the relay cannot carry a data network of containers here, one line each."""
    problems = []
    if os.geteuid() != 0:
        problems.append(
            "not root: this kernel or scenario needs the relay, which enters the containers' networks; "
            "run as root (sudo)"
        )
    tun = machine.tun_problem()
    if tun is not None:
        problems.append(f"/dev/net/tun: {tun}; modprobe tun; in a container, add --device /dev/net/tun")
    return [*problems, *machine.missing_programs(["ip"])]


def probes(image_name: str) -> Iterator[Probe]:
    """All that matters for hosts that are containers of ``image_name``."""
    yield from (probe for probe in machine.probes() if probe.name in (*_OF_THE_MACHINE, *CONTROLLER_PROGRAMS))
    try:
        told = asked("info", "--format={{json .}}")
        api = docker("version", "--format={{.Server.APIVersion}}").strip()
    except TestbedError as error:
        yield _from("docker daemon", str(error))  # all that follows would say the same
        return
    yield from _of_daemon(told, api)
    yield from _of_image(image_name)


def has_quota(told: Mapping[str, Any]) -> bool:
    """Whether CPU time can be limited, of what ``docker info`` told."""
    return bool(told.get("CpuCfsQuota"))


def _of_daemon(told: Mapping[str, Any], api: str) -> Iterator[Probe]:
    version = tuple(int(part) for part in api.split("."))
    yield Probe(name="docker daemon", ok=True, detail=f"version {told.get('ServerVersion')}")
    remedy = "" if version >= LEAST_API else "install Docker 19.03 or later"
    yield Probe(name="docker API", ok=version >= LEAST_API, detail=api, remedy=remedy)
    cgroups = f"version {told.get('CgroupVersion', '1')}, driver {told.get('CgroupDriver')}"
    quota = has_quota(told)
    yield Probe(name="docker CPU quota", ok=quota, detail=cgroups, remedy="" if quota else "compute: {method: sleep}")
    yield Probe(name="docker storage", ok=True, detail=f"{told.get('Driver')} in {told.get('DockerRootDir')}")


def _of_image(name: str) -> Iterator[Probe]:
    problem = image.problem(name)
    if problem is not None:
        yield _from("image", problem)
        return
    yield Probe(name="image", ok=True, detail=name)
    problem = interpreter.problem(name)
    if problem is not None:
        yield _from("containers", problem)
        return
    yield Probe(name="containers", ok=True, detail="this Python works in them, NET_ADMIN too")


def _from(name: str, problem: str) -> Probe:
    """A probe that failed, of a line ``what is wrong; what to do``."""
    detail, _, remedy = problem.partition("; ")
    return Probe(name=name, ok=False, detail=detail, remedy=remedy)
