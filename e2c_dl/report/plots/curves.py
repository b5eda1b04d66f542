"""Figures with a line per run: how long iterations took, and how accurate the model was when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from e2c_dl.diagnosis.comparing.figures import Run
from e2c_dl.errors import InputError
from e2c_dl.report import colours
from e2c_dl.report.plots.paper import WIDTH_IN, literal, panels, styled, unit_of

HEIGHT_IN = 2.0
NAME_IN = 0.13  # a line of a legend
DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
"""Colour never speaks alone."""


@styled
def cdf(runs: Sequence[Run], width_in: float = WIDTH_IN) -> Figure:
    """Share of iterations that took at most so long."""
    figure, (axes,) = panels(width_in, [HEIGHT_IN + _names_in(len(runs))])
    scale, unit = unit_of(max(float(run.iteration_s.max()) for run in runs))
    for run, look in zip(runs, _looks(), strict=False):
        took = np.sort(run.iteration_s) * scale
        axes.step([took[0], *took], np.arange(len(took) + 1) / len(took), where="post", label=literal(run.name), **look)
    axes.set(xlabel=f"time of an iteration ({unit})", ylabel="share of iterations", ylim=(0, 1.02), xlim=(0, None))
    _finish(axes, len(runs))
    return figure


@styled
def time_to_accuracy(runs: Sequence[Run], width_in: float = WIDTH_IN) -> Figure:
    """Accuracy on the test samples over seconds of training. Raises: InputError for a run that tells none."""
    silent = [run.name for run in runs if not run.accuracies]
    if silent:
        raise InputError(
            f"{silent[0]}: tells no accuracy; train real gradients, and set evaluate_every, to have some over time"
        )
    figure, (axes,) = panels(width_in, [HEIGHT_IN + _names_in(len(runs))])
    for run, look in zip(runs, _looks(), strict=False):
        seconds, seen = np.array(run.accuracies).T
        axes.plot(seconds, 100 * seen, marker="o", label=literal(run.name), **look)
    axes.set(xlabel="time (s)", ylabel="accuracy (%)", xlim=(0, None))
    seen_by_all = [seen for run in runs for _, seen in run.accuracies]
    axes.set_ylim(0 if min(seen_by_all) < 0.5 else None, 100 if max(seen_by_all) > 0.8 else None)
    _finish(axes, len(runs))
    return figure


def _names_in(lines: int) -> float:
    """What the names of the ``lines`` take above them, in inches; one has none."""
    return lines * NAME_IN if lines > 1 else 0.0


def _looks() -> Any:
    """Colour and dashes of each line; after all colours other dashes."""
    return (
        {"color": colour, "linestyle": DASHES[place % len(DASHES)]}
        for place, colour in enumerate(cycle(colours.SERIES))
    )


def _finish(axes: Any, lines: int) -> None:
    axes.grid()
    if lines > 1:
        axes.figure.legend(loc="outside upper left")  # names are long, and would hide what they name
