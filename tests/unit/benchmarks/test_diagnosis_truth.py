"""What injections cost: where chance decides it, and what no trace tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.diagnosis.drawn import drawn
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.onsets import onset_iteration
from benchmarks.diagnosis.truth import Cost, _by_number, _is_untold, _Times, truth
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace

SLOW = Injection(what=What.COMPUTE, when=When.LAST_THIRD, factor=3.0, amount=3.0, hosts=("edge-1",))


def times_of(*, loses: bool, decides: bool, slow_s: Sequence[float]) -> _Times:
    retraining = SimpleNamespace(decides=decides)
    system: Any = SimpleNamespace(loses=loses, retraining=lambda: retraining)
    times = _Times(system, 1.0)
    times._known |= {((), lap): 1.0 for lap in range(3)}
    times._known |= {((SLOW,), lap): took_s for lap, took_s in enumerate(slow_s)}
    return times


@pytest.mark.parametrize(("loses", "decides"), [(False, False), (True, False), (False, True)])
def test_chance_decides_where_segments_are_lost_or_ranks_decide_by_what_they_meet(loses: bool, decides: bool) -> None:
    apart = times_of(loses=loses, decides=decides, slow_s=(1.2, 1.3, 1.2))
    assert apart.hang_on_chance((SLOW,)) is (loses or decides)
    same = times_of(loses=loses, decides=decides, slow_s=(1.2, 1.2, 1.2))
    assert not same.hang_on_chance((SLOW,)), "they take as long by any seed"


@pytest.mark.parametrize("onset", [1, 2, 3, None])
def test_a_host_like_no_other_that_is_slow_in_all_but_warm_up_counts_for_nothing(onset: int | None) -> None:
    one = drawn(2, 0)
    hosts = one.system.scenario.topology.names
    injection = replace(SLOW, hosts=(hosts[0],))
    trace: Any = SimpleNamespace(ranks=[])
    alike = replace(one.system, hardware=dict.fromkeys(hosts, "board"))
    trace.ranks = [SimpleNamespace(host=host, spans={"phase": sorted(injection.what.phases)}) for host in hosts]
    assert not _is_untold(alike, trace, injection, onset), "the others tell how long it should take"
    for unlike in (
        replace(alike, hardware={**alike.hardware, hosts[0]: "its own"}),
        replace(alike, hardware=dict.fromkeys(hosts)),
    ):
        assert _is_untold(unlike, trace, injection, onset) is (onset in (1, 2))
        assert not _is_untold(unlike, trace, replace(injection, when=When.PERIODIC), onset)


def test_what_the_judged_run_has_at_the_bar_is_on_neither_side_of_it() -> None:
    cost = Cost(injection=SLOW, with_s=1.2, without_s=1.0, alone=1.2, jointly=1.2, own=1.2, onset_iteration=1)
    assert [replace(cost, own=own).edge for own in (1.2, 1.061, 1.055, 1.045, 1.0)] == [False, False, True, True, True]


def test_what_is_untold_is_on_neither_side_of_the_bar() -> None:
    cost = Cost(injection=SLOW, with_s=1.2, without_s=1.0, alone=1.2, jointly=1.2, onset_iteration=1)
    assert not cost.edge
    assert replace(cost, untold=True).edge


IN_TURN = replace(SLOW, what=What.STEP, when=When.PERIODIC, length=0.2, period=0.4)  # in force from 0.2 on
LATE_STRUCK, SOON_STRUCK = (0.1, 0.55, 0.9, 1.45), (0.1, 0.6, 0.7, 0.8)


def stepping(rank: int, host: str, steps_s: Sequence[float]) -> RankTrace:
    spans = np.zeros(9, dtype=SPAN)
    spans["phase"] = [Phase.TRAINING, *[Phase.ITERATION] * 4, *[Phase.STEP] * 4]
    spans["start_ns"] = np.rint(1e9 * np.array([0, 0, 0.5, 0.65, 1.2, *steps_s]))
    spans["end_ns"] = np.rint(1e9 * np.array([2, 0.5, 0.65, 1.2, 2, *(each + 0.01 for each in steps_s)]))
    return RankTrace(rank=rank, host=host, layer="edge", spans=spans, clock=ClockAlignment())


@pytest.mark.parametrize(("steps_s", "onset"), [(LATE_STRUCK, 3), (SOON_STRUCK, 1)])
def test_what_comes_and_goes_begins_where_it_strikes_what_the_host_does(
    steps_s: Sequence[float], onset: int
) -> None:  # fmt: skip
    trace = Trace(ranks=(stepping(0, "edge-1", steps_s),), facts={})
    system: Any = SimpleNamespace(ranks={"edge-1": 0})
    assert onset_iteration(system, trace, IN_TURN, 1.0) == onset
    assert onset_iteration(system, trace, replace(IN_TURN, when=When.PERSISTENT), 1.0) is None


def test_of_a_layer_it_begins_with_the_one_that_it_strikes_first() -> None:
    ranks = stepping(0, "edge-1", LATE_STRUCK), stepping(1, "edge-2", SOON_STRUCK)
    system: Any = SimpleNamespace(ranks={"edge-1": 0, "edge-2": 1})
    for hosts in (("edge-1", "edge-2"), ("edge-2", "edge-1")):
        assert onset_iteration(system, Trace(ranks=ranks, facts={}), replace(IN_TURN, hosts=hosts), 1.0) == 1


def test_what_costs_the_bar_by_iterations_and_not_by_time_counts_for_nothing() -> None:
    by_both = {cost.injection.what: cost for cost in truth(drawn(75, 590)).costs}
    data = by_both[What.DATA]
    assert data.by_number is not None
    assert data.jointly < 1.05 < data.by_number
    assert data.edge
    assert not by_both[What.COMPUTE].edge, "it is slow all the time"


def lasting(*ends_s: float) -> Trace:
    """The trace of one rank, of which these iterations end then."""
    spans = np.zeros(len(ends_s) + 1, dtype=SPAN)
    spans["phase"] = [Phase.TRAINING, *[Phase.ITERATION] * len(ends_s)]
    spans["iteration"][1:] = range(len(ends_s))
    spans["end_ns"] = np.rint(np.array([ends_s[-1], *ends_s]) * 1e9)
    spans["start_ns"][1:] = np.append(0, spans["end_ns"][1:-1])
    clock = ClockAlignment()
    return Trace(ranks=(RankTrace(rank=0, host="edge-1", layer="edge", spans=spans, clock=clock),), facts={})


@pytest.mark.parametrize(("begin", "length", "struck"), [(0.4, 0.3, True), (0.4, 0.05, False), (0.05, 0.3, False)])
def test_a_window_strikes_the_iterations_that_it_does_with_all_injected(
    begin: float, length: float, struck: bool
) -> None:
    undisturbed, disturbed = lasting(*np.arange(0.1, 1.01, 0.1)), lasting(*np.arange(0.2, 2.01, 0.2))
    once = replace(SLOW, when=When.ONCE, begin=begin, length=length)
    asked: list[Injection] = []

    def of_lap(in_force: tuple[Injection, ...], lap: int) -> float:
        asked.extend(in_force)
        return 1.0 + lap

    laps = undisturbed, lasting(*np.arange(0.3, 3.01, 0.3)), lasting(0.1)  # of other luck: slower, and over by then
    times: Any = SimpleNamespace(
        system=SimpleNamespace(ranks={"edge-1": 0}), undisturbed_s=1.0, of_lap=of_lap,
        trace=lambda _, lap: laps[lap], took_s=lambda _, laps: np.ones(laps),
    )  # fmt: skip
    found = _by_number(times, disturbed, once, 3)
    assert found == (pytest.approx(2.0) if struck else None)
    if struck:
        assert [(each.begin, each.length) for each in asked] == [pytest.approx((0.2, 0.1)), pytest.approx((0.6, 0.3))]


def test_a_layer_of_links_is_slow_as_a_whole() -> None:
    several = 0
    for number in range(80):
        one = drawn(2, number)
        topology = one.system.scenario.topology
        layer_of = {host.name: host.layer for host in topology.hosts}
        for injection in (each for injections in one.tries for each in injections):
            if injection.layer and injection.links:
                several += 1
                of_it = {f"{layer_of[src]} -> {layer_of[dst]}" for src, dst in injection.links}
                every = {
                    pair for pair in topology.links if f"{layer_of[pair[0]]} -> {layer_of[pair[1]]}" == injection.layer
                }
                assert of_it == {injection.layer} and set(injection.links) == every
    assert several
