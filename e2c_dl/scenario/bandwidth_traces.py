"""Bandwidth traces as they were recorded: files in the scenario's folder ``traces/``, played again and again.

::

    traces/lte.csv      time_s,rate_bps      each rate holds until the next line; the last as long as the one before it
                        0,42000000           rate_kbps or rate_mbps instead; other columns are not looked at
                        0.5,38500000         times count from the first line
    traces/lte.down     1                    Mahimahi: each line is a millisecond at which one full packet may pass;
    (any other name)    1                    as many lines as packets; the last line is the length of the trace
                        4

A packet of Mahimahi's is 1500 bytes of IP; its own count of 1504 has the header of its TUN device in it. Rates here are
of Ethernet frames, so a line is worth 1514 bytes: the same IP packets pass. They are counted over windows of 100 ms, or
of ``window``. No emulator has a rate of 0: where nothing passes, one full frame does in all that time.

Source: mm-link(1) of Mahimahi 0.98; Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", ATC 2015.
"""

from __future__ import annotations

import csv
import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from e2c_dl import units
from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.documents.field import Field, described
from e2c_dl.scenario.schedule import Schedule

FOLDER = "traces"
MAX_BYTES = 8 * 2**20  # each host gets a copy
WINDOW_S = 0.1
"""Mahimahi's opportunities are counted over this long, unless ``window`` says otherwise."""

SHORTEST_S = 0.01
"""A rate that holds for less is asked to be averaged: nothing is changed as often."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_PATTERN = f"{FOLDER}/{_NAME.pattern}"
"""How a scenario names one."""
_FACTORS = {"rate_bps": 1.0, "rate_kbps": 1e3, "rate_mbps": 1e6}
_FRAME_BITS = 8 * units.FULL_FRAME_BYTES

Segment = tuple[float, float, float]
"""(begin, end, bits per second), in seconds of the trace."""


def read_trace(field: Field, folder: Path, window_s: float | None) -> Schedule:
    """The rates of the trace that ``field`` names, below the scenario's ``folder``. Raises: ScenarioError."""
    name = field.text()
    file = name.removeprefix(f"{FOLDER}/")
    if not name.startswith(f"{FOLDER}/") or not _NAME.fullmatch(file):
        remedy = f"put it into the scenario's folder {FOLDER} and write {FOLDER}/{_plain(file)}"
        raise field.error(f"{described(name)} is not a file of the folder {FOLDER}", remedy)
    lines = _lines(field, folder / FOLDER / file)
    if file.endswith(".csv"):
        segments = list(_of_csv(name, lines))
        if window_s is not None:
            segments = list(_averaged(segments, window_s))
        elif any(end_s - begin_s < SHORTEST_S for begin_s, end_s, _ in segments):
            raise field.error(f"changes within less than {SHORTEST_S:g}s", "add e.g. window: 100ms to average it")
    else:
        segments = list(_of_mahimahi(name, lines, window_s or WINDOW_S))
    return _schedule(segments)


def files(folder: Path) -> tuple[Path, ...]:
    """The files in the folder of traces of the scenario in ``folder`` that may be one, by name."""
    traces = folder / FOLDER
    if not os.path.isdir(traces) or os.path.islink(traces):  # a link may lead out of the scenario
        return ()
    return tuple(file for file in sorted(traces.iterdir()) if _NAME.fullmatch(file.name) and _fits(file.lstat()))


def _plain(name: str) -> str:
    last = name.replace("\\", "/").rpartition("/")[2]
    return last if _NAME.fullmatch(last) else "lte.csv"


def _fits(entry: os.stat_result) -> bool:
    return stat.S_ISREG(entry.st_mode) and entry.st_size <= MAX_BYTES  # no device, no pipe: they never end


def _lines(field: Field, path: Path) -> list[str]:
    """Raises: ScenarioError at ``field``, if there is no such file or it is not to be read."""
    said = described(field.value)
    try:
        if os.path.islink(path.parent):  # it may lead out of the scenario, and copies of it leave links out
            raise field.error(f"the folder {FOLDER} is a link", "put the files themselves there")
        if not _fits(path.lstat()):
            remedy = f"put a file of at most {MAX_BYTES >> 20} MiB there"
            raise field.error("is no regular file, or a large one", remedy)
        return path.read_bytes().decode("ascii").splitlines()
    except OSError as error:
        remedy = f"put it into the scenario's folder {FOLDER}"
        raise field.error(f"{said} cannot be read: {error.strerror}", remedy) from error
    except UnicodeDecodeError as error:  # a compressed one, say
        raise field.error(f"{said} is no plain text", "name a CSV file or a Mahimahi trace") from error


