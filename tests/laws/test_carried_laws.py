"""Laws of what links carried: no bit is lost or counted twice, whatever the messages' times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.diagnosis.carried import Carried, together

MESSAGES = st.lists(st.tuples(st.floats(0, 90), st.floats(0, 9), st.floats(1, 1e8)), min_size=1, max_size=20)


def made(messages):
    begin_s, lasted_s, bits = (np.array(column) for column in zip(*messages, strict=True))
    return Carried(begin_s=begin_s, end_s=begin_s + lasted_s, bits=bits, large=np.ones(len(bits), dtype=bool))


@given(MESSAGES)
def test_every_bit_passes_once(messages):
    steps = np.array(made(messages).steps(np.arange(101.0)))
    assert steps[:-1, 1].sum() * 1e6 == pytest.approx(sum(bits for _, _, bits in messages), rel=1e-3, abs=1)
    assert steps[:, 1].min() > -1e-3


@given(MESSAGES, MESSAGES)
def test_links_together_carry_the_sum(one, other):
    edges_s = np.linspace(0, 100, 31)
    parts = [np.array(made(each).steps(edges_s))[:, 1] for each in (one, other)]
    both = np.array(together([made(one), made(other)]).steps(edges_s))[:, 1]
    assert both == pytest.approx(parts[0] + parts[1], rel=1e-3, abs=1e-3)
