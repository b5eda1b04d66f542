"""Heat map: how many times slower than expected every host and link was, in every iteration."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from e2c_dl.diagnosis.model import ElementKind
from e2c_dl.diagnosis.shown.heat import Heat
from e2c_dl.errors import InputError
from e2c_dl.report import colours
from e2c_dl.report.page.heat import worst
from e2c_dl.report.plots.paper import SOFT, WIDTH_IN, every, literal, panels, styled

SLOWEST = 6.0  # and slower, by the last colour
ROWS = 48  # those that were slowest of more
COLUMNS = 600  # more than a column of a paper can show
ROW_IN, AROUND_IN = 0.115, 0.75
LABELS = 48


@styled
def heatmap(heat: Heat, width_in: float = WIDTH_IN) -> Figure:
    """Rows are hosts, then links; columns iterations, of very many the worst of several.

    Raises: InputError, if there is nothing to draw.
    """
    if not heat.slowdown.size:
        raise InputError("there is no iteration to draw; name the archive of a run that trained")
    rows = _chosen(heat)
    iterations = heat.slowdown.shape[1]
    first = np.arange(0, iterations, math.ceil(iterations / COLUMNS))
    shown = worst(heat.slowdown[rows], first)
    figure, (axes,) = panels(width_in, [len(rows) * ROW_IN + AROUND_IN])
    scale = LinearSegmentedColormap.from_list("heat", list(colours.HEAT))
    image = axes.imshow(
        np.ma.masked_invalid(np.clip(shown, 1.0, None)), aspect="auto", interpolation="nearest", cmap=scale,
        norm=LogNorm(1.0, SLOWEST), extent=(-0.5, iterations - 0.5, len(rows) - 0.5, -0.5),
    )  # fmt: skip
    step = every(len(rows), LABELS)
    axes.set_yticks(range(0, len(rows), step), [literal(str(heat.elements[row])) for row in rows[::step]], fontsize=6)
    axes.tick_params(axis="y", length=0)
    links = next((i for i, row in enumerate(rows) if heat.elements[row].kind is ElementKind.LINK), 0)
    if links:
        axes.axhline(links - 0.5, color=SOFT, linewidth=0.6)
    axes.set_xlabel("iteration")
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", location="top", aspect=30, pad=0.02, extend="max")
    bar.set_ticks([1, 2, 3, 4, 6], labels=["1", "2", "3", "4", "6"])
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    bar.set_label("times slower than expected")
    return figure


def _chosen(heat: Heat) -> list[int]:
    """Rows in their order; of too many, those with the largest excess over all iterations."""
    excess = np.nansum(np.maximum(np.nan_to_num(heat.slowdown, nan=1.0) - 1, 0), axis=1)
    return sorted(np.argsort(-excess, kind="stable")[:ROWS].tolist())
