"""What a run whose library hides its messages can and cannot tell, in sentences, and what its links carried.

Its reference: what its ranks are, links as the scenario has them if one is given. Without one nothing is designed, and
hosts and links are held to each other and to their own past.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from e2c_dl import formatting
from e2c_dl.archive.records import HostFacts
from e2c_dl.codec import DAMAGED, convert
from e2c_dl.diagnosis.detection.links.flows import LEAST_ITERATIONS, LEAST_LINKS
from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.model import Limitation, LinkSummary
from e2c_dl.diagnosis.observed import Observed
from e2c_dl.diagnosis.prefix import TRACED
from e2c_dl.diagnosis.references import Reference, hardware_of
from e2c_dl.diagnosis.states import timelines
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Host, Topology
from e2c_dl.trace.model import State, Trace
from e2c_dl.trace.warm_up import WARM_UP_ITERATIONS, warm_up

NO_SERVICE = "script"
_SLOT = re.compile(r"(.+)_[0-9]+")
MOST_HIDDEN = 0.2  # of a rank's training: where more is no state that was seen, a verdict lacks what it did then
WORLD_SIZE = "world_size"
"""Of what is known of the script: how many ranks there were, traced or not."""


class _Traced(msgspec.Struct, frozen=True):
    """What is asked of the facts of a script; there may be more."""

    world_size: int = 0  # unknown


def script_reference(
    trace: Trace, host_facts: Mapping[str, HostFacts | None], designed: Reference | None = None
) -> Reference:
    """What is known beforehand of the run that left ``trace``; ``host_facts``: host -> its facts, None if it left none.

    ``designed``: by its scenario, if it has one. A host called NAME_SLOT, of which several ranks ran on NAME, is where
    that has NAME.
    """
    names = () if designed is None else designed.topology.names
    places = {rank.host: place_of(rank.host, names) for rank in trace.ranks}
    hosts = tuple(
        Host(name=rank.host, layer=rank.layer, service=NO_SERVICE, service_id="", role="", rank=rank.rank)
        for rank in trace.ranks
    )
    hardware = {host: _hardware(host_facts.get(host)) for host in places}
    on_gpu = any(facts is not None and facts.gpu for facts in map(host_facts.get, places))
    if designed is None:
        return Reference(
            topology=Topology(hosts=hosts), compute_factors={}, batch_sizes={}, hardware=hardware,
            network_emulated=False, on_gpu=on_gpu,
        )  # fmt: skip
    pairs = {(src, dst): (places[src], places[dst]) for src in places for dst in places}
    links, changing, factors = designed.topology.links, designed.schedules.links, designed.compute_factors
    return replace(
        designed, hardware=hardware, batch_sizes={}, batches_change=False, normal_s={},
        on_gpu=on_gpu,
        topology=Topology(
            hosts=hosts, links={pair: links[of] for pair, of in pairs.items() if of in links},
            bottlenecks=tuple(
                replace(line, links=tuple(sorted(pair for pair, of in pairs.items() if of in line.links)))
                for line in designed.topology.bottlenecks
            ),
        ),
        compute_factors={host: factors[place] for host, place in places.items() if place in factors},
        schedules=replace(
            designed.schedules, links={pair: changing[of] for pair, of in pairs.items() if of in changing}
        ),
    )  # fmt: skip


def _hardware(facts: HostFacts | None) -> str:
    """Class of a host; of one whose processor is not told, by what it is and how many cores it has."""
    if facts is not None and not facts.cpu_model and facts.machine:
        return f"{facts.machine} x {facts.cores or '?'}"
    return hardware_of(facts)


def place_of(host: str, names: Collection[str]) -> str:
    """The one of ``names`` where ``host`` is: itself, or that of which it is a slot; else ``host``."""
    slot = _SLOT.fullmatch(host)
    return slot[1] if slot and host not in names and slot[1] in names else host


def flow_summaries(flows: Sequence[ObservedFlow]) -> tuple[LinkSummary, ...]:
    """One per link that carried data: a message is a stretch of time in which it was busy."""
    return tuple(
        LinkSummary(
            src=each.pair[0], dst=each.pair[1], messages=each.spans, sent_bytes=each.total_bytes,
            received_bytes=each.total_bytes, rate_bps=each.rate_bps, transfer_s=each.busy_span_s,
        )
        for each in flows
    )  # fmt: skip


def about_scripts(observed: Observed) -> Iterator[Limitation]:
    """What the trace of a library's run leaves open; nothing of any other."""
    if observed.collectives is None:
        return
    yield from _about_ranks(observed)
    yield from _about_collectives(observed)
    yield from _about_links(observed)


