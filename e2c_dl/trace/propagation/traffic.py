"""The table of one directed link, per iteration of the rank that sends, from all its connections' samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from e2c_dl.trace.propagation.connections import LINK_ITERATION, LinkTraffic
from e2c_dl.trace.propagation.counters import Curves, Numbers, Times, at, under_way, united
from e2c_dl.trace.propagation.tcp_info import segment_header_bytes

Rows = npt.NDArray[np.int64]

_COUNTED = {
    "acked_bytes": "bytes_acked",
    "sent_bytes": "bytes_sent",
    "segments": "segments_out",
    "wire_bytes": "wire_bytes",
    "retransmitted_bytes": "bytes_retransmitted",
    "retransmissions": "retransmissions",
}
_LIMITED = {"rwnd_limited_ns": "rwnd_limited_us", "sndbuf_limited_ns": "sndbuf_limited_us"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Iterations:
    """When a rank's iterations were; in order, and none overlaps the next."""

    number: npt.NDArray[np.int32]
    start_ns: Times
    end_ns: Times

    def row_of(self, at_ns: Times) -> Rows:
        """The row of the iteration in which each time lies, -1: in none."""
        if not len(self.number):
            return np.full(len(at_ns), -1, dtype=np.int64)
        row = np.searchsorted(self.start_ns, at_ns, side="right") - 1
        return np.where((row >= 0) & (at_ns < self.end_ns[np.maximum(row, 0)]), row, -1)

    def row_of_number(self, number: npt.NDArray[np.int32]) -> Rows:
        """The row of each iteration of that number, -1: there is none."""
        if not len(self.number):
            return np.full(len(number), -1, dtype=np.int64)
        order = np.argsort(self.number, kind="stable")
        found = np.minimum(np.searchsorted(self.number, number, sorter=order), len(order) - 1)
        return np.where(self.number[order[found]] == number, order[found], -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """One connection of a link: its samples (``told`` at ``at_ns``, in the iteration of that row) and their curves."""

    at_ns: Times
    row: Rows
    told: npt.NDArray[Any]
    curves: Curves
    ip_version: int
    within_machine: bool = False  # both ends have one address


def traffic(src: int, dst: int, connections: Sequence[Seen], iterations: Iterations) -> LinkTraffic:
    """The link's table. Whether it carries data is for who knows all links to say."""
    first = min(int(one.at_ns[0]) for one in connections)
    last = max(int(one.at_ns[-1]) for one in connections)
    whole = Iterations(
        number=np.array([-1], dtype=np.int32), start_ns=np.array([first]), end_ns=np.array([last], dtype=np.int64)
    )
    return LinkTraffic(
        src=src, dst=dst, connections=len(connections), is_data=False,
        per_iteration=_table(connections, iterations, [one.row for one in connections]),
        total=_table(connections, whole, [np.zeros(len(one.row), dtype=np.int64) for one in connections]),
        since_birth=since_birth(connections), within_machine=all(one.within_machine for one in connections),
    )  # fmt: skip


def _table(connections: Sequence[Seen], iterations: Iterations, rows: Sequence[Rows]) -> npt.NDArray[Any]:
    table = np.zeros(len(iterations.number), dtype=LINK_ITERATION)
    table["iteration"], table["start_ns"] = iterations.number, iterations.start_ns
    table["end_ns"] = iterations.end_ns
    for column, counter in _COUNTED.items():
        table[column] = sum(_rise(one.curves, counter, iterations) for one in connections)
    table["busy_ns"] = _busy(united(np.concatenate([one.curves.busy_ns for one in connections])), iterations)
    each_ns = sum(_busy(one.curves.busy_ns, iterations) for one in connections)
    at_once = np.divide(table["busy_ns"], each_ns, out=np.ones(len(table)), where=each_ns > 0)  # 1: never two
    for column, counter in _LIMITED.items():  # as a part of busy_ns, however many are busy together
        table[column] = 1e3 * at_once * sum(_rise(one.curves, counter, iterations) for one in connections)
    _look(table, connections, rows)
    return table


def _rise(curves: Curves, counter: str, iterations: Iterations) -> Numbers:
    curve = curves.values[counter]
    return at(curves.at_ns, curve, iterations.end_ns) - at(curves.at_ns, curve, iterations.start_ns)


def _busy(busy_ns: Times, iterations: Iterations) -> Numbers:
    """How much of each iteration lies in the intervals ``busy_ns``."""
    if not len(busy_ns):
        return np.zeros(len(iterations.number))
    lengths = np.cumsum(busy_ns[:, 1] - busy_ns[:, 0])
    passed = np.stack([np.concatenate([[0], lengths[:-1]]), lengths], axis=1).ravel().astype(np.float64)
    knots = busy_ns.ravel()
    return at(knots, passed, iterations.end_ns) - at(knots, passed, iterations.start_ns)


def _look(table: npt.NDArray[Any], connections: Sequence[Seen], rows: Sequence[Rows]) -> None:
    """Fills what samples tell of a moment. Connections that were looked at together share a time."""
    told = np.concatenate([one.told for one in connections])
    row, at_ns = np.concatenate(rows), np.concatenate([one.at_ns for one in connections])
    count = len(table)
    inside = row >= 0
    table["samples"] = np.bincount(row[inside], minlength=count)
    _, moment = np.unique(np.stack([row, at_ns]), axis=1, return_inverse=True)
    moment = moment.reshape(-1)
    sends = under_way(told) & (told["delivery_rate_bytes_per_s"] > 0) & inside
    limited = (np.nan_to_num(told["rate_is_limited_by_sender"]).astype(np.int64) & 1).astype(np.float64)
    rate_bps = 8 * np.nan_to_num(told["delivery_rate_bytes_per_s"])
    of_moment = np.zeros(len(moment) and int(moment.max()) + 1, dtype=np.int64)
    of_moment[moment] = row
    summed = np.bincount(moment[sends], weights=rate_bps[sends], minlength=len(of_moment)).astype(np.float64)
    table["delivery_rate_bps"] = _medians(of_moment[summed > 0], summed[summed > 0], count)
    table["app_limited"] = _means(row[sends], limited[sends], count)
    _last_rates(table, row, rate_bps, limited)
    table["srtt_s"] = _medians(row[inside], told["srtt_us"][inside] / 1e6, count)
    least = np.full(count, np.inf)
    np.fmin.at(least, row[inside], told["min_rtt_us"][inside] / 1e6)
    table["min_rtt_s"] = np.where(np.isinf(least), np.nan, least)
    table["window_bytes"] = np.nan
    windows = told["snd_cwnd_segments"] * told["snd_mss_bytes"]
    there = inside & (windows > 0)  # one that was not opened yet has none
    np.fmax.at(table["window_bytes"], row[there], windows[there])


def _last_rates(table: npt.NDArray[Any], row: Rows, rate_bps: Numbers, limited: Numbers) -> None:
    """Where no sample found data under way: the rate told last, which is of the latest that was."""
    last = np.full(len(table), -1, dtype=np.int64)
    useful = np.flatnonzero((row >= 0) & (rate_bps > 0))
    np.maximum.at(last, row[useful], useful)
    missing = np.isnan(table["delivery_rate_bps"]) & (last >= 0)
    table["delivery_rate_bps"][missing] = rate_bps[last[missing]]
    table["app_limited"][missing] = limited[last[missing]]


def _medians(row: Rows, values: Numbers, count: int) -> Numbers:
    """The median of ``values`` per row, NaN where there is none."""
    told = ~np.isnan(values)
    row, values = row[told], values[told]
    values = values[np.lexsort((values, row))]
    sizes = np.bincount(row, minlength=count)
    first = np.cumsum(sizes) - sizes
    found = np.full(count, np.nan)
    some = sizes > 0
    low, high = first[some] + (sizes[some] - 1) // 2, first[some] + sizes[some] // 2
    found[some] = (values[low] + values[high]) / 2
    return found


def _means(row: Rows, values: Numbers, count: int) -> Numbers:
    sizes = np.bincount(row, minlength=count)
    sums = np.bincount(row, weights=values, minlength=count)
    return np.asarray(np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0), dtype=np.float64)


def since_birth(connections: Sequence[Seen]) -> dict[str, float]:
    """What they have counted since they were opened, as last seen: LinkTraffic.since_birth."""
    found = {column: sum(_counted(one, name) for one in connections) for column, name in _COUNTED.items()
             if name != "wire_bytes"}  # fmt: skip
    headers = sum(
        _counted(one, "segments_out")
        * segment_header_bytes(int(np.nan_to_num(one.told["options"][-1])), version=one.ip_version)
        for one in connections
    )
    return {**found, "wire_bytes": found["sent_bytes"] + headers}


def _counted(one: Seen, counter: str) -> float:
    """What it had counted when it was first seen, and since then: a counter that wrapped meanwhile says less."""
    return float(one.told[counter][0] + one.curves.values[counter][-1])
