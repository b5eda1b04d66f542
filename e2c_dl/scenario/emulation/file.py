"""``emulation.yaml``, which plain E2Clab ignores: what E2Clab's files cannot say. All of it is optional.

::

    compute: ...        slow by design                       :mod:`e2c_dl.scenario.emulation.compute`
    links: ...          jitter, bursts, reordering, queues   :mod:`e2c_dl.scenario.quality`
    bottlenecks: ...    rates that links share               :mod:`e2c_dl.scenario.emulation.bottlenecks`
    schedules: ...      what changes by design               :mod:`e2c_dl.scenario.emulation.schedules`
    injected: ...       departures, which diagnosis is       :mod:`e2c_dl.scenario.emulation.injection`
                        not told of                          :mod:`e2c_dl.scenario.emulation.faults`
    tcp: ...                                                 :mod:`e2c_dl.scenario.emulation.tcp`

Without the file no host is slowed, links are as ``network.yaml`` says, nothing is injected, and TCP is cubic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from e2c_dl.scenario.document import Document
from e2c_dl.scenario.emulation.bottlenecks import read_bottlenecks
from e2c_dl.scenario.emulation.compute import DEFAULT_COMPUTE, read_compute
from e2c_dl.scenario.emulation.faults import read_faults
from e2c_dl.scenario.emulation.injection import NOTHING, read_injected, read_seed
from e2c_dl.scenario.emulation.occurrences import Ground
from e2c_dl.scenario.emulation.schedules import read_schedules
from e2c_dl.scenario.emulation.tcp import DEFAULT_TCP, read_tcp
from e2c_dl.scenario.field import Field, Findings
from e2c_dl.scenario.model import ComputeEmulation, Injected, Schedules, Tcp
from e2c_dl.scenario.quality import read_links
from e2c_dl.topology import Bottleneck, Host, Link, Pair

SECTIONS = ("compute", "links", "bottlenecks", "schedules", "injected", "tcp")


@dataclass(frozen=True, kw_only=True)
class Design:
    """What the other files say, as far as this one refers to it; None where they could not be read."""

    folder: Path
    hosts: Sequence[Host] | None
    links: Mapping[Pair, Link] | None  # of network.yaml
    iterations: int | None
    used_pairs: Callable[[], Sequence[Pair]]  # the links that training uses, in a fixed order


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """What the file says, on top of the design."""

    compute: ComputeEmulation = DEFAULT_COMPUTE
    links: Mapping[Pair, Link]  # those of network.yaml among them
    bottlenecks: tuple[Bottleneck, ...] = ()
    schedules: Schedules = field(default_factory=Schedules)
    injected: Injected = NOTHING
    tcp: Tcp = DEFAULT_TCP


def read_emulation(document: Document | None, design: Design, found: Findings) -> Emulation:
    """All of the file, noting in ``found`` what is wrong. What refers to what could not be read is left out."""
    said = Emulation(links=design.links or {})
    if document is None:
        return said
    sections = Field(document=document, value=document.value).keys(found, known=SECTIONS)
    if "compute" in sections:
        said = replace(said, compute=read_compute(sections["compute"], design.hosts, found))
    if design.hosts is not None and design.links is not None:
        said = _on_links(sections, said, design, design.hosts, found)
        if "injected" in sections and design.iterations is not None:
            said = replace(said, injected=_injected(sections["injected"], said, design, design.hosts, found))
    if "tcp" in sections:
        said = replace(said, tcp=read_tcp(sections["tcp"], found))
    return said


def names_traces(document: Document | None) -> bool:
    """Whether a schedule plays a recorded trace."""
    schedules = document.value.get("schedules") if document is not None and isinstance(document.value, dict) else None
    entries = [
        entry
        for section in (schedules.values() if isinstance(schedules, dict) else ())
        for entry in (section if isinstance(section, list) else ())
        if isinstance(entry, dict)
    ]
    return any(isinstance(entry.get("rate"), dict) and "trace" in entry["rate"] for entry in entries)


def _on_links(
    sections: Mapping[str, Field], said: Emulation, design: Design, hosts: Sequence[Host], found: Findings
) -> Emulation:
    """``said`` with links, bottlenecks and schedules."""
    own = Findings()
    if "links" in sections:
        said = replace(said, links=MappingProxyType(read_links(sections["links"], said.links, hosts, own)))
    if "bottlenecks" in sections:
        said = replace(said, bottlenecks=read_bottlenecks(sections["bottlenecks"], said.links, hosts, own))
    # A schedule of a bottleneck that was not understood would be called unknown.
    if "schedules" in sections and not own.errors:
        schedules = read_schedules(
            sections["schedules"], hosts, said.links, said.bottlenecks, said.compute, design.folder, own
        )
        said = replace(said, schedules=schedules)
    found.errors += own.errors
    return said


def _injected(section: Field, said: Emulation, design: Design, hosts: Sequence[Host], found: Findings) -> Injected:
    injected = read_injected(section, hosts, said.links, design.used_pairs, found)
    faults = section.get("faults") if isinstance(section.value, dict) else None
    if faults is None:
        return injected
    seed = Findings().attempt(read_seed, section)  # what is wrong with it was noted above
    ground = Ground(
        hosts=hosts,
        used_pairs=design.used_pairs,
        least_rate_bps=_least_rates_bps(said, injected),
        iterations=design.iterations or 0,
    )
    return replace(injected, faults=read_faults(faults, seed, ground, found))


def _least_rates_bps(said: Emulation, injected: Injected) -> dict[Pair, float]:
    """The lowest rate of every link that has one, by design and with what is injected all the time."""
    least: dict[Pair, float] = {}
    for pair, link in said.links.items():
        schedule = said.schedules.links.get(pair)
        rate_bps = schedule.rate_bps.least if schedule is not None and schedule.rate_bps is not None else link.rate_bps
        if rate_bps is not None:
            least[pair] = rate_bps * injected.links.get(pair, 1.0)
    return least
