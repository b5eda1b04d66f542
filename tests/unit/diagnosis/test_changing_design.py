"""What changes by design does so at its time: a run that is restored is further by then, or done."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace
from e2c_dl.diagnosis.resimulation.links import measured_link
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout
from e2c_dl.scenario.model import LinkSchedule, Schedules
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.parameterserver import ParameterServer
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel
from e2c_dl.worlds.virtual.pace import Segment

SIZE, ITERATIONS, BUCKETS = 4, 40, (60_000, 60_000)
USUAL = LinkModel(rate_bps=50e6, delay_s=0.002)
CHANGES_S, LATER_BPS = 6.0, 15e6
CHANGING = replace(USUAL, conditions=lambda: iter([(0.0, USUAL), (CHANGES_S, replace(USUAL, rate_bps=LATER_BPS))]))
DESIGNED = vw.everywhere(SIZE, USUAL) | {(3, 0): CHANGING}
RATES = Schedule(points=((0.0, 50e6), (CHANGES_S, LATER_BPS)))


def ran(links: dict[tuple[int, int], LinkModel], **more) -> vw.Run:
    hosts = vw.hosts(SIZE, of=vw.profile(BUCKETS, per_sample_s=2e-3), noise=0.05, **more)
    return vw.run(ParameterServer, size=SIZE, seed=1, links=links, on_hosts=hosts, iterations=ITERATIONS)


def test_what_a_link_costs_before_another_changes_by_design_counts_what_is_done_until_then() -> None:
    once = [(0.0, USUAL), (1.0, replace(USUAL, rate_bps=25e6)), (3.5, USUAL)]
    run = ran(DESIGNED | {(0, 1): replace(USUAL, conditions=lambda: iter(once))})
    saved_s = run.end_s - ran(DESIGNED).end_s
    names = [host.name for host in run.hosts]
    reference = replace(
        run.reference(), schedules=Schedules(links={(names[3], names[0]): LinkSchedule(rate_bps=RATES)})
    )
    retraining = Retraining(
        strategy=ParameterServer, samples=[host.samples for host in run.hosts], seed=1, in_step=True, changes=True,
        allotment=partial(Equal, ITERATIONS), layout=Layout(dtype="float32", buckets=BUCKETS),
    )  # fmt: skip
    assert retraining.decided_anew
    assert not replace(retraining, changes=False).decided_anew
    replayed, told = (analyse(run.trace, reference, each) for each in (None, retraining))
    assert [str(each.element) for each in told.findings] == ["edge-1 -> edge-2"]
    assert told.findings[0].saved_s == pytest.approx(saved_s, rel=0.02)
    assert replayed.findings[0].saved_s < 0.9 * saved_s


@pytest.mark.parametrize("hears_verdicts", [False, True])
def test_what_a_host_costs_before_a_link_departs_counts_what_is_done_until_then(hears_verdicts: bool) -> None:
    slow = [(0.0, USUAL), (CHANGES_S, replace(USUAL, rate_bps=5e6))]
    departs = vw.everywhere(SIZE, USUAL) | {(3, 0): replace(USUAL, conditions=lambda: iter(slow))}
    run, without = ran(departs, factors=[1.0, 3.0, 1.0, 1.0]), ran(departs)
    reference = replace(run, links=vw.everywhere(SIZE, USUAL), hosts=without.hosts).reference()
    retraining = Retraining(
        strategy=ParameterServer, samples=[host.samples for host in run.hosts], seed=1, in_step=True,
        allotment=partial(Equal, ITERATIONS), layout=Layout(dtype="float32", buckets=BUCKETS),
        hears_verdicts=hears_verdicts,
    )  # fmt: skip
    assert not retraining.decided_anew
    replayed, told = (
        {str(each.element): each.saved_s for each in analyse(run.trace, reference, of).findings}
        for of in (None, retraining)
    )
    assert set(told) == {"edge-2", "edge-4 -> edge-1"}
    saved_s = run.end_s - without.end_s
    assert replayed["edge-2"] < 0.8 * saved_s
    if hears_verdicts:
        assert told == replayed, "simulated again, it would hear none"
    else:
        assert told["edge-2"] == pytest.approx(saved_s, rel=0.02)


def test_a_link_is_measured_by_how_many_times_slower_than_designed_it_was() -> None:
    rows = join(ran(DESIGNED).trace).by_link()[3, 0]
    designed = Piecewise.of(RATES, 60.0)
    seen = measured_link(rows, 0, 2_000_000, (), designed).rate_bps
    assert seen.starts_s.tolist() == designed.starts_s.tolist()
    assert seen.values == pytest.approx(designed.values, rel=0.01)
    by_itself = measured_link(rows, 0, 2_000_000).rate_bps
    assert by_itself.starts_s[1] != CHANGES_S  # between messages, somewhere


def test_what_a_host_takes_is_as_long_as_its_design_has_it_when_it_is_taken_again() -> None:
    gradient = (Segment(Phase.FORWARD, -1, 0, 100), Segment(Phase.BACKWARD, 0, 100, 300))
    twice_as_slow = Piecewise(starts_s=np.array([0.0, 1.0]), values=np.array([1.0, 2.0]))
    host = MeasuredHost(
        name="edge-1", layer="edge", samples=8, gradients=((8, gradient),) * 2, begun_ns=(0, 2 * 10**9),
        steps_ns=(50,) * 2, steps_begun_ns=(300, 2 * 10**9 + 300), evaluations_ns=(), factor=twice_as_slow,
    )  # fmt: skip
    ahead, behind = MeasuredPace(host, seed=0), MeasuredPace(host, seed=0)
    assert [piece.end_ns for piece in behind.gradient(8, 10**9)] == [200, 600]  # measured before the change
    assert behind.stepped_ns(10**9 + 600) == 100
    assert [piece.end_ns for piece in ahead.gradient(8, 0)] == [100, 300]
    assert [piece.end_ns for piece in ahead.gradient(8, 500)] == [50, 150]  # measured after it
