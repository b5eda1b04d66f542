"""Emulation of slow hosts on one shared machine: quota or pacing of each, asking for no more cores than there are.

::

    quota   the kernel gives host h at most   cores[h] = HEADROOM * base / factor[h]   of one core, and its worker is
            paced to speed[h] = base / factor[h]
    sleep   host h computes on a whole core when it has one, then waits: c seconds of CPU last c / speed[h],
            speed[h] = share / factor[h]

    always: sum over hosts of cores used + RELAY_CORES <= the machine's cores; else the plan is *oversubscribed*, and no
    verdict on compute may be given

The quota alone would not do: a process that is stopped often needs more CPU time for the same work, more the smaller
its share (benchmarks/compute), so that it would be slower than asked for. Pacing decides how long computing lasts, the
quota bounds all that the host does beside it, and leaves room for what is lost by being stopped.

A host whose speed *changes* while training runs (a schedule, slow windows, heat) is paced by its worker all the same: c
seconds of CPU end when the integral of ``base / factor(t)`` reaches c. Its quota is by the most it is ever asked for,
``base / least factor``. What a testbed publishes as ``Told.speed`` is ``speed.get(host)``, as it stands here: the speed
of a host with its constant factor (``Scenario.emulated_factor``), so that the worker knows ``base = speed *
emulated_factor`` and does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from e2c_dl.errors import EmulationError
from e2c_dl.scenario.model import FaultKind, Scenario

RELAY_CORES = 0.5
"""Kept free for the relay and everything else on the machine."""

HEADROOM = 1.5
"""A quota is this many times the share that a host is paced to, but no more than a whole core."""


LEAST_CORES = 0.001
"""The kernel gives no smaller quota: it takes 1 ms at least, and a second at most to give it."""


class Method(Enum):
    """How a host is made slower."""

    QUOTA = "quota"
    SLEEP = "sleep"


@dataclass(frozen=True, kw_only=True)
class ComputePlan:
    """What to do to every host: ``cores`` under quota; ``speed`` of those that are paced: all that are to be slower."""

    method: Method
    cores: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # host -> share of one core
    speed: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # host -> times a whole core
    oversubscribed: bool
    why: str  # one sentence, for the archive


def of_scenario(machine_cores: float, scenario: Scenario, *, quota: bool = True) -> ComputePlan:
    """The plan for ``scenario`` on a machine with so many cores. Raises: EmulationError, as :func:`plan`.

    Without ``quota``, which an ordinary user cannot have, it is by sleep: see :func:`quota_missed`.
    """
    method = scenario.compute.method if quota else Method.SLEEP.value
    factors = {host: scenario.emulated_factor(host) for host in scenario.topology.names}
    if scenario.trained is None:
        return _of_program(machine_cores, factors, scenario.compute.cores, quota=quota)
    if scenario.shapes_only:
        return _of_shapes(factors, 1.0 if scenario.compute.cores is None else scenario.compute.cores)
    return plan(machine_cores, factors, method, scenario.compute.cores, least=least_factors(scenario))


def _of_shapes(factors: Mapping[str, float], base: float) -> ComputePlan:
    """The plan where hosts compute nothing, and so compete for nothing: the speeds of the virtual world."""
    return ComputePlan(
        method=Method.SLEEP,
        speed=MappingProxyType({host: base / factor for host, factor in factors.items()}),
        oversubscribed=False,
        why=f"nothing is computed: the stored profile, at {base:g} of a core's speed for a host of factor 1",
    )


def _of_program(machine_cores: float, factors: Mapping[str, float], cores: float | None, *, quota: bool) -> ComputePlan:
    """The plan where a program of the user's trains, which cannot be paced: a quota, if any host is to be slower."""
    if not quota or (cores is None and not any(factor != 1 for factor in factors.values())):
        why = "every host may use all of the machine: its program is not paced, and no CPU quota is in force"
        return ComputePlan(method=Method.QUOTA, oversubscribed=False, why=why)
    usable, demand = machine_cores - RELAY_CORES, sum(1 / factor for factor in factors.values())
    base = cores if cores is not None else min(1.0, usable / demand)
    return ComputePlan(
        method=Method.QUOTA,
        cores=MappingProxyType({host: base / factor for host, factor in factors.items()}),
        oversubscribed=base * demand > usable * (1 + 1e-9),
        why=f"CPU quota alone, {base:.3f} cores for a host of factor 1, as its program is not paced",
    )


def slows(scenario: Scenario) -> bool:
    """Whether any host is to compute at another speed than its own, all the time."""
    cores = scenario.compute.cores
    return cores is not None or any(scenario.emulated_factor(host) != 1 for host in scenario.topology.names)


def quota_missed(scenario: Scenario, *, quota: bool) -> tuple[str, ...]:
    """What to say of a ``scenario`` that asks for a CPU quota where there is none: a sentence."""
    if scenario.trained is None and not quota and slows(scenario):
        return ("compute: this user may make no cgroup, so no host is slowed: a program of one's own is not paced",)
    if quota or scenario.compute.method != Method.QUOTA.value:
        return ()
    return ("compute: a CPU quota was requested, but this user may make no cgroup: emulated by calibrated sleep",)


