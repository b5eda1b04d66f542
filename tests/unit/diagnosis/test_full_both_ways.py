"""Two links of a pair that are full both ways: a message waits as long as the other way's queue exceeds its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from test_behind_data import APART_NS, NBYTES, RATE_BPS, slow

from e2c_dl.diagnosis.departures import Departure, findings
from e2c_dl.diagnosis.detection.links.kinds import Kind
from e2c_dl.diagnosis.detection.links.tcp_windows import acknowledged_late_ns
from e2c_dl.diagnosis.detection.links.way_back import behind_data
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import WhatIf, scaled
from e2c_dl.diagnosis.stretches import throughout
from e2c_dl.trace.propagation.connections import LINK_ITERATION, LinkTraffic

COUNT = 26
LATE = slice(8, 18)
TIMES = (*[1.0] * 8, *[1.25, 1.24, 1.26, 1.2, 1.25, 1.24, 1.22, 1.25, 1.2, 1.24], *[1.0] * 8)  # amid the run


def seen(link: ObservedLink, windows: Sequence[float]) -> ObservedLink:
    """``link``, at whose socket somebody looked at the end of each iteration, and found these windows."""
    table = np.zeros(len(windows), dtype=LINK_ITERATION)
    table["start_ns"] = np.arange(-1, len(windows) - 1) * APART_NS
    table["end_ns"], table["window_bytes"] = table["start_ns"] + APART_NS - 1, windows
    traffic = LinkTraffic(src=0, dst=1, connections=1, per_iteration=table, total=table[:1], is_data=True)
    return replace(link, traffic=traffic)


def amid(window: float, otherwise: float) -> np.ndarray:
    """Windows, of whole messages: ``window`` for those that are late, ``otherwise`` for others."""
    windows = np.full(COUNT, otherwise)
    windows[LATE] = window
    return windows * NBYTES


def held_up(
    window: float, back: float, *, times: tuple[float, ...] = TIMES, otherwise: float = 1.0, later_ns: int = 0,
    back_times: tuple[float, ...] = (1.0,) * COUNT, kind: Kind | None = None, again: float = 0.0,
) -> bool:  # fmt: skip
    """Whether who is late at such windows, beside data of the other way that is not, is held up by them.

    ``otherwise``: its window where it is on time; ``again``: segments that it sends again in each second iteration.
    """
    late = slow("a", "b", times)
    late.link = seen(late.link, amid(window, otherwise))
    late.link.traffic.per_iteration["retransmissions"][1::2] = again
    late.judged.windows[:] = np.array(times) > 1
    other = seen(slow("b", "a", back_times, later_ns=later_ns).link, np.full(COUNT, back * NBYTES))
    found = behind_data([late], {("b", "a"): other}, {} if kind is None else {("a", "b"): kind})
    assert found[:2] == ([], [])
    return found[2] == [("a", "b")]


@pytest.mark.parametrize(
    ("window", "back", "waits"),
    [(0.7, 0.95, True), (0.7, 3.0, True),  # its queue is no longer than the message
     (1.0, 3.0, False),  # a whole message needs no acknowledgement
     (0.7, 0.75, False), (0.2, 0.21, False),  # the queue is hardly longer than the window
     (0.2, 0.27, True),  # again after each window
     (0.0, 0.95, False), (np.nan, 0.95, False), (0.7, np.nan, False)],  # nobody saw one
)  # fmt: skip
def test_who_is_late_as_its_window_is_shorter_than_the_other_ways_queue_is_not_to_blame(
    window: float, back: float, waits: bool
) -> None:
    assert held_up(window, back) is waits


def test_who_is_on_time_at_the_same_windows_is_late_for_something_else() -> None:
    assert not held_up(0.7, 0.95, otherwise=0.7), "all may be late, and those amid the run are"
    assert not held_up(0.7, 0.95, times=(1.25,) * COUNT), "all are late, and those amid the run may be"
    assert not held_up(0.7, 0.95, times=tuple(1 + 3 * (each - 1) for each in TIMES)), "by more than windows make it"
    assert not held_up(0.7, 0.95, later_ns=APART_NS * 45 // 100), "the other way has nothing under way then"


def test_what_no_window_looks_like_is_blamed() -> None:
    assert held_up(0.7, 0.95, kind=Kind(part=Part.RATE, rate=1.25))
    for kind in (
        Kind(part=Part.DELAY, delay_ns=5e7), Kind(part=Part.RECEIVER), Kind(part=Part.LOSS, scatter=0.2),
        Kind(part=Part.RATE, rate=1.25, slow=((8.0, 18.0),)),
    ):  # fmt: skip
        assert not held_up(0.7, 0.95, kind=kind)


def test_who_sent_something_again_before_has_a_short_window_for_that() -> None:
    assert held_up(0.7, 0.95, again=0.0)
    assert not held_up(0.7, 0.95, again=1.0)


@pytest.mark.parametrize(("back", "waits"), [(1.25, False), (1.02, True)])
def test_who_departs_beside_one_that_does_so_as_well_is_blamed(back: float, waits: bool) -> None:
    late, other = slow("a", "b", TIMES), slow("b", "a", tuple(back if each > 1 else 1.0 for each in TIMES))
    late.link, other.link = seen(late.link, amid(0.7, 1.0)), seen(other.link, np.full(COUNT, 0.95 * NBYTES))
    late.judged.windows[:] = other.judged.windows[:] = np.array(TIMES) > 1
    found = behind_data([late, other], {each.link.pair: each.link for each in (late, other)}, {})
    assert (found[2] == [("a", "b")]) is waits


def test_how_long_messages_may_wait() -> None:
    link, back = slow("a", "b", (1.0,) * 4).link, slow("b", "a", (1.0,) * 4).link
    assert acknowledged_late_ns(link, back) is None
    assert acknowledged_late_ns(seen(link, [1.0] * 4), back) is None
    windows = [np.nan, 0.5 * NBYTES, np.nan, NBYTES]  # where it was not seen it is as it was
    may_ns = acknowledged_late_ns(seen(link, windows), seen(back, [0.75 * NBYTES] * 4))
    assert may_ns == pytest.approx(np.array([0.0, 0.25, 0.25, 0.0]) * link.expected_ns, rel=1e-6)
    fast = replace(back, designed=Designed(own=Piecewise.constant(2 * RATE_BPS)))  # its queue is over sooner
    may_ns = acknowledged_late_ns(seen(link, [0.25 * NBYTES] * 4), seen(fast, [0.75 * NBYTES] * 4))
    assert may_ns is not None and may_ns[1] == pytest.approx(0.125 * link.expected_ns[1] * 4 / 3, rel=1e-6)


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
