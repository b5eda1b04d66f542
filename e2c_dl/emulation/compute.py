"""How hosts that share one machine are made as slow as a scenario says, without asking for more cores than there are.

::

    quota   the kernel gives host h   cores[h] = base / factor[h]   of one core
    sleep   host h computes on a whole core when it has one, then waits: c seconds of CPU last c / speed[h],
            speed[h] = share / factor[h]

    always: sum over hosts of cores used + RELAY_CORES <= the machine's cores; else the plan is *oversubscribed*, and no
    verdict on compute may be given
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from e2c_dl.errors import EmulationError

RELAY_CORES = 0.5
"""Kept free for the relay and everything else on the machine."""


class Method(Enum):
    """How a host is made slower."""

    QUOTA = "quota"
    SLEEP = "sleep"


@dataclass(frozen=True, kw_only=True)
class ComputePlan:
    """What to do to every host. Of ``cores`` and ``speed``, the one that the method does not use is empty."""

    method: Method
    cores: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # host -> share of one core
    speed: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # host -> times a whole core
    oversubscribed: bool
    why: str  # one sentence, for the archive


def plan(machine_cores: float, factors: Mapping[str, float], method: str, cores: float | None) -> ComputePlan:
    """The plan for hosts that are ``factors[host]`` times slower than the reference (design and injected together).

    ``method`` and ``cores`` are the scenario's (ComputeEmulation): ``auto`` is quota where a host of factor 1 can have
    ``cores`` (None: one whole core) and everything still fits, else sleep.

    Raises: EmulationError for an unknown method, a factor that is not positive, or a machine without a core to give.
    """
    usable = machine_cores - RELAY_CORES
    if usable <= 0:
        raise EmulationError(f"compute: {machine_cores:g} cores leave none beside the relay's; use a larger machine")
    for host, factor in factors.items():
        if not factor > 0:
            raise EmulationError(f"compute: {host} has factor {factor:g}; give a positive number")
    demand = sum(1 / factor for factor in factors.values())  # cores, if a host of factor 1 gets one
    base = 1.0 if cores is None else cores
    fits = base * demand <= usable * (1 + 1e-9)
    asked = f"{base * demand:.2f} cores asked for, {usable:.2f} of {machine_cores:g} can be given"
    if method == "auto":
        return _quota(factors, base, asked, fits=True) if fits else _sleep(factors, base, usable, asked)
    if method == Method.SLEEP.value:
        return _sleep(factors, base, usable, asked)
    if method == Method.QUOTA.value:
        if cores is None and not fits:
            return _quota(factors, usable / demand, f"as much as there is to give to all: {asked}", fits=True)
        return _quota(factors, base, asked, fits=fits)
    raise EmulationError(f"compute: unknown method {method!r}; write auto, quota or sleep")


def _quota(factors: Mapping[str, float], base: float, asked: str, *, fits: bool) -> ComputePlan:
    return ComputePlan(
        method=Method.QUOTA,
        cores=MappingProxyType({host: base / factor for host, factor in factors.items()}),
        oversubscribed=not fits,
        why=f"CPU quota, {base:.3f} of a core for a host of factor 1 ({asked})",
    )


def _sleep(factors: Mapping[str, float], base: float, usable: float, asked: str) -> ComputePlan:
    share = min(base, usable / len(factors)) if factors else base
    return ComputePlan(
        method=Method.SLEEP,
        speed=MappingProxyType({host: share / factor for host, factor in factors.items()}),
        oversubscribed=False,
        why=f"calibrated sleep, {share:.3f} of a core's speed for a host of factor 1 ({asked})",
    )
