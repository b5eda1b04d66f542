"""The page in a browser: it zooms, follows the theme, fits a phone, and nothing in it complains or acts by itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_report as sample

from e2c_dl import formatting
from e2c_dl.report.page import style
from e2c_dl.report.page.html import Source, build

CHROMIUM = shutil.which("chromium")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
DESKTOP, PHONE = {"width": 1240, "height": 900}, {"width": 390, "height": 844}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make setup-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # root has no other way
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Source], Path]:
    folder = tmp_path_factory.mktemp("pages")

    def write(source: Source) -> Path:
        path = folder / f"{len(list(folder.iterdir()))}.html"
        path.write_text(build(source), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def page_path(written: Callable[[Source], Path]) -> Path:
    return written(sample.source())


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page that must not complain: no line on its console, no error, no dialogue, nothing fetched."""
    complaints: list[str] = []
    contexts = []

    def opening(path: Path, viewport: dict[str, int] = DESKTOP, **context: Any) -> Any:
        contexts.append(browser.new_context(viewport=viewport, **context))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: complaints.append(request.url) if request.url != page.url else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]", state="attached")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert [each for each in complaints if not each.startswith(("file:", "blob:"))] == []


def window(page: Any) -> tuple[float, float]:
    """What the timeline shows, in seconds, as it says to who cannot see it."""
    said = page.locator("canvas.lanes").get_attribute("aria-label")
    low, high = re.findall(r"([\d.]+) s", said)
    return float(low), float(high)


def scroll_past(page: Any) -> None:
    """Every figure comes into view, which draws it."""
    for figure in page.locator(".figure").all():
        figure.scroll_into_view_if_needed()
        figure.locator(".main-svg").first.wait_for()


def at_share(page: Any, selector: str, across: float, down: float) -> tuple[float, float]:
    place = page.locator(selector)
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    return box["x"] + box["width"] * across, box["y"] + box["height"] * down


def test_it_zooms_moves_and_comes_back(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path)
    low, high = window(page)
    x, y = at_share(page, "canvas.lanes", 0.4, 0.2)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 200, y, steps=4)
    page.mouse.up()
    closer = window(page)
    assert low < closer[0] < closer[1] < high
    page.locator("canvas.lanes").press("ArrowRight")
    assert window(page)[0] > closer[0]
    page.mouse.dblclick(x, y)
    whole = window(page)
    assert whole[0] == 0.0
    assert whole[1] > high
    page.get_by_role("button", name="typical iterations").click()
    assert window(page) == (low, high)
    page.get_by_role("button", name="closer").click()
    assert window(page)[1] - window(page)[0] == pytest.approx((high - low) / 2, rel=0.01)


def test_on_paper_every_figure_is_there(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path)
    page.locator(".figure .main-svg").first.wait_for()
    assert page.locator(".figure:not(:has(.main-svg))").count() > 0
    page.pdf()
    assert page.locator(".figure:not(:has(.main-svg))").count() == 0


def test_a_click_on_heat_leads_to_that_time(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path)
    x, y = at_share(page, "#heat canvas", 0.95, 0.5)
    page.mouse.move(x, y)
    assert "what was designed" in page.locator("#heat .tip").inner_text()
    page.mouse.click(x, y)
    low, high = window(page)
    end_s = sample.activity().end_s
    assert 0.85 * end_s < low < high <= end_s + 1e-3


def test_pointing_at_a_lane_says_what_was_done(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path)
    canvas = page.locator("canvas.lanes")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 24 + 12)
    assert page.locator("#timeline .tip").inner_text().startswith("edge-1 · iteration ")


