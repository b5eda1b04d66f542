"""Whose clock is wrong, told by what messages seem to take on all links; and what is said where no clocks tell."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from synthetic import Ring, simulate

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection.clocks import wrong_clocks
from e2c_dl.diagnosis.model import Report
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.topology import Link
from e2c_dl.trace.model import Trace

MS = 1_000_000
RING = Ring(
    compute_s=(0.1, 0.1, 0.15, 0.1), bucket_bytes=(200_000, 100_000), iterations=20,
    links=(Link(rate_bps=40e6, delay_s=0.005), Link(rate_bps=60e6, delay_s=0.01)) * 2,
)  # fmt: skip


def ahead(trace: Trace, number: int, by_ns: int, since_ns: int = 0) -> Trace:
    """``trace``, of which the clock of one rank is ahead by ``by_ns``, always or from then on."""
    rank = trace.ranks[number]
    spans = rank.spans.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        spans[name][spans[name] >= since_ns] += by_ns
    ranks = (*trace.ranks[:number], replace(rank, spans=spans), *trace.ranks[number + 1 :])
    return replace(trace, ranks=ranks)


def bounds(offsets_ms: dict[str, float], queues_ms: dict[tuple[str, str], float]) -> set[str]:
    """Whose clocks are wrong, if they are ahead by ``offsets_ms``, and messages take ``queues_ms`` beyond delays."""
    late_ms = {
        pair: queue + offsets_ms.get(pair[1], 0) - offsets_ms.get(pair[0], 0) for pair, queue in queues_ms.items()
    }
    return wrong_clocks(list(late_ms), np.array([*late_ms.values()]) * MS)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("by_ms", [3, 25, -25])
def test_a_clock_that_was_always_wrong_is_named_and_no_link(number: int, by_ms: int) -> None:
    trace = simulate(RING)
    assert analyse(trace, RING.reference()).culprits == ()
    report = analyse(ahead(trace, number, by_ms * MS), RING.reference())
    assert report.culprits == (), "nothing is slow here but a clock is wrong"
    (said,) = (each for each in report.limitations if "contradict" in each)
    assert said.startswith(f"Clocks of {trace.ranks[number].host} contradict"), said


@pytest.mark.parametrize("number", range(4))
def test_a_clock_that_stepped_forward_is_named_and_no_link(number: int) -> None:
    trace = simulate(RING)
    spans = trace.ranks[number].spans
    middle_ns = int(spans["start_ns"].min() + spans["end_ns"].max()) // 2
    report = analyse(ahead(trace, number, 40 * MS, middle_ns), RING.reference())
    assert report.culprits == ()
    (said,) = (each for each in report.limitations if "contradict" in each)
    assert said.startswith(f"Clocks of {trace.ranks[number].host} contradict"), said


def test_two_wrong_clocks_are_told_apart_from_those_beside_them() -> None:
    hosts = "abcdef"
    mesh = {(src, dst): 0.3 for src in hosts for dst in hosts if src != dst}
    assert bounds({"b": 25.0, "e": -7.0}, mesh) == {"b", "e"}
    assert bounds({}, mesh) == set()


def test_of_two_hosts_that_nothing_else_tells_apart_neither_is_believed() -> None:
    assert bounds({"a": 25.0}, {("a", "b"): 0.1, ("b", "a"): 0.1}) == {"a", "b"}
    busy = {("a", "b"): 0.1, ("b", "c"): 40.0, ("c", "a"): 0.1}  # what b sends says nothing against b's clock
    assert bounds({"a": 25.0}, busy) == {"a", "b"}


def test_where_no_even_clocks_explain_it_neither_end_is_believed() -> None:
    assert wrong_clocks([("a", "b"), ("b", "a"), ("b", "c")], np.array([-25.0, 0.0, 0.0]) * MS) == {"a", "b"}


@pytest.mark.parametrize("by_ms", [100, 50_000, -50_000])
def test_nobody_knows_what_a_departure_costs_where_messages_come_before_they_are_sent(by_ms: int) -> None:
    ring = replace(RING, slow_hosts={1: 2.0}, slow_links={3: 0.5})
    trace, reference = simulate(ring), ring.reference()
    assert analyse(trace, reference).culprits and not analyse(trace, reference).mistimed_s
    report = analyse(ahead(trace, 2, by_ms * MS), reference)
    assert report.mistimed_s == pytest.approx(abs(by_ms) / 1000, rel=0.2)
    assert {each.element.src for each in report.findings} == {"edge-2", "edge-4"}
    assert all(math.isnan(each.saved_s) and math.isnan(each.speedup) for each in report.findings)
    assert (report.culprits, report.bottlenecks, report.together_s) == ((), (), 0.0)
    assert any("before they are sent" in each for each in report.limitations), report.limitations
    said = verdict_of(Report.from_json(report.to_json(), "report.json"), "these iterations")
    assert said.tone is Tone.UNDECIDED and said.asides == ()
    assert said.headline.startswith("No verdict on what slowed these iterations down: messages arrive"), said.headline
    assert "host edge-2 computes 2.0 × slower" in said.headline


def test_a_clock_that_is_off_by_little_of_an_iteration_spoils_no_cost() -> None:
    ring = Ring(
        compute_s=(0.1,) * 4, links=(Link(rate_bps=400e6, delay_s=0.00005),) * 4, bucket_bytes=(200_000,),
        iterations=20, slow_hosts={1: 3.0},
    )  # fmt: skip
    trace = simulate(ring)
    (true,) = analyse(trace, ring.reference()).culprits
    report = analyse(ahead(trace, 2, 3 * MS), ring.reference())
    assert [each.element for each in report.culprits] == [true.element] and not report.mistimed_s
    assert report.culprits[0].saved_s == pytest.approx(true.saved_s, rel=0.02)


def test_no_clock_is_held_for_wrong_by_less_than_clocks_are_held_to() -> None:
    """Of iterations of a millisecond or two a hundredth is less than that."""
    fast = (Link(rate_bps=10e9, delay_s=0.00001),) * 4
    ring = Ring(compute_s=(0.001,) * 4, links=fast, bucket_bytes=(20_000,), iterations=20)
    report = analyse(ahead(simulate(ring), 2, int(0.15 * MS)), ring.reference())
    assert any("before they are sent" in each for each in report.limitations)
    assert not report.mistimed_s


def test_links_that_no_clocks_time_are_told_with_the_report() -> None:
    trace = simulate(RING)
    assert analyse(trace, RING.reference()).untimed == ()
    unaligned = replace(trace, facts={"hosts_without_clock": (trace.ranks[1].host,)})
    untimed = analyse(unaligned, RING.reference()).untimed
    assert len(untimed) == 2 and all(trace.ranks[1].host in link for link in untimed)
