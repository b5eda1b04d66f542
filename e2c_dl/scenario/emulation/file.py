"""``emulation.yaml``, which plain E2Clab ignores: what E2Clab's files cannot say. All of it is optional.

::

    compute: ...        slow by design                       :mod:`e2c_dl.scenario.emulation.hosts`
    links: ...          jitter, bursts, reordering, queues   :mod:`e2c_dl.scenario.emulation.links`
    bottlenecks: ...    rates that links share               :mod:`e2c_dl.scenario.emulation.links`
    schedules: ...      what changes by design               :mod:`e2c_dl.scenario.emulation.schedules`
    injected: ...       departures, which diagnosis is       :mod:`e2c_dl.scenario.emulation.injection`
                        not told of                          :mod:`e2c_dl.scenario.emulation.faults`
    tcp: ...                                                 :mod:`e2c_dl.scenario.emulation.hosts`
    prices: ...     of hosts and links                       :mod:`e2c_dl.scenario.emulation.prices`
    what_if: ...    changes on top of all of it              :mod:`e2c_dl.scenario.emulation.what_if`

Without the file no host is slowed, links are as ``network.yaml`` says, nothing is injected, and TCP is cubic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from e2c_dl.scenario.documents.document import Document
from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.keys import Key, Keys, Schema, listed, needed
from e2c_dl.scenario.emulation import faults, hosts, injection, prices, schedules, what_if
from e2c_dl.scenario.emulation.draws import Ground
from e2c_dl.scenario.emulation.links import BOTTLENECK, ENTRY, read_bottlenecks, read_links
from e2c_dl.scenario.model import ComputeEmulation, Injected, Schedules, Tcp
from e2c_dl.scenario.what_if import NOTHING_CHANGED, Changed
from e2c_dl.topology import Bottleneck, Host, Link, Pair

INJECTED = Keys(
    seed=needed(injection.SEED, "What everything random is drawn by."),
    compute=Key(injection.HOSTS.listed, "Hosts that are slower than designed."),
    links=Key(injection.LINKS.listed, "Links that have less than their designed rate."),
    faults=Key(listed(faults.FAULT), "What happens while training runs."),
)
SECTIONS = Keys(
    compute=Key(hosts.COMPUTE.kind, "Slow by design."),
    links=Key(ENTRY.listed, "What network.yaml cannot say of its links. Key by key; the last entry holds."),
    bottlenecks=Key(BOTTLENECK.listed, "Rates that several links share."),
    schedules=Key(schedules.SECTION.kind, "What changes by design while training runs."),
    injected=Key(INJECTED.kind, "Departures from the design, which diagnosis is not told of."),
    tcp=Key(hosts.TCP.kind, "TCP settings of every host."),
    prices=Key(prices.SECTION.kind, "What a run costs."),
    what_if=Key(what_if.SECTION.kind, "Changes on top of all of it, injected departures included."),
)


def schema() -> Schema:
    """The JSON Schema of the file, for editors: what it refuses, the reader refuses."""
    return {
        # Kept to what the drafts since 6 have in common: E2Clab brings a validator that ends with draft 7.
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "emulation.yaml of a scenario for e2c-dl",
        "description": "What E2Clab's files cannot say of network and processors. Every section, and the whole file, "
        "may be left out. e2c-dl check says what a schema cannot.",
        **SECTIONS.schema,
    }


@dataclass(frozen=True, kw_only=True)
class OtherFiles:
    """The design in the other files, as far as this one refers to it; None where they could not be read."""

    folder: Path
    hosts: Sequence[Host] | None
    links: Mapping[Pair, Link] | None  # of network.yaml
    iterations: int | None  # 0: not known, as a program of the user's trains
    used_pairs: Callable[[], Sequence[Pair]]  # the links that training uses, in a fixed order


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """Content of the file, on top of the design."""

    compute: ComputeEmulation = hosts.DEFAULT_COMPUTE
    links: Mapping[Pair, Link]  # those of network.yaml among them
    bottlenecks: tuple[Bottleneck, ...] = ()
    schedules: Schedules = field(default_factory=Schedules)
    injected: Injected = injection.NOTHING
    tcp: Tcp = hosts.DEFAULT_TCP
    prices: prices.Prices | None = None
    what_if: Changed = NOTHING_CHANGED


def read_emulation(document: Document | None, design: OtherFiles, found: Findings) -> Emulation:
    """All of the file, noting in ``found`` what is wrong. What refers to what could not be read is left out."""
    said = Emulation(links=design.links or {})
    if document is None:
        return said
    sections = SECTIONS.fields(Field(document=document, value=document.value), found)
    if "compute" in sections:
        said = replace(said, compute=hosts.read_compute(sections["compute"], design.hosts, found))
    if design.hosts is not None and design.links is not None:
        said = _on_links(sections, said, design, design.hosts, found)
        if "injected" in sections and design.iterations is not None:  # faults may begin with an iteration
            said = replace(said, injected=_injected(sections["injected"], said, design, design.hosts, found))
    if "tcp" in sections:
        said = replace(said, tcp=hosts.read_tcp(sections["tcp"], found))
    if "prices" in sections and design.hosts is not None:
        said = replace(said, prices=prices.read_prices(sections["prices"], design.hosts, found))
    if "what_if" in sections and design.hosts is not None:
        said = replace(said, what_if=what_if.read_what_if(sections["what_if"], design.hosts, found))
    return said


def names_traces(document: Document | None) -> bool:
    """True if a schedule plays a recorded trace."""
    said = document.value.get("schedules") if document is not None and isinstance(document.value, dict) else None
    sections = said.values() if isinstance(said, dict) else ()
    # Looked at as it stands, sound or not: the workflow is checked before this file is read.
    entries = [entry for section in sections if isinstance(section, list) for entry in section]
    rates = [entry.get("rate") for entry in entries if isinstance(entry, dict)]
    return any(isinstance(rate, dict) and "trace" in rate for rate in rates)


def _on_links(
    sections: Mapping[str, Field], said: Emulation, design: OtherFiles, every: Sequence[Host], found: Findings
) -> Emulation:
    """``said`` with links, bottlenecks and schedules."""
    own = Findings()
    if "links" in sections:
        said = replace(said, links=MappingProxyType(read_links(sections["links"], said.links, every, own)))
    if "bottlenecks" in sections:
        said = replace(said, bottlenecks=read_bottlenecks(sections["bottlenecks"], said.links, every, own))
    # A schedule of a bottleneck that was not understood would be called unknown.
    if "schedules" in sections and not own.errors:
        section, on = sections["schedules"], (every, said.links, said.bottlenecks, said.compute)
        said = replace(said, schedules=schedules.read_schedules(section, *on, design.folder, own))
    found.take(own)
    return said


def _injected(section: Field, said: Emulation, design: OtherFiles, every: Sequence[Host], found: Findings) -> Injected:
    fields = INJECTED.fields(section, found)
    seed = found.attempt(injection.SEED.read, fields["seed"]) if "seed" in fields else None
    injected = injection.read_injected(fields, seed, every, said.links, design.used_pairs, found)
    if "faults" not in fields:
        return injected
    least_bps, iterations = _least_rates_bps(said, injected), design.iterations or 0
    ground = Ground(hosts=every, used_pairs=design.used_pairs, least_rate_bps=least_bps, iterations=iterations)
    return replace(injected, faults=faults.read_faults(fields["faults"], seed, ground, found))


def _least_rates_bps(said: Emulation, injected: Injected) -> dict[Pair, float]:
    """The lowest rate of every link that has one, by design and with what is injected all the time."""
    least: dict[Pair, float] = {}
    for pair, link in said.links.items():
        schedule = said.schedules.links.get(pair)
        rate_bps = schedule.rate_bps.least if schedule is not None and schedule.rate_bps is not None else link.rate_bps
        if rate_bps is not None:
            # A fault comes on top of both, at whatever moment: the emulator must have a rate for the worst.
            least[pair] = rate_bps * injected.links.get(pair, 1.0)
    return least
