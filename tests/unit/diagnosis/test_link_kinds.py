"""What of a link departs: its rate, its delay, or what it loses; late reads of a busy machine are none of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection.links.kinds import kind_of
from e2c_dl.diagnosis.detection.links.kinds_simulated import lost_a_round_trip
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Finding, Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.messages import MESSAGE
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.propagation.connections import LINK_ITERATION, Connections, LinkTraffic
from e2c_dl.worlds.virtual import LinkModel

SIZE, SLOW = 4, (1, 2)
ASKED = LinkModel(rate_bps=50e6, delay_s=0.002, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))


def trained(**departs: float) -> vw.Run:
    """A run one link of which departs."""
    links = {**vw.everywhere(SIZE, ASKED), SLOW: replace(ASKED, **departs)}
    hosts = vw.hosts(SIZE, of=vw.profile((120_000, 60_000)), noise=0.05)
    return vw.run(Allreduce, size=SIZE, seed=1, links=links, on_hosts=hosts, iterations=25)


def named(run: vw.Run, trace: Trace) -> Finding:
    """Its only culprit, by what was asked for."""
    reference = replace(run, links=vw.everywhere(SIZE, ASKED)).reference()
    (culprit,) = analyse(trace, reference).culprits
    return culprit


@pytest.mark.parametrize(
    ("departs", "part"),
    [({"rate_bps": 16e6}, Part.RATE), ({"loss": 0.02}, Part.LOSS), ({"delay_s": 0.04, "rate_bps": 50e6}, Part.DELAY)],
)
def test_a_link_departs_by_what_was_changed(departs, part) -> None:
    run = trained(**departs)
    culprit = named(run, run.trace)
    assert (culprit.element.src, culprit.element.dst) == ("edge-2", "edge-3")
    assert culprit.part is part


@pytest.mark.parametrize(("again", "is_loss"), [(100.0, True), (0.0, False), (2.0, False), (np.nan, True)])
def test_where_no_socket_sent_anything_again_or_too_little_nothing_was_lost(again, is_loss) -> None:
    run = trained(loss=0.02)
    total = np.zeros(1, dtype=LINK_ITERATION)
    total["segments"], total["retransmissions"] = 1000, again
    told = LinkTraffic(src=1, dst=2, connections=1, per_iteration=total[:0], total=total, is_data=True)
    trace = replace(run.trace, connections=Connections(links=(told,)))
    assert (named(run, trace).part is Part.LOSS) is is_loss


def test_a_slow_link_some_of_whose_messages_are_read_late_loses_nothing() -> None:
    run = trained(rate_bps=16e6)
    reader = run.trace.ranks[SLOW[1]]
    late = reader.spans.copy()
    received = np.flatnonzero((late["phase"] == Phase.RECEIVE) & (late["src"] == SLOW[0]))
    late["end_ns"][received[::20]] += 4_000_000
    ranks = tuple(replace(rank, spans=late) if rank is reader else rank for rank in run.trace.ranks)
    assert named(run, replace(run.trace, ranks=ranks)).part is Part.RATE


def served(nbytes: list[int], rate_bps: float, late_s: list[float]) -> ObservedLink:
    """A link designed for 8 Mbit/s and 2 ms that serves pairs of messages at ``rate_bps``, each so much later."""
    rows = np.zeros(len(nbytes), dtype=MESSAGE)
    rows["nbytes"] = nbytes
    service_ns = wire_bits_of(rows["nbytes"]) / rate_bps * 1e9
    rows["posted_ns"] = rows["send_start_ns"] = np.repeat(np.arange(len(nbytes) // 2), 2) * 2 * 10**9
    behind_ns = np.where(np.arange(len(nbytes)) % 2, np.roll(service_ns, 1), 0.0)
    rows["recv_end_ns"] = rows["send_start_ns"] + 2_000_000 + np.round(service_ns + behind_ns + np.array(late_s) * 1e9)
    designed = Designed(own=Piecewise.constant(8e6), delay_s=Piecewise.constant(0.002))
    return ObservedLink(
        src="edge-1", dst="edge-2", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0
    )


def counted(link: ObservedLink, again_at: set[int]) -> ObservedLink:
    """``link`` with what its sender's socket counted: an iteration for each pair of messages."""
    table = np.zeros(len(link.rows) // 2, dtype=LINK_ITERATION)
    table["iteration"] = np.arange(len(table))
    table["start_ns"] = link.rows["send_start_ns"][::2]
    table["end_ns"] = np.append(table["start_ns"][1:], link.rows["recv_end_ns"][-1])
    table["segments"], table["retransmissions"] = 560, [1.0 * (place in again_at) for place in range(len(table))]
    total = table[:1].copy()
    total["segments"], total["retransmissions"] = table["segments"].sum(), table["retransmissions"].sum()
    traffic = LinkTraffic(src=0, dst=1, connections=1, per_iteration=table, total=total, is_data=True)
    return replace(link, traffic=traffic)


@pytest.mark.parametrize(
    ("again_at", "part"),
    [({0, 8, 16}, Part.LOSS), ({5, 13, 21}, Part.RATE), (set(), Part.RATE)],  # each window halved; long after; never
)
def test_messages_that_are_later_soon_after_few_losses_lose_segments(again_at: set[int], part: Part) -> None:
    longer = [1.5, 1.3, 1.1, 0.9, 0.75, 0.6, 0.5, 0.4] * 3  # a window that was halved, and grows again
    link = served([200_000, 400_000] * 24, 8e6, [each * took_s for each in longer for took_s in (0.21, 0.63)])
    kind = kind_of(counted(link, again_at), np.ones(48, dtype=bool))
    assert kind.part is part


def test_small_messages_beside_large_ones_are_no_scatter() -> None:
    kind = kind_of(served([54, 400_000] * 20, 4e6, [0.0] * 40), np.ones(40, dtype=bool))
    assert (kind.part, kind.rate) == (Part.RATE, pytest.approx(2.0, rel=1e-6))


def test_what_is_later_by_less_than_it_takes_to_send_again_is_not_lost() -> None:
    late_s = [0.08 + (0.03 if place % 10 == 9 else 0.0) for place in range(40)]  # TCP's window, now and then
    kind = kind_of(served([5_000, 9_000] * 20, 8e6, late_s), np.ones(40, dtype=bool))
    assert (kind.part, kind.delay_ns) == (Part.DELAY, pytest.approx(80e6, rel=0.02))


@pytest.mark.parametrize(("late_s", "lost"), [(0.0041, True), (0.006, False)])
def test_what_is_late_by_a_round_trip_was_sent_again(late_s: float, lost: bool) -> None:
    link = served([40_000, 9_000] * 20, 8e6, [late_s if place % 3 else 0.0 for place in range(40)])
    kind = lost_a_round_trip(link, np.ones(40, dtype=bool), late_s * 1e9)
    assert (kind is not None) is lost
    if kind is not None:
        assert (kind.part, 0 < kind.late_share < 1) == (Part.LOSS, True)


@pytest.mark.parametrize(("late_s", "part"), [(0.08, Part.DELAY), (0.004, Part.LOSS), (0.204, Part.LOSS)])
def test_messages_that_are_late_by_one_time_or_not_at_all_are_so_by_a_delay(late_s: float, part: Part) -> None:
    late = [late_s if place % 5 < 2 else 0.0 for place in range(20) for _ in range(2)]
    kind = kind_of(served([600, 900] * 20, 8e6, late), np.ones(40, dtype=bool))
    assert kind.part is part, "unless it was a round trip, or when TCP's time was out"
    if part is Part.DELAY:
        assert kind.delay_ns == pytest.approx(late_s * 1e9, rel=0.02)


def test_large_messages_that_are_all_late_amid_small_ones_that_are_not_show_a_rate() -> None:
    late_s = [0.5 if place in (1, 3, 5) else 0.0 for place in range(40)]  # the first large ones: TCP's window opens
    kind = kind_of(served([54, 400_000] * 20, 4e6, late_s), np.ones(40, dtype=bool))
    assert (kind.part, kind.rate) == (Part.RATE, pytest.approx(2.0, rel=1e-6))


def test_messages_on_time_at_the_ends_of_what_departs_are_no_part_of_it() -> None:
    late_s = [0.0, 0.0, 0.0, *[0.08] * 30, 0.0, 0.0, 0.0, 0.0, 0.0, *[0.08] * 4]
    departs = np.arange(42) < 38  # a window begins and ends beside the delay, and another episode follows
    kind = kind_of(served([5_000, 9_000] * 21, 8e6, late_s), departs)
    assert (kind.part, kind.delay_ns) == (Part.DELAY, pytest.approx(80e6, rel=0.02))


def queued(paces: list[float]) -> ObservedLink:
    """A link of 8 Mbit/s and 2 ms: six messages at a time leave and arrive at ``paces``, 3 s later."""
    link = served([100_000] * len(paces), 8e6, [0.0] * len(paces))
    rows, each_ns = link.rows.copy(), wire_bits_of(np.array([100_000])) / 8e6 * 1e9
    starts_ns = (
        np.concatenate([[0], np.cumsum(np.array(paces) * each_ns)])[:-1] + np.arange(len(paces)) // 6 * 5 * 10**9
    )
    rows["send_start_ns"], rows["posted_ns"] = starts_ns, np.repeat(starts_ns[::6], 6)
    rows["recv_end_ns"] = starts_ns + 3_002_000_000 + each_ns[0]
    return replace(link, rows=rows)


@pytest.mark.parametrize(
    ("paces", "part"), [([1.0] * 36, Part.DELAY), ([4.0, 9.0, 5.0, 12.0, 7.0, 3.0] * 6, Part.LOSS)]
)
def test_messages_that_wait_unevenly_at_their_sender_are_not_late_by_a_delay(paces: list[float], part: Part) -> None:
    assert kind_of(queued(paces), np.ones(len(paces), dtype=bool)).part is part


def test_a_rate_that_comes_and_goes_within_windows_is_no_loss() -> None:
    link = served([100_000] * 60, 8e6, [0.0] * 60)
    times = np.array([1.0, 1.0, 1.5, 1.5, 1.2, 1.0] * 10)
    rows = link.rows.copy()
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(60) * 10**9
    rows["recv_end_ns"] = rows["send_start_ns"] + 2_000_000 + np.round(times * link.expected_ns)
    kind = kind_of(replace(link, rows=rows), np.ones(60, dtype=bool))
    assert (kind.part, kind.rate) == (Part.RATE, pytest.approx(1.5, rel=0.01))


def test_messages_that_come_sooner_than_an_added_delay_would_let_them_are_not_late_by_one() -> None:
    late_s = [1.3, 0.9, 1.9, 1.1, 1.6, 0.7, 1.4, 2.1, 1.0, 1.2] * 3
    link = served([100_000] * 30, 8e6, late_s)
    rows = link.rows.copy()
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(30) * 4 * 10**9
    rows["recv_end_ns"] = rows["send_start_ns"] + 2_000_000 + link.expected_ns + np.array(late_s) * 1e9
    assert kind_of(replace(link, rows=rows), np.ones(30, dtype=bool)).part is Part.LOSS


@pytest.mark.parametrize(("halved", "part"), [(30, Part.LOSS), (10**9, Part.RATE_OR_DELAY)])
def test_a_window_that_grows_again_is_a_loss_and_what_stays_slow_is_none(halved: float, part: Part) -> None:
    late_s = [0.3 * 0.5 ** (place / halved * 4) for place in range(30)]
    rows = served([400_000] * 60, 8e6, [each for late in late_s for each in (late, 0.0)]).rows[::2]
    link = replace(served([400_000] * 60, 8e6, [0.0] * 60), rows=rows)
    assert kind_of(link, np.ones(30, dtype=bool)).part is part


def test_late_messages_that_are_nothing_beside_others_of_the_link_tell_a_delay() -> None:
    rows = np.zeros(40, dtype=MESSAGE)
    late = np.arange(40) >= 20
    rows["nbytes"], rows["send_start_ns"] = np.where(late, 54, 100_000), np.arange(40) * 10**9
    rows["recv_end_ns"] = rows["send_start_ns"] + (wire_bits_of(rows["nbytes"]) * 100 + late * 80e6).astype(np.int64)
    designed = Designed(own=Piecewise.constant(10e6), delay_s=Piecewise.constant(0.0))
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0)
    found = kind_of(link, late)
    assert found.part is Part.DELAY
    assert found.delay_ns == pytest.approx(80e6, rel=0.1)