def _of_csv(name: str, lines: Sequence[str]) -> Iterator[Segment]:
    """Raises: ScenarioError."""
    try:
        rows = [(number, row) for number, row in enumerate(csv.reader(lines), start=1) if row]
    except csv.Error as error:
        raise ScenarioError(name, "", f"is no CSV: {error}", "write a header and numbers, with commas") from error
    header = [title.strip() for title in rows[0][1]] if rows else []
    titles = [title for title in header if title in _FACTORS]
    if len(titles) != 1 or header.count("time_s") != 1:
        remedy = f"begin with a line such as time_s,rate_bps (or {', '.join(_FACTORS)})"
        raise ScenarioError(name, "", "its first line names no time_s or not one rate", remedy, line=1)
    at, of = header.index("time_s"), header.index(titles[0])
    factor = _FACTORS[titles[0]]
    points = [(_number(name, line, row, at), _number(name, line, row, of, 0) * factor) for line, row in rows[1:]]
    if len(points) < 2:
        raise ScenarioError(name, "", "holds fewer than two rates", "write at least two lines below the header")
    begin_s = points[0][0]
    for (number, _), (before, _), (after, _) in zip(rows[2:], points, points[1:], strict=False):
        if not (before < after and after - begin_s <= units.SPAN_MAX_S):
            raise ScenarioError(name, "", "its times do not rise, or for over a week", "sort it by time", line=number)
    if (highest := max(rate for _, rate in points)) > units.RATE_MAX_BPS:
        raise ScenarioError(name, "", f"{highest:g} bit/s is more than any link", "write at most 100 gbit")
    points.append((2 * points[-1][0] - points[-2][0], 0.0))  # the last rate holds as long as the one before it
    for (segment_s, rate_bps), (until_s, _) in pairwise(points):
        yield segment_s - begin_s, until_s - begin_s, rate_bps


def _number(name: str, line: int, row: Sequence[str], column: int, least: float = -math.inf) -> float:
    text = row[column].strip() if column < len(row) else ""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):  # float() also reads nan and inf
        raise ScenarioError(name, "", f"{described(text)} is no number", "write a decimal number", line=line)
    if number < least:
        raise ScenarioError(name, "", f"a rate of {number:g}", "write a rate of 0 or more", line=line)
    return number


def _of_mahimahi(name: str, lines: Sequence[str], window_s: float) -> Iterator[Segment]:
    """Raises: ScenarioError."""
    times_ms: list[int] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if not (text.isdigit() and len(text) <= 9):  # int() of thousands of digits is refused by Python
            remedy = "write one number of milliseconds per line, or end the name with .csv"
            raise ScenarioError(name, "", f"{described(text)} is no time", remedy, line=number)
        if times_ms and int(text) < times_ms[-1]:
            raise ScenarioError(name, "", f"{text} comes after {times_ms[-1]}", "sort it by time", line=number)
        times_ms.append(int(text))
    if not times_ms or not 0 < times_ms[-1] <= 1000 * units.SPAN_MAX_S:
        raise ScenarioError(name, "", "lasts no time, or over a week", "let its last line be its length in ms")
    length_s = times_ms[-1] / 1000
    edges = _edges(length_s, window_s)
    counts = [0] * (len(edges) - 1)
    for time_ms in times_ms:
        # What may pass at the very end does so as the trace begins anew.
        counts[min(int(time_ms % times_ms[-1] / 1000 / window_s + 1e-9), len(counts) - 1)] += 1
    for (begin_s, end_s), count in zip(pairwise(edges), counts, strict=True):
        yield begin_s, end_s, count * _FRAME_BITS / (end_s - begin_s)


def _averaged(segments: Sequence[Segment], window_s: float) -> Iterator[Segment]:
    """The mean rates over windows: the same bits pass."""
    edges = _edges(segments[-1][1], window_s)
    bits = [0.0] * (len(edges) - 1)
    window = 0
    for begin_s, end_s, rate_bps in segments:
        while begin_s < end_s:
            # The last window takes all the rest: its edge may be rounded to before the end of the trace.
            if begin_s >= edges[window + 1] and window + 2 < len(edges):
                window += 1
            until_s = min(end_s, edges[window + 1]) if window + 2 < len(edges) else end_s
            bits[window] += rate_bps * (until_s - begin_s)
            begin_s = until_s
    for (begin_s, end_s), amount in zip(pairwise(edges), bits, strict=True):
        yield begin_s, end_s, amount / (end_s - begin_s)


def _edges(length_s: float, window_s: float) -> list[float]:
    """Where windows begin and end; the last one takes a rest that is shorter than half a window."""
    whole = max(1, math.floor(length_s / window_s + 0.5 + 1e-9))  # 0.3 / 0.1 is below 3
    return [*(number * window_s for number in range(whole)), length_s]


def _schedule(segments: Sequence[Segment]) -> Schedule:
    """Again and again; rates that no emulator has are replaced once what is equal is one."""
    points: list[tuple[float, float]] = []
    for begin_s, _, rate_bps in segments:
        held = rate_bps if rate_bps >= units.RATE_MIN_BPS else 0.0
        if not points or points[-1][1] != held:
            points.append((begin_s, held))
    length_s = segments[-1][1]
    rated = tuple(
        (begin_s, held or max(units.RATE_MIN_BPS, _FRAME_BITS / (end_s - begin_s)))
        for (begin_s, held), (end_s, _) in pairwise([*points, (length_s, 0.0)])
    )
    return Schedule(points=rated, period_s=length_s)
