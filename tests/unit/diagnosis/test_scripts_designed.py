"""Scripts whose links and hosts a scenario designs: what is unlike by design is no departure, and what departs is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from ddp import Ddp, name, simulate

from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Part, Report
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Bottleneck, Host, Link, Pair, Topology
from e2c_dl.trace.model import Trace
from e2c_dl.trace.propagation.connections import Connections

RANKS, FAST = 4, Link(rate_bps=100e6)
RUN = Ddp(ranks=RANKS, iterations=20, noise=0.05)
RING = [(name(rank), name((rank + 1) % RANKS)) for rank in range(RANKS)]


def designed(
    trace: Trace, links: Mapping[Pair, Link], *, lines: Sequence[Bottleneck] = (), factors: Mapping[str, float] = {}
) -> Reference:  # fmt: skip
    hosts = tuple(
        Host(name=rank.host, layer=rank.layer, service="", service_id="", role="", rank=rank.rank)
        for rank in trace.ranks
    )
    return Reference(
        topology=Topology(hosts=hosts, links=links, bottlenecks=tuple(lines)), batch_sizes={},
        compute_factors={host: Schedule.constant(factor) for host, factor in factors.items()},
    )  # fmt: skip


def report(trace: Trace, of: Reference) -> Report:
    facts = {rank.host: HostFacts(cpu_model="any", cores=2) for rank in trace.ranks}
    return analyse(trace, script_reference(trace, facts, of))


def both_ways(links: Mapping[Pair, Link]) -> dict[Pair, Link]:
    return {**links, **{pair[::-1]: link for pair, link in links.items()}}


def test_links_that_a_scenario_limits_are_not_held_to_those_that_it_does_not() -> None:
    trace = simulate(replace(RUN, slow_links={0: 0.1, 2: 0.1}))
    limited = {RING[0]: Link(rate_bps=10e6), RING[2]: Link(rate_bps=10e6)}
    found = report(trace, designed(trace, limited))
    assert not found.findings
    assert {*found.unjudged} == {" -> ".join(pair) for pair in RING}  # two of a kind have no peers
    assert report(trace, designed(trace, {})).culprits  # where all are the same by design


@pytest.mark.parametrize(("longer_s", "is_late"), [(0.0, False), (0.03, True)])
def test_a_round_trip_is_late_beyond_what_was_designed(longer_s: float, is_late: bool) -> None:
    far, near = replace(FAST, delay_s=0.03), replace(FAST, delay_s=0.005)
    trace = simulate(replace(RUN, late_links={1: 0.05 + longer_s, 3: 0.05}))
    links = {pair: far if place % 2 else near for place, pair in enumerate(RING)}
    found = report(trace, designed(trace, both_ways(links)))
    assert [each.part for each in found.findings] == [Part.DELAY] * is_late
    if is_late:
        assert {each.src for each in found.findings[0].elements} == {*RING[1]}
        assert "is 90.0 ms, as designed it would be 60.0 ms" in found.findings[0].evidence


def test_links_of_a_shared_line_are_not_held_to_those_beside_it() -> None:
    trace = simulate(replace(RUN, slow_links={1: 0.1, 3: 0.1}))
    line = Bottleneck(name="wan", rate_bps=20e6, links=(RING[1], RING[3]))
    assert not report(trace, designed(trace, dict.fromkeys(RING, FAST), lines=[line])).findings
    assert report(trace, designed(trace, dict.fromkeys(RING, FAST))).culprits


def test_a_link_that_is_asked_to_lose_segments_has_no_rate_to_be_held_to() -> None:
    links, trace = [], simulate(replace(RUN, slow_links={1: 0.4}))
    for each in trace.connections.links:
        rows = each.per_iteration.copy()
        rows["retransmissions"] = (0.02 if each.src == 1 else 0.0) * rows["segments"]
        links.append(replace(each, per_iteration=rows))
    trace = replace(trace, connections=Connections(links=tuple(links)))
    lossy = {**dict.fromkeys(RING, FAST), RING[1]: replace(FAST, loss=0.02)}
    found = report(trace, designed(trace, lossy))
    assert not found.findings
    assert any(
        "No verdict on the rate of node-2 -> node-3: segments are lost by design" in s for s in found.limitations
    )
    assert [each.part for each in report(trace, designed(trace, dict.fromkeys(RING, FAST))).culprits] == [Part.LOSS]


def test_links_that_nobody_could_shape_are_held_to_each_other_as_they_are() -> None:
    """All at 100 Mbit/s, where half of them were to have a tenth of it."""
    links = {pair: FAST if place % 2 else replace(FAST, rate_bps=10e6) for place, pair in enumerate(RING)}
    trace = simulate(RUN)
    asked = replace(designed(trace, links), network_emulated=False)
    found = report(trace, asked)
    assert not found.findings
    assert any("as they are, not by design" in each for each in found.limitations)
    (slow,) = report(simulate(replace(RUN, slow_links={1: 0.3})), asked).culprits
    assert (slow.element.src, slow.element.dst) == RING[1]


@pytest.mark.parametrize(("factors", "named"), [({}, []), (dict.fromkeys((name(0), name(1)), 1.0), [name(0), name(1)])])
def test_what_two_ranks_have_at_the_same_time_is_nobodys_where_links_alone_are_designed(
    factors: dict[str, float], named: list[str]
) -> None:
    slow = {(rank, iteration): 0.1 for rank in range(2) for iteration in range(25, 50)}
    trace = simulate(replace(RUN, ranks=2, iterations=50, paused_s=slow))
    links = dict.fromkeys(((name(0), name(1)), (name(1), name(0))), FAST)
    found = report(trace, designed(trace, links, factors=factors))
    assert sorted(each.src for culprit in found.culprits for each in culprit.elements) == named
    assert bool(found.slowed_in_common) is not bool(named)
