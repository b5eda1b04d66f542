"""Size of the page, and when a browser has drawn it: of first light, and of a long run."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from benchmarks import written
from benchmarks.page.long_run import long_run
from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.simulated import SimulationRequest, run
from e2c_dl.cli.telling.console import open_console
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.report.page.html import Source, build, source

FIRST_LIGHT = Path(__file__).parents[2] / "experiments" / "first-light"
MOST_BYTES, MOST_S = 5_000_000, 2.0
RANKS, ITERATIONS = 16, 100_000
BAR = f"{MOST_BYTES / 1e6:g} MB; {MOST_S:g} s for {RANKS} ranks and {ITERATIONS:,} iterations"
VIEWPORT = {"width": 1280, "height": 900}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One page."""

    what: str
    size_bytes: int
    write_s: float
    opened_s: tuple[float, ...]  # from asking for the page until timeline and heat map are drawn

    @property
    def median_s(self) -> float:
        return statistics.median(self.opened_s)


@click.command()
@click.option("--ranks", default=RANKS, show_default=True, help="Of the long run.")
@click.option("--iterations", default=ITERATIONS, show_default=True)
@click.option("--repeats", default=5, show_default=True, help="Openings of each page.")
@written.options(ranks=4, iterations=500, repeats=1)
def main(ranks: int, iterations: int, repeats: int, write: bool) -> None:
    """The page of first light, and of a made-up run of --ranks and --iterations, in Debian's Chromium.

    Exit status 1 if first light's is larger than 5 MB, or a median opening takes longer than 2 s.
    """
    with TemporaryDirectory() as folder, browser() as launched:
        plain = first_light(Path(folder) / "archive")
        activity, heat = long_run(ranks, iterations)
        long = replace(plain, diagnosis=replace(plain.diagnosis, activity=activity, heat=heat))
        pages = {"first light": plain, f"{ranks} ranks, {iterations:,} iterations": long}
        measured = [
            measure(launched, what, each, Path(folder) / f"{number}.html", repeats)
            for number, (what, each) in enumerate(pages.items())
        ]
    text = table(measured)
    click.echo(text)
    if write:
        values = {"bytes_bar": MOST_BYTES, "seconds_bar": MOST_S, "measured": [asdict(each) for each in measured]}
        written.write(
            "page", title="The page, measured", text=text, values=values, repeats=repeats, missed=missed(measured)
        )
    written.conclude(BAR, missed(measured))


def missed(measured: Sequence[Measured]) -> list[str]:
    """What of the bar the pages miss; the first is first light's."""
    late = [f"{each.what} is drawn after {each.median_s:.2f} s" for each in measured if each.median_s > MOST_S]
    return late + (["size of first light"] if measured[0].size_bytes > MOST_BYTES else [])


def first_light(archive: Path) -> Source:
    """What its page is built from, simulated without training."""
    request = SimulationRequest(scenario=FIRST_LIGHT, archive=archive, shapes_only=True, command=("benchmarks.page",))
    read = open_archive(run(request, open_console(quiet=True)))
    return source(read, diagnose(read))


@contextmanager
def browser() -> Iterator[Any]:
    """Debian's Chromium. Raises: ClickException where there is none."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise click.ClickException("chromium is not installed: make setup-browser")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


def measure(launched: Any, what: str, content: Source, path: Path, repeats: int) -> Measured:
    """One page, opened ``repeats`` times, each in a profile of its own; once before that does not count."""
    begun = time.perf_counter()
    path.write_text(build(content), encoding="utf-8")
    write_s = time.perf_counter() - begun
    opened = [opened_s(launched, path) for _ in range(repeats + 1)][1:]
    return Measured(what=what, size_bytes=path.stat().st_size, write_s=write_s, opened_s=tuple(opened))


def opened_s(launched: Any, path: Path) -> float:
    """Seconds until the page says that it is drawn, by its own clock, which begins with the navigation."""
    context = launched.new_context(viewport=VIEWPORT)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    drawn_ms = float(page.locator("html").get_attribute("data-drawn"))
    context.close()
    return drawn_ms / 1e3


def table(measured: list[Measured]) -> str:
    """Markdown."""
    lines = ["| page of | bytes | written in s | drawn after s (median) | all |", "|---" * 5 + "|"]
    for each in measured:
        every = ", ".join(f"{seconds:.2f}" for seconds in each.opened_s)
        lines.append(f"| {each.what} | {each.size_bytes:,} | {each.write_s:.1f} | {each.median_s:.2f} | {every} |")
    bars = f"Bars: first light at most {MOST_BYTES:,} bytes; drawn after at most {MOST_S:g} s."
    return "\n".join([*lines, "", bars])


if __name__ == "__main__":
    main()
