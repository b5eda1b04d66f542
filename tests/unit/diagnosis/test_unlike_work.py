"""What one host alone does has no peer, and iterations of unlike work are not compared."""

from __future__ import annotations

from collections.abc import Sequence
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


AT_ONCE = "{} others of that hardware take less than 100 µs"


@pytest.mark.parametrize(
    ("loads_ms", "hardware", "batches", "named", "said"),
    [((50, 0, 0), "board", (), {"edge-1"}, AT_ONCE.format(2)),
     ((50, 200, 0, 0), "board", (), {"edge-1", "edge-2"}, AT_ONCE.format(2)),  # neither is what the other is held to
     ((50, 0, 0), "", (), set(), ""),
     ((50, 0, 0), "unlike", (), set(), ""),
     ((50, 0), "board", (), set(), "no other host of that hardware has a like data loading"),
     ((50, 0, 0), "board", (32, 1, 1), set(), "no other host of that hardware has a like data loading")],
)  # fmt: skip
def test_who_loads_data_for_long_where_others_take_no_time_for_it_is_named(
    loads_ms: tuple[int, ...], hardware: str, batches: tuple[int, ...], named: set[str], said: str
) -> None:
    size = len(loads_ms)
    run = vw.run(Allreduce, size=size, iterations=ITERATIONS, on_hosts=vw.hosts(size, of=vw.profile()))
    trace = _loading(run, [[each] * ITERATIONS for each in loads_ms])
    names = [host.name for host in run.hosts]
    known = {name: hardware + (name if hardware == "unlike" else "") for name in names}
    reference = replace(run.reference(), hardware=known, modelled=False)
    if batches:
        reference = replace(reference, batch_sizes=dict(zip(names, batches, strict=True)))
    report = analyse(trace, reference)
    told = [each for each in report.findings if each.part is Part.DATA]
    assert {each.element.src for each in told} == named
    assert any(said in each for each in [*(one.evidence for one in told), *report.limitations])


def test_data_that_are_late_from_some_iteration_on_are_told_since_then() -> None:
    run = vw.run(Allreduce, size=3, iterations=ITERATIONS, on_hosts=vw.hosts(3, of=vw.profile()))
    late = [[0] * 8 + [50] * (ITERATIONS - 8), [0] * ITERATIONS, [0] * ITERATIONS]
    known = {host.name: "board" for host in run.hosts}
    report = analyse(_loading(run, late), replace(run.reference(), hardware=known, modelled=False))
    (told,) = (each for each in report.findings if each.part is Part.DATA)
    assert (told.element.src, told.when.onset_iteration) == ("edge-1", 8)


def test_who_loaded_data_while_it_warmed_up_alone_tells_nothing_of_others() -> None:
    run = vw.run(Allreduce, size=3, iterations=ITERATIONS, on_hosts=vw.hosts(3, of=vw.profile()))
    trace = _loading(run, [[50] * ITERATIONS, *[[50, 50, *[None] * (ITERATIONS - 2)]] * 2])
    known = {host.name: "board" for host in run.hosts}
    report = analyse(trace, replace(run.reference(), hardware=known, modelled=False))
    assert not [each for each in report.findings if each.part is Part.DATA]


def _loading(run: vw.Run, took_ms: Sequence[Sequence[int | None]]) -> Trace:
    """The trace of ``run``, whose ranks load each batch so long; None: not at all."""
    ranks = []
    for rank, own_ms in zip(run.trace.ranks, took_ms, strict=True):
        spans = rank.spans.copy()
        of = np.array([own_ms[each] if 0 <= each < len(own_ms) else 0 for each in spans["iteration"]], dtype=object)
        loads = spans["phase"] == Phase.DATA
        lengths_ms = np.array([each or 0 for each in of[loads]], dtype=np.int64)
        spans["start_ns"][loads] = spans["end_ns"][loads] - lengths_ms * 1_000_000
        kept = ~loads | np.array([each is not None for each in of])
        ranks.append(replace(rank, spans=spans[kept]))
    return Trace(ranks=tuple(ranks), facts={})
