"""Recurrence: windows that a disturbance of equal distances touches, each too short to be told from noise by itself.

::

    value  |  o      o       o           o = touched: alike in where they stand in a period
           |..  .  ..  .. . .  . ...
           '---|------|------|------>    folded:   |.....o|   |...o |    level of an arc of the period beside the rest

Of every period that the run holds LEAST times, the arc whose mean is furthest above the others', in standard errors,
is kept; where it is more than CLEAR in the best of all, that is a recurrence; of FEW windows, which tell less of their
own noise, CLEAR_OF_FEW. The best arc of noise alone, of all that are looked at, is beyond that in about one of two
thousand series (by drawing them: of 12 windows beyond 8.4, of 20 beyond 7.1, of 60 beyond 6.5). Where many others that
are alike tell the noise, and it leaves no more than AS_KNOWN of theirs, which chance allows, its own few windows need
not tell it: CLEAR_OF_KNOWN is enough (of noise alone, one of two thousand: 12 windows 4.5, 20 4.8, 60 5.4).

Windows that are slow by turns, with no period that windows could show, are told apart by their values alone: the split
in two of which the upper mean is furthest above the lower, in standard errors; of noise alone, that grows as the root
of the windows. Beyond what :func:`by_turns` asks for it is in one or two of 1,000 series of normal noise (by drawing
them: of 12 windows in 2.1, of 18 in 1.5, of 30 in 0.8), which moreover is hardly ever so large that its halves are a
factor of HALF_AS_MUCH_MORE apart. Where many others that are alike tell the noise, a series that varies UNLIKE times
as much, but not in its lower windows, need be less far beyond a split of noise (drawn, of as much noise as the others
have, none of 10,000; of twice as much one in a hundred of 12 windows, one in 500 of 30). So few that nothing could
recur in them are so only if PLAIN times the noise that is left apart (of normal noise one of 50,000 series of 7 windows
is 23 times, of 10 windows 13 times), or if there is as wide a gap between them beside the noise that many others have,
and beside what the lower ones leave if that is more.

Of more than MOST_WINDOWS, values are split in two all the same. Periods are folded about the strongest frequencies only
(:func:`recurring_of_many`), where values alone do not tell.

Source: phase folding; Kovacs, Zucker, Mazeh, "A box-fitting algorithm in the search for periodic transits", A&A 2002.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.noise import LEAST_NOISE

LEAST = 3  # times: of two, nothing recurs
LEAST_WINDOWS = 12
FEW = 20
MOST_WINDOWS = 256  # of which all periods are folded; plain levels are told of as many
MOST_FOLDED = 8192
LONGEST = 32  # windows, of a period of many: of a longer one each stretch is told by itself
LEAST_POWER = 1e-12
STRONGEST, ABOVE_NOISE = 4, 2.0  # frequencies; times the logarithm of the windows: of noise one of 2 n is as strong
SHORTEST = 2.5  # windows
MOST_OF_PERIOD = 0.5  # that is touched: of more, the rest would be the disturbance
EVEN = 0.25  # of the mean: windows most of which are shorter than that begin together, not apart
LENGTHS, APART, MOST_LENGTHS = 12, 1.6, 64  # of arcs; times between two of them; of lengths in between
CLEAR = 7.0
CLEAR_OF_FEW = 8.4
CLEAR_OF_KNOWN, AS_KNOWN = 5.5, 1.6  # standard errors of a noise that peers tell; times it that chance may leave
CLEAR_SPLIT = 10.5
HALF_AS_MUCH_MORE = float(np.log(1.5))
PLAIN, LEAST_OF_PLAIN = 25.0, 7  # times the noise that is left; windows
NORMAL_SPLIT, ABOVE_NORMAL = 1.33, 4.5  # of normal noise: times the root of windows; and so far from any other
ABOVE_UNLIKE, UNLIKE = 2.0, 2.5  # the same, of what varies so many times as much as others that are alike
AS_EVEN = 3.0  # times the noise of others: what so few windows leave of it by chance
ASTRAY = 0.25  # of the windows that are slow, or are not, if those are fewer
SHARE_OF_UNLIKE = 0.25  # of its windows that are slow: fewer that are late by far are anybody's


def recurring(begins_s: Doubles, values: Doubles, known_noise: float | None = None) -> npt.NDArray[np.bool_] | None:
    """Which windows a recurrence touches, shape as ``values``; None if nothing recurs.

    ``known_noise``: of one window, as many series that are alike have it.
    """
    count = len(values)
    if not LEAST_WINDOWS <= count <= MOST_WINDOWS:
        return None
    periods_s = _periods_s(begins_s)
    touched = _best_arc(np.argsort(begins_s % periods_s[:, None], axis=1, kind="stable"), values)
    if touched is None:
        return None
    levels = _Levels.of(values, touched)
    clear = levels.clear >= (CLEAR if count >= FEW else CLEAR_OF_FEW) * levels.left
    if known_noise is not None and levels.left <= AS_KNOWN * known_noise:
        clear |= levels.clear >= CLEAR_OF_KNOWN * max(levels.left, known_noise)
    return touched if clear else None


def recurring_of_many(begins_s: Doubles, values: Doubles) -> npt.NDArray[np.bool_] | None:
    """The same of more than MOST_WINDOWS, where periods of seconds are folded, and those of windows.

    Only about the frequencies that are strongest in them, as folding all would take the square of the windows.
    """
    count = len(values)
    if not MOST_WINDOWS < count <= MOST_FOLDED:
        return None
    found: list[_Levels] = []
    for begins in (begins_s, np.arange(count, dtype=np.float64)):
        for periods in _strongest(begins, values):
            touched = _best_arc(np.argsort(begins % periods[:, None], axis=1, kind="stable"), values, finely=True)
            if touched is not None:
                found.append(_Levels.of(values, touched))
    clear = [each for each in found if each.clear >= CLEAR * each.left]
    return min(clear, key=lambda each: each.left).touched if clear else None


def by_turns(values: Doubles, known_noise: float | None = None) -> npt.NDArray[np.bool_] | None:
    """Which windows are slow, of a series that is by turns, shape as ``values``; None: it is not clearly.

    ``known_noise``: of one window, as many series that are alike have it.
    """
    count = len(values)
    if count < LEAST_OF_PLAIN:
        return None
    levels = _Levels.of(values, _upper(values))
    of_noise = NORMAL_SPLIT * np.sqrt(count)
    least = max(CLEAR_SPLIT, of_noise + ABOVE_NORMAL)
    if known_noise is not None and _unlike(values, levels.touched, known_noise):
        least = of_noise + ABOVE_UNLIKE
    clear = count >= LEAST_WINDOWS and levels.clear >= least * levels.left and levels.apart > HALF_AS_MUCH_MORE
    if known_noise is not None and count < LEAST_WINDOWS:
        clear = _far_beyond(values, levels.touched, known_noise)
    return levels.touched if clear or levels.plain else None


def _far_beyond(values: Doubles, touched: npt.NDArray[np.bool_], known_noise: float) -> bool:
    """Whether each of a few windows ``touched`` is far beyond all others, which are as even as many others' are.

    Or next to even, beside how far that is.
    """
    noise = max(LEAST_NOISE, known_noise)
    gap = float(values[touched].min() - values[~touched].max())
    even = values[~touched].std(ddof=1) <= max(AS_EVEN * noise, gap / PLAIN)
    return bool(even and gap > max(HALF_AS_MUCH_MORE, PLAIN * noise))


def _unlike(values: Doubles, touched: npt.NDArray[np.bool_], known_noise: float) -> bool:
    """Whether ``values`` vary by far more than what is known of others, in windows ``touched``, which are not few."""
    often = touched.mean() >= SHARE_OF_UNLIKE
    return bool(
        often and values.std(ddof=1) >= UNLIKE * known_noise and values[~touched].std(ddof=1) <= AS_KNOWN * known_noise
    )


def almost_one_stretch(touched: npt.NDArray[np.bool_]) -> bool:
    """Whether the windows ``touched``, and no others, follow each other, but for some led ASTRAY by noise."""
    sums = np.concatenate([[0], np.cumsum(np.where(touched, 1, -1))])
    longest = int((sums - np.minimum.accumulate(sums)).max())  # touched windows less others in it
    slow = int(touched.sum())
    return slow - longest <= ASTRAY * min(slow, len(touched) - slow)


def plainly_by_turns(values: Doubles) -> bool:
    """Whether a series is by turns, and its two levels leave next to nothing."""
    return LEAST_OF_PLAIN <= len(values) <= MOST_WINDOWS and _Levels.of(values, _upper(values)).plain


@dataclass(frozen=True, kw_only=True, eq=False)
class _Levels:
    """Two levels of a series: of the windows that are ``touched``, and of the others."""

    touched: npt.NDArray[np.bool_]
    apart: float  # between both means
    left: float  # noise about them

    @classmethod
    def of(cls, values: Doubles, touched: npt.NDArray[np.bool_]) -> _Levels:
        high, low = values[touched], values[~touched]
        squares = float(((high - high.mean()) ** 2).sum() + ((low - low.mean()) ** 2).sum())
        return cls(
            touched=touched, apart=float(high.mean() - low.mean()), left=float(np.sqrt(squares / (len(values) - 2)))
        )

    @property
    def clear(self) -> float:
        """Between both means, in standard errors of a noise of 1."""
        upper = float(self.touched.sum())
        return self.apart / float(np.sqrt(1 / upper + 1 / (len(self.touched) - upper)))

    @property
    def plain(self) -> bool:
        """Whether the noise that is left is next to nothing beside what they are apart."""
        return self.apart > max(HALF_AS_MUCH_MORE, PLAIN * self.left)


def _upper(values: Doubles) -> npt.NDArray[np.bool_]:
    """The upper windows of the split, into at least LEAST on either side, that leaves the least noise."""
    count = len(values)
    order = np.argsort(values, kind="stable")
    ordered = values[order] - values.mean()
    lower = np.arange(LEAST, count - LEAST + 1)  # windows of the lower level: a split each
    low_sum = np.cumsum(ordered)[lower - 1]  # all of them sum to nothing
    explained = low_sum**2 * (1 / lower + 1 / (count - lower))
    touched = np.zeros(count, dtype=bool)
    touched[order[lower[int(np.argmax(explained))] :]] = True
    return touched


def _periods_s(begins_s: Doubles) -> Doubles:
    """So dense that the last window moves by half of one from each to the next; of EVEN windows at least."""
    span_s = float(begins_s[-1] - begins_s[0])
    window_s = max(float(np.median(np.diff(begins_s))), EVEN * span_s / len(begins_s))
    least_s, most_s = SHORTEST * window_s, span_s / LEAST
    if most_s <= least_s or window_s <= 0:
        return np.zeros(0)
    return np.geomspace(least_s, most_s, 2 + int(2 * np.log(most_s / least_s) * span_s / window_s))


def _strongest(begins: Doubles, values: Doubles) -> Iterator[Doubles]:
    """Periods about each frequency that stands out, as dense as :func:`_periods_s`."""
    window = float(np.median(np.diff(begins)))
    if window <= 0:
        return
    evenly = np.arange(begins[0], begins[-1] + window, window)
    even = values[np.searchsorted(begins, evenly, side="right") - 1]
    count = len(even)
    power = np.abs(np.fft.rfft(even - even.mean())) ** 2 / max(count * float(even.var()), LEAST_POWER)
    cycles = np.arange(len(power))
    power[(cycles < count / LONGEST) | (cycles > count / SHORTEST)] = 0.0
    for best in np.argsort(-power)[:STRONGEST].tolist():
        if power[best] > ABOVE_NOISE * np.log(count):
            yield count * window / (best + np.linspace(-1.0, 1.0, 1 + 4 * count // best))


def _lengths(count: int) -> list[int]:
    """Of arcs, in windows: each by more than half longer than the one before."""
    return [*map(int, np.unique(np.geomspace(LEAST, MOST_OF_PERIOD * count, LENGTHS).astype(np.int64)))]


def _best_arc(orders: npt.NDArray[np.intp], values: Doubles, *, finely: bool = False) -> npt.NDArray[np.bool_] | None:
    """The windows of the arc whose mean is furthest above that of the rest, in root windows; None if none is above.

    ``orders``, shape (periods, windows): the windows as each period folds them. ``finely``: of the best, all lengths.
    """
    count = len(values)
    best = _furthest(orders, values, _lengths(count))
    if best is None:
        return None
    if finely:
        period, _, length = best
        near = range(max(LEAST, int(length / APART)), min(int(length * APART), int(MOST_OF_PERIOD * count)) + 1)
        orders = orders[period : period + 1]
        best = _furthest(orders, values, near[:: 1 + len(near) // MOST_LENGTHS]) or (0, *best[1:])
    period, start, length = best
    touched = np.zeros(count, dtype=bool)
    touched[np.take(orders[period], np.arange(start, start + length), mode="wrap")] = True
    return touched


def _furthest(orders: npt.NDArray[np.intp], values: Doubles, lengths: Sequence[int]) -> tuple[int, int, int] | None:
    """(period, first window in its order, length) of that arc of ``lengths``."""
    count = len(values)
    twice = np.concatenate([orders, orders], axis=1)
    sums = np.cumsum((values - values.mean())[twice], axis=1)
    sums = np.concatenate([np.zeros((len(orders), 1)), sums], axis=1)
    best, found = 0.0, None
    for length in lengths:
        scores = (sums[:, length : length + count] - sums[:, :count]) * np.sqrt(count / (length * (count - length)))
        if scores.max(initial=0.0) > best:
            best = float(scores.max())
            period, start = np.unravel_index(int(np.argmax(scores)), scores.shape)
            found = (int(period), int(start), length)
    return found