def test_of_two_messages_that_leave_together_neither_tells_by_itself_what_the_link_took() -> None:
    rows = np.zeros(60, dtype=MESSAGE)
    kind, turn = np.arange(60) % 3, np.arange(60) // 3
    took_ns = float(wire_bits_of(np.array([100_000]))[0]) * 100 * np.where(turn // 5 % 2 == 1, 1.5, 1.0)
    together = (turn % 4 == 0) & (kind < 2)
    rows["nbytes"], rows["send_start_ns"] = 100_000, turn * 10**9 + np.where(together, 0, kind * 3 * 10**8)
    there = np.where(together, np.choose(kind, [1.3, 2.0, 0.0]), 1.0)  # the second overtakes the first for a while
    rows["recv_end_ns"] = rows["send_start_ns"] + (there * took_ns).astype(np.int64)
    designed = Designed(own=Piecewise.constant(10e6), delay_s=Piecewise.constant(0.0))
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0)
    found = kind_of(link, np.ones(60, dtype=bool))
    assert (found.part, round(found.rate, 2)) == (Part.RATE, 1.5)


def test_a_rate_that_is_low_within_windows_that_it_fills_is_no_loss() -> None:
    link = served([100_000] * 18, 8e6, [0.0] * 18)
    times = np.array([2.8, 3.0, 1.8, 1.7, 3.0, 3.0] * 3)  # it changes while the first or the last of three is served
    ends_ns = 2_000_000 + np.round(np.cumsum(times * link.expected_ns))
    rows = link.rows.copy()
    rows["posted_ns"] = rows["send_start_ns"] = 0
    rows["recv_end_ns"] = ends_ns
    kind = kind_of(replace(link, rows=rows), np.ones(18, dtype=bool))
    assert (kind.part, kind.rate) == (Part.RATE, pytest.approx(3.0, rel=0.01))


