"""What the messages of one link tell of its rate, where few of them are slow, or the last one is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change
from e2c_dl.diagnosis.resimulation.changes import what_if
from e2c_dl.diagnosis.resimulation.links import measured_link
from e2c_dl.diagnosis.resimulation.world import model_of
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Strategy
from e2c_dl.strategies.parameterserver import ParameterServer
from e2c_dl.trace.messages import MessageArray, join
from e2c_dl.worlds.virtual import LinkModel

DELAY_NS = 5_000_000
USUAL = LinkModel(rate_bps=50e6, delay_s=DELAY_NS / 1e9)
SLOW = replace(USUAL, rate_bps=10e6)


ALIKE = vw.everywhere(4, USUAL)
HOSTS = vw.hosts(4, of=vw.profile((120_000, 60_000)), noise=0.05)


def changing(
    steps: Sequence[tuple[float, LinkModel]], pair: tuple[int, int] = (1, 2)
) -> dict[tuple[int, int], LinkModel]:
    """The links between four ranks, all alike, but for that of ``pair``, which goes by ``steps``."""
    return ALIKE | {pair: replace(USUAL, conditions=lambda: iter(steps))}


def carried(steps: Sequence[tuple[float, LinkModel]]) -> MessageArray:
    """The messages of the link from rank 1 to rank 2 of a ring, which goes by ``steps``."""
    run = vw.run(Allreduce, size=4, seed=1, links=changing(steps), on_hosts=HOSTS, iterations=12)
    return join(run.trace).by_link()[1, 2]


def test_a_link_that_was_slow_for_a_while_was_as_it_had_been_before_and_after() -> None:
    rows = carried([(0.0, USUAL), (0.4, SLOW), (0.9, USUAL)])
    seen = measured_link(rows, 0, DELAY_NS).rate_bps
    assert seen.values == pytest.approx([USUAL.rate_bps, SLOW.rate_bps, USUAL.rate_bps], rel=0.1)
    assert seen.starts_s == pytest.approx([0.0, 0.4, 0.9], abs=0.1)


@pytest.mark.parametrize(
    ("strategy", "pair", "until_s"), [(ParameterServer, (1, 0), 2.4), (Allreduce, (1, 2), 3.0)], ids=["few", "many"]
)
def test_a_rate_that_is_asked_for_saves_what_the_report_says_of_the_one_that_was_designed(
    strategy: Callable[[], Strategy], pair: tuple[int, int], until_s: float
) -> None:
    usual, slow = (
        vw.run(strategy, size=4, seed=1, links=links, on_hosts=HOSTS, iterations=40)
        for links in (ALIKE, changing([(0.0, USUAL), (2.0, SLOW), (until_s, USUAL)], pair))
    )
    observed = observe(slow.trace, replace(slow, links=ALIKE).reference())
    src, dst = (slow.hosts[rank].name for rank in pair)
    asked = Changed(links={(src, dst): LinkChange(rate_bps=USUAL.rate_bps)})
    change, (departure,) = what_if(asked, observed.measured_links, quota=False), observed.links.departures
    saved_s = [slow.end_s - ns / 1e9 for ns in observed.replay.runs_ns([change, departure.restored])]
    assert saved_s == pytest.approx([slow.end_s - usual.end_s] * 2, rel=0.15)


def test_a_few_messages_that_are_known_to_be_slow_have_a_rate_of_their_own() -> None:
    rows = carried([(0.0, USUAL), (0.5, SLOW), (0.65, USUAL)])
    sent_s = rows["send_start_ns"] / 1e9
    slow = np.flatnonzero((sent_s >= 0.5) & (sent_s < 0.65))
    assert 0 < len(slow) < 5, "fewer than a stretch that is found by itself"
    edges_s = [float(sent_s[slow[0]]), float(sent_s[slow[-1] + 1])]
    known = measured_link(rows, 0, DELAY_NS, edges_s)
    seen, restored = known.rate_bps, Piecewise(starts_s=np.array([0.0, *edges_s]), values=np.array([1.0, 0.2, 1.0]))
    assert known.served(restored).starts_s.tolist() == seen.starts_s.tolist() != restored.starts_s.tolist()
    before, during, after = seen.values
    assert min(before, after) > 0.7 * USUAL.rate_bps > 1.3 * during  # one of them may begin or end before


def test_messages_that_are_small_beside_the_first_one_tell_a_change_that_is_known() -> None:
    first, *others = range(9)
    rows = np.repeat(carried([(0.0, USUAL)])[:1], 9)
    rows["nbytes"] = np.where(np.arange(9) == first, 1_000_000, 40_000)  # whole vectors, until rates are known
    slow = (np.arange(9) > 2) & (np.arange(9) < 6)
    service_ns = wire_bits_of(rows["nbytes"]) / np.where(slow, SLOW.rate_bps, USUAL.rate_bps) * 1e9
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(9) * 10**9
    rows["recv_end_ns"] = rows["send_start_ns"] + DELAY_NS + service_ns.astype(np.int64)
    seen = measured_link(rows, 0, DELAY_NS, [3.0, 6.0])
    assert seen.rate_bps.values == pytest.approx([USUAL.rate_bps, SLOW.rate_bps, USUAL.rate_bps], rel=1e-3)
    assert len(measured_link(rows[others], 0, DELAY_NS).rate_bps.values) == 1  # too few to be found by themselves


def test_a_link_that_carried_nothing_until_it_was_another_changed_in_the_middle_of_that() -> None:
    rows = carried([(0.0, USUAL)])[:8].copy()
    late_ns, added_ns = 10**9, 40_000_000
    for end in ("posted_ns", "send_start_ns", "recv_start_ns", "recv_end_ns"):
        rows[end][4:] += late_ns
    rows["recv_end_ns"][4:] += added_ns
    delays_ns = DELAY_NS + np.repeat([0, added_ns], 4)
    edge_s = float(rows["send_start_ns"][4]) / 1e9
    seen = measured_link(rows, 0, delays_ns, [edge_s])
    idle_s = float(rows["send_start_ns"][4] - rows["recv_end_ns"][3]) / 1e9
    assert idle_s > 0.9
    assert seen.delay_s.starts_s[1] == pytest.approx(edge_s - idle_s / 2, abs=0.03)
    less_s = Piecewise(starts_s=np.array([0.0, edge_s]), values=np.array([0.0, added_ns / 1e9]))
    change = Change(element=Element(kind=ElementKind.LINK, src="a", dst="b"), less_s=less_s)
    delays_s = [now.delay_s for _, now in model_of(seen, USUAL, [change]).over_time()]
    assert delays_s == pytest.approx([DELAY_NS / 1e9] * len(delays_s)), "restored whenever it was late"


def test_a_delay_that_a_single_message_met_is_taken_off_whenever_it_was_there() -> None:
    rows, met, added_ns = carried([(0.0, USUAL)])[:9].copy(), 4, 40_000_000
    gap_ns = 10**9 * np.arange(9)
    for end in ("posted_ns", "send_start_ns", "recv_start_ns", "recv_end_ns"):
        rows[end] += gap_ns
    rows["recv_end_ns"][met] += added_ns
    seen = measured_link(rows, 0, DELAY_NS + np.where(np.arange(9) == met, added_ns, 0))
    assert seen.delay_s.values.tolist() == pytest.approx([0.005, 0.045, 0.005])
    sent_s = rows["send_start_ns"] / 1e9
    starts_s = np.array([0.0, sent_s[met], sent_s[met + 1]])
    less_s = Piecewise(starts_s=starts_s, values=np.array([0.0, added_ns / 1e9, 0.0]))
    change = Change(element=Element(kind=ElementKind.LINK, src="a", dst="b"), less_s=less_s)
    delays_s = [now.delay_s for _, now in model_of(seen, USUAL, [change]).over_time()]
    assert delays_s == pytest.approx([DELAY_NS / 1e9] * len(delays_s))


def test_a_rate_changed_between_two_messages_that_tell_one() -> None:
    rows = carried([(0.0, USUAL)])[:8].copy()
    rows["nbytes"][:] = rows["nbytes"].max()
    rows["nbytes"][4] = 54  # a barrier's, shortly before the first slow one
    service_ns = (wire_bits_of(rows["nbytes"]) / np.repeat([50e6, 10e6], 4) * 1e9).astype(np.int64)
    rows["send_start_ns"] = [
        0,
        100_000_000,
        200_000_000,
        300_000_000,
        *range(1_900_000_000, 2_700_000_000, 200_000_000),
    ]
    rows["recv_end_ns"] = rows["send_start_ns"] + service_ns + DELAY_NS
    seen = measured_link(rows, 0, DELAY_NS, [1.9])
    assert seen.rate_bps.starts_s[1] == pytest.approx((0.3 + service_ns[3] / 1e9 + 2.1) / 2, abs=1e-3)


def test_a_small_message_behind_the_last_edge_tells_no_rate() -> None:
    rows = carried([(0.0, USUAL)])
    last = rows[-1:].copy()
    last["nbytes"] = 54
    for end in ("posted_ns", "send_start_ns", "recv_start_ns", "recv_end_ns"):
        last[end] += 10**9
    last["recv_end_ns"] += 30_000_000  # read late: a barrier's, when all was over
    edge_s = float(last["send_start_ns"][0]) / 1e9
    seen = measured_link(np.concatenate([rows, last]), 0, DELAY_NS, [edge_s])
    assert seen.rate_bps.values.tolist() == [pytest.approx(USUAL.rate_bps, rel=0.02)]


def test_one_large_message_among_small_ones_is_no_stall() -> None:
    rows = carried([(0.0, SLOW)])[:4].copy()
    rows["nbytes"][:3] = 54
    for place, row in enumerate(rows):
        at_ns = place * 10**9
        service_ns = 200_000_000 if place == 3 else 0  # small ones arrive within the delay, as it is known
        row["posted_ns"], row["send_start_ns"], row["recv_start_ns"] = at_ns, at_ns, at_ns
        row["recv_end_ns"] = at_ns + DELAY_NS + service_ns
    seen = measured_link(rows, 0, DELAY_NS)
    assert seen.stalls == ()
    assert seen.rate_bps.values.tolist() == [pytest.approx(wire_bits_of(rows["nbytes"]).sum() / 0.2, rel=0.01)]
