"""What a replay does not tell: what a link costs that was left alone, and a host does before a line that is full."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
import virtual_world as vw
from test_luck import Known, departure

from e2c_dl.diagnosis import choices
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Element, ElementKind, Part, Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.resimulation import luck
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import Layout
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Strategy
from e2c_dl.strategies.diloco import DiLoCo
from e2c_dl.strategies.fastlinks import FastLinks
from e2c_dl.strategies.parameterserver import ParameterServer
from e2c_dl.topology import Bottleneck
from e2c_dl.trace.messages import join
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import RankPair

SIZE, ITERATIONS, PERIOD, BUCKETS = 4, 60, 50, (120_000, 60_000)
FAST, FAIR, SLOW = (LinkModel(rate_bps=rate_bps, delay_s=0.002) for rate_bps in (100e6, 20e6, 5e6))
TO_ALL = {(0, other) for other in range(1, SIZE)} | {(other, 0) for other in range(1, SIZE)}
DESIGNED = {pair: FAST if pair in TO_ALL else FAIR for pair in vw.everywhere(SIZE, FAIR)}  # a star of fast links
LEFT_ALONE = (3, 0)


def ran(links: dict[RankPair, LinkModel], *, seed: int = 1, iterations: int = ITERATIONS, **more) -> vw.Run:
    hosts = vw.hosts(SIZE, of=vw.profile(BUCKETS, per_sample_s=1e-4), noise=0.02, **more)
    strategy = partial(FastLinks, gap=0.2, period=PERIOD)
    return vw.run(strategy, size=SIZE, seed=seed, links=links, on_hosts=hosts, iterations=iterations)


def report(
    run: vw.Run, links: dict[RankPair, LinkModel] = DESIGNED, tcp: Tcp | None = None, iterations: int = ITERATIONS
) -> Report:
    """What is told of ``run``, which was designed with ``links``, and with all hosts alike; of a modelled world."""
    designed = replace(run, links=links, hosts=vw.hosts(SIZE, of=vw.profile(BUCKETS)))
    retraining = Retraining(
        strategy=partial(FastLinks, gap=0.2, period=PERIOD), samples=[host.samples for host in run.hosts], seed=1,
        allotment=partial(Equal, iterations), layout=Layout(dtype="float32", buckets=BUCKETS),
        in_step=True, chooses=True, tcp=tcp,
    )  # fmt: skip
    return analyse(run.trace, replace(designed.reference(), tcp=tcp, modelled=tcp is not None), retraining)


def test_a_slow_link_that_was_left_alone_is_named_with_what_the_way_round_costs() -> None:
    run, undisturbed = ran(DESIGNED | {LEFT_ALONE: SLOW}), ran(DESIGNED)
    assert run.end_s > 2 * undisturbed.end_s
    carried = [each for each in join(run.trace).joined if (each["src"], each["dst"]) == LEFT_ALONE]
    models = [each for each in carried if each["nbytes"] > 4 * sum(BUCKETS)]
    assert [each["iteration"] for each in models] == [0, PERIOD]
    told = report(run)
    assert [str(each.element) for each in told.culprits] == ["edge-4 -> edge-1"]
    assert told.culprits[0].saved_s == pytest.approx(run.end_s - undisturbed.end_s, rel=0.05)


def test_without_a_departure_nobody_is_named() -> None:
    assert not report(ran(DESIGNED)).culprits


def test_a_host_that_the_way_round_hides_is_named_beside_the_link() -> None:
    much = {"factors": [1.0, 80.0, 1.0, 1.0]}
    slow_link, both = DESIGNED | {LEFT_ALONE: SLOW}, ran(DESIGNED | {LEFT_ALONE: SLOW}, **much)
    assert ran(slow_link).end_s == pytest.approx(both.end_s, rel=0.02)
    found = {str(each.element): each for each in report(both).culprits}
    assert set(found) == {"edge-4 -> edge-1", "edge-2"}
    assert found["edge-2"].joint_speedup == pytest.approx(ran(DESIGNED, **much).end_s / ran(DESIGNED).end_s, rel=0.05)


def test_a_run_too_large_to_be_simulated_again_is_replayed_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "EVENTS", 10)
    run = ran(DESIGNED | {LEFT_ALONE: SLOW})
    told = report(run)
    assert sum(each.saved_s for each in told.findings) < 0.2 * (run.end_s - ran(DESIGNED).end_s)
    assert any("too large to be simulated again" in sentence for sentence in told.limitations)


def test_who_is_slow_before_a_shared_line_that_is_full_costs_nothing_though_a_replay_has_it_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = vw.everywhere(SIZE, LinkModel(rate_bps=100e6, delay_s=0.002))
    up = tuple(pair for pair in links if pair[0])  # all but the server's go through it
    line, buckets = SharedRate(rate_bps=20e6, links=up), (60_000, 60_000)
    of = vw.profile(buckets, per_sample_s=8e-3)

    def shared(factor: float) -> vw.Run:
        hosts = vw.hosts(SIZE, of=of, noise=0.05, factors=[1.0, factor, 1.0, 1.0])
        return vw.run(ParameterServer, size=SIZE, links=links, bottlenecks=[line], iterations=20, on_hosts=hosts)

    run, undisturbed = shared(5.0), shared(1.0)
    assert run.end_s == pytest.approx(undisturbed.end_s, rel=0.01)
    reference = replace(run, hosts=vw.hosts(SIZE, of=of)).reference()
    names = [host.name for host in run.hosts]
    uplink = Bottleneck(name="uplink", rate_bps=20e6, links=tuple((names[src], names[dst]) for src, dst in up))
    reference = replace(reference, topology=replace(reference.topology, bottlenecks=(uplink,)))
    retraining = Retraining(
        strategy=ParameterServer, samples=[host.samples for host in run.hosts], seed=0, allotment=partial(Equal, 20),
        layout=Layout(dtype="float32", buckets=buckets), in_step=True, bottlenecks=(line,),
        own_bps=dict.fromkeys(up, 100e6),
    )  # fmt: skip
    assert [str(each.element) for each in analyse(run.trace, reference).culprits] == ["edge-2"], "as a replay has it"
    told = analyse(run.trace, reference, retraining)
    assert not told.culprits
    assert str(told.bottlenecks[0].element) == "uplink"
    monkeypatch.setattr(choices, "EVENTS", run.result.messages + 1)  # each takes longer where links share
    (told_why,) = [each for each in analyse(run.trace, reference, retraining).limitations if "simulated again" in each]
    assert told_why.endswith("this run is too large to be simulated again.")


TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
FEW = 12  # iterations


def test_where_lost_segments_decide_what_is_chosen_savings_are_means_over_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(luck, "MOST_LAPS", 4)
    lossy = {pair: replace(link, tcp=TCP, loss=0.01) for pair, link in DESIGNED.items()}
    slow = {"factors": [1.0, 80.0, 1.0, 1.0]}
    saved_s = [
        ran(lossy, seed=seed, iterations=FEW, **slow).end_s - ran(lossy, seed=seed, iterations=FEW).end_s
        for seed in range(1, 5)
    ]
    told = report(ran(lossy, iterations=FEW, **slow), lossy, TCP, FEW)
    assert told.chance is not None
    assert any("Savings are means" in each for each in told.limitations)
    assert told.findings[0].saved_s == pytest.approx(sum(saved_s) / len(saved_s), rel=0.3)


@pytest.mark.thorough
def test_what_is_slower_than_losses_by_design_explain_is_simulated_as_it_was() -> None:
    lossy = {pair: replace(link, tcp=TCP, loss=0.003) for pair, link in DESIGNED.items()}
    slow = lossy | {(1, 0): replace(lossy[1, 0], rate_bps=FAIR.rate_bps)}
    told = report(ran(slow, iterations=FEW), lossy, TCP, FEW)
    assert not any("off" in each for each in told.limitations)


def test_where_messages_waited_for_the_windows_of_others_what_departs_is_simulated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    within = LinkModel(rate_bps=112e6, delay_s=0.0071, tcp=TCP)
    between = LinkModel(rate_bps=255e6, delay_s=0.04, tcp=TCP)
    fog, slow = (LinkModel(rate_bps=bps, delay_s=0.004, tcp=TCP) for bps in (66e6, 44e6))
    layers, buckets = ["edge"] * 5 + ["fog"] * 2, (100_000, 120_000, 167_600)
    links = {
        (src, dst): {0: within, 1: between, 2: fog}[(src > 4) + (dst > 4)] for src, dst in vw.everywhere(7, within)
    }
    strategy, of = partial(DiLoCo, period_within=2, period_between=4), vw.profile(buckets, per_sample_s=2e-3)

    def ran_over(used: dict[RankPair, LinkModel]) -> vw.Run:
        return vw.run(strategy, size=7, layers=layers, links=used, of=of, iterations=40)

    run, undisturbed = ran_over(links | {(5, 6): slow}), ran_over(links)
    speedup = run.end_s / undisturbed.end_s
    assert speedup > 1.05
    retraining = Retraining(
        strategy=strategy, samples=[8] * 7, seed=0, allotment=partial(Equal, 40), in_step=True, tcp=TCP,
        layout=Layout(dtype="float32", buckets=buckets),
    )  # fmt: skip
    reference = replace(replace(run, links=links).reference(), tcp=TCP, modelled=True)
    (found,) = analyse(run.trace, reference, retraining).culprits
    assert str(found.element) == "edge-6 -> edge-7"
    assert found.speedup == pytest.approx(speedup, rel=0.01)
    monkeypatch.setattr(choices, "EVENTS", 10)
    told = analyse(run.trace, reference, retraining)
    assert not told.culprits, "as a replay has it, where the same messages wait as long"
    assert not any("unevenly" in each for each in told.limitations), "less than what would be material"
    monkeypatch.setattr(choices, "MUCH", 0.0)
    told = analyse(run.trace, reference, retraining)
    assert any(each.startswith("Messages took unevenly long") for each in told.limitations)


def test_a_rate_that_changes_is_nothing_uneven_once_it_is_restored() -> None:
    fair = LinkModel(rate_bps=20e6, delay_s=0.002)
    links = vw.everywhere(2, fair)
    half = replace(fair, conditions=lambda: iter([(0.0, fair), (2.0, replace(fair, rate_bps=10e6))]))
    run = vw.run(Allreduce, size=2, links=links | {(0, 1): half}, of=vw.profile(BUCKETS), iterations=12)
    seen = observe(run.trace, replace(run, links=links).reference())
    restored = [each.restored for each in seen.links.departures]
    assert len(restored) == 1
    assert choices.unevenness(seen, []) is not None
    assert choices.unevenness(seen, restored) is None


@pytest.mark.parametrize("strategy", [Allreduce, ParameterServer])
def test_what_is_late_for_the_way_back_is_not_slowed_by_itself_in_a_world(strategy: type[Strategy]) -> None:
    fair, late_s = LinkModel(rate_bps=100e6, delay_s=0.005, tcp=TCP), 0.08
    links = vw.everywhere(SIZE, fair)
    pair = (1, 2) if strategy is Allreduce else (1, 0)
    tried = links | {pair: replace(fair, delay_s=fair.delay_s + late_s)}
    run = vw.run(strategy, size=SIZE, links=tried, of=vw.profile(BUCKETS, per_sample_s=1e-3), iterations=20, noise=0.05)
    seen = observe(run.trace, replace(replace(run, links=links).reference(), tcp=TCP, modelled=True))
    retraining = Retraining(
        strategy=strategy, samples=[8] * SIZE, seed=0, allotment=partial(Equal, 20), in_step=True, tcp=TCP,
        layout=Layout(dtype="float32", buckets=BUCKETS),
    )  # fmt: skip
    world = seen.world(retraining)
    assert {*seen._as_slowed(world)} == {pair}
    assert abs(world.error) < 0.005


@dataclass(frozen=True, kw_only=True)
class KnownWorld(Known):
    """A measured world that takes almost as long as the run did."""

    error: float = 0.02
    bottlenecks: tuple[()] = ()


@pytest.mark.parametrize(("kind", "material"), [(ElementKind.LINK, True), (ElementKind.GROUP, False)])
def test_what_a_whole_layer_of_links_saves_the_world_tells_and_not_a_replay(kind: ElementKind, material: bool) -> None:
    element = Element(kind=kind, src="edge-1", dst="fog-1" if kind is ElementKind.LINK else None)
    slow = replace(departure(), element=element, part=Part.RATE)
    replay, world = Known(was_s=[100.0], changed_s=[90.0]), KnownWorld(was_s=[100.0], changed_s=[98.0])
    (found,) = choices.Choices(replay=replay, world=world, chose=True).findings([slow], [slow])  # type: ignore[arg-type]
    assert found.material is material
    assert found.saved_s == pytest.approx(10.0 if material else 2.0)


@pytest.mark.parametrize("chose", [False, True])
def test_where_nothing_is_chosen_what_a_line_saves_at_most_the_replay_tells(chose: bool) -> None:
    slow = replace(departure(), element=Element(kind=ElementKind.SHARED, src="access"), part=Part.RATE)
    replay, world = Known(was_s=[60.0], changed_s=[59.5]), KnownWorld(was_s=[60.0], changed_s=[54.5])
    (found,) = choices.Choices(replay=replay, world=world, chose=chose).findings([slow], [slow])  # type: ignore[arg-type]
    assert found.material is chose
    assert found.saved_s == pytest.approx(5.5 if chose else 0.5)
