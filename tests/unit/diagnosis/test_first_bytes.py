"""A delay that a busy link hides is told by the first bytes of messages that found it idle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.links.first_bytes import late_first_bytes_ns, waited_ns
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.trace.messages import MESSAGE

DELAY_NS, LATE_NS = 10_000_000, 40_000_000


def link(late_ns: list[int], *, busy: bool, jitter_s: float = 0.0) -> ObservedLink:
    """A link whose messages, of 20 ms each, begin to arrive so much late; ``busy``: each while the last one does."""
    rows = np.zeros(len(late_ns), dtype=MESSAGE)
    rows["nbytes"] = 100_000
    rows["send_start_ns"] = np.arange(len(late_ns)) * (15_000_000 if busy else 10**9)
    rows["recv_start_ns"] = rows["send_start_ns"] + DELAY_NS + late_ns
    rows["recv_end_ns"] = rows["recv_start_ns"] + 20_000_000
    designed = Designed(own=Piecewise.constant(40e6), delay_s=Piecewise.constant(DELAY_NS / 1e9), jitter_s=jitter_s)
    return ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0)


@pytest.mark.parametrize(
    ("of", "late_ns"),
    [
        (link([LATE_NS] * 5, busy=False), LATE_NS),
        (link([LATE_NS] + [0] * 4, busy=True), LATE_NS),
        (link([0] + [LATE_NS] * 4, busy=True), 0),
        (link([LATE_NS, 0, LATE_NS], busy=False), 0),
        (link([LATE_NS] * 5, busy=False, jitter_s=0.02), 0),
        (replace(link([LATE_NS] * 5, busy=False), uncertainty_ns=2 * LATE_NS), 0),
    ],
    ids=["always", "the first alone was held up by nothing", "a queue", "once on time", "jitter", "clocks"],
)
def test_first_bytes_that_nothing_held_up_tell_a_delay(of: ObservedLink, late_ns: int) -> None:
    assert late_first_bytes_ns(of) == late_ns


def test_first_bytes_of_some_messages_are_asked_alone() -> None:
    of = link([LATE_NS, 0, LATE_NS], busy=False)
    assert late_first_bytes_ns(of, np.array([True, False, True])) == LATE_NS
    assert late_first_bytes_ns(of, np.zeros(3, dtype=bool)) == 0


def test_few_first_bytes_tell_less_than_is_asked_for() -> None:
    of = link([LATE_NS] * 3, busy=False)
    assert late_first_bytes_ns(of, least=3) == LATE_NS
    assert late_first_bytes_ns(of, least=4) == 0


def test_a_delay_that_comes_while_the_link_is_busy_has_the_receiver_wait_once_and_a_lower_rate_has_it_never() -> None:
    every = np.ones(5, dtype=bool)
    delayed = link([0, 0, LATE_NS, LATE_NS, LATE_NS], busy=True)
    assert waited_ns(delayed, every) == LATE_NS - 5_000_000, "what came before was there 5 ms after it was due"
    slower = link([0] * 5, busy=True).rows.copy()
    slower["recv_end_ns"] = slower["recv_start_ns"][0] + np.cumsum([20, 20, 60, 60, 60]) * 1_000_000
    slower["recv_start_ns"][1:] = slower["recv_end_ns"][:-1]
    assert waited_ns(replace(delayed, rows=slower), every) == 0
