"""Figures of a report, as Plotly figures made from plain values: states, bottlenecks, progress.

Colours of text and grid are left to the page, which follows the reader's light or dark scheme. Every name is escaped
here: Plotly reads labels as (a little) HTML.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Mapping, Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from e2c_dl import formatting
from e2c_dl.archive.records import Progress
from e2c_dl.diagnosis.model import HostSummary, Report, SpeedUp
from e2c_dl.diagnosis.states import State
from e2c_dl.report import colours
from e2c_dl.report.words import named

READABLE_ON_PHONE = 0.2
ROW_PX = 34
FRAME_PX = 92
READABLE_SHARE = 0.07  # of the longest bar: narrower pieces carry no text
BARS = 10  # further down hardly anything is saved
NARROW_NAME = 20  # characters of a line of an element's name on a phone
SAVED = "seconds saved if twice as fast"


def label(text: str, marked: bool = False) -> str:
    """``text`` for an axis or a legend, harmless; in the culprits' colour and bold if ``marked``."""
    escaped = literal(text)
    return f'<b><span style="color:{colours.CULPRIT}">{escaped}</span></b>' if marked else escaped


def literal(text: str) -> str:
    """``text`` so that Plotly, which knows some tags but not ``&quot;``, shows it as it is."""
    return html.escape(text, quote=False)


def states(hosts: Sequence[HostSummary], culprits: Collection[str] = ()) -> Any:
    """A bar per worker, rank 0 on top: seconds in each state. ``culprits`` are names of hosts to mark."""
    longest = max((host.wall_s for host in hosts), default=0.0)
    rows = list(range(len(hosts)))  # numbers, not names: equal categories would be one bar
    figure, texts = go.Figure(), []
    for state in State:
        spent = [host.states_s.get(state, 0.0) for host in hosts]
        share = [
            formatting.percent(s / host.wall_s) if host.wall_s else "" for s, host in zip(spent, hosts, strict=True)
        ]
        shown, on_phone = (
            [text if s > least * longest else "" for s, text in zip(spent, share, strict=True)]
            for least in (READABLE_SHARE, READABLE_ON_PHONE)
        )
        texts.append((shown, on_phone))
        hover = [
            f"{literal(host.host)}: {formatting.seconds(s)} {state.value}, {p}"
            for host, s, p in zip(hosts, spent, share, strict=True)
        ]
        figure.add_bar(
            orientation="h", y=rows, x=spent, name=state.value, marker_color=colours.STATES[state], text=shown,
            textposition="inside", insidetextanchor="middle", textangle=0,  # Plotly turns text that does not fit
            textfont={"color": colours.STATE_TEXT[state], "size": 12}, hovertext=hover, hoverinfo="text",
        )  # fmt: skip
    names = [label(host.host, host.host in culprits) for host in hosts]
    figure.update_layout(barmode="stack", bargap=0.28, height=FRAME_PX + ROW_PX * max(1, len(hosts)))
    figure.update_yaxes(tickvals=rows, ticktext=names, autorange="reversed", fixedrange=True, showgrid=False)
    figure.update_xaxes(title="seconds of training", rangemode="tozero")
    wide, narrow = ({"text": list(each)} for each in zip(*texts, strict=True))
    return framed(by_width(figure, wide=wide, wide_layout={}, narrow=narrow, narrow_layout={}))