def too_few(observed: Observed) -> tuple[Limitation, ...]:
    """Why nobody slow is named in the trace of a library's run that is too short for it; else nothing."""
    after = observed.iterations - warm_up(observed.iterations)
    if observed.collectives is None or after >= LEAST_ITERATIONS:
        return ()
    short = f"{formatting.count(after, 'iteration')} after warm-up, of {observed.iterations}"
    what = "a slow host or link cannot be told from chance, and none is judged"
    enough = LEAST_ITERATIONS + WARM_UP_ITERATIONS
    return (Limitation(sentence=f"{short}: {what}; train at least {enough} iterations."),)


def untraced_ranks(observed: Observed) -> tuple[str, ...]:
    """The ranks of a script that left no trace, as ``rank 2``; none of any other run, whose hosts are known by name."""
    if observed.collectives is None:
        return ()
    traced = {rank.rank for rank in observed.trace.ranks}
    return tuple(f"rank {number}" for number in range(_world_size(observed)) if number not in traced)


def _world_size(observed: Observed) -> int:
    told = observed.trace.facts.get(TRACED, {})
    return convert(told, _Traced, f"run.json: facts.{TRACED}", remedy=DAMAGED).world_size


def _about_ranks(observed: Observed) -> Iterator[Limitation]:
    if untraced := untraced_ranks(observed):
        missing = f"{len(untraced)} of {_world_size(observed)} ranks left no trace"
        yield Limitation(sentence=f"{missing}: what the others waited for may be theirs.")
    hidden = [
        states.host
        for states in timelines(observed.trace, observed.messages)
        if states.totals_ns()[State.OTHER] > MOST_HIDDEN * states.wall_ns
    ]
    if hidden:
        why = "compiled graphs, or phases that nobody named"
        yield Limitation.of(f"Much of what {{}} did was not seen ({why}): it counts as other.", "host", hidden)
    reference = observed.design.reference
    slower = (each != Schedule.constant(1.0) for each in reference.compute_factors.values())
    if reference.normal_s or reference.modelled or any(slower):
        return
    nothing = "Nothing was designed of this run's hosts"
    yield Limitation(sentence=f"{nothing}: they are held to each other, and to their own past.")


def _about_collectives(observed: Observed) -> Iterator[Limitation]:
    found = observed.collectives
    if found is None or len(observed.trace.ranks) < 2:
        return
    if not len(found):
        unknown = "what ranks wait for each other is not known"
        yield Limitation(sentence=f"No collective was seen: {unknown}, and savings are of each alone.")
        return
    if found.torn:
        torn = formatting.count(
            found.torn, "collective lacks a rank, and explains", "collectives lack a rank, and explain"
        )
        yield Limitation(sentence=f"{torn} no wait.")


def _about_links(observed: Observed) -> Iterator[Limitation]:
    found, flows = observed.collectives, observed.flows
    if found is None or not len(found):
        return
    if not flows:
        invisible = "shared memory, RDMA and NVLink count no bytes that can be read"
        yield Limitation(sentence=f"No connection showed what collectives carried ({invisible}): no verdict on links.")
        return
    yield Limitation(
        sentence="Savings of links are those of a ring, each of which carries its part at the rate its sender saw; "
        "the library may send otherwise."
    )
    across = sum(not flow.within_machine for flow in flows)
    if across and not observed.design.reference.network_emulated:
        yield Limitation(sentence=_undesigned(across))


def _undesigned(links: int) -> str:
    if links < LEAST_LINKS:
        return "This run's links are as they are, not by design, and few carried data: each is held to its own past."
    return (
        "This run's links are as they are, not by design: each is held to what the others do, whatever it is made for."
    )
