"""When a line that several links share was slow: each of them tells it while it carries something."""

from __future__ import annotations

import numpy as np
import pytest
from test_judged_links import EVERY, LARGE, PAIRS, RATE_BPS, SMALL, carried, design, judged

from e2c_dl.diagnosis.departures import Departure
from e2c_dl.diagnosis.detection.links.lines.departure import line_departure
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.stretches import When

LINE = Element(kind=ElementKind.SHARED, src="access")


def departure(slow: np.ndarray, *sent_in: np.ndarray) -> Departure:
    """Of a line that is ``slow`` then, of each link of which one sends in every one of its iterations."""
    links = [carried(pair, EVERY[own], slow[own]) for pair, own in zip(PAIRS, sent_in, strict=True)]
    found = judged(*links)
    assert all(each.departs for each in found)
    return line_departure(LINE, found, design(*PAIRS))


def test_a_line_is_slow_whenever_one_of_its_links_that_take_turns_is() -> None:
    slow, first = EVERY // 4 % 2 == 1, (EVERY // 8 % 3 != 1)
    found = departure(slow, first, ~first)
    assert found.when.when is When.PERIODIC
    assert found.when.begins_s == tuple(EVERY[np.flatnonzero(np.diff(slow.astype(int)) == 1) + 1])
    (line,) = found.restored.lines
    assert (line.scale.at(EVERY + 0.01) < 1).tolist() == slow.tolist()
    assert line.scale.at(EVERY + 0.01)[slow] == pytest.approx(1 / 3, rel=0.01)


@pytest.mark.parametrize("nbytes", [LARGE, SMALL])
def test_a_link_that_carries_small_messages_alone_was_designed_for_a_rate_too(nbytes: int) -> None:
    assert carried(PAIRS[1], EVERY, EVERY >= 0, nbytes).designed_bps == pytest.approx(RATE_BPS, rel=1e-6)


def test_a_line_is_slow_all_the_time_if_all_of_its_links_are_whenever_they_carry_anything() -> None:
    found = departure(EVERY >= 0, EVERY >= 0, EVERY % 2 == 0)
    assert found.when.when is When.PERSISTENT
    (line,) = found.restored.lines
    assert line.scale.values == pytest.approx([1 / 3], rel=0.01)
