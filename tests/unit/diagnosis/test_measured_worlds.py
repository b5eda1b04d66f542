"""What a measured world knows beside gradients and used links: what vectors cost, links nobody used, lines."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, Line, WhatIf, scaled
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout, MeasuredWorld
from e2c_dl.diagnosis.speed_ups import speed_ups
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import COMPUTE, Phase
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.capacity import UNLIMITED_BPS
from e2c_dl.worlds.virtual.pace import Segment

PAIRS = [(src, dst) for src in range(4) for dst in range(4) if src != dst]
HOST = Element(kind=ElementKind.HOST, src="a")
GRADIENT = (Segment(Phase.FORWARD, -1, 0, 10), Segment(Phase.BACKWARD, 0, 10, 20))


def measured(vectors_ns: int = 0) -> MeasuredHost:
    return MeasuredHost(
        name="a", layer="edge", samples=8, gradients=((8, GRADIENT),), steps_ns=(5,), evaluations_ns=(),
        vector_ns_per_byte=2.0, vectors_ns=vectors_ns,
    )  # fmt: skip


def test_a_host_is_busy_with_its_vectors_too() -> None:
    assert measured(vectors_ns=100).busy_ns(COMPUTE) == measured().busy_ns(COMPUTE) + 100
    assert measured(vectors_ns=100).busy_ns({Phase.STEP}) == 5


def test_vectors_are_changed_by_what_holds_when_they_are_computed() -> None:
    since = Piecewise(starts_s=np.array([0.0, 8.0]), values=np.array([1.0, 0.25]))
    pace = MeasuredPace(measured(), (Change(element=HOST, phases=frozenset({Phase.REDUCE}), scale=since),), seed=1)
    for taken_ns in (pace.copied_ns, pace.accumulated_ns, pace.scaled_ns):
        assert [taken_ns(100, at_s * 10**9) for at_s in (7, 9)] == [200, 50]


def test_a_server_that_spends_its_time_with_sums_is_the_bottleneck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more hosts than are tried one by one: what each may save at most says which are."""
    monkeypatch.setattr(MeasuredWorld, "cheap", 2)
    name, size, iterations, buckets = "asyncparameterserver", 14, 60, (3_000,)
    server, *workers = vw.hosts(size, of=vw.profile(buckets))
    slow = replace(server.profile, copy_s_per_byte=2e-8, accumulate_s_per_byte=2e-8, scale_s_per_byte=2e-8)
    hosts = [replace(server, profile=slow, samples=1), *workers]
    links = vw.everywhere(size, LinkModel(rate_bps=1e9, delay_s=0.0005))
    run = vw.run(strategies.load(name), size=size, seed=1, iterations=iterations, on_hosts=hosts, links=links)
    observed = observe(run.trace, run.reference())
    training = Retraining(
        strategy=strategies.load(name), samples=[each.samples for each in hosts],
        allotment=partial(Equal, iterations), seed=1, layout=Layout(dtype="float32", buckets=buckets),
    )  # fmt: skip
    world = observed.world(training)
    assert world.hosts[0].vectors_ns > world.hosts[0].busy_ns(COMPUTE) / 2
    elements, _ = speed_ups(world, observed.carried, observed.design)
    assert elements[0].element.src == server.name and elements[0].saved_s > 0


def test_links_that_nobody_used_are_known_by_their_design() -> None:
    """In other laps a strategy draws others: links without a rate have a delay, and those of one design are one."""
    links = vw.everywhere(6, LinkModel(delay_s=0.1))
    run = vw.run(strategies.load("prague"), size=6, seed=1, iterations=2, on_hosts=vw.hosts(6), links=links)
    training = Retraining(
        strategy=strategies.load("prague"), samples=[each.samples for each in run.hosts],
        allotment=partial(Equal, 2), seed=1, layout=Layout(dtype="float32", buckets=(1000, 500)),
    )  # fmt: skip
    world = observe(run.trace, run.reference()).world(training)
    unused = [link for link in world.links.values() if not link.messages]
    assert len(world.links) == 30 and unused
    assert {id(link) for link in unused} == {id(unused[0])}
    assert unused[0].delay_s.values == pytest.approx([0.1])


def test_a_link_of_a_line_may_be_changed_by_itself_beside_its_line() -> None:
    pairs, buckets = ((0, 1), (2, 3)), (60_000,)
    line = SharedRate(rate_bps=20e6, links=pairs)
    links = vw.everywhere(4, LinkModel(rate_bps=50e6, delay_s=0.001))
    run = vw.run(
        strategies.load("allreduce"), size=4, seed=1, iterations=5, bottlenecks=[line], links=links,
        on_hosts=vw.hosts(4, of=vw.profile(buckets)),
    )  # fmt: skip
    training = Retraining(
        strategy=strategies.load("allreduce"), samples=[8] * 4, allotment=partial(Equal, 5), seed=1, in_step=True,
        layout=Layout(dtype="float32", buckets=buckets), bottlenecks=(line,), own_bps=dict.fromkeys(pairs, 50e6),
    )  # fmt: skip
    world = training.world(run.trace, join(run.trace), dict.fromkeys(links, 1_000_000))
    first, other = (Element(kind=ElementKind.LINK, src=f"edge-{src + 1}", dst=f"edge-{dst + 1}") for src, dst in pairs)
    changes = WhatIf.together([scaled(first, 0.5), scaled(other, 0.5)]).changes
    twice = Line(links=frozenset({first, other}), scale=Piecewise.constant(0.5), instead=changes)
    faster = WhatIf(changes=changes, lines=(twice,))
    slower = WhatIf.together([faster, scaled(first, 20.0)])
    assert world.shares_lines
    assert world.run_ns(faster) < world.replayed_ns < world.run_ns(slower)


def test_a_link_that_nothing_limits_has_no_rate_that_ranks_could_choose_by() -> None:
    links = {(src, dst): LinkModel(rate_bps=20e6 * (dst + 1)) if src < dst else LinkModel() for src, dst in PAIRS}
    hosts, buckets = vw.hosts(4, of=vw.profile((120_000,))), (120_000,)
    run = vw.run(strategies.load("butterfly"), size=4, seed=1, links=links, on_hosts=hosts, iterations=12)
    training = Retraining(
        strategy=strategies.load("butterfly"), samples=[host.samples for host in run.hosts], seed=1,
        allotment=partial(Equal, 12), layout=Layout(dtype="float32", buckets=buckets),
    )  # fmt: skip
    world = training.world(run.trace, join(run.trace), {})
    assert world.links[1, 0].rate_bps.values.tolist() == [UNLIMITED_BPS]
    assert world.error == pytest.approx(0.0, abs=0.01)
