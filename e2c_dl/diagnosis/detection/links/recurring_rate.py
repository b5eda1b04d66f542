"""A lower rate that recurs: the period, beginning, share of the period and rate that suit all late messages together.

::

    link     |__slow__|---------|__slow__|---------|__slow__|---
    served      |=====|   |==|    |=======|  |==|  |=====|        late = (1 - 1 / rate) x how long it was slow meanwhile

Where a link is slow for a message or two at a time, any rate suits them, as long as each time may begin and end when it
likes. That one recurrence, of FREE figures in all, suits every one of them tells as much as there are more than FREE.
Tried are the periods at which lateness recurs most, the peaks of its spectrum, with all the rest; the best of them
are searched more and more closely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles

FREE = 4
LEAST_TIMES, LEAST_SERVICES = 3.0, 2.0  # in all; of a message, in a period: of what is shorter it shows the mean
LEAST_GAPS = 2.0  # between messages, in a period: of what is shorter they show anything
MOST_FREQUENCIES = 4096
MOST_MESSAGES = 256  # where there are more, each time that it is slow has enough of them to be told by itself
PEAKS, KEPT = 12, 4  # of the spectrum; of what was tried, to be searched more closely
DENSE = 8  # frequencies, while the last message moves by a period
SHOWN = 0.9  # of the messages: what the slowest of them take is hardly more than the rate
RATES, LOST, MIDDLES = np.geomspace(1.0, 3.0, 6), np.linspace(0.05, 0.85, 9), np.arange(24) / 24
LEAST_RATE, LEAST_LOST, MOST_SHARE = 1.02, 0.01, 0.98
STEPS, TURNS, CLOSER = np.linspace(-1.0, 1.0, 5), 18, 0.75


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """``rate`` times slower for ``share`` of each ``period_s``, counted from ``begin_s``."""

    period_s: float
    begin_s: float
    share: float
    rate: float

    def slow(self, until_s: float) -> list[tuple[float, float]]:
        """(begin, end) of each time from second 0 to ``until_s``."""
        begins_s = np.arange(self.begin_s % self.period_s - self.period_s, until_s, self.period_s)
        each_s = [(begin_s, begin_s + self.share * self.period_s) for begin_s in begins_s.tolist()]
        return [(max(0.0, begin_s), end_s) for begin_s, end_s in each_s if end_s > 0]

    def late_s(self, begins_s: Doubles, ends_s: Doubles) -> Doubles:
        """How late messages are that are served from ``begins_s`` to ``ends_s``, both of shape (messages,)."""
        slow_s = [_slow_s(until_s, self.begin_s, self.period_s, self.share) for until_s in (begins_s, ends_s)]
        return np.asarray((slow_s[1] - slow_s[0]) * (1 - 1 / self.rate))


def recurrence(begins_s: Doubles, ends_s: Doubles, late_s: Doubles) -> Recurrence | None:
    """What suits messages best that were served from ``begins_s`` to ``ends_s``, and late by ``late_s``.

    All of shape (messages,), in order. None: they are too many, or so few that nothing could recur.
    """
    span_s, usual_s = float(ends_s[-1] - begins_s[0]), float(np.median(ends_s - begins_s))
    if len(begins_s) > MOST_MESSAGES or usual_s <= 0:
        return None
    shortest_s = max(LEAST_SERVICES * usual_s, LEAST_GAPS * float(np.median(np.diff(begins_s))))
    apart = 1 / (DENSE * span_s)
    if not LEAST_TIMES * shortest_s < span_s <= shortest_s * MOST_FREQUENCIES / DENSE:
        return None
    messages = _Messages(begins_s, ends_s, late_s)
    ratios = (ends_s - begins_s) / np.maximum(1e-9, ends_s - begins_s - late_s)
    lowest = max(LEAST_RATE, float(np.quantile(ratios, SHOWN)))
    frequencies = np.arange(LEAST_TIMES / span_s, 1 / shortest_s, apart)
    tried = [
        messages.best([period_s], period_s * MIDDLES, LOST, lowest * RATES)
        for frequency in messages.peaks(frequencies)
        for period_s in 1 / (frequency + apart * np.linspace(-0.5, 0.5, 5))
    ]
    _, found = min(messages.searched(each, span_s) for _, each in sorted(tried)[:KEPT])
    period_s, middle_s, lost, rate = found
    share = min(MOST_SHARE, lost / (1 - 1 / rate))
    return Recurrence(period_s=period_s, begin_s=middle_s - share * period_s / 2, share=share, rate=rate)


_Figures = tuple[float, float, float, float]
"""Period, middle of a slow time, both in seconds; part of a period that is lost; rate: each can be found by itself."""


@dataclass(frozen=True, eq=False)
class _Messages:
    begins_s: Doubles
    ends_s: Doubles
    late_s: Doubles

    def peaks(self, frequencies: Doubles) -> list[float]:
        """Those ``frequencies`` at which the share of its time that a message is late recurs most."""
        served_s = self.ends_s - self.begins_s
        uneven_s = self.late_s - served_s * (self.late_s.sum() / served_s.sum())
        turns = np.exp(-2j * np.pi * frequencies[:, None] * (self.begins_s + self.ends_s) / 2)
        power = np.abs(turns @ uneven_s)
        around = np.lib.stride_tricks.sliding_window_view(np.pad(power, DENSE // 2), 1 + DENSE // 2 * 2)
        peaks = np.flatnonzero(power >= around.max(axis=1))
        return [float(each) for each in frequencies[peaks[np.argsort(-power[peaks])][:PEAKS]]]

    def best(
        self, periods_s: npt.ArrayLike, middles_s: Doubles, losses: Doubles, rates: Doubles
    ) -> tuple[float, _Figures]:
        """(mean distance in seconds, figures) of the best of all combinations."""
        axes = np.asarray(periods_s), middles_s, losses, rates
        period_s, middle_s, lost, rate = (each[..., None] for each in np.ix_(*axes))
        share = np.minimum(MOST_SHARE, lost / (1 - 1 / rate))
        slow = middle_s - share * period_s / 2, period_s, share
        would_s = (_slow_s(self.ends_s, *slow) - _slow_s(self.begins_s, *slow)) * (1 - 1 / rate)
        off_s = np.abs(would_s - self.late_s).mean(axis=-1)
        place = np.unravel_index(int(np.argmin(off_s)), off_s.shape)
        first, second, third, fourth = (float(axis[at]) for axis, at in zip(axes, place, strict=True))
        return float(off_s[place]), (first, second, third, fourth)

    def searched(self, found: _Figures, span_s: float) -> tuple[float, _Figures]:
        """The same around ``found``."""
        period_s = found[0]
        widths = np.array([period_s**2 / (4 * DENSE * span_s), period_s / 24, 0.1, 0.2 * found[3]])
        off_s = np.inf
        for _ in range(TURNS):
            periods_s, middles_s, losses, rates = (at + width * STEPS for at, width in zip(found, widths, strict=True))
            losses, rates = np.maximum(LEAST_LOST, losses), np.maximum(LEAST_RATE, rates)
            off_s, found = self.best(periods_s, middles_s, losses, rates)
            widths = widths * CLOSER
        return off_s, found


def _slow_s(
    until_s: Doubles, begin_s: float | Doubles, period_s: float | Doubles, share: float | Doubles
) -> Doubles:  # fmt: skip
    """How long it is slow until ``until_s``, for ``share`` of each period, counted from ``begin_s``; of one shape."""
    periods = (until_s - begin_s) / period_s
    whole = np.floor(periods)
    return np.asarray(period_s * (whole * share + np.minimum(share, periods - whole)))
