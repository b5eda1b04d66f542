"""What a stall has cost a run that is simulated again: of a link, of a host to which others sent meanwhile."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout
from e2c_dl.scenario.model import Tcp
from e2c_dl.topology import Bottleneck
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import HostModel, LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import bottlenecks
from e2c_dl.worlds.virtual.pace import Segment

SIZE, ITERATIONS, BUCKETS = 4, 30, (120_000,)
TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
USUAL = LinkModel(rate_bps=50e6, delay_s=0.005, tcp=TCP)
LINKS = vw.everywhere(SIZE, USUAL)
BEGIN_S, END_S = 1.0, 3.5
CUT = replace(USUAL, conditions=lambda: iter([(0.0, USUAL), (BEGIN_S, replace(USUAL, down=True)), (END_S, USUAL)]))
HOSTS = vw.hosts(SIZE, of=vw.profile(BUCKETS, per_sample_s=1e-2), noise=0.02)
PAUSED = tuple(replace(host, pauses=((BEGIN_S, END_S),)) if host.name == "edge-2" else host for host in HOSTS)
LINE = SharedRate(rate_bps=100e6, links=((0, 1), (2, 3), (1, 2)))


def ran(
    name: str, *, links: dict[tuple[int, int], LinkModel] = LINKS, hosts: tuple[HostModel, ...] = HOSTS,
    lines: tuple[SharedRate, ...] = (),
) -> vw.Run:  # fmt: skip
    strategy = strategies.load(name)
    return vw.run(strategy, size=SIZE, links=links, on_hosts=hosts, iterations=ITERATIONS, bottlenecks=lines, seed=1)


def seen_alive(run: vw.Run) -> Trace:
    """Its trace, with a sign of life of each host twice a second, as it runs."""
    seen = np.arange(0, run.result.end_ns + 1, 5 * 10**8, dtype=np.int64)
    stopped = (seen > BEGIN_S * 1e9) & (seen < END_S * 1e9)
    return replace(run.trace, alive={host.name: seen[~stopped] if host.pauses else seen for host in run.hosts})


def judged(
    run: vw.Run, name: str, *, modelled: bool, lines: tuple[SharedRate, ...] = ()
) -> tuple[Report, float]:  # fmt: skip
    """Its report, and how far it is off when it is simulated again."""
    reference = replace(replace(run, links=LINKS).reference(), modelled=modelled, tcp=TCP)
    names = [host.name for host in run.hosts]
    shared = [
        Bottleneck(
            name="uplink", rate_bps=line.rate_bps, links=tuple((names[src], names[dst]) for src, dst in line.links)
        )
        for line in lines
    ]
    reference = replace(reference, topology=replace(reference.topology, bottlenecks=tuple(shared)))
    training = Retraining(
        strategy=strategies.load(name), samples=[host.samples for host in run.hosts], seed=1, tcp=TCP,
        allotment=partial(Equal, ITERATIONS), layout=Layout(dtype="float32", buckets=BUCKETS),
        in_step=not strategies.load(name).asynchronous, bottlenecks=bottlenecks(reference.topology),
        own_bps={pair: USUAL.rate_bps or 0.0 for line in lines for pair in line.links},
    )  # fmt: skip
    observed = observe(seen_alive(run), reference)
    report = analyse(observed.whole, reference, training, observed, speeding_up=False)
    return report, observed.world(training).error


@pytest.mark.parametrize("modelled", [True, False])
def test_what_a_cut_link_has_cost_is_told_where_nothing_but_the_stall_departs(modelled: bool) -> None:
    run, healthy = ran("adpsgd", links=LINKS | {(0, 1): CUT}), ran("adpsgd")
    report, error = judged(run, "adpsgd", modelled=modelled)
    assert run.end_s - healthy.end_s > 1.0
    assert error == pytest.approx(0.0, abs=0.02)
    assert [str(each.element) for each in report.culprits] == ["edge-1 -> edge-2"]
    assert report.culprits[0].saved_s == pytest.approx(run.end_s - healthy.end_s, rel=0.15)


@pytest.mark.parametrize("modelled", [True, False])
@pytest.mark.parametrize("name", ["adpsgd", "asyncparameterserver"])
def test_a_stopped_host_also_stops_what_others_send_to_it(name: str, modelled: bool) -> None:
    run, healthy = ran(name, hosts=PAUSED), ran(name)
    report, error = judged(run, name, modelled=modelled)
    assert run.end_s - healthy.end_s > 1.0
    assert error == pytest.approx(0.0, abs=0.08)  # what it answers others but in its gradients is not stopped
    assert [str(each.element) for each in report.culprits] == ["edge-2"]
    assert report.culprits[0].saved_s == pytest.approx(run.end_s - healthy.end_s, rel=0.15)


@pytest.mark.parametrize("modelled", [True, False])
def test_a_link_that_shares_a_line_stalls_by_itself(modelled: bool) -> None:
    run, healthy = (ran("adpsgd", links=links, lines=(LINE,)) for links in (LINKS | {(0, 1): CUT}, LINKS))
    report, error = judged(run, "adpsgd", modelled=modelled, lines=(LINE,))
    assert error == pytest.approx(0.0, abs=0.05)
    assert [str(each.element) for each in report.culprits] == ["edge-1 -> edge-2"]
    assert report.culprits[0].saved_s == pytest.approx(run.end_s - healthy.end_s, rel=0.25)


def test_what_a_stop_lasted_in_stays_in_its_place_by_other_luck() -> None:
    lengths_ns = [100, 101, 102, 2_000_000_000, 104, 105, 106, 107]
    begun_ns = [3_000_000_000 * place for place in range(len(lengths_ns))]
    gradients = tuple((8, (Segment(Phase.FORWARD, -1, 0, each),)) for each in lengths_ns)
    host = MeasuredHost(
        name="a", layer="edge", samples=8, gradients=gradients, begun_ns=tuple(begun_ns), steps_ns=(),
        evaluations_ns=(), stops=((9.5, 10.9),),
    )  # fmt: skip
    laps = [MeasuredPace(host, seed=1, lap=lap) for lap in range(1, 40)]
    taken = [[each.gradient(8, 0)[-1].end_ns for _ in lengths_ns] for each in laps]
    assert {place for each in taken for place, ns in enumerate(each) if ns > 107} == {3}
    assert all(each[3] == 2_000_000_000 for each in taken)
    assert len({tuple(each) for each in taken}) > 30
