"""The ``schedules:`` section of ``emulation.yaml``: what changes by design while training runs.

::

    schedules:                                    spelled as in :mod:`e2c_dl.scenario.emulation.schedule_forms`
      links: [{src: edge.*, dst: cloud.*, symmetric: true, rate: SCHEDULE, delay: SCHEDULE, loss: SCHEDULE}]
      bottlenecks: [{name: campus, rate: SCHEDULE}]
      compute: [{host: edge.*, factor: SCHEDULE}, {host: fog-1, cores: SCHEDULE}]
      thermal: [{host: edge.*, ambient: 25, rise: 60, throttled_rise: 30, tau: 20s, limit: 70, hysteresis: 5,
                 factor: 2}]

A schedule takes the place of the designed value: of the rate, the delay or the loss in ``network.yaml``, of the rate of
a bottleneck, of a host's factor in ``compute:``. No two entries speak of the same thing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from e2c_dl.errors import InputError
from e2c_dl.scenario.documents.field import Field, Findings, described, instead
from e2c_dl.scenario.documents.keys import SPAN, Key, Keys, Kind, listed, needed, number
from e2c_dl.scenario.documents.patterns import HOST, LINKS, hosts_of, pairs_of, shown
from e2c_dl.scenario.emulation.hosts import FACTOR, MAX_CORES, MAX_FACTOR
from e2c_dl.scenario.emulation.links import check_jitter
from e2c_dl.scenario.emulation.schedule_forms import CORES_OVER_TIME, DELAYS, FACTORS, LOSSES, RATES, Forms
from e2c_dl.scenario.model import ComputeEmulation, LinkSchedule, Schedules
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.topology import Bottleneck, Host, Link, Pair

K = TypeVar("K")

RATIO_STEP = 1.05
"""A ramp of cores becomes a chain of ramps of factors, over which the cores change by no more than this."""

OF_LINKS: Mapping[str, Forms] = {"rate": RATES, "delay": DELAYS, "loss": LOSSES}
_FIELDS = {"rate": "rate_bps", "delay": "delay_s", "loss": "loss"}

_CELSIUS = number(-273, 1000, of="of degrees Celsius, ")
_THERMAL: Mapping[str, tuple[str, Kind[float], str]] = {
    "ambient": ("ambient_c", _CELSIUS, "Temperature without load, degrees Celsius."),
    "rise": ("rise_c", _CELSIUS, "How much warmer it gets when it computes for ever."),
    "throttled_rise": ("throttled_rise_c", _CELSIUS, "The same, throttled."),
    "tau": ("tau_s", SPAN, "Time constant of warming and cooling."),
    "limit": ("limit_c", _CELSIUS, "Throttles from here."),
    "hysteresis": ("hysteresis_c", _CELSIUS, "Recovers this much below."),
    "factor": ("factor", FACTOR, "Times slower while throttled."),
}
"""Key -> the field of a Thermal, how it is read, and what it says."""


def _default(key: str, of: Thermal) -> object:
    value = getattr(of, _THERMAL[key][0])
    return f"{value:g}s" if key == "tau" else value


LINK = Keys({**LINKS, **{key: Key(forms.kind) for key, forms in OF_LINKS.items()}})
BOTTLENECK = Keys(
    name=needed(Kind(read=Field.text, schema={"type": "string"}), "That of one under bottlenecks."),
    rate=needed(RATES.kind),
)
_COMPUTE = {"factor": FACTORS, "cores": CORES_OVER_TIME}
# One of the two, which the schema says as two forms; the reader has better words for neither and both.
COMPUTE = [Keys({"host": needed(HOST), key: needed(forms.kind)}) for key, forms in _COMPUTE.items()]
THERMAL = Keys(
    host=needed(HOST),
    **{key: Key(kind, says, default=_default(key, Thermal())) for key, (_, kind, says) in _THERMAL.items()},
)
SECTION = Keys(
    links=Key(LINK.listed, "Rate, delay and loss of links, instead of network.yaml's."),
    bottlenecks=Key(BOTTLENECK.listed, "Rates of bottlenecks, instead of their own."),
    compute=Key(
        listed({"anyOf": [keys.schema for keys in COMPUTE]}), "How slow hosts are, instead of compute.factors."
    ),
    thermal=Key(THERMAL.listed, "Hosts that get warm as they compute, and slow themselves down."),
)


def read_schedules(
    section: Field,
    hosts: Sequence[Host],
    links: Mapping[Pair, Link],
    bottlenecks: Sequence[Bottleneck],
    compute: ComputeEmulation,
    folder: Path,
    found: Findings,
) -> Schedules:
    """The schedules of a scenario in ``folder``, noting in ``found`` what is wrong."""
    entries = SECTION.gather(section, found)
    return Schedules(
        links=MappingProxyType(_links(entries.get("links", ()), hosts, links, folder, found)),
        bottlenecks=MappingProxyType(_bottlenecks(entries.get("bottlenecks", ()), bottlenecks, folder, found)),
        compute=MappingProxyType(_compute(entries.get("compute", ()), hosts, compute, folder, found)),
        thermal=MappingProxyType(_thermal(entries.get("thermal", ()), hosts, found)),
    )


def _links(
    entries: Sequence[Field], hosts: Sequence[Host], links: Mapping[Pair, Link], folder: Path, found: Findings
) -> dict[Pair, LinkSchedule]:
    schedules: dict[Pair, LinkSchedule] = {}
    taken: dict[tuple[Pair, str], Field] = {}
    for entry, own in found.each(entries):
        fields = LINK.fields(entry, own)
        named = [key for key in OF_LINKS if key in fields]
        if not own.errors and not named:
            own.errors.append(entry.error("changes nothing", f"write one of {', '.join(OF_LINKS)}"))
        read = {key: OF_LINKS[key].read(fields[key], own, folder) for key in named}
        pairs = own.attempt(pairs_of, entry, hosts, own) if not own.errors else None
        own.attempt(_check_links, entry, fields, read, pairs or [], links)
        for pair in pairs or []:
            for key, schedule in read.items():
                own.attempt(_claim, taken, (pair, key), fields[key], f"{shown(pair)} has a schedule of its {key}")
                schedules[pair] = dataclasses.replace(schedules.get(pair, LinkSchedule()), **{_FIELDS[key]: schedule})
            if own.errors:
                break  # the first link stands for all that the entry speaks of
    return schedules


def _check_links(
    entry: Field,
    fields: Mapping[str, Field],
    schedules: Mapping[str, Schedule | None],
    pairs: Sequence[Pair],
    links: Mapping[Pair, Link],
) -> None:
    """Raises: ScenarioError, for the first link that could not follow its schedule."""
    rate, delay, loss = (schedules.get(key) for key in OF_LINKS)
    for pair in pairs:
        link = links.get(pair)
        if link is None or (rate is not None and link.rate_bps is None):
            problem = f"{shown(pair)} has no rate by design that could change"
            raise entry.error(problem, "add a rule for it to network.yaml")
        if loss is not None and link.burst is not None:
            raise fields["loss"].error(f"{shown(pair)} loses in bursts", "remove burst from its links, or loss here")
        if delay is not None:
            # Jitter is of the link, and does not shrink while a schedule makes the delay short.
            shortest = dataclasses.replace(link, delay_s=delay.least)
            check_jitter(shortest, fields["delay"], shown(pair), "keep the delay longer")
            if link.reorder > 0 and delay.least == 0:
                raise fields["delay"].error(f"{shown(pair)} reorders, which takes a delay", "keep it above 0ms")


def _bottlenecks(
    entries: Sequence[Field], bottlenecks: Sequence[Bottleneck], folder: Path, found: Findings
) -> dict[str, Schedule]:
    names = [bottleneck.name for bottleneck in bottlenecks]
    schedules: dict[str, Schedule] = {}
    taken: dict[str, Field] = {}
    for entry, own in found.each(entries):
        fields = BOTTLENECK.fields(entry, own)
        name = own.attempt(fields["name"].text) if "name" in fields else None
        if name is not None and name not in names:
            remedy = instead(name, names) if names else "describe it under 'bottlenecks:'"
            own.errors.append(fields["name"].error(f"no bottleneck is called {described(name)}", remedy))
        schedule = RATES.read(fields["rate"], own, folder) if "rate" in fields else None
        if name is not None and schedule is not None and not own.errors:
            own.attempt(_claim, taken, name, entry, f"{name} has a schedule")
            schedules[name] = schedule
    return schedules


def _compute(
    entries: Sequence[Field], hosts: Sequence[Host], compute: ComputeEmulation, folder: Path, found: Findings
) -> dict[str, Schedule]:
    schedules: dict[str, Schedule] = {}
    taken: dict[str, Field] = {}  # apart from schedules: what is said twice names the line that said it first
    for entry, own in found.each(entries):
        fields = entry.keys(own, known=("host", "factor", "cores"), required=["host"])
        if not own.errors and ("factor" in fields) == ("cores" in fields):
            own.errors.append(entry.error("names neither or both of factor and cores", "write one of them"))
        chosen = own.attempt(hosts_of, fields["host"], hosts) if "host" in fields else None
        schedule = None
        if not own.errors and "factor" in fields:
            schedule = FACTORS.read(fields["factor"], own, folder)
        elif not own.errors:
            schedule = _of_cores(fields["cores"], compute.cores, folder, own)
        if schedule is not None and chosen is not None and own.attempt(_claim_hosts, taken, chosen, entry):
            schedules.update({host.name: schedule for host in chosen})
    return schedules


def _of_cores(field: Field, reference: float | None, folder: Path, found: Findings) -> Schedule | None:
    """The schedule of factors of a schedule of cores: a host of factor 1 has ``reference``."""
    if reference is None:
        remedy = "write 'cores:' under 'compute:', what a host of factor 1 gets, or a factor here"
        found.errors.append(field.error("cores of what, compute.cores does not say", remedy))
        return None
    least = reference / MAX_FACTOR  # and at most the reference: a host is slowed, never made faster

    range_ = f"from {least:g} to {reference:g}, compute.cores"

    def cores(each: Field) -> float:
        return each.number(lambda n: least <= n <= min(reference, MAX_CORES), range_)

    value = Kind(read=cores, schema=CORES_OVER_TIME.value.schema)
    schedule = dataclasses.replace(CORES_OVER_TIME, value=value).read(field, found, folder)
    if schedule is None:
        return None
    points = _subdivided(schedule) if schedule.ramp else iter(schedule.points)
    factors = tuple((time_s, reference / amount) for time_s, amount in points)
    return Schedule(points=factors, ramp=schedule.ramp, period_s=schedule.period_s)


def _subdivided(schedule: Schedule) -> Iterator[tuple[float, float]]:
    """The points of a ramp, and so many between them that lines between their reciprocals are close to a ramp of it."""
    for (begin_s, begin), (end_s, end) in pairwise(schedule.points):
        # A factor is reference / cores, a curve: one straight line would be slower than asked in between.
        count = max(1, math.ceil(abs(math.log(end / begin)) / math.log(RATIO_STEP)))
        for index in range(count):
            value = begin * (end / begin) ** (index / count)
            part = (value - begin) / (end - begin) if end != begin else 0.0
            yield begin_s + (end_s - begin_s) * part, value
    yield schedule.points[-1]


def _thermal(entries: Sequence[Field], hosts: Sequence[Host], found: Findings) -> dict[str, Thermal]:
    devices: dict[str, Thermal] = {}
    taken: dict[str, Field] = {}
    for entry, own in found.each(entries):
        said = THERMAL.gather(entry, own)
        chosen = own.attempt(hosts_of, entry.required("host"), hosts) if "host" in said else None
        values = {_THERMAL[key][0]: value for key, value in said.items() if key != "host"}
        device = own.attempt(_device, entry, values) if not own.errors else None
        if device is not None and chosen is not None and own.attempt(_claim_hosts, taken, chosen, entry):
            devices.update({host.name: device for host in chosen})
    return devices


def _device(entry: Field, values: Mapping[str, float]) -> Thermal:
    try:
        device = Thermal(**values)
    except InputError as error:
        raise entry.error(f"{error}".removeprefix("thermal: "), "write other temperatures or times") from error
    hottest_c = device.ambient_c + device.rise_c
    if hottest_c <= device.limit_c:  # valid as a device, and surely not what was meant
        problem = f"gets {hottest_c:g} C at most, and is throttled from {device.limit_c:g} C on: never"
        raise entry.error(problem, "write a greater rise or a lower limit")
    return device


def _claim_hosts(taken: dict[str, Field], hosts: Sequence[Host], entry: Field) -> bool:
    """True, and these hosts are taken from now on. Raises: ScenarioError, if one was."""
    for host in hosts:
        _claim(taken, host.name, entry, f"{host.name} is spoken of here")
    return True


def _claim(taken: dict[K, Field], key: K, field: Field, what: str) -> bool:
    """True, and ``key`` is taken from now on. Raises: ScenarioError, if it was."""
    if key in taken:
        line = taken[key].document.line(taken[key].path)
        raise field.error(f"{what} already, by line {line}", "keep one of them")
    taken[key] = field
    return True
