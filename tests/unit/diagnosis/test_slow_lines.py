"""A line that is slower than designed, of which TCP gives each link now more and now less than its share."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.resimulation.measure import Layout, Retraining
from e2c_dl.scenario.model import Tcp
from e2c_dl.topology import Bottleneck
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import bottlenecks

SIZE, ITERATIONS, LINE_BPS = 4, 20, 20e6
TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
FAST, SLOWER = (LinkModel(rate_bps=rate_bps, delay_s=0.005, tcp=TCP) for rate_bps in (50e6, 12e6))


def departing(
    strategy: str, *, times: float = 1.0, link: LinkModel = FAST, slow_bps: float | None = None, modelled: bool = False
) -> dict[str, tuple[Part, float]]:  # fmt: skip
    """What departs, as what and how many times slower: all links share a line that is ``times`` slower than designed.

    ``slow_bps``: of the first link alone.
    """
    made = strategies.load(strategy)
    links = dict.fromkeys(made().used_links(["edge"] * SIZE), link)
    first = next(iter(links))
    run = vw.run(
        made, size=SIZE, seed=5, links=links | {first: replace(link, rate_bps=slow_bps or link.rate_bps)},
        bottlenecks=[SharedRate(rate_bps=LINE_BPS / times, links=tuple(links))],
        on_hosts=vw.hosts(SIZE, of=vw.profile((120_000, 60_000)), noise=0.1), iterations=ITERATIONS,
    )  # fmt: skip
    names = [host.name for host in run.hosts]
    line = Bottleneck(name="access", rate_bps=LINE_BPS, links=tuple((names[src], names[dst]) for src, dst in links))
    reference = replace(run, links=links).reference()
    topology = replace(reference.topology, bottlenecks=(line,))
    observed = observe(run.trace, replace(reference, topology=topology, modelled=modelled, tcp=TCP))
    return {str(each.element): (each.part, each.slowdown) for each in observed.links.departures}


@pytest.mark.parametrize("modelled", [False, True])
@pytest.mark.parametrize("strategy", ["ako", "butterfly", "adpsgd"])
def test_it_is_named_by_what_all_of_its_links_carry(strategy: str, modelled: bool) -> None:
    found = departing(strategy, times=1.2, modelled=modelled)
    assert {name: part for name, (part, _) in found.items()} == {"access": Part.RATE}
    assert found["access"][1] == pytest.approx(1.2, rel=0.03)


@pytest.mark.parametrize("modelled", [False, True])
@pytest.mark.parametrize("strategy", ["ako", "adpsgd", "butterfly"])
def test_one_as_designed_is_not(strategy: str, modelled: bool) -> None:
    assert "access" not in departing(strategy, modelled=modelled)


def test_links_that_are_as_fast_as_they_can_be_alone_beside_a_slow_one_tell_nothing_of_it() -> None:
    assert "access" not in departing("parameterserver", link=SLOWER, slow_bps=4e6)


@pytest.mark.parametrize(("strategy", "off"), [("asyncparameterserver", 0.04), ("adpsgd", 0.01), ("fedat", 0.01)])
def test_in_a_modelled_world_it_is_simulated_again_as_it_was(strategy: str, off: float) -> None:
    """Its links are as designed, windows and all: how several of them share it is TCP's. Without, 0.10 and 0.04."""
    made = strategies.load(strategy)
    links = dict.fromkeys(made().used_links(["edge"] * SIZE), FAST)
    up = tuple(pair for pair in links if pair[0] == 0)
    slow = SharedRate(rate_bps=LINE_BPS, links=up, rates=lambda: iter([(0.0, LINE_BPS / 1.2)]))
    hosts = vw.hosts(SIZE, of=vw.profile((120_000, 60_000)), noise=0.1)
    run = vw.run(made, size=SIZE, seed=5, links=links, bottlenecks=[slow], on_hosts=hosts, iterations=ITERATIONS)
    names = [host.name for host in run.hosts]
    line = Bottleneck(name="access", rate_bps=LINE_BPS, links=tuple((names[src], names[dst]) for src, dst in up))
    reference = replace(run, links=links).reference()
    topology = replace(reference.topology, bottlenecks=(line,))
    observed = observe(run.trace, replace(reference, topology=topology, modelled=True, tcp=TCP))
    training = Retraining(
        strategy=made, samples=[host.samples for host in run.hosts], allotment=partial(Equal, ITERATIONS), seed=5,
        layout=Layout(dtype="float32", buckets=(120_000, 60_000)), tcp=TCP, bottlenecks=bottlenecks(topology),
        own_bps=dict.fromkeys(up, FAST.rate_bps), in_step=False,
    )  # fmt: skip
    assert [str(each.element) for each in observed.links.departures] == ["access"]
    assert abs(observed.world(training).error) < off
