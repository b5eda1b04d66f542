"""The measured world: it takes the times of a trace, and predicts what a simulated re-run then shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pytest
import virtual_world as vw
from virtual_world import Run

from e2c_dl import strategies
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.links import Designed
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, Change, Line, WhatIf, scaled
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace
from e2c_dl.diagnosis.resimulation.links import MeasuredLink, designed_link, measured_link
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.prediction import resimulated
from e2c_dl.diagnosis.resimulation.world import Layout, MeasuredWorld
from e2c_dl.errors import AnalysisError, TrainingError
from e2c_dl.ethernet import wire_bits
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.wrappers import Wrapping
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES
from e2c_dl.worlds.virtual.pace import Segment

BUCKETS = (120_000, 60_000)
TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
PROFILE = vw.profile(BUCKETS, per_sample_s=5e-3)
SLOW, USUAL = LinkModel(rate_bps=10e6, delay_s=0.005), LinkModel(rate_bps=50e6, delay_s=0.005)
CASES = [("adpsgd", {}), ("allreduce", {}), ("asyncparameterserver", {}), ("localsgd", {"period": 2})]


def ran(name: str, *, size: int = 4, seed: int = 1, noise: float = 0.05, links=None, factors=None, **more) -> Run:
    made = strategies.load(name)
    links = links or vw.everywhere(size, USUAL) | {(3, 0): SLOW}
    hosts = vw.hosts(size, of=PROFILE, noise=noise, factors=factors or [1.0, 1.0, 3.0, *[1.0] * (size - 3)])
    chosen = more.pop("chosen", {})
    return vw.run(partial(made, **chosen), size=size, seed=seed, links=links, on_hosts=hosts, iterations=12, **more)


def world_of(
    run: Run, name: str, chosen: Mapping[str, object] = {}, restored: WhatIf = UNCHANGED, **more
) -> MeasuredWorld:
    delays_ns = {pair: round(link.delay_s * 1e9) for pair, link in run.links.items()}
    training = Retraining(
        strategy=partial(strategies.load(name), **chosen), samples=[host.samples for host in run.hosts],
        allotment=partial(Equal, 12), seed=1, layout=Layout(dtype="float32", buckets=BUCKETS), **more,
    )  # fmt: skip
    return training.world(run.trace, join(run.trace), delays_ns, restored)


def host(rank: int) -> Element:
    return Element(kind=ElementKind.HOST, src=f"edge-{rank + 1}")


def link(src: int, dst: int) -> Element:
    return Element(kind=ElementKind.LINK, src=f"edge-{src + 1}", dst=f"edge-{dst + 1}")


@pytest.mark.parametrize(("name", "chosen"), CASES)
def test_a_run_simulated_again_as_it_was_takes_as_long(name: str, chosen: Mapping[str, object]) -> None:
    world = world_of(ran(name, chosen=chosen), name, chosen)
    assert world.error == pytest.approx(0.0, abs=0.002)


@pytest.mark.parametrize(("name", "chosen"), CASES)
@pytest.mark.parametrize("element", [host(2), link(3, 0)], ids=str)
def test_what_if_says_what_a_rerun_takes(name: str, chosen: Mapping[str, object], element: Element) -> None:
    before = ran(name, chosen=chosen)
    if element.kind is ElementKind.HOST:
        after, change = ran(name, chosen=chosen, factors=[1.0] * 4), scaled(element, 1 / 3)
    else:
        after, change = ran(name, chosen=chosen, links=vw.everywhere(4, USUAL)), scaled(element, 1 / 5)
    world = world_of(before, name, chosen)
    predicted = resimulated(world, world, change, laps=2)
    assert predicted.predicted_s == pytest.approx(after.end_s, rel=0.01)
    assert predicted.least_s <= predicted.predicted_s <= predicted.most_s


def test_rates_that_change_during_the_run_stay_where_they_were_in_time() -> None:
    steps = [(0.0, USUAL), (0.5, SLOW)]
    changing = replace(USUAL, conditions=lambda: iter(steps))
    links = vw.everywhere(4, USUAL) | {(1, 2): changing}
    run = ran("allreduce", links=links)
    rows = join(run.trace).by_link()[1, 2]
    seen = measured_link(rows, 0, 5_000_000).rate_bps
    assert seen.values == pytest.approx([50e6, 10e6], rel=0.02)
    assert seen.starts_s[1] == pytest.approx(0.5, abs=0.15)  # a message is every so often
    assert world_of(run, "allreduce").error == pytest.approx(0.0, abs=0.01)


def test_a_link_that_stalled_once_is_not_slow_for_good() -> None:
    cut = replace(USUAL, down=True)
    steps = [(0.0, USUAL), (0.5, cut), (1.5, USUAL)]
    run = ran("allreduce", links=vw.everywhere(4, USUAL) | {(1, 2): replace(USUAL, conditions=lambda: iter(steps))})
    seen = measured_link(join(run.trace).by_link()[1, 2], 0, 5_000_000)
    assert seen.rate_bps.values == pytest.approx([50e6], rel=0.02)
    ((from_s, until_s),) = seen.stalls
    assert until_s == pytest.approx(1.5, abs=0.1)
    assert 0.3 < until_s - from_s <= 1.0
    world = world_of(run, "allreduce")
    assert world.error == pytest.approx(0.0, abs=0.01)
    uncut = ran("allreduce", links=vw.everywhere(4, USUAL))
    assert world.run_ns(WhatIf(moving=frozenset({link(1, 2)}))) / 1e9 == pytest.approx(uncut.end_s, rel=0.02)


def test_links_of_a_bottleneck_share_what_was_measured_of_it() -> None:
    shared = [SharedRate(rate_bps=20e6, links=((0, 1), (2, 3)))]
    run = ran("allreduce", links=vw.everywhere(4, USUAL), bottlenecks=shared)
    designed = [SharedRate(rate_bps=40e6, links=((0, 1), (2, 3)))]
    world = world_of(run, "allreduce", bottlenecks=designed, own_bps={(0, 1): 50e6, (2, 3): 50e6})
    ((_, measured_bps),) = world.bottlenecks[0].rates()
    assert measured_bps == pytest.approx(20e6, rel=0.05)
    assert world.error == pytest.approx(0.0, abs=0.03)
    healthy = ran("allreduce", links=vw.everywhere(4, USUAL), bottlenecks=designed)
    changes = tuple(scaled(link(*pair), 0.5).changes[0] for pair in shared[0].links)
    line = Line(links=frozenset({link(0, 1), link(2, 3)}), scale=Piecewise.constant(0.5), instead=changes)
    restored = WhatIf(changes=changes, lines=(line,))
    assert world.run_ns(restored) / 1e9 == pytest.approx(healthy.end_s, rel=0.03)
    late = WhatIf(lines=(replace(line, scale=Piecewise(starts_s=np.array([0.0, 0.5]), values=np.array([1.0, 0.5]))),))
    assert world.run_ns(restored) < world.run_ns(late) < world.replayed_ns


def test_a_line_that_its_links_fill_only_since_it_is_slow_is_as_slow_as_they_are_then() -> None:
    pairs = ((0, 1), (2, 3))
    designed, slow = (SharedRate(rate_bps=rate_bps, links=pairs) for rate_bps in (200e6, 20e6))
    links = vw.everywhere(4, USUAL)
    run = ran("allreduce", links=links, bottlenecks=[slow])
    healthy = ran("allreduce", links=links, bottlenecks=[designed])
    both = frozenset(link(*pair) for pair in pairs)
    changes = WhatIf.together(scaled(each, 0.4) for each in both).changes
    line = Line(links=both, scale=Piecewise.constant(0.4), designed_bps=Piecewise.constant(200e6), instead=changes)
    restored, own_bps = WhatIf(changes=changes, lines=(line,)), dict.fromkeys(pairs, 50e6)
    world = world_of(run, "allreduce", restored=restored, bottlenecks=(designed,), own_bps=own_bps)
    ((_, measured_bps),) = world.bottlenecks[0].rates()
    assert measured_bps == pytest.approx(20e6, rel=0.1)
    assert world.error == pytest.approx(0.0, abs=0.03)
    assert world.run_ns(restored) / 1e9 == pytest.approx(healthy.end_s, rel=0.03)


def test_batches_of_a_controller_are_found_again() -> None:
    run = ran("allreduce", size=4, batching="dynamic")
    wrapping = Wrapping(batching="dynamic")
    world = world_of(run, "allreduce", wrapping=wrapping, seconds_of=lambda samples: 2e-3 + samples * 5e-3)
    assert {samples for samples, _ in world.hosts[2].gradients} != {8}  # the slow host gets less
    assert world.error == pytest.approx(0.0, abs=0.002)


def test_a_change_holds_for_its_phases_and_its_time() -> None:
    measured = MeasuredHost(
        name="a", layer="edge", samples=8, gradients=((8, (
            Segment(Phase.DATA, -1, 0, 10), Segment(Phase.FORWARD, -1, 12, 32), Segment(Phase.BACKWARD, 0, 32, 72),
        )),), steps_ns=(7,), evaluations_ns=(),
    )  # fmt: skip
    late = Piecewise(starts_s=np.array([0.0, 1.0]), values=np.array([1.0, 0.5]))
    pace = MeasuredPace(measured, [Change(element=host(0), scale=late)], seed=1)
    assert [tuple(each)[2:] for each in pace.gradient(8, 0)] == [(0, 10), (12, 32), (32, 72)]
    assert [tuple(each)[2:] for each in pace.gradient(8, 2_000_000_000)] == [(0, 10), (12, 22), (22, 42)]
    assert [tuple(each)[2:] for each in pace.gradient(16, 0)] == [(0, 20), (22, 62), (62, 142)]
    assert (pace.stepped_ns(5), pace.evaluated_ns(5)) == (7, 5)


def test_a_change_holds_for_what_was_begun_while_it_did_whenever_that_is_taken_again() -> None:
    second = Piecewise(starts_s=np.array([0.0, 1.0]), values=np.array([1.0, 0.5]))
    gradients = tuple((8, (Segment(Phase.FORWARD, -1, 0, length),)) for length in (100, 300))
    measured = MeasuredHost(
        name="edge-1", layer="edge", samples=8, gradients=gradients, begun_ns=(0, 1_500_000_000), steps_ns=(40, 80),
        steps_begun_ns=(100, 1_500_000_300), evaluations_ns=(),
    )  # fmt: skip
    changed = Change(element=host(0), phases=frozenset({Phase.FORWARD, Phase.STEP}), scale=second)
    pace = MeasuredPace(measured, [changed], seed=1)
    ahead_ns = 900_000_000  # the restored run is ahead of the one that was measured
    assert [pace.gradient(8, at_ns)[-1].end_ns for at_ns in (0, ahead_ns)] == [100, 150]
    assert [pace.stepped_ns(at_ns) for at_ns in (100, ahead_ns)] == [40, 40]


def test_laps_draw_from_neighbours_and_what_comes_after_is_no_outlier() -> None:
    lengths = [100 + n for n in range(16)] + [10**6] + [110] * 7
    gradients = tuple((8, (Segment(Phase.FORWARD, -1, 0, each),)) for each in lengths)
    measured = MeasuredHost(name="a", layer="edge", samples=8, gradients=gradients, steps_ns=(), evaluations_ns=())

    def taken(lap: int, seed: int = 1) -> list[int]:
        pace = MeasuredPace(measured, seed=seed, lap=lap)
        return list(islice((pace.gradient(8, 0)[-1].end_ns for _ in range(100)), 100))

    assert taken(0)[:24] == lengths
    assert max(taken(0)[24:]) < 10**6
    assert taken(1)[:24] != lengths
    assert all({*taken(1)[n : n + 8]} <= {*lengths[n : n + 8]} for n in (0, 8, 16))
    means = [np.mean(taken(lap)[:16]) for lap in range(1, 200)]
    assert np.mean(means) == pytest.approx(np.mean(lengths[:16]), rel=0.01), "by chance more, or less"
    assert taken(1) == taken(1)


@pytest.mark.parametrize(("rate_bps", "stays"), [(95e6, True), (50e6, False)])
def test_a_link_that_never_filled_is_as_designed_windows_included(rate_bps: float, stays: bool) -> None:
    designed = designed_link(Designed(own=Piecewise.constant(100e6), delay_s=Piecewise.constant(0.02)), TCP)
    measured = MeasuredLink(
        rate_bps=Piecewise.constant(rate_bps), delay_s=Piecewise.constant(0.02), messages=7, busy_ns=5.0
    )
    found = measured.or_designed(designed)
    assert (found is measured) is stays
    assert found == measured or found == replace(designed, messages=7, busy_ns=5.0)
    assert measured.or_designed(designed, surely=True) == replace(designed, messages=7, busy_ns=5.0)


def test_links_that_carried_nothing_are_simulated_as_designed() -> None:
    hosts, links = vw.hosts(8, of=PROFILE), vw.everywhere(8, replace(USUAL, tcp=TCP))
    run = vw.run(strategies.load("prague"), size=8, seed=1, links=links, on_hosts=hosts, iterations=2)
    training = Retraining(
        strategy=strategies.load("prague"), samples=[host.samples for host in run.hosts],
        allotment=partial(Equal, 2), seed=1, layout=Layout(dtype="float32", buckets=BUCKETS), tcp=TCP,
    )  # fmt: skip
    observed = observe(run.trace, replace(run.reference(), tcp=TCP))
    world = observed.world(training)
    unused = {pair: link for pair, link in world.links.items() if not link.messages}
    assert {*world.links} == {*links}
    assert unused.keys() == world.links.keys() - observed.messages.by_link().keys() != set()
    assert all(link.tcp == TCP for link in unused.values())
    assert not {str(element) for element in world.elements} & {
        f"edge-{src + 1} -> edge-{dst + 1}" for src, dst in unused
    }


def test_what_is_not_whole_is_refused() -> None:
    run = ran("allreduce")
    torn = replace(run.trace.ranks[1], complete=False)
    trace = replace(run.trace, ranks=(run.trace.ranks[0], torn, *run.trace.ranks[2:]))
    with pytest.raises(AnalysisError, match="trace of edge-2 ends after 12 of 12 iterations; a run is"):
        world_of(replace(run, trace=trace), "allreduce")


@pytest.mark.parametrize("name", ["asyncparameterserver", "adpsgd", "fedat"])
def test_a_report_on_ranks_that_go_at_their_own_pace_says_what_a_restored_link_saves(name: str) -> None:
    even = [1.0] * 4
    run, healthy = ran(name, factors=even), ran(name, factors=even, links=vw.everywhere(4, USUAL))
    retraining = Retraining(
        strategy=strategies.load(name), samples=[8] * 4, allotment=partial(Equal, 12), seed=1,
        layout=Layout(dtype="float32", buckets=BUCKETS),
    )  # fmt: skip
    report = analyse(run.trace, replace(run, links=healthy.links).reference(), retraining)
    assert [culprit.element for culprit in report.culprits] == [link(3, 0)]
    assert report.culprits[0].saved_s == pytest.approx(run.end_s - healthy.end_s, rel=0.05)


def test_a_world_that_is_far_off_predicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran("asyncparameterserver", factors=[1.0] * 4)
    retraining = Retraining(
        strategy=strategies.load("asyncparameterserver"), samples=[8] * 4, allotment=partial(Equal, 12), seed=1,
        layout=Layout(dtype="float32", buckets=BUCKETS),
    )  # fmt: skip
    monkeypatch.setattr(MeasuredWorld, "error", 4.0)
    reference = replace(run, links=vw.everywhere(4, USUAL)).reference()
    far, replayed = analyse(run.trace, reference, retraining), analyse(run.trace, reference)
    assert any("+400.0% off: savings and bottlenecks are of a replay" in each for each in far.limitations)
    assert [each.saved_s for each in far.findings] == [each.saved_s for each in replayed.findings]


def test_a_run_that_heard_verdicts_is_replayed_for_nobody_tells_any_to_a_simulated_one() -> None:
    run = ran("adpsgd", factors=[1.0] * 4)
    retraining = Retraining(
        strategy=partial(strategies.load("adpsgd"), route_around=True), samples=[8] * 4, allotment=partial(Equal, 12),
        seed=1, layout=Layout(dtype="float32", buckets=BUCKETS), hears_verdicts=True,
    )  # fmt: skip
    reference = replace(run, links=vw.everywhere(4, USUAL)).reference()
    told, replayed = analyse(run.trace, reference, retraining), analyse(run.trace, reference)
    assert any("hears none: savings and bottlenecks are of a replay" in each for each in told.limitations)
    assert [each.saved_s for each in told.findings] == [each.saved_s for each in replayed.findings] != []


def test_what_a_change_can_save_at_most_is_how_much_less_its_parts_then_take() -> None:
    run = ran("asyncparameterserver")
    world = world_of(run, "asyncparameterserver")
    slow, quick = scaled(link(3, 0), 0.25), scaled(host(0), 0.5)
    busy_ns = world.links[3, 0].busy_ns
    assert world.most_saved_ns(slow) == pytest.approx(0.75 * busy_ns)
    assert busy_ns / 1e9 == pytest.approx(12 * wire_bits(4 * sum(BUCKETS) + MESSAGE_HEADER_BYTES) / 10e6, rel=0.01)
    assert world.most_saved_ns(WhatIf.together([slow, quick])) > world.most_saved_ns(slow)
    assert world.most_saved_ns(WhatIf(moving=frozenset({host(0)}))) == math.inf
    assert world.replayed_ns - world.run_ns(slow) <= world.most_saved_ns(slow)


@pytest.mark.parametrize("length", [1 << 52, 1 << 56, 1 << 60])
def test_vectors_that_cannot_have_been_are_refused(length: int) -> None:
    world = world_of(ran("asyncparameterserver"), "asyncparameterserver")
    with pytest.raises((AnalysisError, TrainingError)):  # and nothing that is no error of this program
        replace(world, layout=Layout(dtype="float32", buckets=(length, length))).run_ns()
