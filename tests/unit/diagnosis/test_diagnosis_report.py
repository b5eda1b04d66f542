import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import Ring, name, simulate

from e2c_dl.archive.run import Run
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Chance, Part, Report
from e2c_dl.diagnosis.references import UNKNOWN
from e2c_dl.errors import AnalysisError
from e2c_dl.report.page import sections
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.topology import Link
from e2c_dl.trace.model import SPAN, Lost, Phase, RankTrace, State, Trace
from e2c_dl.trace.propagation.connections import Connections

RING = Ring(
    compute_s=(0.1, 0.1, 0.15, 0.1),
    links=(Link(rate_bps=40e6, delay_s=0.002),) * 4,
    bucket_bytes=(20_000, 200_000),
    iterations=6,
    compute_noise=0.02,
    wake_s=2e-4,
    read_s=2e-4,
    clock_error_ns=50_000,
    seed=7,
)
SLOW = replace(RING, slow_hosts={1: 3.0}, slow_links={2: 0.2})
GOLDEN = Path(__file__).parents[2] / "golden" / "diagnosis" / "report.json"


def cut(trace: Trace, rank: int, until_iteration: int) -> Trace:
    """``trace`` as if ``rank`` had been killed in the middle of iteration ``until_iteration``."""

    def killed(one: RankTrace) -> RankTrace:
        ends = one.spans[(one.spans["phase"] == Phase.ITERATION) & (one.spans["iteration"] == until_iteration)]
        middle = int(ends["start_ns"][0] + ends["end_ns"][0]) // 2
        return replace(one, spans=one.spans[one.spans["end_ns"] <= middle], complete=False)

    return replace(trace, ranks=tuple(killed(one) if one.rank == rank else one for one in trace.ranks))


