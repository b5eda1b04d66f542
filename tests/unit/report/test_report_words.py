"""The verdict's words: culprits first, no accusation without one, and honest about what could not be judged."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
import sample_report as sample
from rich.console import Console

from e2c_dl import formatting
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.diagnosis.model import EXPECTED, Element, ElementKind, Part, Report, SpeedUp
from e2c_dl.diagnosis.states import State
from e2c_dl.diagnosis.stretches import Stretches, When
from e2c_dl.report import terminal, words
from e2c_dl.report.page import sections
from e2c_dl.report.rows import link_rows
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.trace.staleness import Staleness


@pytest.fixture(scope="module")
def sick() -> Report:
    return sample.report(sample.activity(iterations=6))


@pytest.fixture(scope="module")
def healthy() -> Report:
    return replace(sample.report(sample.activity(iterations=6), healthy=True), limitations=())


def printed(report: Report, run: Run, width: int = 100, archive: Path | None = None) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=False)
    console.print(terminal.summary(report, run, sample.links(), archive))
    return file.getvalue()


def test_culprits_are_named_with_what_they_cost(sick: Report) -> None:
    said = verdict_of(replace(sick, run_s=52.0))
    assert said.tone is Tone.CULPRITS
    assert said.headline.startswith(
        "What slowed this run down: link cloud-1 -> cloud-2 carries data 5.0 × slower than designed (would save "
    )
    assert "; host fog-2 computes 3.0 × slower than designed (would save " in said.headline
    assert said.headline.endswith(" of 52.0 s).")
    assert sick.culprits[0].evidence in said.points


def test_a_healthy_run_accuses_nobody(healthy: Report) -> None:
    said = verdict_of(healthy)
    assert said.tone is Tone.HEALTHY
    assert said.headline.startswith(
        "No culprit: nothing was seen to depart from what was designed. "
        "The bottleneck, slow by design, is link cloud-1 -> cloud-2: twice as fast"
    )
    assert "culprit" not in said.headline.partition(":")[2]


def test_what_saves_nothing_is_no_bottleneck(healthy: Report) -> None:
    alike = tuple(replace(each, saved_s=0.0) for each in healthy.bottlenecks)
    links = Element(kind=ElementKind.GROUP, src="links between edge and cloud")
    group = SpeedUp(element=links, speedup=4 / 3, saved_s=healthy.run_s / 4)
    said = verdict_of(replace(healthy, bottlenecks=alike, groups=(group,))).headline
    assert "No host or link by itself, twice as fast, would save 0.1 %." in said and "bottleneck" not in said
    quarter, whole = formatting.seconds(healthy.run_s / 4), formatting.seconds(healthy.run_s)
    assert said.endswith(f"Links between edge and cloud, all twice as fast, would save {quarter} of {whole}.")
    assert verdict_of(replace(healthy, bottlenecks=alike, groups=())).headline.endswith("would save 0.1 %.")
    assert "bottleneck" not in verdict_of(replace(healthy, bottlenecks=(), groups=())).headline


def test_links_of_a_network_without_rules_are_unlimited(healthy: Report) -> None:
    rows = link_rows((), healthy)
    assert rows and {row.designed_rate for row in rows} == {formatting.UNLIMITED}
    undesigned = link_rows((), replace(healthy, reference=EXPECTED))
    assert {row.designed_rate for row in undesigned} == {formatting.DASH}


def test_where_hosts_left_no_trace_nothing_is_said_to_be_healthy(healthy: Report) -> None:
    said = verdict_of(replace(healthy, untraced=("edge-2", "fog-1")))
    assert said.tone is Tone.UNDECIDED
    assert "Nothing is known of 2 hosts without a trace." in said.headline


def test_a_link_of_which_no_delay_would_have_been_seen_is_not_slow_by_design(healthy: Report) -> None:
    slowest = SpeedUp(
        element=Element(kind=ElementKind.LINK, src="a", dst="b"), speedup=4 / 3, saved_s=healthy.run_s / 4
    )
    report = replace(healthy, bottlenecks=(slowest,))
    assert "The bottleneck, slow by design, is link a -> b" in verdict_of(report).headline
    said = verdict_of(replace(report, untimed=("a -> b", "b -> a")))
    assert said.tone is Tone.UNDECIDED
    assert "ny longer delay of 2 links, of which clocks do not tell" in said.headline
    assert "The bottleneck, whose delay could not be judged, is link a -> b" in said.headline


def test_what_nobody_knows_how_fast_it_should_be_is_not_slow_by_design(healthy: Report) -> None:
    slowest = healthy.bottlenecks[0].element
    said = verdict_of(replace(healthy, unjudged=(str(slowest), healthy.hosts[0].host)))
    assert said.tone is Tone.UNDECIDED
    assert "1 host and 1 link that are slower all the time, as nobody knows how fast they should be" in said.headline
    assert f"The bottleneck, of which nobody knows how fast it should be, is link {slowest}" in said.headline
    other = verdict_of(replace(healthy, unjudged=("x -> y",), least_visible={ElementKind.HOST: 1.1}))
    assert other.tone is Tone.HEALTHY, "it holds nothing up"
    assert "A host slower by less than 1.10 × all the time would not have been seen. Nor would 1 link" in other.headline


def test_what_departs_is_not_slow_by_design(sick: Report) -> None:
    (first, *_) = sick.findings
    slowest = replace(sick.bottlenecks[0], element=first.element)
    said = verdict_of(replace(sick, culprits=(), bottlenecks=(slowest,))).headline
    assert "slow by design" not in said and "The bottleneck is " in said


def test_what_departs_little_by_little_is_told_together(sick: Report) -> None:
    report = replace(sick, culprits=(), together_s=sick.run_s / 10)
    said = verdict_of(report)
    assert said.tone is Tone.UNDECIDED
    assert "none costs 5 % or more by itself; together they cost " in said.headline
    assert "together" not in verdict_of(replace(report, together_s=sick.run_s / 1000)).headline


def test_limitations_weaken_the_verdict(healthy: Report) -> None:
    said = verdict_of(replace(healthy, limitations=("cores were oversubscribed",)))
    assert "nothing that could be judged departs" in said.headline


def test_a_group_is_many(sick: Report) -> None:
    host = replace(sick.culprits[1], element=Element(kind=ElementKind.GROUP, src="2 hosts of edge"), part=Part.STEP)
    assert words.accusation(host, 52.0).startswith("2 hosts of edge take their steps 3.0 × slower than designed")


def test_a_trace_that_does_not_tell_what_departures_cost_is_no_reason_to_clear_them(sick: Report) -> None:
    said = verdict_of(replace(sick, culprits=(), unexplained=0.98))
    assert said.tone is Tone.UNDECIDED
    assert said.headline == (
        "No verdict on what slowed this run down: 98 % of the run's longest path has no known cause in the trace. "
        "What departs, at a cost that is not known: link cloud-1 -> cloud-2 carries data 5.0 × slower than designed; "
        "host fog-2 computes 3.0 × slower than designed."
    )
    nothing = verdict_of(replace(sick, culprits=(), findings=(), unexplained=0.98)).headline
    assert nothing.startswith("No verdict: nothing that could be judged departs from what was designed, but 98 % of")


def test_who_spends_his_time_in_what_no_phase_names_is_said(sick: Report) -> None:
    def headline(other_s: float, of_all_s: float) -> str:
        first, *rest = (replace(host, states_s={**host.states_s, State.OTHER: of_all_s}) for host in sick.hosts)
        slow = replace(first, states_s={**first.states_s, State.OTHER: other_s})
        return verdict_of(replace(sick, culprits=(), findings=(), unexplained=0.98, hosts=(slow, *rest))).headline

    run_s = sick.run_s
    own, others = (formatting.seconds(share * run_s / sick.iterations) for share in (0.5, 0.01))
    said = f"({sick.hosts[0].host}: {own} per iteration in what no phase names, others from {others} on)."
    assert headline(0.5 * run_s, 0.01 * run_s).endswith(said)
    assert headline(0.0, 0.0).endswith("has no known cause in the trace.")
    assert headline(0.4 * run_s, 0.4 * run_s).endswith("in what no phase names, such as data that are loaded by hand).")


def test_departures_that_cost_little_are_told_but_not_blamed(sick: Report) -> None:
    said = verdict_of(replace(sick, culprits=(), together_s=0.0))
    assert said.headline.startswith(
        "No culprit: 2 departures from what was designed, none costs 5 % or more by itself."
    )
    assert said.points == tuple(finding.evidence for finding in sick.findings)


def test_what_departs_beside_a_culprit_is_told_dimmed_with_what_it_costs(sick: Report) -> None:
    link, host = sick.findings
    minor = replace(host, material=False, saved_s=0.0002, stalled_s=3.2)
    dear = replace(link, material=False, saved_s=1.5)
    report = replace(sick, run_s=52.0, findings=(link, dear, minor), culprits=(link,))
    asides = (
        "also departs, costs little: link cloud-1 -> cloud-2, 5.0 × slower, 1.50 s",
        "also departs, costs next to nothing: host fog-2, computes 3.0 × slower, stalled for 3.20 s, 200 µs",
    )
    assert verdict_of(report).asides == asides
    assert verdict_of(replace(report, culprits=())).asides[-1] == asides[-1]
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(terminal.summary(replace(report, findings=(link, *[minor] * 9)), sample.run()))
    text = console.export_text(clear=False)
    assert asides[-1] in text and "... and 4 departures more, on the page" in text
    styled = console.export_text(styles=True)
    assert f"\x1b[2m{asides[-1]}" in styled
    assert f'<ul class="soft"><li>{escape(asides[0])}' in sections.verdict(sample.run(), report)


def test_without_an_iteration_there_is_no_verdict(healthy: Report) -> None:
    said = verdict_of(replace(healthy, iterations=0, bottlenecks=()))
    assert said.tone is Tone.UNDECIDED


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.INTERRUPTED, Outcome.RUNNING])
def test_a_run_that_did_not_finish_says_so_first(healthy: Report, outcome: Outcome) -> None:
    run = replace(sample.run(), outcome=outcome, what_happened=("rank 3 was killed", "rank 1 lost rank 3"))
    first, consequence, then, *_ = printed(healthy, run).splitlines()
    assert first.strip() == words.outcome(run)
    assert "rank 3 was killed." in first
    assert consequence.strip() == "- rank 1 lost rank 3"
    assert then.strip() == "What was traced until then:"


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_plain_text_fits_its_width_and_holds_every_figure(sick: Report, width: int) -> None:
    text = printed(sick, sample.run(), width)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for host in sample.HOSTS:
        assert any(line.strip().startswith(host) for line in text.splitlines())


@pytest.mark.parametrize("letters", [4, 160])
def test_the_archive_is_named_whole_at_the_end(sick: Report, tmp_path: Path, letters: int) -> None:
    place = tmp_path / ("x" * letters)
    place.mkdir()
    (place / "report.html").write_text("")
    text = printed(sick, sample.run(), width=100, archive=place).replace("\n", "")
    assert text.endswith(f"archive  {place}page     {place / 'report.html'}")


def test_markup_in_names_is_printed_as_it_is(sick: Report) -> None:
    host = replace(sick.hosts[0], host="[red]x[/nonsense]")
    text = printed(replace(sick, hosts=(host,), limitations=("[bold]limitation",)), sample.run())
    assert "[red]x[/nonsense]" in text
    assert "[bold]limitation" in text


def test_a_report_for_programs_is_json_whatever_it_holds(sick: Report) -> None:
    endless = replace(sick.culprits[0], slowdown=float("inf"))
    made = json.loads(replace(sick, culprits=(endless,)).to_json())
    assert made["culprits"][0]["slowdown"] is None
    assert made["culprits"][0]["element"] == {"kind": "link", "src": "cloud-1", "dst": "cloud-2"}
    assert set(made["hosts"][0]["states_s"]) == {"compute", "exposed propagate", "wait", "other"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (formatting.seconds(52.13), "52.1 s"),
        (formatting.seconds(0.0123), "12.3 ms"),
        (formatting.seconds(41e-6), "41.0 µs"),
        (formatting.seconds(0), "0 s"),
        (formatting.seconds(59.99), "60.0 s"),
        (formatting.seconds(3700), "1 h 01 min"),
        (formatting.seconds(None), "–"),
        (formatting.seconds(float("nan")), "–"),
        (formatting.rate(40e6), "40.0 Mbit/s"),
        (formatting.rate(1.5e12), "1500 Gbit/s"),
        (formatting.size(65536), "64.0 KiB"),
        (formatting.size(12), "12.0 B"),
        (formatting.percent(0.2134), "21.3 %"),
        (formatting.times(3), "3.0 ×"),
        (formatting.count(1, "link"), "1 link"),
        (formatting.count(2, "link"), "2 links"),
    ],
)
def test_amounts(made: str, said: str) -> None:
    assert made == said


def test_staleness_stands_beside_the_workers_it_is_of(sick: Report) -> None:
    first, *others = [host.host for host in sick.hosts]
    stale = replace(sick, staleness=(Staleness(host=first, updates=9, median=2.5, most=117),))
    assert words.stale(stale) == {first: "2.5, at most 117"}
    assert words.stale(sick) == {}
    line = next(line for line in printed(stale, sample.run(), width=200).splitlines() if line.strip().startswith(first))
    assert line.rstrip().endswith("2.5, at most 117")
    assert '<td class="n">2.5, at most 117</td>' in sections.states(stale, "", ())
    assert sections.states(stale, "", ()).count(f'<td class="n">{formatting.DASH}</td>') == len(others)
    assert "taleness" not in sections.states(sick, "", ()) + printed(sick, sample.run())


def test_ranks_at_their_own_pace_have_iterations_of_their_own(sick: Report) -> None:
    assert words.iterations(sick) == "6"
    hosts = tuple(replace(host, iterations=6 + 4 * host.rank) for host in sick.hosts)
    shared = replace(sick, hosts=hosts)
    last = 6 + 4 * (len(hosts) - 1)
    said = f"6 to {last} ({sum(host.iterations for host in hosts)} in all)"
    assert words.iterations(shared) == said
    assert f"{said} iterations in " in printed(shared, sample.run())
    breaks_off = replace(sick, hosts=(replace(hosts[-1], complete=False), *sick.hosts[1:]))
    assert words.iterations(breaks_off) == "6"


def test_onsets_are_of_culprits_that_do_not_depart_all_the_time() -> None:
    report = sample.report(sample.activity(iterations=4))
    assert words.onsets_s(report) == {}
    since = Stretches(when=When.SINCE, onset_iteration=20, onset_s=4.5, begins_s=(4.5,), ends_s=(9.0,))
    later = replace(report, culprits=(replace(report.culprits[0], when=since), report.culprits[1]))
    assert words.onsets_s(later) == {"cloud-1 -> cloud-2": 4.5}


@pytest.mark.parametrize(("value", "words"), [(3700.0, "1 h 01 min"), (-3700.0, "-1 h 01 min"), (-2.5, "-2.50 s")])
def test_a_difference_reads_as_the_time_that_it_is(value: float, words: str) -> None:
    assert formatting.seconds(value) == words