LOSING_S = (18.318, 18.212, 20.119, 18.331, 16.39, 16.636, 18.467, 18.667, 18.005, 18.4)  # 5 % of 2,200 segments


@pytest.mark.parametrize(
    ("took", "part"),
    [
        (20.0 + 0.2 * np.random.default_rng(4).normal(0.0, 1.0, 40), Part.RATE_OR_DELAY),
        (20.0 + 1.8 * np.random.default_rng(4).normal(0.0, 1.0, 40), Part.RATE_DELAY_OR_LOSS),
        (np.array(LOSING_S), Part.RATE_DELAY_OR_LOSS),
    ],
)
def test_alike_messages_that_scatter_may_be_late_by_what_was_lost(took: npt.NDArray[np.float64], part: Part) -> None:
    """``took``: times longer than designed, each."""
    rows = np.zeros(len(took), dtype=MESSAGE)
    rows["nbytes"] = 100_000
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(len(took)) * 10 * 10**9
    rows["recv_end_ns"] = rows["send_start_ns"] + 2_000_000 + np.round(took * wire_bits_of(rows["nbytes"]) / 8e6 * 1e9)
    link = replace(served([100_000] * len(took), 8e6, [0.0] * len(took)), rows=rows)
    assert kind_of(link, np.ones(len(took), dtype=bool)).part is part


