"""Figures with a row per worker: states as stacked bars, and as lanes over time with the messages between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from e2c_dl.diagnosis.comparing.figures import Run
from e2c_dl.diagnosis.shown.activity import Activity
from e2c_dl.diagnosis.states import STATES, State
from e2c_dl.errors import InputError
from e2c_dl.report import colours
from e2c_dl.report.plots.paper import INK, WIDTH_IN, every, literal, panels, styled, unit_of

ROW_IN, THIN_ROW_IN = 0.155, 0.09
THICK_ROWS = 24  # more are drawn thin, and not all are named
LABELS = 30
NAME_CHARACTERS = 44  # of a run, beside the longest names of its workers
MOST_MESSAGES = 400  # more make a grey of all lanes
AROUND_IN = 0.42  # axis and its label
LEGEND_IN = 0.18


@styled
def states(runs: Sequence[Run], width_in: float = WIDTH_IN) -> Figure:
    """Time per iteration in each state: a bar per worker, a panel per run. Raises: InputError without a worker."""
    if not all(run.states_s for run in runs):
        raise InputError("there is no worker to draw; name archives of runs that trained")
    figure, axes = panels(width_in, [_height(len(run.states_s)) for run in runs], sharex=True)
    longest_s = max(sum(spent.values()) for run in runs for spent in run.states_s.values())
    scale, unit = unit_of(longest_s)
    for each, run in zip(axes, runs, strict=True):
        hosts = list(run.states_s)
        before = np.zeros(len(hosts))
        for state in State:
            spent = np.array([run.states_s[host].get(state, 0.0) for host in hosts]) * scale
            each.barh(range(len(hosts)), spent, left=before, height=0.72, color=colours.STATES[state], linewidth=0)
            before += spent
        _rows(each, hosts, run.name if len(runs) > 1 else "")
        each.grid(axis="x")
    axes[-1].set_xlabel(f"time per iteration ({unit})")
    _legend(
        figure, [state for state in State if any(each.get(state) for run in runs for each in run.states_s.values())]
    )
    return figure


@styled
def timeline(activity: Activity, width_in: float = WIDTH_IN, iterations: int = 3) -> Figure:
    """What every worker did in ``iterations`` iterations around the one of median length, and its messages.

    Raises: InputError, if there is no worker to draw.
    """
    if not activity.lanes:
        raise InputError("there is no worker to draw; name the archive of a run that trained")
    begin_s, end_s = activity.window(iterations)
    figure, (axes,) = panels(width_in, [_height(len(activity.lanes)) + 0.1])
    lanes = activity.lanes
    for row, lane in enumerate(lanes):
        widths = np.diff(lane.bounds_s)
        for code, state in enumerate(STATES):
            chosen = (lane.codes == code) & (lane.bounds_s[1:] > begin_s) & (lane.bounds_s[:-1] < end_s)
            spans = list(zip((lane.bounds_s[:-1][chosen] - begin_s).tolist(), widths[chosen].tolist(), strict=True))
            axes.broken_barh(spans, (row - 0.36, 0.72), facecolor=colours.STATES[state], linewidth=0)
    _draw_messages(axes, activity, begin_s, end_s)
    for start_s in lanes[0].iterations["start_s"]:
        if begin_s <= start_s <= end_s:
            axes.axvline(start_s - begin_s, color=colours.MARK, linewidth=0.7, linestyle=(0, (3, 2)))
    axes.set_xlim(0, end_s - begin_s)
    _rows(axes, [lane.host for lane in lanes], "")
    axes.set_xlabel(f"time since second {begin_s:.3g} of training (s)")
    _legend(figure, [state for code, state in enumerate(STATES) if any((lane.codes == code).any() for lane in lanes)])
    return figure


def _draw_messages(axes: Any, activity: Activity, begin_s: float, end_s: float) -> None:
    """A line per message, from its departure on one lane to its arrival on another; of too many, none."""
    rows = {lane.rank: row for row, lane in enumerate(activity.lanes)}
    sent = activity.deliveries
    sent = sent[(sent["end_s"] > begin_s) & (sent["start_s"] < end_s)]
    if len(sent) > MOST_MESSAGES:
        return
    ends = zip(*(sent[name].tolist() for name in ("src", "dst", "start_s", "end_s")), strict=True)
    lines = [
        ((start - begin_s, rows[src]), (end - begin_s, rows[dst]))
        for src, dst, start, end in ends if src in rows and dst in rows
    ]  # fmt: skip
    axes.add_collection(LineCollection(lines, colors=INK, linewidths=0.35, alpha=0.7))


def _rows(axes: Any, hosts: Sequence[str], name: str) -> None:
    """Names the rows, the first on top; ``name`` is the panel's."""
    step = every(len(hosts), LABELS)
    axes.set_yticks(range(0, len(hosts), step), [literal(host) for host in hosts[::step]])
    axes.set_ylim(len(hosts) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if name:  # across, for what `deploy` calls an archive is longer than a panel is high
        shown = name if len(name) <= NAME_CHARACTERS else f"…{name[1 - NAME_CHARACTERS :]}"
        above = {"xycoords": "axes fraction", "textcoords": "offset points", "xytext": (0, 2)}
        axes.annotate(literal(shown), (0, 1), **above, ha="left", va="bottom")


def _height(rows: int) -> float:
    return rows * (ROW_IN if rows <= THICK_ROWS else THIN_ROW_IN) + AROUND_IN


def _legend(figure: Figure, shown: Sequence[State]) -> None:
    handles = [Patch(color=colours.STATES[state], label=state.value) for state in shown]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + LEGEND_IN)