def bottlenecks(report: Report) -> Any:
    """A bar per element and group: seconds saved if twice as fast, at most ten of each, most first; culprits marked."""
    shown: Sequence[SpeedUp] = (*report.bottlenecks[:BARS], *report.groups[:BARS])
    whole_s = report.run_s or math.inf
    blamed = report.blamed
    rows = list(range(len(shown)))
    seconds = [("" if b.replayed else "at most ") + formatting.seconds(b.saved_s) for b in shown]
    said = [f"{each}  ({formatting.percent(b.saved_s / whole_s)})" for each, b in zip(seconds, shown, strict=True)]
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=rows,
        x=[b.saved_s for b in shown],
        marker_color=[colours.CULPRIT if b.element in blamed else colours.STATES[State.COMPUTE] for b in shown],
        text=said,
        textposition="outside",
        cliponaxis=False,  # the longest bar's text stands beyond the axis
        hovertext=[_hover(b) for b in shown],
        hoverinfo="text",
        showlegend=False,
    )
    names = [label(_name(b), b.element in blamed) for b in shown]
    widest = max((b.saved_s for b in shown), default=0.0)
    figure.update_layout(bargap=0.35, height=FRAME_PX + ROW_PX * max(1, len(shown)))
    figure.update_yaxes(tickvals=rows, ticktext=names, autorange="reversed", fixedrange=True, showgrid=False)
    figure.update_xaxes(title=SAVED, range=[0, widest * 1.25 or 1.0], fixedrange=True)
    folded = ["<br>".join(label(part, b.element in blamed) for part in wrap(_name(b), NARROW_NAME)) for b in shown]
    return framed(
        by_width(
            figure,
            wide={"text": [said]}, wide_layout={"yaxis.ticktext": names, "xaxis.title.text": SAVED},
            narrow={"text": [seconds]}, narrow_layout={"yaxis.ticktext": folded, "xaxis.title.text": "seconds saved"},
        )
    )  # fmt: skip


def _name(one: SpeedUp) -> str:
    return named(one.element) + (f" ({len(one.members)})" if one.members else "")


def _hover(one: SpeedUp) -> str:
    how = "" if one.replayed else "at most "
    return f"{literal(_name(one))}: the run would be {how}{one.speedup:.2f} times faster"


def progress(rows: Sequence[Progress]) -> Any:
    """Loss and, where evaluated, accuracy over seconds of training; rows as in progress.jsonl."""
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    loss = [row for row in rows if row.loss is not None]  # the final evaluation's line has none
    accuracy = [row for row in rows if row.accuracy is not None]
    for chosen, key, colour, mode, secondary in (
        (loss, "loss", colours.STATES[State.COMPUTE], "lines", False),
        (accuracy, "accuracy", colours.STATES[State.PROPAGATE], "lines+markers", True),
    ):
        trace = go.Scatter(
            x=[row.elapsed_s for row in chosen],
            y=[getattr(row, key) for row in chosen],
            customdata=[row.iteration for row in chosen],
            name=key,
            mode=mode,
            line={"color": colour, "width": 2.5},
            hovertemplate=f"iteration %{{customdata}}, %{{x:.1f}} s: {key} %{{y:.4g}}<extra></extra>",
        )
        figure.add_trace(trace, secondary_y=secondary)
    figure.update_layout(height=320)
    figure.update_xaxes(title="seconds since training began", rangemode="tozero")
    figure.update_yaxes(title="loss", rangemode="tozero", secondary_y=False)
    scale = {"tickformat": ".0%", "range": [0, 1.04], "dtick": 0.2, "showgrid": False}
    figure.update_yaxes(title="accuracy", **scale, secondary_y=True)
    return framed(figure)


def by_width(
    figure: Any, *, wide: Mapping[str, Any], wide_layout: Mapping[str, Any], narrow: Mapping[str, Any],
    narrow_layout: Mapping[str, Any],
) -> Any:  # fmt: skip
    """``figure`` itself, which tells the page's script what its traces and layout are on a wide page and on a phone."""
    told = {"wide": {"trace": wide, "layout": wide_layout}, "narrow": {"trace": narrow, "layout": narrow_layout}}
    return figure.update_layout(meta={"by_width": told})


def framed(figure: Any) -> Any:
    """``figure`` itself, with the frame that all figures share."""
    figure.update_layout(
        template="none",  # its own colours would not follow the page's scheme
        paper_bgcolor="rgba(0,0,0,0)",  # the card behind it shows, light or dark
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        margin={"l": 10, "r": 44, "t": 36, "b": 10},
        modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": "#9aa3ad", "activecolor": "#0072b2"},
        hoverlabel={"align": "left"},  # several lines of figures
    )
    figure.update_xaxes(automargin=True, zeroline=False, title_font_size=13)  # names and numbers may be of any length
    figure.update_yaxes(automargin=True, zeroline=False, title_font_size=13)
    return figure
