"""What changed while it trained: requested beside measured, from an archive's logs and trace."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sample_report as sample
import small_scenario
import synthetic
from rich.console import Console

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.run import Run
from e2c_dl.diagnosis.diagnose import changed_in
from e2c_dl.diagnosis.shown import changes as changing
from e2c_dl.diagnosis.shown import panels
from e2c_dl.errors import ArchiveError
from e2c_dl.report import colours, terminal
from e2c_dl.report.page import html, schedules
from e2c_dl.topology import Link
from e2c_dl.trace.changes import Change, ChangeInForce
from e2c_dl.trace.places import recorded
from e2c_dl.trace.store import write_parquet

EMULATION = """\
compute: {factors: {edge.*: 2}}
bottlenecks: [{name: uplink, rate: 40mbit, links: [{src: edge-1, dst: edge-2}]}]
schedules:
  thermal: [{host: edge-2, factor: 2}]
"""
NETWORK = "networks:\n- {src: edge.*, dst: '*.*', delay: 2ms, rate: 40mbit}\n"
RATE_BPS, DELAY_S, COMPUTE_S = 40e6, 0.002, (0.3, 0.15, 0.15)
HOSTS = ("edge-1", "edge-2", "cloud-1")
LINK = "edge-1 -> edge-2"
TOGETHER = "bottleneck uplink: rate, all links together, per second"


def change(what, whom, at_s, late_s=0.001, iteration=None, **value):
    return ChangeInForce(
        host=whom.split(" ")[0], what=what, whom=whom, in_force_ns=10**12 + round(at_s * 1e9), in_force_s=at_s,
        lateness_s=late_s, asked_s=None if iteration is not None else at_s - late_s, asked_iteration=iteration,
        value=value,
    )  # fmt: skip


def link(at_s, rate_bps=RATE_BPS, delay_s=DELAY_S, down=False, **more):
    return change(Change.LINK, LINK, at_s, rate_bps=rate_bps, delay_s=delay_s, loss=0.0, down=down, **more)


CHANGES = (
    link(1.0, rate_bps=10e6), link(2.0, rate_bps=10e6, down=True), link(2.5, rate_bps=10e6),
    change(Change.BOTTLENECK, "uplink", 1.5, rate_bps=20e6),
    change(Change.COMPUTE, "edge-1", 0.0, late_s=0.0, factor=2.0),
    change(Change.COMPUTE, "edge-1", 1.0, late_s=0.0, factor=6.0),
    change(Change.COMPUTE, "edge-2", 0.0, late_s=0.0, factor=2.0),
    change(Change.THROTTLE, "edge-2", 1.2, temperature_c=70.0),
    change(Change.RECOVER, "edge-2", 2.2, temperature_c=65.0),
    change(Change.PAUSE, "cloud-1", 1.0), change(Change.RESUME, "cloud-1", 1.5),
    change(Change.KILL, "cloud-1", 3.0, iteration=9),
    change(Change.CLOCK, "cloud-1", 1.2, late_s=0.0, step_s=0.05, drift=0.0),
)  # fmt: skip


def written(folder: Path, changes=CHANGES, emulation=EMULATION) -> ReadArchive:
    """An archive of a synthetic run, with logs of ``changes``."""
    scenario = folder / layout.SCENARIO
    scenario.mkdir()
    small_scenario.writer(scenario)(network=NETWORK, emulation=emulation)
    asked = Link(rate_bps=RATE_BPS, delay_s=DELAY_S)
    ring = synthetic.Ring(compute_s=COMPUTE_S, links=(asked,) * 3, bucket_bytes=(600_000, 300_000), buffer_bytes=64_000)
    for rank, host in zip(synthetic.simulate(ring).ranks, HOSTS, strict=True):
        left = folder / layout.HOSTS / host
        left.mkdir(parents=True)
        facts = {"rank": rank.rank, "host": host, "layer": host.split("-")[0]}
        write_parquet(recorded(folder, host).table.path, rank.spans, facts, complete=True)
        compute = {"agreed_s": [0.025, 0.05], "speed": 0.25}  # a host of factor 1: 0.15 s at 0.5 of a core
        (left / layout.FACTS).write_text(json.dumps({"compute": compute}))
        rows = [{**vars(each), "what": each.what.value} for each in changes if each.host == host or
                (each.what is Change.BOTTLENECK and host == "edge-1")]  # fmt: skip
        (left / layout.CHANGES).write_text("".join(json.dumps(row) + "\n" for row in rows))
    heat = "time_ns,training_s,temperature_c,throttled\n1,0.0,25.0,0\n2,1.2,70.0,1\n3,2.2,65.0,0\n"
    (folder / layout.HOSTS / "edge-2" / layout.HEAT).write_text(heat)
    return ReadArchive(path=folder, run=Run(run_id="r", started=""))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return written(tmp_path_factory.mktemp("changed"))


@pytest.fixture(scope="module")
def found(archive):
    return changed_in(archive)


@pytest.fixture
def by_title(found):
    return {panel.title: panel for panel in found.panels}


def test_every_changing_element_has_a_plot(by_title):
    assert set(by_title) == {
        f"{LINK}: rate", TOGETHER, "bottleneck uplink: rate, a typical 1.32 s", "edge-1: time of a gradient",
        "edge-2: time of a gradient", "edge-2: temperature, and the limit", "cloud-1: time of a gradient",
    }  # fmt: skip


def test_a_link_is_measured_by_its_large_messages(by_title):
    panel = by_title[f"{LINK}: rate"]
    assert panel.requested == [(0.0, 40.0), (1.0, 10.0), (2.0, 0.0), (2.5, 10.0)]  # nothing passes a cut link
    assert panel.bands == [(2.0, 2.5)]
    rates = [rate for _, rate in panel.measured]
    assert rates == pytest.approx([40.0] * len(rates), rel=0.05) and len(rates) == 12 * 8


def test_the_links_of_a_bottleneck_are_stacked_per_second(by_title):
    panel = by_title[TOGETHER]
    assert panel.requested == [(0.0, 40.0), (1.5, 20.0)]
    assert [moment for moment, _ in panel.measured][:2] == [0.0, 1.0]
    assert all(0 < rate <= 40.5 for _, rate in panel.measured)
    assert panel.shares == {LINK: panel.measured}


def test_a_bottleneck_that_does_not_change_has_plots_too(tmp_path):
    two = "[{name: line, rate: 50mbit, links: [{src: edge.*, dst: edge.*}, {src: edge.*, dst: cloud-1}]}]"
    found = changed_in(written(tmp_path, changes=(), emulation=f"bottlenecks: {two}"))
    whole, close = found.panels
    assert whole.requested == close.requested == [(0.0, 50.0)]
    assert set(whole.shares) == set(close.shares) == {LINK, "edge-2 -> cloud-1"}
    for panel in (whole, close):
        parts = sum(np.array(part)[:, 1] for part in panel.shares.values())
        assert np.array(panel.measured)[:, 1] == pytest.approx(parts, abs=1e-6)
    assert whole.window_s is None
    assert close.window_s == (close.measured[0][0], close.measured[-1][0])
    (said,) = found.sentences
    assert said.startswith("bottleneck line: carried ")
    assert said.endswith(f"in the mean, of which 50.0 % {LINK}, 50.0 % edge-2 -> cloud-1")


def test_a_bottleneck_that_nothing_passed_shows_what_was_asked(tmp_path):
    back = "bottlenecks: [{name: back, rate: 50mbit, links: [{src: edge-2, dst: edge-1}]}]"
    found = changed_in(written(tmp_path, changes=(), emulation=back))
    (panel,) = found.panels
    assert (panel.requested, panel.measured, panel.shares) == ([(0.0, 50.0)], (), {})
    assert found.sentences == ("bottleneck back: training sent nothing through it",)


def test_changing_links_without_traffic_are_told_of(tmp_path):
    idle = replace(link(1.0, rate_bps=10e6), whom="edge-1 -> cloud-1")
    found = changed_in(written(tmp_path, changes=(link(1.0, rate_bps=10e6), idle)))
    assert [panel.title for panel in found.panels if "->" in panel.title] == [f"{LINK}: rate"]
    assert found.sentences[-1] == ("link edge-1 -> cloud-1: not plotted, as no message of at least 32.0 KiB went there")
    (tmp_path / "alone").mkdir()
    alone = changed_in(written(tmp_path / "alone", changes=(idle,)))
    assert "edge-1 -> cloud-1: rate" in [panel.title for panel in alone.panels]


def test_gradients_are_held_against_a_host_of_factor_one(by_title):
    panel = by_title["edge-1: time of a gradient"]
    assert panel.requested == [(0.0, 2.0), (1.0, 6.0)]
    factors = [factor for _, factor in panel.measured]
    assert factors == pytest.approx([2.0] * 12, rel=1e-3)


def test_heat_counts_as_slowness(by_title):
    assert by_title["edge-2: time of a gradient"].requested == [(0.0, 2.0), (1.2, 4.0), (2.2, 2.0)]
    heat = by_title["edge-2: temperature, and the limit"]
    assert heat.requested == [(0.0, 70.0)]
    assert heat.joined and heat.measured[1] == (1.2, 70.0)
    assert [(mark.word, mark.value) for mark in heat.marks] == [("throttled", 70.0), ("recovered", 65.0)]


def test_a_pause_is_a_band_and_a_kill_a_mark(by_title):
    panel = by_title["cloud-1: time of a gradient"]
    assert panel.bands == [(1.0, 1.5)]
    assert [(mark.at_s, mark.word, mark.value) for mark in panel.marks] == [(3.0, "killed", None)]


def test_one_sentence_says_what_when_and_how_late(found):
    said = "\n".join(found.sentences)
    for part in (
        f"link {LINK}: changed once (rate 10.0 Mbit/s, delay 2.00 ms, loss 0.0 %), requested at 999 ms, in force 1.00",
        f"link {LINK}: cut for 500 ms, requested at 2.00 s, in force 1.00 ms later",
        "bottleneck uplink: changed once (rate 20.0 Mbit/s), requested at 1.50 s, in force 1.00 ms later",
        "host edge-1: changed once (slowness 2 × to 6 ×), requested at 1.00 s, in force on time",
        "host edge-2: throttled itself once, first at 1.20 s",
        "host cloud-1: paused for 500 ms, requested at",
        "host cloud-1: killed, requested at iteration 9",
        "host cloud-1: clock stepped by 50.0 ms, requested at 1.20 s",
    ):
        assert part in said
    assert f"bottleneck uplink: carried 22.8 Mbit/s in the mean, of which 100.0 % {LINK}" in said
    assert len(found.sentences) == 9


def test_links_that_are_cut_together_are_one_sentence():
    pairs = [f"edge-{number} -> fog-1" for number in range(5)]
    cut = [change(Change.LINK, pair, 3.0 + n / 1e3, late_s=n / 1e3, down=True) for n, pair in enumerate(pairs)]
    (said,) = changing.sentences(cut)
    assert said == (
        "links edge-0 -> fog-1, edge-1 -> fog-1, edge-2 -> fog-1 and 2 more: cut for good, requested at 3.00 s, "
        "in force at most 4.00 ms later"
    )


def test_a_rate_without_limit_is_a_gap():
    values = changing.steps([link(1.0, rate_bps=None), link(2.0, rate_bps=None), link(3.0)], "rate_bps", RATE_BPS)
    assert [moment for moment, _ in values] == [0.0, 1.0, 3.0]
    assert math.isnan(values[1][1])


def test_an_archive_without_trace_and_scenario_still_tells_what_was_asked(tmp_path):
    folder = tmp_path / layout.HOSTS / "edge-1"
    folder.mkdir(parents=True)
    row = {**vars(link(1.0)), "what": "link"}
    (folder / layout.CHANGES).write_text(json.dumps(row) + "\n")
    (panel,) = changed_in(ReadArchive(path=tmp_path, run=Run(run_id="r", started=""))).panels
    assert (panel.requested, list(panel.measured)) == ([(1.0, 40.0)], [])


def test_a_run_without_changes_and_bottlenecks_has_no_section(tmp_path):
    archive = written(tmp_path, changes=(), emulation="compute: {factors: {edge.*: 2}}")
    assert changed_in(archive) is None
    assert schedules.section(None, html.embedded) == ""
    with pytest.raises(ArchiveError, match="nothing that can be plotted changed or was shared"):
        schedules.write_png(changed_in(archive), tmp_path / "out.png")


def test_the_section_holds_a_plot_per_panel_and_harmless_names(found):
    wild = replace(found, panels=(*found.panels, replace(found.panels[0], title="</script><i>")))
    shown = schedules.section(wild, html.embedded)
    assert "Requested and measured while it trained" in shown
    assert "</script><i>" not in shown
    drawn = schedules.figure(wild)
    assert len([key for key in drawn.layout.to_plotly_json() if key.startswith("xaxis")]) == len(wild.panels)
    names = [trace.name for trace in drawn.data if trace.showlegend]
    assert sorted(names) == [html.escape(LINK, quote=False), "measured", "recovered", "requested", "throttled"]
    assert [shape.type for shape in drawn.layout.shapes].count("rect") == 2  # the cut, the pause
    assert [shape.type for shape in drawn.layout.shapes].count("line") == 1  # the kill


def test_a_closer_look_keeps_its_seconds(found):
    close = [index for index, panel in enumerate(found.panels, start=1) if panel.window_s]
    drawn = schedules.figure(found)
    (axis,) = (drawn.layout[f"xaxis{index}"] for index in close)
    assert axis.range == found.panels[close[0] - 1].window_s
    assert axis.matches is None
    assert drawn.layout.xaxis3.matches == "x"


def test_a_share_has_one_colour_in_all_plots(found):
    names = [f"edge-{number} -> cloud-1" for number in range(7)]
    shown = [replace(found.panels[0], shares=dict.fromkeys(names[first:], ())) for first in (0, 3)]
    looks = schedules.share_colours(shown)
    assert list(looks) == names
    assert len(set(looks.values())) == len(colours.SHARES)


def test_many_panels_and_points_are_cut_short(found):
    many = replace(found, panels=found.panels[:1] * 40)
    assert f"first {schedules.MOST_PANELS} of 40" in schedules.section(many, html.embedded)
    assert len(schedules.thinned([(0.0, 0.0)] * 9_999)) <= schedules.MOST_POINTS
    assert schedules.thinned(()) == ()


def test_an_outlier_does_not_flatten_the_plot():
    panel = panels.Panel(title="", unit="", requested=[(0.0, 10.0)], measured=[(0.0, 10.0)] * 99 + [(0.0, 1e6)])
    assert schedules.reach(panel) == (0.0, 11.5)
    late = replace(panel, measured=[(0.0, 10.0)] * 92 + [(0.0, 1e6)] * 8)
    assert schedules.reach(replace(late, bulk=panels.BULK_OF_RATES)) == (0.0, 11.5)


def test_the_picture_is_drawn(archive, tmp_path):
    schedules.write_png(changed_in(archive), tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArchiveError, match="cannot be written"):
        schedules.write_png(changed_in(archive), tmp_path / "absent" / "out.png")


def test_the_terminal_tells_what_changed():
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    report = sample.report(sample.activity(iterations=3))
    console.print(terminal.summary(report, sample.run(), changes=changing.sentences(CHANGES)))
    said = console.export_text()
    assert "What changed while it trained" in said
    assert "host cloud-1: killed" in said
