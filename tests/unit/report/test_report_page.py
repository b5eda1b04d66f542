"""The page is whole, fetches nothing, and no name from a scenario or a host can act in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sample_report as sample

from e2c_dl.archive import layout
from e2c_dl.archive.read import host_records, open_archive
from e2c_dl.archive.records import Progress
from e2c_dl.archive.verify import verify
from e2c_dl.archive.write import Archive
from e2c_dl.diagnosis.diagnose import Diagnosis
from e2c_dl.diagnosis.model import Element, HostSummary, LinkSummary, Report
from e2c_dl.diagnosis.shown.activity import Activity
from e2c_dl.errors import ArchiveError
from e2c_dl.report import images, rows
from e2c_dl.report.page import figures, html, style
from e2c_dl.report.page.html import Source, build, write_report
from e2c_dl.report.page.map import topology
from e2c_dl.report.page.packed import unpacked

MOST_BYTES = 5_000_000  # a page is sent by mail
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&$x$"


class Page(HTMLParser):
    """The elements of a page, the texts of its scripts, and the data of its figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def figure(self, name: str) -> dict[str, Any]:
        found = [(tag, attrs) for tag, attrs in self.elements if tag == "script"]
        index = next(i for i, (_, attrs) in enumerate(found) if attrs.get("id") == f"{name}-data")
        figure: dict[str, Any] = json.loads(self.scripts[index])
        return figure

    def packed(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """(facts, columns) of what the page draws by itself."""
        found = [attrs.get("id") for tag, attrs in self.elements if tag == "script"]
        return unpacked(self.scripts[found.index(f"{name}-data")])


@pytest.fixture(autouse=True)
def light_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plotly's four megabytes would be compressed and parsed by every test."""
    monkeypatch.setattr(html, "_plotly", lambda: "cGxvdGx5")


@pytest.fixture(scope="module")
def activity() -> Activity:
    return sample.activity(iterations=6)


@pytest.fixture
def source(activity: Activity) -> Source:
    report = sample.report(activity)
    diagnosis = Diagnosis(report=report, activity=activity, heat=sample.heat(activity))
    return Source(run=sample.run(), diagnosis=diagnosis, links=sample.links(), progress=sample.progress(6))


def renamed(text: str, old: str) -> str:
    return HOSTILE if text == old else text


def hostile(source: Source) -> Source:
    """``source`` with one host, the scenario, and all free text turned hostile."""
    old = "fog-2"

    def element(e: Element) -> Element:
        return replace(e, src=renamed(e.src, old), dst=e.dst and renamed(e.dst, old))

    def host(h: HostSummary) -> HostSummary:
        return replace(h, host=renamed(h.host, old), layer=HOSTILE if h.layer == "fog" else h.layer)

    def link(k: LinkSummary) -> LinkSummary:
        return replace(k, src=renamed(k.src, old), dst=renamed(k.dst, old))

    report, activity = source.diagnosis.report, source.diagnosis.activity
    assert activity is not None
    findings = tuple(replace(f, element=element(f.element), evidence=HOSTILE) for f in report.findings)
    lanes = tuple(replace(lane, host=renamed(lane.host, old)) for lane in activity.lanes)
    heat = source.diagnosis.heat
    assert heat is not None
    return Source(
        run=replace(
            source.run,
            scenario=HOSTILE,
            testbed=HOSTILE,
            command=(HOSTILE,),
            what_happened=(HOSTILE,),
            limitations=(HOSTILE,),
            versions={HOSTILE: HOSTILE},
            seeds={HOSTILE: 1},
            injected={"compute": {HOSTILE: HOSTILE}, "links": {HOSTILE: 0.2}},
        ),
        diagnosis=Diagnosis(
            report=replace(
                report,
                hosts=tuple(map(host, report.hosts)),
                links=tuple(map(link, report.links)),
                findings=findings,
                culprits=findings,
                bottlenecks=tuple(replace(b, element=element(b.element)) for b in report.bottlenecks),
                limitations=(HOSTILE,),
            ),
            activity=replace(activity, lanes=lanes),
            heat=replace(heat, elements=tuple(map(element, heat.elements))),
        ),
        links=[{**row, "src": renamed(row["src"], old), "dst": renamed(row["dst"], old)} for row in source.links],
        progress=source.progress,
    )


def test_the_page_answers_and_shows_every_figure(source: Source) -> None:
    page = Page(build(source))
    text = " ".join(page.texts)
    assert "What slowed this run down: link cloud-1 -> cloud-2 carries data 5.0 × slower than designed" in text
    assert "e2c-dl deploy experiments/first-light artifacts --on local" in text
    for name in ("states", "topology", "bottlenecks", "progress"):
        assert page.figure(name)["data"]
    assert len(page.packed("timeline")[0]["lanes"]) == 6
    assert len(page.packed("heat")[0]["rows"]) == 12


def test_nothing_is_fetched(source: Source) -> None:
    page = Page(build(source))
    loading = {"src", "srcset", "action", "data", "poster", "background", "ping"}
    assert [(tag, attrs) for tag, attrs in page.elements if loading & attrs.keys()] == []
    assert [tag for tag, _ in page.elements if tag in ("link", "iframe", "object", "embed", "a", "base")] == []
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    style = build(source).partition("<style>")[2].partition("</style>")[0]
    assert not re.search(r"url\(|@import|https?:", style)


def test_no_figure_can_be_sent_to_anybody(source: Source) -> None:
    assert 'showSendToCloud: false, plotlyServerURL: ""' in build(source)


def test_plotly_is_embedded_once(source: Source) -> None:
    assert build(source).count("cGxvdGx5") == 1


def test_the_page_makes_no_markup_of_names(source: Source) -> None:
    """All that its own scripts show goes through canvases and textContent."""
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", style.script()
    )


