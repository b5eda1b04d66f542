"""What the measured world takes from the design: what a link of a shared line carries by itself, and what it loses."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.links import Designed
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Line, WhatIf, scaled
from e2c_dl.diagnosis.resimulation.links import designed_link
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout, model_of
from e2c_dl.scenario.model import Tcp
from e2c_dl.topology import Bottleneck, BurstLoss, Topology
from e2c_dl.trace.messages import join
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import bottlenecks

BUCKETS, OWN_BPS = (30_000,), 50e6
TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
PAIR, LINK = (1, 2), Element(kind=ElementKind.LINK, src="edge-2", dst="edge-3")


def training_over(
    topology: Topology, run: vw.Run, up: Iterable[tuple[int, int]], strategy: str, iterations: int
) -> Retraining:
    """Of ``run``, whose bucket has 120,000 elements, and of which the links ``up`` share lines of ``topology``."""
    return Retraining(
        strategy=strategies.load(strategy), samples=[host.samples for host in run.hosts],
        allotment=partial(Equal, iterations), seed=1, layout=Layout(dtype="float32", buckets=(120_000,)), tcp=TCP,
        bottlenecks=bottlenecks(topology), own_bps=dict.fromkeys(up, OWN_BPS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("restored", "part"),
    [
        (WhatIf(), 1.0),
        (scaled(LINK, 0.5), 0.5),
        (replace(scaled(LINK, 0.5), lines=(Line(links=frozenset({LINK}), scale=Piecewise.constant(0.5)),)), 1.0),
    ],
    ids=["as designed", "slow by itself", "its line is slow"],
)
def test_a_link_of_a_shared_line_carries_by_itself_what_it_was_designed_for_or_what_it_did_where_slower(
    restored: WhatIf, part: float
) -> None:
    links = vw.everywhere(4, LinkModel(rate_bps=OWN_BPS, delay_s=0.005))
    run = vw.run(
        strategies.load("allreduce"), size=4, seed=1, links=links,
        on_hosts=vw.hosts(4, of=vw.profile(BUCKETS)), iterations=5,
    )  # fmt: skip
    training = Retraining(
        strategy=strategies.load("allreduce"), samples=[host.samples for host in run.hosts],
        allotment=partial(Equal, 5), seed=1, layout=Layout(dtype="float32", buckets=BUCKETS), own_bps={PAIR: OWN_BPS},
    )  # fmt: skip
    world = training.world(run.trace, join(run.trace), {}, restored)
    assert world.links[PAIR].rate_bps.values == pytest.approx(part * OWN_BPS, rel=0.01)  # delays are in what it carried
    change = world.restored[PAIR][0] if PAIR in world.restored else ()
    assert world.restored.keys() == ({PAIR} if part < 1 else set())
    assert all(each in restored.changes for each in change)


def test_segments_are_lost_as_designed_when_they_are_sent() -> None:
    loss = Piecewise(starts_s=np.array([0.0, 3.0]), values=np.array([0.0, 0.02]))
    designed = Designed(own=Piecewise.constant(OWN_BPS), loss=loss)
    assert designed.loses
    model = model_of(designed_link(designed, TCP), LinkModel())
    assert [(at_s, each.loss) for at_s, each in model.over_time()] == [(0.0, 0.0), (3.0, 0.02)]
    burst = BurstLoss(good_to_bad=0.01, bad_to_good=0.3)
    steady = model_of(designed_link(Designed(own=Piecewise.constant(OWN_BPS), burst=burst), TCP), LinkModel())
    assert steady.burst == burst
    assert not designed_link(designed, None).loss.values.any(), "without TCP nothing is sent again"


@pytest.mark.parametrize(("modelled", "loss", "exact"), [(True, 0.0, True), (False, 0.0, False), (True, 0.01, False)])
def test_a_line_of_a_modelled_world_is_shared_as_designed_for_tcp_shares_it_unevenly(
    modelled: bool, loss: float, exact: bool
) -> None:
    links = vw.everywhere(4, LinkModel(rate_bps=OWN_BPS, delay_s=0.005, tcp=TCP))
    links[1, 0] = replace(links[1, 0], loss=loss)
    up = tuple(pair for pair in links if pair[0])  # all but the server's
    run = vw.run(
        strategies.load("asyncparameterserver"), size=4, seed=1, links=links,
        bottlenecks=[SharedRate(rate_bps=20e6, links=up)],
        on_hosts=vw.hosts(4, of=vw.profile((120_000,)), noise=0.05), iterations=15,
    )  # fmt: skip
    names = [host.name for host in run.hosts]
    line = Bottleneck(name="uplink", rate_bps=20e6, links=tuple((names[src], names[dst]) for src, dst in up))
    reference = run.reference()
    topology = replace(reference.topology, bottlenecks=(line,))
    observed = observe(run.trace, replace(reference, topology=topology, modelled=modelled, tcp=TCP))
    world = observed.world(training_over(topology, run, up, "asyncparameterserver", 15))
    assert (abs(world.error) < 1e-4) is exact
    through = {link for line in world.bottlenecks for link in line.links} & world.links.keys()
    assert {world.links[pair].tcp for pair in through} == {TCP if exact else None}, "all of them, or none"
    assert {(1, 0), (2, 0), (3, 0)} <= through


@pytest.mark.parametrize("modelled", [True, False])
def test_a_link_of_a_modelled_world_that_departs_is_as_designed_once_it_is_restored(modelled: bool) -> None:
    designed = vw.everywhere(4, LinkModel(rate_bps=4 * OWN_BPS, delay_s=0.01, tcp=TCP))
    designed = {pair: link for pair, link in designed.items() if 0 in pair}

    def ran(links: dict[tuple[int, int], LinkModel]) -> vw.Run:
        hosts = vw.hosts(4, of=vw.profile((120_000,)), noise=0.05)
        strategy = strategies.load("asyncparameterserver")
        return vw.run(strategy, size=4, seed=1, links=links, on_hosts=hosts, iterations=12)

    slow = {(0, 2): replace(designed[0, 2], delay_s=0.2)}  # its windows hardly open while the run lasts
    run, undisturbed = ran(designed | slow), ran(designed)
    reference = replace(replace(run, links=designed).reference(), modelled=modelled, tcp=TCP)
    observed = observe(run.trace, reference)
    (departure,) = observed.links.departures
    training = Retraining(
        strategy=strategies.load("asyncparameterserver"), samples=[host.samples for host in run.hosts],
        allotment=partial(Equal, 12), seed=1, layout=Layout(dtype="float32", buckets=(120_000,)), tcp=TCP,
    )  # fmt: skip
    world = observed.world(training)
    restored_s = world.run_ns(departure.restored) / 1e9
    assert (abs(restored_s - undisturbed.end_s) < 1e-3 * undisturbed.end_s) is modelled
    sent = pickle.loads(pickle.dumps((world, departure.restored)))
    assert sent[0].run_ns(sent[1]) / 1e9 == restored_s


def test_a_line_is_as_designed_though_one_of_its_links_waits_for_acknowledgements_that_are_late() -> None:
    designed = vw.everywhere(4, LinkModel(rate_bps=OWN_BPS, delay_s=0.01, tcp=TCP))
    designed = {pair: link for pair, link in designed.items() if 0 in pair}
    up = tuple(pair for pair in designed if pair[0])

    def ran(links: dict[tuple[int, int], LinkModel]) -> vw.Run:
        hosts = vw.hosts(4, of=vw.profile((120_000,)), noise=0.05)
        line = SharedRate(rate_bps=2 * OWN_BPS, links=up)
        strategy = strategies.load("parameterserver")
        return vw.run(strategy, size=4, seed=1, links=links, bottlenecks=[line], on_hosts=hosts, iterations=12)

    slow = {(0, 2): replace(designed[0, 2], delay_s=0.2)}  # the server's; windows of what it is sent open as slowly
    run, undisturbed = ran(designed | slow), ran(designed)
    names = [host.name for host in run.hosts]
    line = Bottleneck(name="uplink", rate_bps=2 * OWN_BPS, links=tuple((names[src], names[dst]) for src, dst in up))
    reference = replace(run, links=designed).reference()
    topology = replace(reference.topology, bottlenecks=(line,))
    observed = observe(run.trace, replace(reference, topology=topology, modelled=True, tcp=TCP))
    (departure,) = observed.links.departures
    assert len(departure.restored.changes) == 2, "the way back is as late"
    world = observed.world(training_over(topology, run, up, "parameterserver", 12))
    assert [each.rates for each in world.bottlenecks] == [None]
    assert world.run_ns(departure.restored) / 1e9 == pytest.approx(undisturbed.end_s, rel=1e-3)