def test_every_figure_is_drawn_in_either_theme(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(f"() => {background}")
    scroll_past(page)
    page.get_by_role("button", name="light", exact=True).click()
    light = page.evaluate(f"() => {background}")
    assert light != dark
    page.get_by_role("button", name="auto", exact=True).click()
    assert page.evaluate(f"() => {background}") == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(f"() => {background}") == light
    page.get_by_role("button", name="dark", exact=True).click()
    page.reload()
    assert page.evaluate(f"() => {background}") == dark  # remembered


def test_it_fits_a_phone_and_follows_a_finger(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path, PHONE, has_touch=True)
    scroll_past(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
    before = window(page)
    x, y = at_share(page, "canvas.lanes", 0.7, 0.2)
    fingers = page.context.new_cdp_session(page)
    for kind, moved in (("touchStart", 0), ("touchMove", -30), ("touchMove", -60), ("touchEnd", None)):
        points = [] if moved is None else [{"x": x + moved, "y": y}]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert window(page)[0] > before[0]
    assert window(page)[1] - window(page)[0] == pytest.approx(before[1] - before[0], rel=1e-3)


def test_what_bars_say_stays_on_a_phone(opened: Callable[..., Any], page_path: Path) -> None:
    page = opened(page_path, PHONE)
    scroll_past(page)
    cut = """id => [...document.querySelectorAll(id + " text")]
        .map(text => [text.textContent, text.getBoundingClientRect()])
        .filter(([, box]) => box.width && (box.left < 0 || box.right > innerWidth)).map(([text]) => text)"""
    for figure in ("#bottlenecks", "#states"):
        assert page.evaluate(cut, figure) == []
    assert page.locator("#bottlenecks").get_by_text("seconds saved", exact=True).count() == 1
    page.set_viewport_size(DESKTOP)
    page.locator("#bottlenecks").get_by_text("seconds saved if twice as fast").wait_for()


def test_hostile_names_are_shown_and_do_nothing(opened: Callable[..., Any], written: Callable[[Source], Path]) -> None:
    source = sample.source()
    activity = source.diagnosis.activity
    assert activity is not None
    lanes = (replace(activity.lanes[0], host=HOSTILE), *activity.lanes[1:])
    run = replace(source.run, scenario=HOSTILE, limitations=(HOSTILE,))
    diagnosis = replace(source.diagnosis, activity=replace(activity, lanes=lanes))
    page = opened(written(replace(source, run=run, diagnosis=diagnosis)))
    box = page.locator("canvas.lanes").bounding_box()
    page.locator("canvas.lanes").scroll_into_view_if_needed()
    page.mouse.move(box["x"] + 400, page.locator("canvas.lanes").bounding_box()["y"] + 36)
    assert page.locator("#timeline .tip").inner_text().startswith(HOSTILE)
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("img").count() == 0


def test_seconds_are_said_as_on_a_terminal(opened: Callable[..., Any], page_path: Path) -> None:
    some = [0.0, 9.996e-7, 0.00099967, 0.0009, 0.9997, 0.9991, 9.996, 99.96, 999.7, 1234.0, 3700.0]
    script = (Path(style.__file__).parent / "web/packed.js").read_text()
    said = opened(page_path).evaluate(f"some => {{ {script}; return some.map(inWords); }}", some)
    assert said == [formatting.seconds(each) for each in some]


def test_pointing_at_heat_says_no_more_than_its_shade_tells(
    opened: Callable[..., Any], written: Callable[[Source], Path]
) -> None:
    source = sample.source()
    heat = source.diagnosis.heat
    assert heat is not None
    for slowdown, said in ((1.0, ": 1.0 ×"), (12.0, ": 12 ×"), (100.0, "at least 32 ×"), (0.2, "at most 0.5 ×")):
        alike = replace(heat, slowdown=np.full(heat.slowdown.shape, slowdown))
        page = opened(written(replace(source, diagnosis=replace(source.diagnosis, heat=alike))))
        page.mouse.move(*at_share(page, "#heat canvas", 0.95, 0.5))
        assert said in page.locator("#heat .tip").inner_text()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_label_of_the_topology_covers_another(
    opened: Callable[..., Any], page_path: Path, viewport: dict[str, int]
) -> None:
    page = opened(page_path, viewport)
    page.locator("#topology").scroll_into_view_if_needed()
    page.wait_for_selector("#topology .textpoint text")
    covering = page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll("#topology .textpoint text, #topology .annotation-text")]
            .map(text => [text.textContent, text.getBoundingClientRect()]);
          return boxes.flatMap(([name, a], at) => boxes.slice(at + 1)
            .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
            .map(([other]) => name + " | " + other));
        }"""
    )
    assert covering == []
