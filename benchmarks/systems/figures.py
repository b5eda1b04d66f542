"""Figures of the comparison: time to the target, by environment, and over bandwidth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from benchmarks.systems import environments
from benchmarks.systems.tables import Results
from benchmarks.systems.trial import TARGET
from e2c_dl.report import colours
from e2c_dl.report.plots.paper import PaperFigure, panels, save, styled

WIDE_IN = 7.0  # two columns of a paper
ROW_IN = 0.17
OWN = "DLion"  # whose environments these are: in another colour
MARKERS = "osD^v<>Phx*"
DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))


def draw(results: Results, folder: Path) -> list[Path]:
    """The figures that these results are enough for, written to ``folder``."""
    drawn = []
    if any(results.systems(each.name) for each in environments.DLION):
        save(by_environment(results, environments.DLION), folder / "systems.png")
        drawn.append(folder / "systems.png")
    if any(results.systems(each.name) for each in environments.BANDWIDTHS):
        save(over_bandwidth(results), folder / "systems-bandwidth.png")
        drawn.append(folder / "systems-bandwidth.png")
    return drawn


@styled
def by_environment(results: Results, chosen: Sequence[environments.Environment]) -> Figure:
    """A row per system, a panel per environment: its median time, and its range over seeds; an arrow: not reached."""
    names = list(dict.fromkeys(name for each in chosen for name in results.systems(each.name)))
    figure = PaperFigure(figsize=(WIDE_IN, 0.6 + ROW_IN * len(names)), layout="constrained")
    (axes,) = figure.subplots(1, len(chosen), squeeze=False, sharex=True, sharey=True)
    for panel, environment in zip(axes, chosen, strict=True):
        for row, name in enumerate(names):
            colour = colours.SERIES[1 if name == OWN else 0]
            times = results.times_s(name, environment.name)
            reached = [each for each in times if math.isfinite(each)]
            if reached:
                panel.plot([reached[0], reached[-1]], [row, row], color=colour)
            middle = results.median_s(name, environment.name)
            if middle is not None and math.isfinite(middle):
                panel.plot(middle, row, "o", color=colour)
            elif times:
                panel.plot(environment.within_s, row, ">", color=colour)
        panel.set_title(fill(environment.name, 12), loc="left", fontsize=8)
        panel.grid()
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    axes[0].set_xscale("log")
    _plainly(axes[0].xaxis, subs=(3.0,))
    figure.supxlabel(f"seconds to {TARGET:.0%} accuracy", fontsize=8)
    return figure


@styled
def over_bandwidth(results: Results) -> Figure:
    """Median time to the target over the rate of all links, a line per system; what was not reached is left out."""
    figure, (axes,) = panels(WIDE_IN, [3.6])
    rates = {each.name: rate for each, rate in zip(environments.BANDWIDTHS, environments.BANDWIDTHS_MBPS, strict=True)}
    names = list(dict.fromkeys(name for each in rates for name in results.systems(each)))
    for place, name in enumerate(names):
        points = [(rate, results.median_s(name, each)) for each, rate in rates.items()]
        known = [(rate, at_s) for rate, at_s in points if at_s is not None and math.isfinite(at_s)]
        if known:
            axes.plot(
                *zip(*known, strict=True), label=name, color=colours.SERIES[place % len(colours.SERIES)],
                marker=MARKERS[place % len(MARKERS)], linestyle=DASHES[place % len(DASHES)],
            )  # fmt: skip
    axes.set(
        xlabel="rate of every link (Mbit/s)", ylabel=f"seconds to {TARGET:.0%} accuracy", xscale="log", yscale="log"
    )
    for axis in (axes.xaxis, axes.yaxis):
        _plainly(axis)
    axes.grid()
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _plainly(axis: Axis, subs: Sequence[float] = (2.0, 3.0, 6.0)) -> None:
    """20, 30, 60 along a logarithmic axis, not powers of ten; ``subs``: which of each."""
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(LogLocator(subs=subs))
    axis.set_minor_formatter(StrMethodFormatter("{x:g}"))
