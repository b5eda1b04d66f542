"""What TCP makes of a link that is as designed is nobody's departure, and what is slower than that is one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.references import Reference
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.ako import Ako
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.worlds.virtual import LinkModel

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
WIDE = LinkModel(rate_bps=400e6, delay_s=0.01, tcp=TCP)  # a message is a small part of what it holds
SIZE = 3
PROFILE = vw.profile((120_000, 60_000), per_sample_s=5e-3)


def ran(links) -> vw.Run:
    return vw.run(Allreduce, size=SIZE, seed=1, links=links, on_hosts=vw.hosts(SIZE, of=PROFILE), iterations=6)


def told(links, reference_links=None) -> tuple[list[bool], Reference]:
    """Whether each link of a ring that carried its messages over ``links`` is as TCP makes it, all of them asked."""
    run = ran(links)
    designed = replace(run, links=reference_links or links).reference()
    reference = replace(designed, tcp=TCP, modelled=True)
    observed = observe(run.trace, reference)
    as_designed = AsDesigned(observed.carried, observed.design)
    return [as_designed.explains(link, np.ones(len(link.rows), dtype=bool)) for link in observed.carried], reference


def test_windows_that_open_are_as_designed() -> None:
    explained, reference = told(vw.everywhere(SIZE, WIDE))
    assert explained == [True] * len(explained)
    run = ran(vw.everywhere(SIZE, WIDE))
    observed = observe(run.trace, reference)
    late = [float(link.services_ns.sum() / link.expected_ns.sum()) for link in observed.carried]
    assert min(late) > 1.5, "their rate alone would not tell"


NARROW = replace(WIDE, rate_bps=20e6)


@pytest.mark.parametrize(
    ("designed", "slow"),
    [(WIDE, NARROW), (WIDE, replace(WIDE, delay_s=0.04)), (NARROW, replace(NARROW, rate_bps=20e6 / 1.07))],
    ids=["rate", "delay", "by a little"],
)
def test_a_link_that_is_slower_than_designed_is_not(designed: LinkModel, slow: LinkModel) -> None:
    links = vw.everywhere(SIZE, designed)
    explained, _ = told({**links, (0, 1): slow}, links)
    assert explained.count(False) == 1


def test_a_delay_of_one_way_is_not_the_other_ways_whose_acknowledgements_it_holds_up() -> None:
    links = vw.everywhere(2, WIDE)
    run = vw.run(
        Allreduce, size=2, seed=1, links={**links, (0, 1): replace(WIDE, delay_s=0.05)},
        on_hosts=vw.hosts(2, of=PROFILE), iterations=3,
    )  # fmt: skip
    observed = observe(run.trace, replace(replace(run, links=links).reference(), tcp=TCP, modelled=True))
    late, held_up = (replace(each, added_delay_ns=0) for each in observed.carried)
    assert float(held_up.services_ns.sum() / held_up.expected_ns.sum()) > 2, "its windows opened later"
    as_designed = AsDesigned([late, held_up], observed.design)
    assert [as_designed.explains(each, np.ones(len(each.rows), dtype=bool)) for each in (late, held_up)] == [
        False,
        True,
    ]


@pytest.mark.parametrize("late", [4, 3], ids=["all", "one is on time"])
def test_a_way_back_that_carried_nothing_is_as_late_as_all_others_between_its_layers(late: int) -> None:
    links = vw.everywhere(5, WIDE)
    held_up = vw.hosts(5, of=PROFILE, layers=("cloud", *["edge"] * 4))
    slow = {(0, edge): replace(WIDE, delay_s=0.05) for edge in range(1, late + 1)}
    run = vw.run(Ako, size=5, seed=1, links=links | slow, on_hosts=held_up, iterations=3)
    observed = observe(run.trace, replace(replace(run, links=links).reference(), tcp=TCP, modelled=True))
    carried = [replace(each, added_delay_ns=0) for each in observed.carried if each.pair != ("edge-1", "edge-2")]
    (link,) = (each for each in carried if each.pair == ("edge-2", "edge-1"))
    explained = AsDesigned(carried, observed.design).explains(link, np.ones(len(link.rows), dtype=bool))
    assert explained is (late == 4)


def test_where_it_is_not_known_what_sends_nothing_is_explained() -> None:
    run = ran(vw.everywhere(SIZE, WIDE))
    observed = observe(run.trace, replace(run.reference(), tcp=None))
    as_designed = AsDesigned(observed.carried, observed.design)
    assert not any(as_designed.explains(link, np.ones(len(link.rows), dtype=bool)) for link in observed.carried)


@pytest.mark.parametrize(("jitter_s", "explained"), [(0.0, False), (0.0002, True)])
def test_a_message_or_two_may_be_late_by_the_jitter_that_links_have_by_design(jitter_s: float, explained: bool) -> None:
    small = vw.hosts(SIZE, of=vw.profile((60, 30)))
    run = vw.run(Allreduce, size=SIZE, links=vw.everywhere(SIZE, WIDE), on_hosts=small)
    reference = replace(run.reference(), tcp=TCP, modelled=True)
    topology = reference.topology
    links = {pair: replace(link, jitter_s=jitter_s) for pair, link in topology.links.items()}
    observed = observe(run.trace, replace(reference, topology=replace(topology, links=links)))
    link = observed.carried[0]
    late = replace(link, rows=link.rows.copy())
    late.rows["recv_end_ns"][-1] += 150_000
    last = np.arange(len(late.rows)) == len(late.rows) - 1
    assert AsDesigned([late], observed.design).explains(late, last) is explained


def test_messages_that_windows_hold_up_as_designed_are_known() -> None:
    run = ran(vw.everywhere(SIZE, WIDE))
    for tcp, held_up in ((TCP, True), (None, False)):
        observed = observe(run.trace, replace(run.reference(), tcp=tcp, modelled=True))
        as_designed = AsDesigned(observed.carried, observed.design)
        assert all(as_designed.held_up(link).any() == held_up for link in observed.carried)


CHANGED = {
    "a rate": replace(NARROW, rate_bps=NARROW.rate_bps / 5),
    "a delay": replace(NARROW, delay_s=NARROW.delay_s + 0.2),
}


def busy(changed: LinkModel, begins_s: tuple[float, ...]) -> tuple[ObservedLink, AsDesigned]:
    """The link from rank 0 to rank 1, always busy, that is ``changed`` for 0.2 s again and again."""
    steps = [
        (0.0, NARROW),
        *((at_s + late_s, link) for at_s in begins_s for late_s, link in ((0, changed), (0.2, NARROW))),
    ]
    links = vw.everywhere(2, NARROW)
    slow = replace(NARROW, conditions=lambda: iter(steps))
    run = vw.run(Ako, size=2, seed=1, links={**links, (0, 1): slow}, on_hosts=vw.hosts(2, of=PROFILE), iterations=40)
    observed = observe(run.trace, replace(replace(run, links=links).reference(), tcp=TCP, modelled=True))
    link = replace(observed.carried[0], added_delay_ns=0)
    return link, AsDesigned([link], observed.design)


@pytest.mark.parametrize("what", CHANGED)
def test_a_delay_that_comes_and_goes_gives_back_what_it_took_and_a_rate_does_not(what: str) -> None:
    begins_s = (0.4, 1.2)
    link, as_designed = busy(CHANGED[what], begins_s)
    starts_s = [0.0, *(at_s + late_s for at_s in begins_s for late_s in (0.0, 0.2))]
    changed = np.array([0.0, *(1.0, 0.0) * len(begins_s)])
    delay_s = Piecewise(starts_s=np.array(starts_s), values=0.2 * changed)
    rate = Piecewise(starts_s=delay_s.starts_s, values=np.where(changed, 0.2, 1.0))
    misfits_ns = as_designed.misfits_ns(link, np.ones(len(link.rows), dtype=bool), delay_s, rate)
    assert misfits_ns is not None
    assert (misfits_ns[0] <= misfits_ns[1]) is (what == "a delay")


def test_of_what_was_before_it_is_judged_nothing_is_supposed() -> None:
    link, as_designed = busy(CHANGED["a delay"], (0.4, 1.2))
    judged = (link.rows["send_start_ns"] - link.began_ns) / 1e9 > 0.35
    starts_s = np.array([0.0, 0.6, 1.2, 1.4])  # as if it had been late from the first message on
    changed = np.array([1.0, 0.0, 1.0, 0.0])
    delay_s, rate = Piecewise(starts_s=starts_s, values=0.2 * changed), Piecewise(starts_s=starts_s, values=1 - changed)
    misfits_ns = as_designed.misfits_ns(link, judged, delay_s, rate.mapped(lambda values: np.maximum(0.2, values)))
    assert misfits_ns is not None
    assert misfits_ns[0] < 0.5 * misfits_ns[1]
