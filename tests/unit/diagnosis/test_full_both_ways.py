"""Two links of a pair that are full both ways: a message waits as long as the other way's queue exceeds its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from test_behind_data import APART_NS, NBYTES, slow

from e2c_dl.diagnosis.departures import Departure, findings
from e2c_dl.diagnosis.detection.links.tcp_windows import acknowledged_late_ns
from e2c_dl.diagnosis.detection.links.way_back import behind_data
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.replay.whatif import WhatIf, scaled
from e2c_dl.diagnosis.stretches import throughout
from e2c_dl.trace.propagation.connections import LINK_ITERATION, LinkTraffic

COUNT = 20
EVENLY_LATE = (*[1.0] * 6, *[1.25] * 8, *[1.0] * 6)  # in the middle of the run, as by a lower rate


def seen(link: ObservedLink, windows: list[float]) -> ObservedLink:
    """``link``, at whose socket somebody looked at the end of each iteration, and found these windows."""
    table = np.zeros(len(windows), dtype=LINK_ITERATION)
    table["start_ns"] = np.arange(-1, len(windows) - 1) * APART_NS
    table["end_ns"], table["window_bytes"] = table["start_ns"] + APART_NS - 1, windows
    traffic = LinkTraffic(src=0, dst=1, connections=1, per_iteration=table, total=table[:1], is_data=True)
    return replace(link, traffic=traffic)


def opening(window: float, back: float, times: tuple[float, ...] = EVENLY_LATE, later_ns: int = 0) -> list[object]:
    """Who is late at such windows, of whole messages, beside data of the other way that is not."""
    late = slow("a", "b", times)
    late.link = seen(late.link, [window * NBYTES] * COUNT)
    late.judged.windows[:] = np.array(times) > 1
    other = seen(slow("b", "a", (1.0,) * COUNT, later_ns=later_ns).link, [back * NBYTES] * COUNT)
    return list(behind_data([late], {("b", "a"): other}, {})[1])


@pytest.mark.parametrize(
    ("window", "back", "waits"),
    [(0.7, 0.95, True), (0.7, 3.0, True),  # its queue is no longer than the message
     (1.0, 3.0, False),  # a whole message needs no acknowledgement
     (0.7, 0.75, False), (0.2, 0.21, False),  # the queue is hardly longer than the window
     (0.2, 0.3, True),  # again after each window
     (np.nan, 0.95, False), (0.7, np.nan, False)],
)  # fmt: skip
def test_who_is_late_as_long_as_its_window_is_shorter_than_the_other_ways_queue_is_not_to_blame(
    window: float, back: float, waits: bool
) -> None:
    assert opening(window, back) == ([("a", "b")] if waits else [])


def test_who_is_later_than_that_is_to_blame() -> None:
    assert opening(0.7, 0.95, tuple(1 + 3 * (each - 1) for each in EVENLY_LATE)) == []
    assert opening(0.7, 0.95, later_ns=APART_NS * 45 // 100) == [], "the other way has nothing under way then"


def test_who_sent_something_again_before_has_a_short_window_for_that() -> None:
    for again, waits in (([0.0] * COUNT, True), ([0.0, 1.0] * (COUNT // 2), False)):
        late = slow("a", "b", EVENLY_LATE)
        late.link = seen(late.link, [0.7 * NBYTES] * COUNT)
        late.link.traffic.per_iteration["retransmissions"] = again
        late.judged.windows[:] = np.array(EVENLY_LATE) > 1
        back = seen(slow("b", "a", (1.0,) * COUNT).link, [0.95 * NBYTES] * COUNT)
        assert behind_data([late], {("b", "a"): back}, {})[1] == ([("a", "b")] if waits else [])


def test_how_long_messages_may_wait() -> None:
    link, back = slow("a", "b", (1.0,) * 4).link, slow("b", "a", (1.0,) * 4).link
    assert acknowledged_late_ns(link, back) is None
    assert acknowledged_late_ns(seen(link, [1.0] * 4), back) is None
    windows = [np.nan, 0.5 * NBYTES, 0.5 * NBYTES, NBYTES]
    may_ns = acknowledged_late_ns(seen(link, windows), seen(back, [0.75 * NBYTES] * 4))
    assert may_ns == pytest.approx(np.array([0.0, 0.25, 0.25, 0.0]) * link.expected_ns, rel=1e-6)


class Hiding:
    """A run of ten seconds that takes eight once two things are restored; either alone saves next to nothing."""

    def laps_ns(self, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        return [(10 * APART_NS,), *((10 * APART_NS - 2 * APART_NS * (len(each.changes) == 2),) for each in whatifs)]


def departure(host: str) -> Departure:
    element = Element(kind=ElementKind.HOST, src=host)
    return Departure(
        element=element, part=Part.COMPUTE, when=throughout(10.0), slowdown=2.0, observed=2.0, expected=1.0,
        evidence="", restored=scaled(element, 0.5), excess_s=5.0,
    )  # fmt: skip


def test_what_is_excused_hides_nobody_and_is_not_found_itself() -> None:
    (alone,) = findings([departure("a")], Hiding())
    (found,) = findings([departure("a")], Hiding(), [departure("b")])
    assert not alone.material
    assert found.material and (found.element.src, found.joint_saved_s, found.saved_s) == ("a", 2.0, 0.0)
