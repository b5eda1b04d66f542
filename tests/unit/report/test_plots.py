"""Figures for papers: what they show, that fonts are embedded, that bytes are the same, that colours are told apart."""

import json
import re
import zlib
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import simulated_scenario
from commands import said

from e2c_dl.cli.analysis.analyses import FIGURES
from e2c_dl.diagnosis.comparing.figures import Run
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.shown.activity import DELIVERY, ITERATION, Activity, Lane
from e2c_dl.diagnosis.shown.heat import Heat
from e2c_dl.diagnosis.states import State
from e2c_dl.errors import InputError
from e2c_dl.report import colours
from e2c_dl.report.plots import curves, heat, lanes, paper

# Machado, Oliveira and Fernandes 2009, severity 1.0: what remains of linear RGB.
VISION = {
    name: np.array(rows).reshape(3, 3)
    for name, rows in {
        "any": [1, 0, 0, 0, 1, 0, 0, 0, 1],
        "protanopia": [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
        "deuteranopia": [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881],
        "tritanopia": [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900],
    }.items()
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ @ np.ones(3)
APART = 15  # of CIE Lab: 2.3 is just noticeable, side by side


def lab(colour: str, vision: str) -> np.ndarray:
    """``colour`` (#rrggbb) as seen, in CIE Lab."""
    rgb = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("palette", [tuple(colours.STATES.values()), colours.SERIES], ids=["states", "series"])
def test_colours_are_told_apart(palette: tuple[str, ...], vision: str) -> None:
    apart = {pair: np.linalg.norm(lab(pair[0], vision) - lab(pair[1], vision)) for pair in combinations(palette, 2)}
    assert {pair: distance for pair, distance in apart.items() if distance < APART} == {}


@pytest.mark.parametrize("vision", VISION)
def test_hotter_is_darker_for_everybody(vision: str) -> None:
    lightness = [lab(colour, vision)[0] for colour in colours.HEAT]
    assert np.all(np.diff(lightness) < -2.3)


def test_the_test_tells_red_from_green() -> None:
    assert np.linalg.norm(lab("#a05000", "any") - lab("#6e6e00", "any")) > 2 * APART
    assert np.linalg.norm(lab("#a05000", "deuteranopia") - lab("#6e6e00", "deuteranopia")) < APART


def run(name: str, **known: object) -> Run:
    base = {
        "name": name, "seeds": (), "settings": {}, "world": "virtual", "finished": True, "run_s": 4.0,
        "iteration_s": np.array([0.5, 1.5, 1.0, 1.0]), "iteration_bytes": np.ones(4), "culprits": (),
        "accuracies": ((1.0, 0.2), (4.0, 0.9)),
        "states_s": {f"host-{i}": {State.COMPUTE: 0.25 + i / 4, State.WAIT: 0.75 - i / 4} for i in range(3)},
    }  # fmt: skip
    return Run(**{**base, **known})


def activity() -> Activity:
    iterations = np.array([(i, 2.0 * i, 2.0 * i + 2) for i in range(5)], dtype=ITERATION)
    bounds = np.array([0.0, 4.0, 6.0, 10.0])
    made = [
        Lane(
            host=f"host-{i}",
            rank=i,
            layer="edge",
            bounds_s=bounds,
            codes=np.array([0, 1, 2], np.uint8),
            iterations=iterations,
        )
        for i in range(2)
    ]
    messages = np.array([(0, 1, 2, 0, 100, 4.5, 5.5), (1, 0, 4, 0, 100, 9.0, 9.5)], dtype=DELIVERY)
    return Activity(lanes=tuple(made), deliveries=messages)


def hot() -> Heat:
    elements = (Element(kind=ElementKind.HOST, src="a"), Element(kind=ElementKind.LINK, src="a", dst="b$"))
    slowdown = np.array([[1.0, 1.0, 3.0], [np.nan, 2.0, 8.0]])
    seconds = np.arange(3.0)
    return Heat(elements=elements, slowdown=slowdown, by_design=(True, True), start_s=seconds, end_s=seconds + 1)


DRAWN = {
    "states": lambda: lanes.states([run("a"), run("b")]),
    "timeline": lambda: lanes.timeline(activity()),
    "heatmap": lambda: heat.heatmap(hot()),
    "cdf": lambda: curves.cdf([run("a"), run("b")]),
    "time-to-accuracy": lambda: curves.time_to_accuracy([run("a"), run("b")]),
}


def test_there_is_a_test_of_each_figure() -> None:
    assert tuple(DRAWN) == FIGURES


@pytest.mark.parametrize("kind", DRAWN)
def test_no_figure_has_a_title(kind: str) -> None:
    figure = DRAWN[kind]()
    assert figure.get_figwidth() == pytest.approx(3.33)
    assert [axes.get_title() for axes in figure.axes] == [""] * len(figure.axes)
    assert not figure.get_suptitle()


@pytest.mark.parametrize(
    ("kind", "suffix"), [*((kind, "pdf") for kind in DRAWN), ("cdf", "svg"), ("heatmap", "svg"), ("cdf", "png")]
)
def test_the_same_runs_give_the_same_bytes(kind: str, suffix: str, tmp_path: Path) -> None:
    first, again = tmp_path / f"first.{suffix}", tmp_path / f"again.{suffix}"
    paper.save(DRAWN[kind](), first)
    with mpl.rc_context({"font.size": 20, "pdf.fonttype": 3, "axes.facecolor": "red"}):  # a user's own style
        paper.save(DRAWN[kind](), again)
    content = first.read_bytes()
    assert content == again.read_bytes()
    assert len(content) < 200_000
    if suffix == "pdf":
        assert b"/FontFile2" in content and b"/Type3" not in content
        assert b"CreationDate" not in content
        width = float(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)[1])
        assert width == pytest.approx(3.33 * 72, abs=0.1)


def test_a_pdf_is_made_of_lines_and_text(tmp_path: Path) -> None:
    paper.save(DRAWN["states"](), tmp_path / "figure.pdf")
    content = (tmp_path / "figure.pdf").read_bytes()
    assert b"/Subtype /Image" not in content
    streams = [zlib.decompress(each) for each in re.findall(rb"stream\r?\n(x.*?)\r?\nendstream", content, re.DOTALL)]
    assert any(b" re" in each or b" l\n" in each for each in streams)


def test_states_are_per_iteration_and_add_up() -> None:
    axes = lanes.states([run("a")]).axes[0]
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert max(ends) == pytest.approx(1.0)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["host-0", "host-1", "host-2"]
    assert axes.get_xlabel() == "time per iteration (s)"
    shorter = run("a", states_s={"host": {State.COMPUTE: 0.1}})
    assert lanes.states([shorter]).axes[0].get_xlabel() == "time per iteration (ms)"


def test_a_cdf_has_a_step_per_iteration() -> None:
    line = curves.cdf([run("a")]).axes[0].lines[0]
    assert line.get_xdata().tolist() == [0.5, 0.5, 1.0, 1.0, 1.5]
    assert line.get_ydata().tolist() == [0, 0.25, 0.5, 0.75, 1.0]


def test_a_heat_map_leaves_what_did_nothing_empty() -> None:
    axes = heat.heatmap(hot()).axes[0]
    shown = axes.images[0].get_array()
    assert shown.mask.tolist() == [[False, False, False], [True, False, False]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", r"a → b\$"]


def test_more_rows_than_fit_are_the_slowest() -> None:
    count = heat.ROWS + 10
    slowdown = np.ones((count, 4))
    slowdown[-3] = 5.0
    elements = tuple(Element(kind=ElementKind.HOST, src=f"host-{i}") for i in range(count))
    figure = heat.heatmap(
        Heat(
            elements=elements,
            slowdown=slowdown,
            by_design=(True,) * count,
            start_s=np.arange(4.0),
            end_s=np.arange(4.0),
        )
    )
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert f"host-{count - 3}" in names and len(names) == heat.ROWS


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose one of these endings"):
        paper.save(curves.cdf([run("a")]), tmp_path / "figure.jpeg")
    with pytest.raises(InputError, match=r"there is no folder .*none; make it first"):
        paper.save(curves.cdf([run("a")]), tmp_path / "none" / "figure.pdf")
    with pytest.raises(InputError, match="b: tells no accuracy"):
        curves.time_to_accuracy([run("a"), run("b", accuracies=())])
    with pytest.raises(InputError, match="no worker to draw"):
        lanes.timeline(Activity(lanes=()))
    with pytest.raises(InputError, match="no iteration to draw"):
        heat.heatmap(Heat(elements=(), slowdown=np.empty((0, 0)), by_design=(), start_s=np.empty(0), end_s=np.empty(0)))


def test_the_command(tmp_path: Path) -> None:
    archive = simulated_scenario.simulated(simulated_scenario.scenario(tmp_path / "s"), shapes_only=True).path
    for kind in ("states", "timeline", "heatmap", "cdf"):
        out = tmp_path / f"{kind}.svg"
        assert said("plot", archive, "--figure", kind, "--out", out) == (0, f"{out}\n", "")
        assert out.read_text().startswith("<?xml")
    assert "tells no accuracy" in said("plot", archive, "--figure", "time-to-accuracy", "--out", tmp_path / "x.pdf").err
    folder = said("plot", tmp_path, "--figure", "cdf", "--out", tmp_path / "none" / "x.pdf")  # before anything is read
    assert folder.code == 2 and "make it first" in folder.err
    assert "shows one run" in said("plot", archive, archive, "--figure", "heatmap", "--out", tmp_path / "x.pdf").err


def test_a_figure_of_traces_that_are_not_whole_says_so(tmp_path: Path) -> None:
    archive = simulated_scenario.simulated(simulated_scenario.scenario(tmp_path / "s"), shapes_only=True).path
    gone = min((archive / "traces").iterdir())
    gone.unlink()
    why = f"e2c-dl: {archive}: traces are not whole, and neither is the figure: {gone.stem} (none)\n"
    for kind in ("states", "timeline", "heatmap", "cdf"):
        out = tmp_path / f"{kind}.svg"
        assert said("plot", archive, "--figure", kind, "--out", out) == (0, f"{out}\n", why)
    table, why = tmp_path / "t.csv", why.replace("the figure", "what was written")
    assert said("export", archive, "--format", "csv", "--output", table) == (0, f"{table}\n", why)


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    archive = simulated_scenario.simulated(simulated_scenario.scenario(tmp_path / "s"), shapes_only=True).path
    out = tmp_path / "figure.svg"
    assert said("plot", archive, archive, "--figure", "states", "--out", out).code == 0
    told = said("compare", archive, archive, "--json")
    found = json.loads(told.out)
    assert (found["baseline"], found["contrasts"][0]["name"]) == (str(archive), f"{archive} (2)")