def test_small_messages_that_scatter_by_no_more_than_reads_do_are_no_loss() -> None:
    """A fifth of the rate; each takes half a millisecond, a tenth of one more or less, as jitter has it."""
    count, took_ns = 40, 500_000
    scatter_ns = np.random.default_rng(1).uniform(-100_000, 100_000, count)
    rows = np.zeros(count, dtype=MESSAGE)
    rows["nbytes"] = 400
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(count) * 10_000_000
    rows["recv_end_ns"] = rows["send_start_ns"] + took_ns + scatter_ns.astype(np.int64)
    bps = 5 * float(wire_bits_of(rows["nbytes"])[0]) / took_ns * 1e9
    designed = Designed(own=Piecewise.constant(bps), jitter_s=5e-5)
    link = ObservedLink(
        src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0
    )  # fmt: skip
    assert kind_of(link, np.ones(count, dtype=bool)).part is not Part.LOSS


def test_a_link_that_is_slow_by_itself_is_not_late_by_a_delay_for_what_others_leave_it_of_a_line() -> None:
    """Each message takes as long; how much of its line is left it meanwhile, and so what it should take, does not."""
    count, took_ns = 24, 600_000_000
    rows = np.zeros(count, dtype=MESSAGE)
    rows["nbytes"] = 146_606
    rows["recv_end_ns"] = took_ns * np.arange(1, count + 1)
    rows["send_start_ns"] = np.maximum(0, rows["recv_end_ns"] - 2 * took_ns)  # as the one before begins to arrive
    starts_s = np.arange(count) * took_ns / 1e9
    left = Piecewise(starts_s=starts_s, values=np.where(np.arange(count) % 2, 30e6, 25e6))
    designed = Designed(own=Piecewise.constant(50e6), left=left)
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=0)
    kind = kind_of(link, np.ones(count, dtype=bool))
    assert (kind.part, kind.delay_ns) == (Part.RATE, 0.0)
    assert kind.rate == pytest.approx(took_ns / link.expected_ns.mean(), rel=0.1)