def test_hostile_names_cannot_act(source: Source) -> None:
    tame, wild = Page(build(source)), Page(build(hostile(source)))
    assert [tag for tag, _ in wild.elements if tag in ("img", "script")] == [
        tag for tag, _ in tame.elements if tag in ("img", "script")
    ]
    assert not [attrs for _, attrs in wild.elements if any(name.startswith("on") for name in attrs)]
    assert HOSTILE in " ".join(wild.texts)
    assert HOSTILE in [lane["name"] for lane in wild.packed("timeline")[0]["lanes"]]  # drawn as text
    for name in ("states", "topology", "bottlenecks"):
        shown = json.dumps(wild.figure(name))
        assert "<img" not in shown
        assert "&lt;img" in shown


def test_a_run_that_broke_off_before_training_has_a_page() -> None:
    nothing = Report(
        iterations=0,
        run_s=0.0,
        iteration_s=0.0,
        unexplained=0.0,
        half_error=float("nan"),
        hosts=(),
        links=(),
        bottlenecks=(),
        findings=(),
        culprits=(),
        clock_uncertainty_s=0.0,
        limitations=("no rank finished an iteration",),
    )
    page = Page(build(Source(run=sample.run(), diagnosis=Diagnosis(report=nothing))))
    assert "No verdict: the trace holds no complete iteration." in " ".join(page.texts)


def test_culprits_are_marked_and_only_they(source: Source) -> None:
    page = Page(build(source))
    timeline, _ = page.packed("timeline")
    heat, _ = page.packed("heat")
    for shown in ([*timeline["lanes"], *timeline["links"]], heat["rows"]):
        assert [row["name"] for row in shown if row["marked"]] == ["fog-2", "cloud-1 → cloud-2"]


def test_rows_of_another_version_are_refused(source: Source) -> None:
    with pytest.raises(ArchiveError, match=r"links\.json: a row"):
        build(replace(source, links=[{"src": "a", "dst": "b"}]))


def test_links_that_training_did_not_use_follow_the_used_ones(source: Source) -> None:
    made = rows.link_rows(source.links, source.diagnosis.report)
    assert [row.used is not None for row in made] == [True] * 6 + [False] * 6
    slow = next(row for row in made if row.pair == sample.SLOW_LINK)
    assert slow.against_requested == pytest.approx(0.985)
    assert slow.against_design == pytest.approx(0.197)
    assert not slow.deviates


def test_labels_are_harmless_and_marked_in_the_culprits_colour() -> None:
    assert figures.label("<i>x") == "&lt;i&gt;x"
    assert "color" in figures.label("x", marked=True)


def test_a_report_is_written_into_its_archive_and_vouched_for(tmp_path: Path, source: Source) -> None:
    path = tmp_path / "run"
    writing = Archive.create(path, "5a3b1e07", started="2025-01-31T10:00:00+00:00")
    (path / layout.LINKS).write_text(json.dumps(list(source.links)))
    left = host_records(path, "edge-1")
    left.path.mkdir(parents=True)
    left.append_progress(source.progress)
    page = write_report(open_archive(path), source.diagnosis)
    writing.seal()
    page.write_text("altered")
    assert verify(path) != ()
    assert write_report(open_archive(path), source.diagnosis) == path / layout.REPORT_HTML
    assert verify(path) == ()
    assert Page(page.read_text()).figure("progress")["data"]
    assert json.loads((path / layout.REPORT_JSON).read_text())["iterations"] == 6


def test_a_picture_is_drawn_at_its_size(tmp_path: Path, source: Source) -> None:
    wild = hostile(source)
    path = tmp_path / "run.png"
    images.picture(wild.diagnosis.report, rows.link_rows(wild.links, wild.diagnosis.report), HOSTILE, path)
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert (int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")) == (1600, 900)
    with pytest.raises(ArchiveError, match="cannot be written"):
        images.picture(wild.diagnosis.report, (), "x", tmp_path / "absent" / "run.png")


def test_it_is_small_enough_to_be_sent() -> None:
    assert len(build(sample.source()).encode()) < MOST_BYTES


def test_where_nothing_was_learned_no_curve_is_drawn() -> None:
    source = sample.source()
    assert 'id="progress"' in build(source)
    nothing = tuple(replace_progress(row) for row in source.progress)
    assert 'id="progress"' not in build(replace(source, progress=nothing))


def replace_progress(row: Progress) -> Progress:
    return msgspec.structs.replace(row, loss=None, accuracy=None)


@pytest.mark.parametrize(
    ("hosts", "place", "lines"),
    [(4, "bottom center", 2), (40, "middle right", 2), (90, "middle right", 1), (200, "middle right", 0)],
)
def test_names_of_many_hosts_stand_beside_them(hosts: int, place: str, lines: int) -> None:
    one = sample.report(sample.activity()).hosts[0]
    figure = topology([replace(one, host=f"edge-{n}", rank=n) for n in range(hosts)], [])
    nodes = figure.data[-1]
    text = nodes.text[-1]
    assert nodes.textposition[-1] == place and (text.count("<br>") + bool(text)) == lines
    row_px = (figure.layout.height - 110) / hosts
    assert nodes.marker.size <= row_px and 12 * lines <= row_px  # nothing of one host reaches the next
