"""A burst that waits for TCP's window is on time but for one message; a slow link's is not."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.tcp_windows import waits_for_window
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.messages import MESSAGE

RATE_BPS, DELAY_S, BURSTS, EACH, NBYTES = 400e6, 0.004, 10, 5, 60_000


def link(late_s: tuple[float, ...]) -> ObservedLink:
    """Bursts of as many messages as ``late_s`` has, each served for as much longer than its rate asks."""
    rows = np.zeros(BURSTS * len(late_s), dtype=MESSAGE)
    rows["nbytes"] = NBYTES
    service_s = float(wire_bits_of(rows["nbytes"][:1])[0]) / RATE_BPS
    for burst in range(BURSTS):
        free_s = burst * 0.1 + DELAY_S
        for place, late in enumerate(late_s):
            row = rows[burst * len(late_s) + place]
            free_s += service_s + late
            row["send_start_ns"] = burst * 10**8
            row["recv_start_ns"] = row["recv_end_ns"] = round(free_s * 1e9)
            row["iteration"] = burst
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(DELAY_S))
    return ObservedLink(
        src="edge-1", dst="cloud-1", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0
    )


@pytest.mark.parametrize(
    ("late_s", "waits"),
    [
        ((0, 0, 0, 0, 0.005), True),  # the fifth is held up until the first is acknowledged
        ((0, 0, 0.007, 0, 0), True),
        ((0, 0, 0, 0, 0.012), False),  # more than a round trip
        ((0.005, 0, 0, 0, 0), False),  # the first of a burst: a delay
        ((0.001, 0.001, 0.001, 0.001, 0.001), False),  # a lower rate is slower for each
        ((0.005,), False),  # there are no others that are on time
    ],
)
def test_one_message_of_a_burst_that_is_late_by_a_round_trip_at_most(late_s: tuple[float, ...], waits: bool) -> None:
    one = link(late_s)
    assert waits_for_window(one, np.ones(len(one.rows), dtype=bool)) is waits


def test_nothing_that_departs_waits_for_nothing() -> None:
    one = link((0, 0.005))
    assert not waits_for_window(one, np.zeros(len(one.rows), dtype=bool))
