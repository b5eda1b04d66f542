"""Hosts that stop for less long than a stall: what their links carried meanwhile is theirs, and no link's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.stalls.stalls import stalls
from e2c_dl.diagnosis.detection.stalls.stops import stops_of, with_stops
from e2c_dl.diagnosis.links import BY_DESTINATION, BY_NEITHER, BY_SOURCE, Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.messages import MESSAGE
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace
from e2c_dl.worlds.virtual import LinkModel
from tests import virtual_world

COUNT, RATE_BPS, DELAY_S, NBYTES, USUAL_S = 20, 10e6, 0.01, 100_000, 0.2
SERVICE_S = float(wire_bits_of(np.array([NBYTES]))[0]) / RATE_BPS
NAMES = ("edge-1", "edge-2")


def computing(longer_s: dict[int, float]) -> np.ndarray:
    """A forward in each of COUNT iterations, two seconds apart, so much longer than usual."""
    spans = np.zeros(COUNT, dtype=SPAN)
    spans["phase"], spans["iteration"], spans["bucket"] = Phase.FORWARD, np.arange(COUNT), -1
    spans["start_ns"] = spans["posted_ns"] = np.arange(COUNT) * 2e9
    took_s = USUAL_S + np.array([longer_s.get(each, 0.0) for each in range(COUNT)])
    spans["end_ns"] = spans["start_ns"] + (took_s * 1e9).astype(np.int64)
    return spans


def trace(*longer_s: dict[int, float], alive: dict[str, np.ndarray] | None = None) -> Trace:
    ranks = tuple(
        RankTrace(rank=place, host=name, layer="edge", spans=computing(each), clock=ClockAlignment())
        for place, (name, each) in enumerate(zip(NAMES, longer_s, strict=True))
    )
    return Trace(ranks=ranks, facts={}, alive=alive or {})


def carried(late_s: dict[int, float], sent_s: float = 0.05) -> ObservedLink:
    """A message in each iteration, sent ``sent_s`` after computing began, that came so much later than due."""
    rows = np.zeros(COUNT, dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = NBYTES, np.arange(COUNT)
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(COUNT) * 2e9 + sent_s * 1e9
    late = np.array([late_s.get(each, 0.0) for each in range(COUNT)])
    rows["recv_end_ns"] = rows["send_start_ns"] + ((DELAY_S + SERVICE_S + late) * 1e9).astype(np.int64)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(DELAY_S))
    return ObservedLink(
        src=NAMES[0], dst=NAMES[1], rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2
    )


def held_up(made: Trace, link: ObservedLink) -> tuple[ObservedLink, Design]:
    reference = virtual_world.run(Allreduce, size=2, iterations=3).reference()
    design = Design(reference=reference, began_ns=0, seconds=2.0 * COUNT, judged_s=2.0 * COUNT)
    (found,) = with_stops(made, [link], design)
    return found, design


@pytest.mark.parametrize("whose", [BY_SOURCE, BY_DESTINATION])
def test_what_came_late_while_either_end_computed_for_as_much_longer_is_of_that_host(whose: int) -> None:
    longer = ({9: 1.0}, {}) if whose == BY_SOURCE else ({}, {9: 1.0})
    found, design = held_up(trace(*longer), carried({9: 0.9, 15: 0.9}))
    assert np.flatnonzero(found.held_up).tolist() == [9]
    assert found.stopped[9] == whose and found.moving.sum() == COUNT - 1
    of_stops = stalls(trace(*longer), [found], design)
    (stall,) = of_stops.found
    assert str(stall.element) == NAMES[whose - BY_SOURCE] and stall.length_ns == pytest.approx(0.9e9, rel=1e-6)
    assert of_stops.messages[found.pair][9] == stall


@pytest.mark.parametrize(
    ("longer_s", "late_s", "sent_s"),
    [
        ({9: 0.5}, {9: 0.9}, 0.05),  # later than the host can have been stopped for
        ({9: 1.0}, {9: 0.9}, 1.5),  # due when the host went on
        ({9: 0.15}, {9: 0.1}, 0.05),  # not twice as long
        (dict.fromkeys(range(9, 13), 1.0), {10: 0.9}, 0.05),  # slow for a while: it computes
        ({1: 1.0}, {1: 0.9}, 0.05),  # warming up
    ],
)
def test_what_no_stop_explains_is_the_links(
    longer_s: dict[int, float], late_s: dict[int, float], sent_s: float
) -> None:
    found, _ = held_up(trace({}, longer_s), carried(late_s, sent_s))
    assert not found.held_up.any() and found.stopped == BY_NEITHER


def test_a_host_that_waits_is_stopped_while_it_gives_no_sign_of_life() -> None:
    seen_ns = np.arange(0, 2 * COUNT * 10**9, 10**9, dtype=np.int64)
    alive = {NAMES[0]: seen_ns, NAMES[1]: seen_ns[seen_ns != 19 * 10**9]}
    found, _ = held_up(trace({}, {}, alive=alive), carried({9: 0.9}, sent_s=0.5))
    assert np.flatnonzero(found.held_up).tolist() == [9]


def test_what_a_design_makes_longer_for_a_while_is_no_stop() -> None:
    _, design = held_up(trace({}, {}), carried({}))
    of = trace({9: 1.0}, {}).ranks[0]
    assert [each.most_ns for each in stops_of(of, design)] == pytest.approx([1e9], rel=1e-6)
    points = Schedule(points=((0.0, 1.0), (18.0, 6.0), (20.0, 1.0)))
    reference = replace(design.reference, compute_factors={**design.reference.compute_factors, of.host: points})
    assert not stops_of(of, replace(design, reference=reference))


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_a_pause_of_a_host_makes_no_culprit_of_its_links_and_costs_what_it_lasted(seconds: float) -> None:
    hosts = virtual_world.hosts(3, of=virtual_world.profile((100_000, 50_000), per_sample_s=0.03))
    links = virtual_world.everywhere(3, LinkModel(rate_bps=100e6, delay_s=0.002))
    paused = [replace(host, pauses=((2.0, 2.0 + seconds),)) if place == 1 else host for place, host in enumerate(hosts)]
    run = virtual_world.run(Allreduce, size=3, iterations=20, on_hosts=paused, links=links)
    report = analyse(run.trace, replace(run.reference(), modelled=True))
    assert {str(each.element) for each in report.culprits} == {"edge-2"}
    assert report.culprits[0].saved_s == pytest.approx(seconds, rel=0.1)


def test_a_link_of_which_no_rate_is_expected_is_never_late() -> None:
    made = trace({}, {9: 1.0})
    found, design = held_up(made, replace(carried({}), designed=Designed()))
    assert not found.held_up.any()
    assert {str(each.element) for each in stalls(made, [found], design).found} <= {NAMES[1]}
    assert not stalls(made, [found], design).messages