def least_factors(scenario: Scenario) -> Mapping[str, float]:
    """The hosts whose speed changes while training runs, and the least factor that each of them ever has."""
    slowed = {fault.host for fault in scenario.injected.faults if fault.kind is FaultKind.SLOW_HOST}
    schedules, thermal = scenario.schedules.compute, scenario.schedules.thermal
    least = {}
    for host in scenario.topology.names:
        if host in schedules:
            least[host] = schedules[host].least * scenario.added_factor(host)
        elif host in thermal or host in slowed:
            least[host] = scenario.emulated_factor(host)  # from there it only gets slower
    return least


def plan(
    machine_cores: float,
    factors: Mapping[str, float],
    method: str,
    cores: float | None,
    *,
    least: Mapping[str, float] = MappingProxyType({}),
) -> ComputePlan:
    """The plan for hosts that are ``factors[host]`` times slower than the reference (design and injected together).

    ``method`` and ``cores`` are the scenario's (ComputeEmulation): ``auto`` is quota where a host of factor 1 can have
    ``cores`` (None: one whole core), everything still fits and no quota is below LEAST_CORES, else sleep. ``least`` are
    the hosts whose speed changes: see :func:`least_factors`.

    Raises: EmulationError for an unknown method, a factor that is not positive, or a machine without a core to give.
    """
    usable = machine_cores - RELAY_CORES
    if usable <= 0:
        raise EmulationError(f"compute: {machine_cores:g} cores leave none beside the relay's; use a larger machine")
    for host, factor in [*factors.items(), *least.items()]:
        if not factor > 0:
            raise EmulationError(f"compute: {host} has factor {factor:g}; give a positive number")
    hosts = _Hosts(factors=factors, fastest={**factors, **least}, changing=tuple(least))
    base = 1.0 if cores is None else cores
    within_a_core = all(base / factor <= 1 + 1e-9 for factor in least.values())  # who is paced computes in one thread
    # A sum of shares that is just what can be given must not fail by the last bit of a float.
    fits = base * hosts.demand <= usable * (1 + 1e-9) and within_a_core
    asked = f"{base * hosts.demand:.2f} cores requested, {usable:.2f} of {machine_cores:g} can be given"
    if method == "auto":
        by_quota = _quota(hosts, base, asked, fits=True)
        given = fits and min(by_quota.cores.values(), default=1.0) >= LEAST_CORES
        return by_quota if given else _sleep(hosts, base, usable, asked)
    if method == Method.SLEEP.value:
        return _sleep(hosts, base, usable, asked)
    if method == Method.QUOTA.value:
        if cores is None and not fits:
            most = min(usable / hosts.demand, *hosts.fastest.values())
            return _quota(hosts, most, f"as much as there is to give to all: {asked}", fits=True)
        return _quota(hosts, base, asked, fits=fits)
    raise EmulationError(f"compute: unknown method {method!r}; write auto, quota or sleep")


@dataclass(frozen=True, kw_only=True)
class _Hosts:
    """``fastest`` are the least factors of all hosts, ``changing`` those whose factor does not stay."""

    factors: Mapping[str, float]
    fastest: Mapping[str, float]
    changing: tuple[str, ...]

    @property
    def demand(self) -> float:
        """Cores for all at their fastest, if a host of factor 1 gets one."""
        return sum(1 / factor for factor in self.fastest.values())


def _quota(hosts: _Hosts, base: float, asked: str, *, fits: bool) -> ComputePlan:
    shares = {host: base / factor for host, factor in hosts.fastest.items()}
    paced = [host for host, share in shares.items() if share < 1 or host in hosts.changing]
    return ComputePlan(
        method=Method.QUOTA,
        cores=MappingProxyType({host: max(share, min(1.0, HEADROOM * share)) for host, share in shares.items()}),
        speed=MappingProxyType({host: base / hosts.factors[host] for host in paced}),
        oversubscribed=not fits,
        why=f"CPU quota and pacing, {base:.3f} of a core for a host of factor 1 ({asked})",
    )


def _sleep(hosts: _Hosts, base: float, usable: float, asked: str) -> ComputePlan:
    # A paced host takes a whole core for as long as it computes: slow hosts do not make room for fast ones.
    needs = sum(max(1.0, 1 / factor) for factor in hosts.fastest.values())
    share = min(base, usable / needs, *(min(1.0, factor) for factor in hosts.fastest.values())) if needs else base
    return ComputePlan(
        method=Method.SLEEP,
        speed=MappingProxyType({host: share / factor for host, factor in hosts.factors.items()}),
        oversubscribed=False,  # shares are scaled until they fit
        why=f"calibrated sleep, {share:.3f} of a core's speed for a host of factor 1 ({asked})",
    )