def rounded(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: rounded(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {getattr(key, "value", key): rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)  # NaN equals nothing
    return getattr(value, "value", value)


def test_report_is_the_golden_one() -> None:
    """Written anew when asked: E2CDL_GOLDEN=rewrite."""
    found = rounded(analyse(simulate(SLOW), SLOW.reference()))
    if os.environ.get("E2CDL_GOLDEN") == "rewrite":
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("chance", [None, Chance(runs=8, least_s=1.0, most_s=2.0)])
def test_it_reads_back_whether_the_run_hangs_on_chance_or_not(chance: Chance | None) -> None:
    report = replace(analyse(simulate(SLOW), SLOW.reference()), chance=chance)
    assert rounded(Report.from_json(report.to_json(), "report.json")) == rounded(report)


def test_summaries_say_what_the_run_was() -> None:
    report = analyse(simulate(RING), RING.reference())
    assert [host.host for host in report.hosts] == [name(rank) for rank in range(4)]
    for host in report.hosts:
        assert sum(host.states_s.values()) == pytest.approx(host.wall_s, abs=1e-9)
        assert host.states_s[State.OTHER] < 0.02 * host.wall_s
    assert report.hosts[2].compute_per_iteration_s == pytest.approx(0.15, rel=0.02)
    for link in report.links:
        assert link.messages == 6 * 2 * 6
        assert link.sent_bytes == link.received_bytes == 6 * 6 * (5040 + 50040)
        assert link.rate_bps == pytest.approx(40e6, rel=0.1)
    assert report.iterations == 6
    assert math.isnan(report.half_error)  # of six iterations
    assert 0 < report.unexplained < 0.05
    assert report.limitations == ()


def test_a_run_that_broke_off_is_judged_by_its_common_iterations() -> None:
    ring = replace(SLOW, iterations=10)
    report = analyse(cut(simulate(ring), rank=3, until_iteration=7), ring.reference())
    assert report.iterations == 7
    assert {str(finding.element) for finding in report.culprits} == {"edge-2", "edge-3 -> edge-4"}
    assert any("edge-4 breaks off" in limitation for limitation in report.limitations)


def test_what_a_trace_lost_is_said() -> None:
    trace = simulate(SLOW)
    ranks = [replace(rank, lost=Lost()) for rank in trace.ranks]
    ranks[1] = replace(ranks[1], lost=Lost(spans=12, damaged_bytes=800))
    ranks[3] = replace(ranks[3], lost=Lost(dropped=7))
    sockets = "edge-1: 5 samples of its sockets are lost; its links' figures may have gaps"
    gaps = Connections(links=(), limitations=(sockets,))
    report = analyse(replace(trace, ranks=tuple(ranks), connections=gaps), SLOW.reference())
    assert report.limitations == (
        "The trace of edge-2 is damaged: 12 spans are missing, 800 bytes could not be read; "
        "`e2c-dl verify` names a file that was altered since the run: take it from a copy.",
        "For lack of room, traces lack 7 spans, those of slow iterations kept before others: edge-4.",
        sockets,
    )


def test_a_run_without_a_finished_iteration_cannot_be_analysed() -> None:
    with pytest.raises(AnalysisError, match="edge-1: it holds no finished iteration"):
        analyse(cut(simulate(RING), rank=0, until_iteration=0), RING.reference())
    script = cut(simulate(RING), rank=0, until_iteration=0)
    with pytest.raises(AnalysisError, match="before it was killed is lost"):  # it has no worker.log
        analyse(replace(script, facts={**script.facts, "traced": {"exit_code": 137}}), RING.reference())
    with pytest.raises(AnalysisError, match="no rank"):
        analyse(Trace(ranks=(), facts={}), RING.reference())


def test_no_verdict_on_compute_when_cores_are_oversubscribed() -> None:
    report = analyse(simulate(SLOW), SLOW.reference(compute_valid=False))
    assert [str(finding.element) for finding in report.findings] == ["edge-3 -> edge-4"]
    assert any("No verdict on compute" in limitation for limitation in report.limitations)


def test_no_verdict_on_links_that_nobody_asked_anything_of() -> None:
    report = analyse(simulate(SLOW), SLOW.reference(network_emulated=False))
    assert [str(finding.element) for finding in report.findings] == ["edge-2"]
    assert any("No verdict on links" in limitation for limitation in report.limitations)


@pytest.mark.parametrize(
    ("link", "why"),
    [(Link(delay_s=0.002), "no rate was designed"), (Link(rate_bps=40e6, loss=0.01), "lost by design")],
)
def test_no_verdict_on_a_link_without_expected_rate(link: Link, why: str) -> None:
    reference = SLOW.reference()
    links = {**reference.topology.links, (name(2), name(3)): link}
    report = analyse(simulate(SLOW), replace(reference, topology=replace(reference.topology, links=links)))
    assert [str(finding.element) for finding in report.findings] == ["edge-2"]
    assert any(why in limitation and "edge-3 -> edge-4" in limitation for limitation in report.limitations)


def test_of_two_hosts_of_a_kind_the_slower_is_named_beside_the_other() -> None:
    hardware = {name(0): "old", name(1): "old", name(2): "new", name(3): "new"}
    report = analyse(simulate(SLOW), SLOW.reference(hardware=hardware))
    assert {str(finding.element) for finding in report.findings} == {"edge-2", "edge-3 -> edge-4"}
    (evidence,) = (finding.evidence for finding in report.findings if finding.part is Part.COMPUTE)
    assert "only edge-1 of 2 alike, of which it is not known whether they are the normal ones" in evidence


@pytest.mark.parametrize("hardware", [UNKNOWN, "its own"])
def test_a_host_that_nobody_is_like_is_not_judged_by_others(hardware: str) -> None:
    report = analyse(simulate(SLOW), SLOW.reference(hardware={name(1): hardware}))
    assert [str(finding.element) for finding in report.findings] == ["edge-3 -> edge-4"]
    assert any("whether edge-2 computes slower all the time" in limitation for limitation in report.limitations)


def test_a_bigger_batch_is_no_slow_host() -> None:
    ring = replace(RING, slow_hosts={1: 2.0})
    reference = ring.reference(batch_sizes={name(r): 64 if r == 1 else 32 for r in range(4)})
    assert analyse(simulate(ring), reference).findings == ()


def test_departures_that_hide_each_other_are_material_jointly() -> None:
    # Two equally slow hosts: restoring one leaves the run waiting for the other.
    ring = replace(RING, compute_s=(0.1,) * 6, links=RING.links[:1] * 6, slow_hosts={0: 3.0, 3: 3.0}, compute_noise=0.0)
    report = analyse(simulate(ring), ring.reference())
    assert {str(finding.element) for finding in report.culprits} == {"edge-1", "edge-4"}
    assert all(finding.speedup < 1.05 < finding.joint_speedup for finding in report.culprits)


def test_what_most_links_share_is_blamed_on_none_of_them() -> None:
    ring = replace(RING, slow_links=dict.fromkeys(range(4), 0.5))
    report = analyse(simulate(ring), ring.reference())
    assert report.findings == ()
    assert any("Most links carry messages 2.0 x slower" in limitation for limitation in report.limitations)
    said = verdict_of(report)
    assert said.headline.startswith("No culprit, and yet slow: most links carry messages 2.0 x slower than designed")
    assert "slow by design" not in said.headline and said.tone is Tone.UNDECIDED


def test_clocks_worse_than_transfers_are_said() -> None:
    trace = simulate(RING)
    vague = tuple(replace(rank, clock=replace(rank.clock, uncertainty_ns=10**8)) for rank in trace.ranks)
    report = analyse(replace(trace, ranks=vague), RING.reference())
    assert report.clock_uncertainty_s == 0.1
    assert any("Clocks are not aligned" in limitation for limitation in report.limitations)


def test_waits_without_cause_keep_their_length_and_are_said() -> None:
    trace = simulate(RING)
    spans = trace.ranks[1].spans
    without = spans[~((spans["phase"] == Phase.RECEIVE) & (spans["seq"] == 5))]
    ranks = (trace.ranks[0], replace(trace.ranks[1], spans=without), *trace.ranks[2:])
    report = analyse(replace(trace, ranks=ranks), RING.reference())
    assert any(limitation.startswith("1 message has no second half") for limitation in report.limitations)
    assert any("have no cause in the trace" in limitation for limitation in report.limitations)


def test_a_contradictory_trace_is_refused() -> None:
    # Each of two tasks waits for the other's end.
    spans = np.zeros(6, dtype=SPAN)
    for field in ("bucket", "seq", "src", "dst"):
        spans[field] = -1
    spans["phase"] = [Phase.SPAWN, Phase.SPAWN, Phase.AWAIT_TASK, Phase.AWAIT_TASK, Phase.ITERATION, Phase.TRAINING]
    spans["task"], spans["peer_task"] = [0, 0, 1, 2, 0, 0], [1, 2, 2, 1, -2, -2]
    spans["posted_ns"], spans["start_ns"] = [0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]
    spans["end_ns"] = [0, 0, 5, 5, 9, 9]
    rank = replace(simulate(RING).ranks[0], spans=spans)
    with pytest.raises(AnalysisError, match="wait for each other in a circle"):
        analyse(Trace(ranks=(rank,), facts={}), RING.reference())


def test_a_rank_alone_has_no_links() -> None:
    ring = Ring(compute_s=(0.01,), links=(Link(),), bucket_bytes=(100,), iterations=4)
    report = analyse(simulate(ring), ring.reference())
    assert report.links == report.findings == ()
    assert [str(bottleneck.element) for bottleneck in report.bottlenecks] == ["edge-1"]


def test_a_rank_that_left_no_trace_is_said() -> None:
    trace = simulate(RING)
    report = analyse(replace(trace, ranks=trace.ranks[:3]), RING.reference())
    assert "No trace of edge-4: what happened there is not known, nor where the bottleneck is." in report.limitations
    assert report.bottlenecks == report.groups == ()
    assert report.untraced == ("edge-4",)


def test_clocks_that_were_never_aligned_are_said() -> None:
    trace = replace(simulate(RING), facts={"hosts_without_clock": ("edge-2",)})
    assert any("edge-2 were never aligned" in limitation for limitation in analyse(trace, RING.reference()).limitations)


def test_many_links_are_counted_in_a_limitation_and_listed_beside_it() -> None:
    ring = replace(RING, compute_s=(0.1,) * 6, links=(Link(delay_s=0.002),) * 6)
    report = analyse(simulate(ring), ring.reference())
    said = (
        "No verdict on the rate of 6 links, such as edge-1 -> edge-2, edge-2 -> edge-3, edge-3 -> edge-4: "
        "no rate was designed."
    )
    assert report.limitations == (said,)
    assert report.concerned == {said: tuple(f"{name(rank)} -> {name((rank + 1) % 6)}" for rank in range(6))}
    page = sections.limitations(Run(run_id="r"), report)
    assert "such as edge-1 -&gt; edge-2" in page and "<summary>all 6</summary>" in page
    assert "edge-6 -&gt; edge-1" in page
