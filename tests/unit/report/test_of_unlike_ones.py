"""One sentence about several that are not alike: links cut or silent for unlike times, ranks of unlike iterations."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import sample_report as sample
from rich.console import Console

from e2c_dl.diagnosis.model import Element, ElementKind, Report
from e2c_dl.diagnosis.shown.changes import sentences
from e2c_dl.report import terminal
from e2c_dl.report.page import heat, live
from e2c_dl.report.rows import link_rows
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.trace.changes import Change, ChangeInForce


@pytest.fixture(scope="module")
def report() -> Report:
    return sample.report(sample.activity(iterations=6), healthy=True)


def changed(whom: str, at_s: float, *, what: Change = Change.LINK, **value: object) -> ChangeInForce:
    return ChangeInForce(
        host="x", what=what, whom=whom, in_force_ns=round(at_s * 1e9), in_force_s=at_s, lateness_s=0.0, asked_s=at_s,
        value=value,
    )  # fmt: skip


def cut(whom: str, until_s: float | None) -> list[ChangeInForce]:
    """Cut at second 5, and mended at ``until_s``, if ever."""
    asked = {"rate_bps": 1e7, "delay_s": 0.01, "loss": 0.0}
    mended = [] if until_s is None else [changed(whom, until_s, **asked)]
    return [changed(whom, 5.0, down=True, **asked), *mended]


def test_links_that_are_cut_together_for_unlike_times_are_told_apart() -> None:
    assert sentences([*cut("a -> b", 7.0), *cut("c -> d", 65.0), *cut("e -> f", 7.01), *cut("g -> h", None)]) == (
        "links a -> b, e -> f: cut for 2.01 s, requested at 5.00 s, in force on time",
        "link c -> d: cut for 60.0 s, requested at 5.00 s, in force on time",
        "link g -> h: cut for good, requested at 5.00 s, in force on time",
    )


def test_a_clock_that_gains_less_than_nothing_loses() -> None:
    (said,) = sentences([changed("a", 5.0, what=Change.CLOCK, drift=-20e-6)])
    assert said == "host a: clock loses 20 ppm more from then on, requested at 5.00 s"


def test_silent_links_are_told_from_the_shortest_silence_to_the_longest(report: Report) -> None:
    said = verdict_of(replace(report, silent_s={"a -> b": 19.0, "c -> d": 2.1})).headline
    assert "links a -> b, c -> d carried nothing for 2.10 s to 19.0 s, to the end of the trace" in said
    said = verdict_of(replace(report, silent_s={"a -> b": 19.0})).headline
    assert "link a -> b carried nothing for 19.0 s, to the end" in said


def test_on_the_watch_page_a_groups_members_are_culprits() -> None:
    sick = sample.report(sample.activity(iterations=6))
    members = tuple(Element(kind=ElementKind.HOST, src=host) for host in ("edge-1", "edge-2"))
    group = replace(sick.culprits[1], element=Element(kind=ElementKind.GROUP, src="2 hosts of edge"), members=members)
    assert live.culprits(replace(sick, culprits=(group,))) == ({"edge-1", "edge-2"}, set())
    assert live.culprits(sick) == ({"fog-2"}, {("cloud-1", "cloud-2")})


def test_of_ranks_at_their_own_pace_the_slowest_is_told_as_such(report: Report) -> None:
    one = replace(report, iterations=1, hosts=tuple(replace(host, iterations=1 + host.rank) for host in report.hosts))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal.summary(one, sample.run(healthy=True)))
    shown = console.export_text()
    assert "1 to 6 (21 in all) iterations in " in shown and "each (median of the slowest)" in shown


def test_a_heat_map_of_a_part_says_so() -> None:
    whole = sample.heat(sample.activity(iterations=6))
    assert "Every iteration of every host" in heat.section(whole)
    assert "The first 6 iterations, of up to 62, of every host" in heat.section(replace(whole, most_iterations=62))


def test_links_that_were_not_used_follow_by_name(report: Report) -> None:
    rows = link_rows(sample.links(), report)
    used = [row.pair for row in rows if row.used]
    assert [row.pair for row in rows] == [*used, *sorted(row.pair for row in rows if not row.used)]
    assert len(used) == len(report.links) < len(rows)


def test_what_slowed_most_and_is_nobodys_is_said_first_where_it_matters(report: Report) -> None:
    common = "Most of a, b were 2.0 x slower at the same time: none of them is blamed for it."
    report = replace(report, limitations=())
    said = verdict_of(replace(report, in_common={common: report.run_s / 4}))
    assert said.tone is Tone.UNDECIDED and "slow by design" not in said.headline
    assert said.headline.startswith(
        "No culprit, and yet slow: most of a, b were 2.0 x slower at the same time: none of them is blamed for it. "
        "Beside that, nothing was seen to depart from what was designed. The bottleneck is link"
    )
    assert verdict_of(replace(report, in_common={common: report.run_s / 50})) == verdict_of(report)
