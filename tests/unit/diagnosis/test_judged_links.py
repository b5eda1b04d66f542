"""Links beside their design where some of what they carried tells nothing: barriers' messages, and silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.judged import JudgedLink, _tells_more, judged_links, slow_together
from e2c_dl.diagnosis.detection.links.series import LinkSeries, link_series
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.series import Levelled
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.references import Reference
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Bottleneck, Host, Topology
from e2c_dl.trace.messages import MESSAGE

COUNT, RATE_BPS, LARGE, SMALL = 40, 10e6, 100_000, 54
EVERY = np.arange(COUNT)
HOSTS = ("a", "b", "c")
PAIRS = (("a", "c"), ("b", "c"))


def design(*shared: tuple[str, str]) -> Design:
    """Of a modelled world, in which ``shared`` pairs of hosts share one line."""
    hosts = tuple(
        Host(name=name, layer="edge", service="Trainer", service_id=f"1_1_{rank}", role="", rank=rank)
        for rank, name in enumerate(HOSTS)
    )
    access = Bottleneck(name="access", rate_bps=2 * RATE_BPS, links=shared)
    topology = Topology(hosts=hosts, bottlenecks=(access,))
    reference = Reference(topology=topology, compute_factors={}, batch_sizes={}, modelled=True)
    return Design(reference=reference, began_ns=0, seconds=float(COUNT), judged_s=float(COUNT))


def carried(
    pair: tuple[str, str], iterations: np.ndarray, slow: np.ndarray, nbytes: np.ndarray | int = LARGE
) -> ObservedLink:
    """A message in each of ``iterations``, a second long, which takes three times as long as designed if ``slow``."""
    rows = np.zeros(len(iterations), dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = nbytes, iterations
    rows["send_start_ns"] = rows["posted_ns"] = iterations * 1e9
    took_ns = wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9 * np.where(slow, 3.0, 1.0)
    rows["recv_end_ns"] = rows["send_start_ns"] + took_ns.astype(np.int64)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    return ObservedLink(
        src=pair[0], dst=pair[1], rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2
    )


def judged(*links: ObservedLink) -> list[JudgedLink]:
    windows = Windows(begins_s=EVERY.astype(np.float64), until_s=float(COUNT))
    designed = design(*PAIRS)
    return judged_links(links, windows, designed, AsDesigned(links, designed))[0]


def test_a_slow_link_is_seen_though_barriers_messages_come_between() -> None:
    nbytes = np.where(EVERY % 2, LARGE, SMALL)
    (slow,) = judged(carried(PAIRS[0], EVERY, EVERY >= 0, nbytes))
    assert slow.departs
    assert slow.judged.slowdown == pytest.approx(3.0, rel=0.01)
    (healthy,) = judged(carried(PAIRS[0], EVERY, EVERY < 0, nbytes))
    assert not healthy.departs


@pytest.mark.parametrize(("apart_ns", "departs"), [(0, True), (2_000_000, False)])
def test_small_messages_that_follow_each_other_show_a_rate_that_no_one_of_them_is_late_enough_for(
    apart_ns: int, departs: bool
) -> None:
    each, slower = 60, 1.2
    rows = np.zeros(COUNT * each, dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = 602, np.repeat(EVERY, each)
    place = np.tile(np.arange(each), COUNT)
    rows["send_start_ns"] = rows["posted_ns"] = rows["iteration"] * 1e9 + place * apart_ns
    took_ns = slower * wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9
    waited_ns = 0.0 if apart_ns else place * took_ns
    rows["recv_end_ns"] = rows["send_start_ns"] + (waited_ns + took_ns).astype(np.int64)
    (one,) = judged(replace(carried(PAIRS[0], EVERY, EVERY < 0), rows=rows))
    assert one.link.first_of_row.sum() == (len(rows) if apart_ns else COUNT)
    assert one.departs is departs


@pytest.mark.parametrize(("others", "together"), [((3, 35), True), ((3, 17, 35), False)])
def test_a_line_is_slow_if_all_that_carried_anything_meanwhile_is(others: tuple[int, ...], together: bool) -> None:
    then = (EVERY >= 10) & (EVERY < 25)
    both = [carried(pair, EVERY, then) for pair in PAIRS]
    silent = carried(("a", "b"), np.array(others), np.zeros(len(others), dtype=bool))
    found = judged(*both, silent)
    slow = {each.link.pair for each in found if each.departs}
    assert slow == set(PAIRS)
    lines = slow_together(found, slow, design(*PAIRS, silent.pair))
    assert [str(line) for line in lines] == (["access"] if together else [])


@pytest.mark.parametrize(("well_at", "together"), [((3, 8, 14, 26), True), ((3, 8, 20, 26), False)])
def test_what_a_line_was_like_between_its_links_messages_nothing_tells(
    well_at: tuple[int, ...], together: bool
) -> None:
    now_and_then = [carried(pair, np.array([5, 11, 17, 20, 23]), np.ones(5, dtype=bool)) for pair in PAIRS]
    well = carried(("a", "b"), np.array(well_at), np.zeros(len(well_at), dtype=bool))
    found = judged(*now_and_then, well)
    slow = {each.link.pair for each in found if each.departs}
    assert slow == set(PAIRS)
    lines = slow_together(found, slow, design(*PAIRS, well.pair))
    assert [str(line) for line in lines] == (["access"] if together else [])


def test_a_line_is_slow_between_windows_that_follow_each_other_and_are_slow() -> None:
    both = [carried(pair, EVERY, EVERY >= 10) for pair in PAIRS]
    well = carried(("a", "b"), np.array([3, 5, 17]), np.zeros(3, dtype=bool))
    well.rows["send_start_ns"] += 500_000_000  # the slow ones' messages are there by then
    well.rows["recv_end_ns"] += 500_000_000
    found = judged(*both, well)
    assert not slow_together(found, set(PAIRS), design(*PAIRS, well.pair))


def test_what_carried_next_to_nothing_after_warm_up_says_nothing_against_a_slow_line() -> None:
    both = [carried(pair, EVERY, EVERY >= 0) for pair in PAIRS]
    early = carried(("a", "b"), np.array([0, 1, 30]), np.zeros(3, dtype=bool), np.array([LARGE, LARGE, SMALL]))
    found = judged(*both, early)
    slow = {each.link.pair for each in found if each.departs}
    assert slow == set(PAIRS)
    assert [str(line) for line in slow_together(found, slow, design(*PAIRS, early.pair))] == ["access"]


@pytest.mark.parametrize(("seen", "together"), [(4.0, True), (2.0, False)])
def test_a_link_of_which_so_much_would_not_have_been_seen_says_nothing_against_a_slow_line(
    seen: float, together: bool
) -> None:
    *both, other = judged(*(carried(pair, EVERY, EVERY >= 0) for pair in PAIRS), carried(("a", "b"), EVERY, EVERY < 0))
    blind = replace(other, judged=replace(other.judged, apart=float(np.log(seen))))
    lines = slow_together([*both, blind], set(PAIRS), design(*PAIRS, other.link.pair))
    assert [str(line) for line in lines] == (["access"] if together else [])


def test_as_many_links_of_which_nothing_would_have_been_seen_as_are_slow_say_that_the_line_is_not() -> None:
    *both, one, other = judged(
        *(carried(pair, EVERY, EVERY >= 0) for pair in PAIRS),
        *(carried(pair, EVERY, EVERY < 0) for pair in (("a", "b"), ("b", "a"))),
    )
    blind = [replace(each, judged=replace(each.judged, apart=float(np.log(4.0)))) for each in (one, other)]
    own = design(*PAIRS, *(each.link.pair for each in blind))
    assert not slow_together([*both, *blind], set(PAIRS), own)
    assert slow_together([*both, blind[0]], set(PAIRS), own)


@pytest.mark.parametrize(("early", "on_time"), [(0.0, True), (0.28, False)])
def test_a_link_that_was_late_in_the_warm_up_if_not_surely_was_not_on_time_then(early: float, on_time: bool) -> None:
    link = carried(PAIRS[0], EVERY, EVERY >= 2)
    windows = Windows(begins_s=EVERY.astype(np.float64), until_s=float(COUNT))
    whole, later = link_series(link, windows, would_ns=link.expected_ns), link_series(link, windows)
    assert whole is not None
    assert later is not None

    def told(of: LinkSeries, segments: list[tuple[int, int]], *levels: float) -> JudgedLink:
        lengths = np.array([float(stop - start) for start, stop in segments])
        noisy = Levelled(series=of.series, noise=0.3, found=segments, levels=np.array(levels), told_by=lengths)
        return JudgedLink(of=of, judged=noisy.judged(0.0, floor=0.05))

    count = len(later.series)
    first = COUNT - count
    from_the_first = told(whole, [(0, first), (first, COUNT)], early, 1.1)
    assert not from_the_first.judged.departs[0], "of so few windows nothing is sure"
    assert _tells_more(from_the_first, told(later, [(0, count)], 1.1)) is on_time
