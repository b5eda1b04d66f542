"""Data whose acknowledgements wait behind slow data of the other way: late for that, and not to blame."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.links.first_bytes import ASLEEP_NS, OPENING, even_delay_ns
from e2c_dl.diagnosis.detection.links.kinds import Kind
from e2c_dl.diagnosis.detection.links.way_back import behind_data, not_blamed
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.ethernet import wire_bits
from e2c_dl.trace.messages import MESSAGE

NBYTES, RATE_BPS, APART_NS = 500_000, 20e6, 1_000_000_000
EVEN = (2.0, 2.01, 2.0, 2.02, 2.0, 2.01, 2.0, 2.0, 2.01, 2.0)
LESS = (1.3, 1.29, 1.28, 1.26, 1.25, 1.24, 1.22, 1.2, 1.19, 1.18)
UNEVEN = (1.4, 1.7, 2.1, 1.6, 1.9, 1.5, 1.65, 2.0, 1.45, 1.8)


def slow(src: str, dst: str, times: tuple[float, ...], *, later_ns: int = 0) -> Any:
    """A link that departs all the time: its messages take so many times as long as designed, one each second."""
    rows = np.zeros(len(times), dtype=MESSAGE)
    designed_ns = wire_bits(NBYTES) / RATE_BPS * 1e9
    rows["nbytes"], rows["iteration"] = NBYTES, range(len(times))
    rows["send_start_ns"] = np.arange(len(times)) * APART_NS + later_ns
    rows["recv_end_ns"] = rows["send_start_ns"] + np.rint(np.array(times) * designed_ns).astype(np.int64)
    link = ObservedLink(
        src=src, dst=dst, rows=rows, designed=Designed(own=Piecewise.constant(RATE_BPS)), began_ns=0,
        uncertainty_ns=0, first_iteration=0,
    )  # fmt: skip
    excess_s = float((np.array(times) - 1).sum()) * designed_ns / 1e9
    every = np.ones(len(times), dtype=np.bool_)
    return SimpleNamespace(
        link=link,
        judged=SimpleNamespace(excess_s=excess_s, windows=every),
        of=SimpleNamespace(
            messages=lambda windows: windows,
            series=SimpleNamespace(until_s=float(len(times))),
            judged=every.copy(),
        ),
    )


def behind(departing: list[Any], **recurring: Any) -> tuple[list[Any], ...]:
    """``recurring``: of those whose rate recurs, what they are called and when they are slow."""
    kinds = {tuple(name.split("_")): Kind(part=Part.RATE, slow=slow) for name, slow in recurring.items()}
    return behind_data(departing, {each.link.pair: each.link for each in departing}, kinds)


def test_who_is_uneven_beside_an_evenly_slow_way_back_waits_for_acknowledgements() -> None:
    assert behind([slow("a", "b", EVEN), slow("b", "a", UNEVEN)]) == ([("b", "a")], [], [])
    (said,) = not_blamed([("b", "a")], [], [])
    assert said.sentence.startswith("Not blamed for being late: b -> a. Acknowledgements of that come late")


@pytest.mark.parametrize(
    ("back", "later_ns"),
    [(EVEN, 0),  # as slow by itself: a lower rate serves alike messages alike
     ((1.5,) * 10, 0),
     (tuple(2 * each for each in UNEVEN), 0),  # it is later than what it would wait behind
     ((2.0, 1.98, 0.9, 2.01, 4.0, 2.0, 1.1, 2.02, 1.4, 2.0), 0),  # but some: so most of them are
     (UNEVEN, APART_NS * 45 // 100),  # when that is over
     (UNEVEN[:5], 0)],
)  # fmt: skip
def test_others_are_slow_by_themselves(back: tuple[float, ...], later_ns: int) -> None:
    assert behind([slow("a", "b", EVEN), slow("b", "a", back, later_ns=later_ns)])[0] == []


def test_of_data_that_others_wait_behind_those_that_are_clearly_late_are_even() -> None:
    slow_at_times = (3.0, 3.02, 3.0, 3.01, 3.0, 3.01, *[1.15, 1.4, 1.2, 1.3] * 2)  # its window opens, too
    waiting = tuple(1 + (each - 1) * 1.4 for each in UNEVEN) + (1.1,) * 4
    assert behind([slow("a", "b", slow_at_times), slow("b", "a", waiting)])[0] == [("b", "a")]
    uneven = (3.0, 1.9, 2.4, 2.6, 2.1, 2.9, 3.1, 2.2, *[1.2] * 8)
    both = [slow("a", "b", uneven), slow("b", "a", waiting)]
    times = ((0.0, 8.0),)
    assert behind(both)[0] == []
    assert behind(both, a_b=times)[0] == [("b", "a")], "its queue overflows each time that its rate is low"
    assert behind(both, a_b=times, b_a=times)[0] == [], "both are slow by themselves"
    few = (*[3.0] * 6, *[1.15, 1.4, 1.2, 1.3] * 13)  # as time-outs are
    assert behind([slow("a", "b", few), slow("b", "a", waiting)])[0] == []


@pytest.mark.parametrize(
    ("back", "later_ns", "waits"),
    [((1.0, 3.0, 2.4, 1.0), 0, True),
     ((1.0, 4.2, 4.6, 1.0), 0, False),  # as slow by itself
     ((3.0, 2.4, 1.0, 1.0), 0, False),  # it was late before
     ((1.0, 1.0, 1.0, 3.0), APART_NS * 45 // 100, False)],  # when that is over
)  # fmt: skip
def test_of_few_messages_those_wait_that_are_clearly_less_late_meanwhile(
    back: tuple[float, ...], later_ns: int, waits: bool
) -> None:
    both = [slow("a", "b", (1.0, 4.9, 4.8, 1.0)), slow("b", "a", back, later_ns=later_ns)]
    assert behind(both)[0] == ([("b", "a")] if waits else [])


def test_nobody_waits_behind_data_that_losses_make_late() -> None:
    assert behind([slow("a", "b", tuple(2 * each for each in UNEVEN)), slow("b", "a", UNEVEN)])[0] == []
    assert behind([slow("b", "a", UNEVEN)]) == ([], [], [])
    assert not_blamed([], [], []) == []


@pytest.mark.parametrize(
    ("times", "begins", "opens"),
    [((*UNEVEN, *[1.0] * 12), 0, True),  # late at first, beside data that are not
     ((*[1.0] * 12, *UNEVEN), 12, False),
     ((*LESS, *[1.0] * 12), 0, True),  # evenly, but by less and less
     ((1.79, 1.69, 1.62, 1.52, 1.42, 1.42, 1.45, 1.55, 1.43, 1.47, *[1.0] * 12), 0, True),  # hardly, for long
     ((*[1.5] * 10, *[1.0] * 12), 0, False)],  # evenly: a lower rate
)  # fmt: skip
def test_who_opens_a_window_beside_data_of_the_other_way_is_late_at_first(
    times: tuple[float, ...], begins: int, opens: bool
) -> None:
    late, back = slow("a", "b", times), slow("b", "a", (1.0,) * len(times))
    late.judged.windows[:] = False
    late.judged.windows[begins : begins + 10] = True
    assert behind_data([late], {("b", "a"): back.link}, {}) == ([], [("a", "b")] if opens else [], [])
    assert behind_data([late], {}, {}) == ([], [], [])


def test_who_is_later_by_more_after_its_window_was_open_is_not_late_at_first() -> None:
    at_first = (*UNEVEN, *[1.0] * 4)
    for then, opens in (([3.0] * 6, False), ([3.0], True)):  # one late message is nothing
        times = (*at_first, *then, *[1.0] * 20)
        late, back = slow("a", "b", times), slow("b", "a", (1.0,) * len(times))
        late.judged.windows[:] = np.array(times) > 1
        late.of.series.until_s = 100.0
        assert behind_data([late], {("b", "a"): back.link}, {}) == ([], [("a", "b")] if opens else [], [])


@pytest.mark.parametrize(("begins", "waits"), [(0, True), (12, False)])
def test_who_opens_a_window_by_late_acknowledgements_is_not_to_blame(begins: int, waits: bool) -> None:
    times = [1.0] * 22
    times[begins : begins + 4] = [3.0, 2.0, 1.5, 1.2]
    late, pair = slow("b", "a", tuple(times)), ("b", "a")
    late.judged.windows[:] = False
    late.judged.windows[begins : begins + 4] = True
    by_delay = Kind(part=Part.DELAY, delay_ns=1e6)
    assert behind_data([late], {}, {("a", "b"): by_delay}) == ([pair] if waits else [], [], [])
    own = {("a", "b"): by_delay, pair: by_delay}
    assert behind_data([late], {}, own) == ([], [], []), "it is late by a delay of its own"
    assert behind_data([late], {}, {}) == ([], [], [])


@pytest.mark.parametrize(
    ("late_ms", "delay_ms"),
    [((81.4, 81.3, 81.6, 81.4), 81.4), ((12.0, 31.0, 80.0, 45.0), 0.0),  # a busy reader
     ((81.4, 81.3), 0.0), ((81.4, 81.3, 0.2, 81.4), 0.0),
     ((1.8, 2.0, 1.7, 2.1), 0.0)],  # who sleeps until they come
)  # fmt: skip
def test_first_bytes_that_are_late_by_one_time_tell_a_delay(late_ms: tuple[float, ...], delay_ms: float) -> None:
    link = slow("a", "b", (2.0,) * len(late_ms)).link
    link.rows["recv_start_ns"] = link.rows["send_start_ns"] + np.rint(np.array(late_ms) * 1e6).astype(np.int64)
    assert even_delay_ns(link, 2.0) / 1e6 == pytest.approx(delay_ms, abs=0.1)
    assert even_delay_ns(link, 1e6) == 0.0, "at such a rate a first segment takes longer"


@pytest.mark.parametrize(("beside", "tells"), [(0.9, True), (1.1, False)])
def test_messages_later_than_by_a_delay_in_each_round_trip_are_not_late_by_it(beside: float, tells: bool) -> None:
    trip_ns, late_ns = 400_000_000, 5_000_000
    link = slow("a", "b", (1.0,) * 4).link
    link = replace(link, designed=replace(link.designed, delay_s=Piecewise.constant(trip_ns / 2e9)))
    link.rows["recv_start_ns"] = link.rows["send_start_ns"] + trip_ns // 2 + late_ns
    usual_ns = float(np.median(link.expected_ns))
    slowdown = 1 + beside * late_ns * (OPENING + usual_ns / trip_ns) / usual_ns
    assert slowdown * link.frame_ns < late_ns - ASLEEP_NS, "that of its first segment is not why"
    assert even_delay_ns(link, slowdown) == (late_ns if tells else 0.0)
