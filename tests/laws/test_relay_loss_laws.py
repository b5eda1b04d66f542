"""Laws of what the relay draws: as many marks as requested, bursts as long as they should be, delays spread as said."""

from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.dynamics.loss_model import LossModel, spread
from e2c_dl.topology import BurstLoss, Distribution

MANY = 100_000


@settings(max_examples=10)
@given(
    st.floats(0.002, 0.2), st.floats(0.05, 1), st.sampled_from((1.0, 0.7)), st.sampled_from((0.0, 0.01)), st.integers()
)
def test_bursts_lose_as_much_as_the_formula_says_and_last_as_long(p, r, in_bad, in_good, seed):
    burst = BurstLoss(good_to_bad=p, bad_to_good=r, loss_in_bad=in_bad, loss_in_good=in_good)
    runs = LossModel(0.0, burst, random.Random(seed)).take(MANY)
    assert sum(count for _, count, _ in runs) == MANY
    lost = sum(count for _, count, marked in runs if marked)
    # The variance of the mean of a two-state chain: that of one segment, times (1 + c) / (1 - c), c = 1 - p - r.
    c = 1 - p - r
    deviation = math.sqrt(burst.mean * (1 - burst.mean) / MANY * max(1.0, (1 + c) / (1 - c)))
    assert abs(lost / MANY - burst.mean) < 6 * deviation
    if in_bad == 1 and in_good == 0:
        lengths = [count for _, count, marked in runs if marked]
        assert abs(statistics.fmean(lengths) - 1 / r) < 6 * math.sqrt(max(1 - r, 1e-3)) / r / math.sqrt(len(lengths))


@settings(max_examples=10)
@given(st.floats(0.001, 0.999), st.integers())
def test_independent_marks_are_as_many_as_asked_and_stand_alone(chance, seed):
    marks = LossModel(chance, None, random.Random(seed))
    drawn = [marked for _ in range(MANY // 10) for _, count, marked in marks.take(10) for _ in range(count)]
    assert abs(sum(drawn) / MANY - chance) < 6 * math.sqrt(chance * (1 - chance) / MANY)
    both = sum(a and b for a, b in pairwise(drawn)) / MANY
    assert abs(both - chance**2) < 12 * math.sqrt(chance**2 * (1 - chance**2) / MANY) + 1e-5


@settings(max_examples=10)
@given(st.sampled_from(Distribution), st.integers())
def test_delays_spread_as_their_distribution_says(distribution, seed):
    rng = random.Random(seed)
    drawn = sorted(spread(distribution, rng) for _ in range(MANY // 4))
    mean, deviation, least, most = {
        Distribution.UNIFORM: (0.0, 1 / math.sqrt(3), -1.0, 1.0),
        Distribution.NORMAL: (0.0, 1.0, -math.inf, math.inf),
        # Of a Pareto variable of shape 3, cut at 4.5: E X = 3/2 - 1 / (2 * 4.5^2), E X^2 = 3 - 2 / 4.5.
        Distribution.PARETO: (
            -1 / (2 * 4.5**2) / math.sqrt(0.75),
            math.sqrt((3 - 2 / 4.5 - (1.5 - 1 / (2 * 4.5**2)) ** 2) / 0.75),
            -0.5 / math.sqrt(0.75),
            3 / math.sqrt(0.75),
        ),
    }[distribution]
    assert abs(statistics.fmean(drawn) - mean) < 6 / math.sqrt(len(drawn))
    assert abs(statistics.pstdev(drawn) / deviation - 1) < 0.03
    assert least - 1e-9 <= drawn[0] <= drawn[-1] <= most + 1e-9
