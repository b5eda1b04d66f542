"""Requested beside measured as a picture: a square per directed link, coloured by how far it is off.

::

              edge-1  edge-2  fog-1      rows: from; columns: to
    edge-1      .      40.0    9.98      in a square: measured Mbit/s
    edge-2    40.0      .     [7.1]      green: as requested, paler near the tolerance; marked: not as requested
    fog-1     10.0    10.0      .        grey: not measured

Everything else about a link appears when one points at its square, and in the table below. Only what was measured is
shown; a run without measurements has no such section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import chain

from rich import box
from rich.table import Table
from rich.text import Text

from e2c_dl import formatting
from e2c_dl.emulation.measuring import expected
from e2c_dl.emulation.measuring.fidelity import BottleneckFidelity, LinkFidelity
from e2c_dl.emulation.measuring.measured import Interval, Measured
from e2c_dl.report.page import sections
from e2c_dl.report.rows import limit

UNFOLDED = 40  # rows of a table that are shown without a click
MOST_HOSTS = 256  # squares are as many as its square
SHADES = 4  # of green, from "as requested" to "just within the tolerance"


def section(links: Sequence[LinkFidelity], shared: Sequence[BottleneckFidelity], hosts: Sequence[str] = ()) -> str:
    """The section of the page, squares in the order of ``hosts``; nothing if no link was measured."""
    picture = heat_map(links, hosts)
    if not picture:
        return ""
    parts = [picture]
    thorough = [link for link in links if link.measured and link.measured.thorough]
    for head, rows in (details(thorough), bottlenecks(shared)):
        if rows:
            styled = [("", _styled(cells, " off" if mark else "")) for mark, cells in rows]
            shown = sections.table(_styled(head), styled)
            folded = f"<details><summary>{len(rows)} links in figures</summary>{shown}</details>"
            parts.append(folded if len(rows) > UNFOLDED else shown)
    caption = (
        "Measured by the hosts themselves, quickly before training; intervals (95 %) where `e2c-dl emulate measure` "
        "looked thoroughly. Not as requested: rate more than 5 % off, round trip more than max(1 ms, 5 %), loss more "
        "than its tolerance and its chance. Point at a square for all its figures."
    )
    return sections.section("The network, requested and measured", escape(caption), "".join(parts))


def heat_map(links: Sequence[LinkFidelity], hosts: Sequence[str] = ()) -> str:
    """The square table as HTML, ``hosts`` first; nothing if no link was measured."""
    if not any(link.measured for link in links):
        return ""
    by_pair = {(link.src, link.dst): link for link in links}
    there = set(chain.from_iterable(by_pair))
    order = [*(name for name in hosts if name in there), *sorted(there - set(hosts))]  # last: who did not train
    hidden, order = len(order) - MOST_HOSTS, order[:MOST_HOSTS]
    head = "".join(f"<th><span>{escape(name)}</span></th>" for name in order)
    rows = "".join(
        f"<tr><th>{escape(src)}</th>{''.join(_square(by_pair.get((src, dst)), src == dst) for dst in order)}</tr>"
        for src in order
    )
    key = (
        '<p class="caption">Rows send, columns receive; figures are measured Mbit/s of Ethernet frames. '
        '<span class="key t0">as requested</span> <span class="key t3">within the tolerance</span> '
        '<span class="key t9">not as requested</span> <span class="key t-">not measured</span></p>'
    )
    more = f'<p class="caption">{formatting.count(hidden, "more host")} not drawn.</p>' if hidden > 0 else ""
    return f'<div class="scroll"><table class="heat"><tr><th></th>{head}</tr>{rows}</table></div>{key}{more}'


def summary(link: LinkFidelity) -> list[str]:
    """Lines about one link: every property that was requested or measured, with its interval."""
    seen, requested = link.measured, link.requested
    lines = [f"{link.src} -> {link.dst}"]
    if seen is None:
        return [*lines, link.failed or "not measured"]
    lines.append(f"rate: requested {limit(requested)}, measured {_rate(seen)}")
    if seen.goodput_bps is not None:
        lines.append(f"TCP: {formatting.rate(seen.goodput_bps)} {_between(seen.goodput_interval_bps, formatting.rate)}")
    trip = f"{formatting.seconds(seen.round_trip_s)} {_between(seen.round_trip_interval_s, formatting.seconds)}"
    lines.append(f"round trip: requested {formatting.seconds(link.requested_round_trip_s)}, measured {trip}")
    loss = f"{_fraction(seen.loss)} {_between(seen.loss_interval, _fraction)}"
    lines.append(f"loss: requested {_fraction(requested.mean_loss)}, measured {loss} of {seen.loss_samples} frames")
    if seen.loss_burst is not None:
        lines.append(f"lost in a row: requested {expected.burst_frames(requested):.3g}, measured {seen.loss_burst:.3g}")
    if seen.delay_spread_s is not None:
        spread = (
            f"{formatting.seconds(seen.delay_spread_s)} {_between(seen.delay_spread_interval_s, formatting.seconds)}"
        )
        lines.append(
            f"delay between quartiles: requested {formatting.seconds(expected.spread_s(requested))}, measured {spread}"
        )
    if seen.reordered is not None and (seen.reordered or requested.reorder or requested.jitter_s):
        lines.append(f"out of order: {_fraction(seen.reordered)} of frames")
    return [line.replace(" ,", ",").rstrip() for line in lines]  # an interval that is missing leaves a blank


def details(links: Iterable[LinkFidelity]) -> tuple[list[str], list[tuple[bool, list[str]]]]:
    """(column names, rows of (deviates, cells)) of what was measured; empty columns are left out."""
    measured = [(link, link.measured) for link in links if link.measured is not None]
    columns = {
        "link": [f"{link.src} → {link.dst}" for link, _ in measured],
        "rate requested": [limit(link.requested) for link, _ in measured],
        "measured": [_rate(seen) for _, seen in measured],
        "TCP goodput": [_precise(seen.goodput_bps, seen.goodput_interval_bps, formatting.rate) for _, seen in measured],
        "round trip requested": [formatting.seconds(link.requested_round_trip_s) for link, _ in measured],
        # Blanks tell columns of one name apart.
        "measured ": [
            _precise(seen.round_trip_s, seen.round_trip_interval_s, formatting.seconds) for _, seen in measured
        ],
        "loss requested": [_fraction(link.requested.mean_loss) for link, _ in measured],
        "measured  ": [_loss(seen) for _, seen in measured],
        "lost in a row": [_burst(link, seen) for link, seen in measured],
        "delay spread requested": [_spread_requested(link) for link, _ in measured],
        "measured   ": [
            _precise(seen.delay_spread_s, seen.delay_spread_interval_s, formatting.seconds)
            if link.requested.jitter_s
            else ""
            for link, seen in measured
        ],
        "out of order": [_order(link, seen) for link, seen in measured],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    cells = zip(*kept.values(), strict=True)
    marks = [bool(link.deviations()) for link, _ in measured]
    return [name.strip() for name in kept], [(mark, list(row)) for mark, row in zip(marks, cells, strict=True)]


def bottlenecks(rows: Sequence[BottleneckFidelity]) -> tuple[list[str], list[tuple[bool, list[str]]]]:
    """The same of bottlenecks that were measured with all their links full."""
    head = ["bottleneck", "requested", "measured in all", "of which"]
    made = []
    for row in rows:
        parts = ", ".join(f"{src} → {dst} {formatting.rate(share.rate_bps)}" for (src, dst), share in row.shares)
        cells = [row.name, formatting.rate(row.requested_bps), formatting.rate(row.measured_bps), parts]
        made.append((bool(row.deviations()), cells))
    return head, made


def terminal_tables(links: Sequence[LinkFidelity], shared: Sequence[BottleneckFidelity]) -> list[Table]:
    """For a terminal: links, and bottlenecks if any were measured."""
    made = []
    for title, (head, rows) in {"Links": details(links), "Bottlenecks": bottlenecks(shared)}.items():
        if not rows:
            continue
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for number, name in enumerate(head):
            table.add_column(name, justify="right" if number else "left", no_wrap=not number, overflow="fold")
        for mark, cells in rows:
            table.add_row(*map(Text, cells), style="yellow" if mark else None)
        made.append(table)
    return made


def _square(link: LinkFidelity | None, is_diagonal: bool) -> str:
    if is_diagonal:
        return '<td class="self"></td>'
    if link is None or link.measured is None or link.off is None:
        return '<td class="t-"></td>'
    shade = "t9" if link.off > 1 else f"t{min(SHADES - 1, int(link.off * SHADES))}"  # above 1 is beyond the tolerance
    title = escape("\n".join([*summary(link), *link.deviations()]))  # what a square has no room for
    floor = "≥" if link.measured.rate_is_floor else ""  # the link may carry more than was sent
    return f'<td class="{shade}" title="{title}">{floor}{_short(link.measured.rate_bps / 1e6)}</td>'


def _short(mbit: float) -> str:
    """A square has room for three digits; bounds are where rounding would show one more."""
    if mbit < 999.5:
        return f"{mbit:.3g}"
    return f"{mbit / 1000:.2g}k" if mbit < 99_500 else f"{mbit / 1000:.0f}k"


def _fraction(value: float | None) -> str:
    """Of frames, to a hundredth of a percent: what 10,000 of them tell."""
    return formatting.DASH if value is None else f"{value * 100:.2f} %"


def _rate(seen: Measured) -> str:
    least = "≥ " if seen.rate_is_floor else ""
    return least + _precise(seen.rate_bps, seen.rate_interval_bps, formatting.rate)


def _loss(seen: Measured) -> str:
    return f"{_fraction(seen.loss)} {_between(seen.loss_interval, _fraction)}".strip()


def _burst(link: LinkFidelity, seen: Measured) -> str:
    if link.requested.burst is None or seen.loss_burst is None:
        return ""
    return f"{seen.loss_burst:.3g} ({expected.burst_frames(link.requested):.3g} requested)"


def _spread_requested(link: LinkFidelity) -> str:
    return formatting.seconds(expected.spread_s(link.requested)) if link.requested.jitter_s else ""


def _styled(cells: Sequence[str], more: str = "") -> list[sections.Cell]:
    """With their CSS classes: the first is a name, the others are figures."""
    return [(text, f"n{more}" if number else "") for number, text in enumerate(cells)]


def _order(link: LinkFidelity, seen: Measured) -> str:
    told = seen.reordered is not None and (link.requested.reorder or link.requested.jitter_s or seen.reordered)
    return _fraction(seen.reordered) if told else ""


def _precise(value: float | None, interval: Interval | None, shown: Callable[[float], str]) -> str:
    """``value``, and the farther end of ``interval`` in percent of it; nothing if it was not measured."""
    if value is None or interval is None or not value:
        return "" if value is None else shown(value)
    return f"{shown(value)} ± {max(interval[1] - value, value - interval[0]) / value * 100:.1f} %"


def _between(interval: Interval | None, shown: Callable[[float | None], str]) -> str:
    return "" if interval is None else f"({shown(interval[0])} to {shown(interval[1])})"  # quickly measured: none
