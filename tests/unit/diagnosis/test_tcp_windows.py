"""A burst that waits for TCP's window is on time but for one message; a slow link's is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.links.tcp_windows import opens_window, waits_for_window
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


TRIP_S, LATE_FIRST = 2 * DELAY_S, 12


def late_in(late_s: dict[int, float]) -> ObservedLink:
    """A link that is used in BURSTS windows, a barrier's message and a model's in each: the model's as late as said."""
    rows = np.zeros(2 * BURSTS, dtype=MESSAGE)
    rows["nbytes"] = [54, 300_000] * BURSTS
    services_s = wire_bits_of(rows["nbytes"]) / RATE_BPS
    for place, row in enumerate(rows):
        burst = place // 2
        free_s = 0.5 * burst + DELAY_S + services_s[0] + (services_s[1] + late_s.get(burst, 0.0)) * (place % 2)
        row["send_start_ns"] = burst * 500_000_000
        row["recv_start_ns"] = row["recv_end_ns"] = round(free_s * 1e9)
        row["iteration"] = LATE_FIRST + burst
    return replace(link((0.0,)), rows=rows)


@pytest.mark.parametrize(
    ("late_s", "opens"),
    [
        ({0: 4 * TRIP_S, 1: TRIP_S, 2: 0.9 * TRIP_S}, True),  # it doubles, overshoots, and goes on slowly
        ({0: TRIP_S, 1: 2 * TRIP_S, 2: 3 * TRIP_S, 3: 4 * TRIP_S}, False),  # later and later: no learning
        ({0: TRIP_S, 4: TRIP_S, 8: TRIP_S}, False),  # it had learned, and is late again and again
        ({0: 20 * TRIP_S}, False),  # more than all doublings take
        ({4: TRIP_S, 5: TRIP_S}, False),  # in the middle of its life
        ({place: 30 * TRIP_S * 0.5**place for place in range(8)}, True),  # an overshoot that it gets over slowly
        ({place: 300 * TRIP_S * 0.5**place for place in range(8)}, False),  # far more: a rate that recovers
        (dict.fromkeys(range(8), 30 * TRIP_S), False),  # slow for most of its life
        (dict.fromkeys(range(BURSTS), TRIP_S), False),  # it never learns: it is slow
    ],
)
def test_first_messages_of_a_connection_are_late_until_it_has_learned(late_s: dict[int, float], opens: bool) -> None:
    windows = np.repeat(np.arange(BURSTS), 2)
    assert opens_window(late_in(late_s), np.isin(windows, list(late_s))) is opens


@pytest.mark.parametrize(("nbytes", "opens"), [(54, True), (300_000, False)])
def test_small_messages_before_the_first_large_one_have_taught_it_nothing(nbytes: int, opens: bool) -> None:
    one = late_in({6: 2 * TRIP_S, 7: TRIP_S})
    rows = one.rows.copy()
    rows["nbytes"][1:12:2] = nbytes
    assert opens_window(replace(one, rows=rows), np.isin(np.repeat(np.arange(BURSTS), 2), [6, 7])) is opens


@pytest.mark.parametrize(("place", "waits"), [(0, True), (25, False)])
def test_a_connection_may_learn_by_its_first_message_alone_and_wait_for_its_window_later(
    place: int, waits: bool
) -> None:
    one = link((0, 0, 0, 0, 0.005))
    rows = one.rows.copy()
    burst = slice(place, place + EACH)
    rows["recv_end_ns"][burst] += round(0.007 * 1e9)  # those behind it in its burst follow at once
    assert waits_for_window(replace(one, rows=rows), np.ones(len(rows), dtype=bool)) is waits
