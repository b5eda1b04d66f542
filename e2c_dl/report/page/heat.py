"""The heat map: rows are hosts and links, columns iterations, the colour how many times slower than expected.

::

              0        20        40       columns: iterations; of very many, several share one: the worst of them shows
    fog-2     ::::::::::#########:::::    a click shows that time in the timeline
    a -> b    :::::::::::::::::::::::::

A byte per square: 0 where nothing was done, else the logarithm of the slow-down between SLOWEST and 1 / 2, to 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from html import escape

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.shown.heat import Heat
from e2c_dl.report.page import sections
from e2c_dl.report.page.packed import Columns, packed

TITLE = "Heat"
MOST_COLUMNS = 1_200  # a screen has no more pixels for them
MOST_ROWS = 112
LEAST, SLOWEST = 0.5, 32.0
SHADES = 252  # of the logarithm, one of them exactly 1; 0 is nothing


def section(heat: Heat | None, culprits: Collection[Element] = (), begins_with: int = 0) -> str:
    """The section, columns counted from ``begins_with``, ``culprits`` marked; nothing without ``heat``."""
    if heat is None or not heat.slowdown.size:
        return ""
    chosen = _chosen(heat, culprits)
    iterations = len(heat.start_s)
    step = math.ceil(iterations / MOST_COLUMNS)
    first = np.arange(0, iterations, step)
    rows = [
        {"name": str(heat.elements[row]).replace("->", "→"), "marked": heat.elements[row] in culprits,
         "link": heat.elements[row].kind is ElementKind.LINK, "design": heat.by_design[row]}
        for row in chosen
    ]  # fmt: skip
    facts = {
        "rows": rows,
        "step": step,
        "iterations": iterations,
        "begins_with": begins_with,
        "least": LEAST,
        "slowest": SLOWEST,
        "shades": SHADES,
    }
    columns: Columns = {
        "heat": shaded(worst(heat.slowdown[chosen], first)).ravel(),
        "start": heat.start_s[first],
        "end": np.maximum.reduceat(heat.end_s, first),
    }
    which = "Every iteration"
    if heat.most_iterations > iterations:
        which = f"The first {formatting.count(iterations, 'iteration')}, of up to {heat.most_iterations},"
    caption = (
        f"{which} of every host (its computation) and link (its messages), in times slower than designed; where "
        "nothing is designed, and no peers tell, than its own median. Click to see that time in the timeline."
    )
    if step > 1:
        caption += f" A column is the worst of {step} iterations."
    if len(chosen) < len(heat.elements):
        caption += f" {len(chosen)} of {len(heat.elements)} rows are drawn: culprits, then the hottest."
    content = packed("heat", facts, columns) + (
        '<div class="plot" id="heat"><canvas tabindex="0" role="img" aria-label="Slow-down of every host and link in '
        f'every iteration"></canvas><div class="tip" hidden></div></div>{_key()}'
    )
    return sections.section(TITLE, escape(caption), content)


def worst(slowdown: npt.NDArray[np.float64], first: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The greatest of each row between one of ``first`` and the next; NaN where there is none."""
    known = np.where(np.isfinite(slowdown), slowdown, -np.inf)
    found = np.maximum.reduceat(known, first, axis=1)
    return np.where(np.isfinite(found), found, np.nan)


def shaded(slowdown: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """A byte per value: see the module."""
    bounded = np.clip(np.nan_to_num(slowdown, nan=LEAST), LEAST, SLOWEST)
    share = np.log(bounded / LEAST) / math.log(SLOWEST / LEAST)
    return np.where(np.isfinite(slowdown), 1 + np.rint(share * SHADES), 0).astype(np.uint8)


def _chosen(heat: Heat, culprits: Collection[Element]) -> list[int]:
    """The rows to draw, in their order: all, or culprits and the hottest."""
    rows = range(len(heat.elements))
    if len(rows) <= MOST_ROWS:
        return list(rows)
    total = np.nansum(np.maximum(heat.slowdown - 1, 0), axis=1)
    return sorted(sorted(rows, key=lambda row: (heat.elements[row] not in culprits, -total[row]))[:MOST_ROWS])


def _key() -> str:
    steps = "".join(f'<i class="h{number}"></i>' for number in range(6))
    return f'<p class="caption heat-key">as expected {steps} {formatting.times(6)} slower and more</p>'
