"""What one host alone does has no peer, and iterations of unlike work are not compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.host_series import host_series
from e2c_dl.diagnosis.model import ElementKind, Part
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.parameterserver import ParameterServer
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.worlds.virtual import LinkModel

SIZE, ITERATIONS = 4, 15
LONELY = "no other host of that hardware has a like step"


def served(step_s: float) -> vw.Run:
    hosts = vw.hosts(SIZE, of=replace(vw.profile(), step_s=step_s), noise=0.05)
    links = vw.everywhere(SIZE, LinkModel(rate_bps=100e6, delay_s=0.001))
    return vw.run(ParameterServer, size=SIZE, iterations=ITERATIONS, on_hosts=hosts, links=links)


@pytest.mark.parametrize(("step_s", "is_said"), [(0.05, True), (1e-6, False)])
def test_of_a_servers_steps_is_said_that_nobody_has_like_ones_where_they_matter(step_s: float, is_said: bool) -> None:
    run = served(step_s)
    steppers = [rank for rank in range(SIZE) if len(run.spans(rank, Phase.STEP))]
    assert steppers == [0]
    reference = replace(run.reference(), hardware={host.name: "board" for host in run.hosts})
    report = analyse(run.trace, reference)
    assert any(LONELY in each and "edge-1 " in each for each in report.limitations) is is_said
    assert not report.culprits


def test_a_server_that_mostly_steps_is_the_bottleneck() -> None:
    run = served(0.3)
    first = analyse(run.trace, run.reference()).bottlenecks[0]
    assert (first.element.kind, first.element.src) == (ElementKind.HOST, "edge-1")
    assert first.saved_s == pytest.approx(ITERATIONS * 0.15, rel=0.1)


@pytest.mark.parametrize("modelled", [True, False])
@pytest.mark.parametrize(("step_s", "unjudged"), [(0.3, ("edge-1",)), (1e-6, ())])
def test_a_bottleneck_that_does_what_nobody_else_does_for_long_is_not_called_healthy(
    step_s: float, unjudged: tuple[str, ...], modelled: bool
) -> None:
    run = served(step_s)
    hardware = {host.name: "board" for host in run.hosts}
    report = analyse(run.trace, replace(run.reference(), hardware=hardware, modelled=modelled))
    said = verdict_of(report)
    assert (report.culprits, report.unjudged) == ((), unjudged)
    assert ("nobody knows how fast it should be, is host edge-1" in said.headline) is bool(unjudged)
    assert (said.tone is Tone.UNDECIDED) is bool(unjudged)


def test_sums_of_iterations_with_another_number_of_them_are_left_out() -> None:
    run = vw.run(Allreduce, size=SIZE, iterations=ITERATIONS, on_hosts=vw.hosts(SIZE, of=vw.profile()))
    first, *others = run.trace.ranks
    more = first.spans[(first.spans["phase"] == Phase.REDUCE) & (first.spans["iteration"] % 5 == 4)].copy()
    assert len(more)
    more["end_ns"] += 10_000_000  # a transfer of models in every fifth: longer, and one more
    spans = np.sort(np.concatenate([first.spans, more[:: len(more) // 3]]), order="start_ns")
    trace = Trace(ranks=(replace(first, spans=spans), *others), facts={})
    series = host_series(trace.ranks[0], Part.REDUCE, Design.of(trace, run.reference()))
    assert series is not None
    assert not {4, 9, 14} & set(series.series.iterations.tolist())
    assert np.ptp(series.series.values) < 0.1


def test_an_iteration_whose_own_span_is_lost_is_no_window() -> None:
    run = vw.run(Allreduce, size=SIZE, iterations=ITERATIONS, on_hosts=vw.hosts(SIZE, of=vw.profile()))
    first = run.trace.ranks[0]
    lost = (first.spans["phase"] == Phase.ITERATION) & (first.spans["iteration"] == 9)
    damaged = replace(first, spans=first.spans[~lost])
    found = host_series(damaged, Part.COMPUTE, Design.of(run.trace, run.reference()))
    assert found is not None
    assert 9 not in found.series.iterations
    assert np.isfinite(found.series.begins_s).all()


@pytest.mark.parametrize(
    ("hardware", "said"),
    [("board", "2 others of that hardware take less than 100 µs"), ("", None), ("unlike", None)],
)
def test_who_loads_data_for_long_where_others_take_no_time_for_it_is_named(hardware: str, said: str | None) -> None:
    run = vw.run(Allreduce, size=3, iterations=ITERATIONS, on_hosts=vw.hosts(3, of=vw.profile()))
    ranks = [replace(rank, spans=_loaded_in(rank.spans, 0 if rank.rank else 50_000_000)) for rank in run.trace.ranks]
    known = {host.name: hardware + (host.name if hardware == "unlike" else "") for host in run.hosts}
    reference = replace(run.reference(), hardware=known, modelled=False)
    found = analyse(Trace(ranks=tuple(ranks), facts={}), reference).findings
    told = [each for each in found if each.part is Part.DATA]
    assert bool(told) is (said is not None)
    if said is not None:
        assert (told[0].element.src, said in told[0].evidence) == ("edge-1", True)


def _loaded_in(spans: np.ndarray, took_ns: int) -> np.ndarray:
    """``spans``, whose batches are loaded at once, or in some of the time before."""
    changed = spans.copy()
    loads = changed["phase"] == Phase.DATA
    changed["start_ns"][loads] = changed["end_ns"][loads] - took_ns
    return changed
