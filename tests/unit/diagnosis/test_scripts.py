"""A verdict on runs whose library hides its messages: whose own computing, which link, and what cannot be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ddp import Ddp, name, simulate

from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Element, ElementKind, Part, Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.diagnosis.shown.activity import from_trace
from e2c_dl.diagnosis.shown.heat import heat_of
from e2c_dl.diagnosis.states import timelines
from e2c_dl.errors import AnalysisError
from e2c_dl.report.verdict import verdict_of
from e2c_dl.trace.collectives import Collectives, collectives
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import GRADIENT, ClockAlignment, Phase, State, Trace
from e2c_dl.trace.propagation.connections import NONE, Connections

NOISY = Ddp(noise=0.1)


def report_of(trace: Trace) -> Report:
    facts = {rank.host: HostFacts(cpu_model="any", cores=2) for rank in trace.ranks}
    return analyse(trace, script_reference(trace, facts))


def link(src: int, ranks: int = 4) -> Element:
    return Element(kind=ElementKind.LINK, src=name(src), dst=name((src + 1) % ranks))


def without(trace: Trace, rank: int, *phases: Phase) -> Trace:
    """``trace``, of whose ``rank`` these phases were not recorded."""
    own = trace.ranks[rank]
    kept = replace(own, spans=own.spans[~np.isin(own.spans["phase"], phases)])
    return replace(trace, ranks=tuple(kept if each is own else each for each in trace.ranks))


@pytest.mark.parametrize(
    ("phase", "part"),
    [(Phase.BACKWARD, Part.COMPUTE), (Phase.DATA, Part.DATA), (Phase.STEP, Part.STEP), (Phase.REDUCE, Part.REDUCE),
     (Phase.EVALUATE, Part.EVALUATION), (Phase.CHECKPOINT, Part.CHECKPOINT)],
)  # fmt: skip
@pytest.mark.parametrize("rank", [0, 3])
def test_a_slow_phase_of_one_rank_is_told_from_the_others_waits(rank: int, phase: Phase, part: Part) -> None:
    seconds = {Phase.REDUCE: 0.02, Phase.EVALUATE: 0.02, Phase.CHECKPOINT: 0.02, **NOISY.seconds}
    report = report_of(simulate(replace(NOISY, seconds=seconds, extra_s={(rank, phase): 0.2})))
    assert [(finding.element.src, finding.part) for finding in report.culprits] == [(name(rank), part)]


def test_a_run_in_which_nothing_departs_has_no_culprit() -> None:
    assert not report_of(simulate(NOISY)).culprits


def test_what_a_script_does_behind_its_last_step_is_no_part_of_the_run() -> None:
    trace = simulate(NOISY)
    ranks = []
    for rank in trace.ranks:
        evaluation = rank.spans[rank.spans["phase"] == Phase.TRAINING].copy()
        ended_ns = evaluation["end_ns"][0]
        evaluation["posted_ns"] = evaluation["start_ns"] = ended_ns + 1_000_000
        evaluation["end_ns"] = ended_ns + 60_000_000_000
        evaluation["phase"], evaluation["iteration"] = Phase.EVALUATE, NOISY.iterations
        ranks.append(replace(rank, spans=np.concatenate([rank.spans, evaluation])))
    report = report_of(replace(trace, ranks=tuple(ranks)))
    assert report.to_json() == report_of(trace).to_json()
    assert report.bottlenecks[0].saved_s < report.run_s


@pytest.mark.parametrize(("off_ns", "named"), [(60_000, [name(2)]), (20_000_000, [])])
def test_a_script_that_names_no_gradients_is_judged_by_clocks_good_enough(off_ns: int, named: list[str]) -> None:
    uneven = ClockAlignment(knots=((0, 0), (10**12, off_ns), (2 * 10**12, 0)), uncertainty_ns=off_ns)
    trace = simulate(replace(NOISY, extra_s={(2, Phase.STEP): 0.2}))
    ranks = []
    for rank in range(4):
        own = without(trace, rank, *GRADIENT).ranks[rank]
        ranks.append(replace(own, clock=uneven if rank else own.clock))
    report = report_of(replace(trace, ranks=tuple(ranks)))
    assert [each.element.src for each in report.culprits] == named
    assert any("did not go evenly" in each for each in report.limitations) is not bool(named)


def test_in_a_run_of_two_iterations_nobody_is_named_and_the_report_says_why() -> None:
    slow = {(1, Phase.BACKWARD): 0.2}
    report = report_of(simulate(replace(NOISY, iterations=2, extra_s=slow, slow_links={2: 0.3})))
    assert (report.culprits, report.findings, report.least_visible) == ((), (), {})
    assert any("1 iteration after warm-up, of 2: a slow host or link cannot be told" in s for s in report.limitations)
    assert report_of(simulate(replace(NOISY, iterations=6, extra_s=slow))).culprits


def test_what_stood_still_for_seconds_is_named_however_short_the_run() -> None:
    (culprit,) = report_of(simulate(replace(NOISY, iterations=5, paused_s={(2, 3): 10.0}))).culprits
    assert (culprit.element.src, culprit.part) == (name(2), Part.STALLED)


@pytest.mark.parametrize("ranks", [2, 4])
def test_an_iteration_in_which_all_ranks_take_long_is_nobodys_stop(ranks: int) -> None:
    """As when a compiled graph is compiled again, for a batch of another size."""
    paused = {(rank, 30): 10.0 for rank in range(ranks)}
    found = report_of(simulate(replace(NOISY, ranks=ranks, iterations=40, paused_s=paused)))
    assert not found.findings
    assert any("slower at the same time" in each for each in found.slowed_in_common)


def test_loss_is_told_before_the_window_that_fills_behind_it() -> None:
    trace = simulate(replace(NOISY, slow_links={1: 0.4}))
    for lost, part in ((0.05, Part.LOSS), (0.0, Part.RECEIVER)):
        links = []
        for each in trace.connections.links:
            rows = each.per_iteration.copy()
            if each.src == 1:
                rows["rwnd_limited_ns"], rows["retransmissions"] = rows["busy_ns"], lost * rows["segments"]
            links.append(replace(each, per_iteration=rows))
        (finding,) = report_of(replace(trace, connections=Connections(links=tuple(links)))).culprits
        assert (finding.element, finding.part) == (link(1), part)


def test_a_host_of_another_processor_is_no_peer() -> None:
    trace = simulate(replace(NOISY, extra_s={(3, Phase.BACKWARD): 0.2}))
    for odd in (trace.hosts[0], trace.hosts[3]):
        models = {host: "old" if host == odd else "new" for host in trace.hosts}
        facts = {host: HostFacts(cpu_model=model, cores=2) for host, model in models.items()}
        named = [each.element.src for each in analyse(trace, script_reference(trace, facts)).culprits]
        assert named == ([] if odd == trace.hosts[3] else [trace.hosts[3]])


def test_a_slow_link_is_named_by_its_senders_counters() -> None:
    (finding,) = report_of(simulate(replace(NOISY, slow_links={1: 0.4}))).culprits
    assert (finding.element, finding.part) == (link(1), Part.RATE)
    assert finding.slowdown == pytest.approx(2.5, rel=0.05)


def test_a_long_way_names_both_links_of_the_pair() -> None:
    (finding,) = report_of(simulate(replace(NOISY, late_links={2: 0.04}))).culprits
    assert finding.part is Part.DELAY
    assert {str(each) for each in finding.elements} == {"node-3 -> node-4", "node-4 -> node-3"}


def test_waiting_for_a_rank_that_has_not_joined_is_no_propagation() -> None:
    slow = simulate(Ddp(extra_s={(2, Phase.BACKWARD): 0.2}))
    states = [each.totals_ns() for each in timelines(slow, join(slow))]
    assert all(states[rank][State.WAIT] > 14 * 0.15e9 for rank in (0, 1, 3))
    assert states[2][State.WAIT] < 14 * 0.05e9


def test_a_ranks_flows_tell_when_it_propagates_and_without_any_its_collectives_do() -> None:
    trace = simulate(Ddp(slow_links={1: 0.2}))
    plain = trace
    for rank in range(4):
        plain = without(plain, rank, Phase.FLOW)
    with_flows, by_collectives = (
        [each.totals_ns()[State.PROPAGATE] for each in timelines(each, join(each))] for each in (trace, plain)
    )
    assert with_flows[3] < 0.9 * by_collectives[3]  # no end of the slow link: it carries nothing for a part of the time


def test_without_connections_links_are_said_to_be_invisible() -> None:
    trace = simulate(NOISY)
    for rank in range(4):
        trace = without(trace, rank, Phase.FLOW)
    report = report_of(replace(trace, connections=NONE))
    assert any("No connection showed" in each for each in report.limitations)
    assert not report.links


def test_ranks_whose_computing_is_hidden_are_named() -> None:
    trace = without(simulate(NOISY), 1, Phase.FORWARD, Phase.BACKWARD, Phase.DATA, Phase.STEP)
    assert any("Much of what node-2 did was not seen" in each for each in report_of(trace).limitations)


def test_ranks_without_a_trace_are_counted() -> None:
    trace = replace(simulate(NOISY), facts={"traced": {"world_size": 5}})
    assert any("1 of 5 ranks left no trace" in each for each in report_of(trace).limitations)


def test_a_collective_that_lacks_a_rank_explains_no_wait() -> None:
    trace = simulate(NOISY)
    own = trace.ranks[1].spans
    seq = np.flatnonzero((own["phase"] == Phase.COLLECTIVE) & (own["seq"] == 3))
    ranks = [replace(each, spans=np.delete(own, seq)) if each.rank == 1 else each for each in trace.ranks]
    broken = replace(trace, ranks=tuple(ranks))
    assert collectives(broken).torn == 1
    assert any("1 collective lacks a rank" in each for each in report_of(broken).limitations)


def test_one_collective_recorded_twice_is_refused() -> None:
    trace = simulate(NOISY)
    own = trace.ranks[1]
    twice = np.concatenate([own.spans, own.spans[own.spans["phase"] == Phase.COLLECTIVE][:1]])
    ranks = tuple(replace(each, spans=twice) if each is own else each for each in trace.ranks)
    with pytest.raises(AnalysisError, match="collective 0 of group -2 twice"):
        collectives(replace(trace, ranks=ranks))


def test_backwards_of_one_iteration_that_follow_each_other_at_once_are_told_apart() -> None:
    """Gradients of two batches are summed, all within a millisecond."""
    seconds = {Phase.DATA: 1e-5, Phase.FORWARD: 2e-5, Phase.BACKWARD: 1e-4, Phase.STEP: 1e-5}
    quick = Ddp(
        ranks=2, iterations=24, seconds=seconds, bucket_bytes=(400,) * 2, delay_s=2e-5, gap_s=2e-6, counts=False
    )
    ranks = []
    for rank in simulate(quick).ranks:
        spans = rank.spans.copy()
        whole = np.flatnonzero(spans["phase"] == Phase.ITERATION)
        spans["end_ns"][whole[::2]] = spans["end_ns"][whole[1::2]]
        spans["iteration"][spans["iteration"] >= 0] //= 2
        ranks.append(replace(rank, spans=np.delete(spans, whole[1::2])))
    report = report_of(replace(simulate(quick), ranks=tuple(ranks)))
    assert report.iterations == 12
    assert not report.culprits


def test_a_rank_alone_has_no_collectives() -> None:
    found = collectives(without(simulate(Ddp(ranks=1)), 0, Phase.COLLECTIVE, Phase.AWAIT_COLLECTIVE))
    assert isinstance(found, Collectives) and len(found) == 0
    report = report_of(simulate(Ddp(ranks=1)))
    assert report.iterations == 14


def test_without_a_design_words_do_not_speak_of_one() -> None:
    healthy, slow = report_of(simulate(NOISY)), report_of(simulate(replace(NOISY, extra_s={(1, Phase.DATA): 0.2})))
    assert "slower than expected" in verdict_of(slow).headline
    assert "design" not in verdict_of(healthy).headline + verdict_of(slow).headline
    assert Report.from_json(slow.to_json(), "report.json") == slow


def test_flows_are_drawn_as_what_links_carried() -> None:
    trace = simulate(Ddp())
    activity, facts = from_trace(trace), {rank.host: HostFacts(cpu_model="any") for rank in trace.ranks}
    assert set(activity.by_link) == {(name(rank), name((rank + 1) % 4)) for rank in range(4)}
    heat = heat_of(observe(trace, script_reference(trace, facts)))
    assert [str(each) for each in heat.elements[4:]] == [str(link(rank)) for rank in range(4)]


def test_what_cost_little_is_nobodys_beside_what_cost_much() -> None:
    little = replace(NOISY, extra_s={(2, Phase.BACKWARD): 0.2, (1, Phase.STEP): 0.006})
    assert [finding.element.src for finding in report_of(simulate(little)).culprits] == [name(2)]


def test_a_link_of_a_broadcast_before_training_has_no_part_in_its_collectives() -> None:
    trace = simulate(NOISY)
    first = trace.connections.links[0]
    rows = first.per_iteration.copy()
    rows["acked_bytes"][1:], rows["busy_ns"][1:] = 600.0, 1e8
    once = replace(first, src=0, dst=2, per_iteration=rows)
    found = report_of(replace(trace, connections=replace(trace.connections, links=(*trace.connections.links, once))))
    assert not found.culprits
    assert not any("node-1 -> node-3" in each for each in found.limitations)
    whole = report_of(trace)
    assert found.bottlenecks[0].saved_s == pytest.approx(whole.bottlenecks[0].saved_s, rel=1e-6)


def test_what_stays_within_one_machine_is_no_slow_link_and_the_report_says_so() -> None:
    trace = simulate(replace(NOISY, slow_links={2: 0.3}))
    assert [finding.part for finding in report_of(trace).culprits] == [Part.RATE]
    inside = [replace(link, within_machine=True) for link in trace.connections.links]
    report = report_of(replace(trace, connections=replace(trace.connections, links=tuple(inside))))
    assert (report.culprits, report.findings) == ((), ())
    assert any("both ends are on one machine" in sentence for sentence in report.limitations)
