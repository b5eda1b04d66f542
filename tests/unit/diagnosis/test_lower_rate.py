"""A link that is simulated at the lower rate that its messages show: it brings them when they came, or lost some."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
import virtual_world as vw
from thorough import few

from e2c_dl.diagnosis.detection.links.judged import JudgedLink, judged_links
from e2c_dl.diagnosis.detection.links.kinds import kind_of
from e2c_dl.diagnosis.detection.links.kinds_simulated import BY_NO_RATE, kind_told
from e2c_dl.diagnosis.detection.links.lower_rate import lower_rate
from e2c_dl.diagnosis.detection.links.tcp_simulated import BROUGHT, AsDesigned
from e2c_dl.diagnosis.detection.links.told_when import told_when
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.stretches import When
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.ako import Ako
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Strategy
from e2c_dl.worlds.virtual import LinkModel

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
ASKED = LinkModel(rate_bps=34e6, delay_s=0.02, jitter_s=0.0005, tcp=TCP)
SIZE, BUCKETS = 4, (300_000,) * 3
SLOW_S = (2.1, 5.4, 9.3, 12.2)  # for 1.5 s each


def judged(
    *steps: tuple[float, LinkModel], buckets: tuple[int, ...] = BUCKETS, iterations: int = 12,
    asked: LinkModel = ASKED, strategy: type[Strategy] = Allreduce,
) -> tuple[JudgedLink, AsDesigned]:  # fmt: skip
    """The link from rank 1 to rank 2 that is as ``steps`` have it, beside its design."""
    links = vw.everywhere(SIZE, asked)
    changing = replace(asked, conditions=lambda: iter([(0.0, asked), *steps]))
    hosts = vw.hosts(SIZE, of=vw.profile(buckets), noise=0.05)
    run = vw.run(strategy, size=SIZE, seed=3, links={**links, (1, 2): changing}, on_hosts=hosts, iterations=iterations)
    reference = replace(replace(run, links=links).reference(), tcp=TCP, modelled=True)
    observed = observe(run.trace, reference)
    as_designed = AsDesigned(observed.carried, observed.design)
    every, _ = judged_links(observed.carried, observed.windows, observed.design, as_designed)
    (slow,) = (each for each in every if each.departs and each.link.pair == ("edge-2", "edge-3"))
    return slow, as_designed


def test_a_rate_that_comes_and_goes_is_one_however_unevenly_messages_come() -> None:
    slower = replace(ASKED, rate_bps=ASKED.rate_bps / 5)
    steps = [(at_s + late_s, link) for at_s in SLOW_S for late_s, link in ((0.0, slower), (1.5, ASKED))]
    slow, as_designed = judged(*steps)
    found = lower_rate(slow, as_designed)
    assert found is not None and found.misfit <= BROUGHT
    assert found.rate == pytest.approx(5.0, rel=0.1)
    assert kind_told(slow, as_designed).part is Part.RATE


RECURRING_S = [0.4 + 0.8 * time for time in range(20)]  # for 0.2 s each


def test_a_rate_that_is_low_for_a_message_or_two_at_a_time_is_told_by_when_it_recurs() -> None:
    slower = replace(ASKED, rate_bps=ASKED.rate_bps / 4)
    steps = [(at_s + late_s, link) for at_s in RECURRING_S for late_s, link in ((0.0, slower), (0.2, ASKED))]
    slow, as_designed = judged(*steps, buckets=(300_000,))
    found = lower_rate(slow, as_designed)
    assert found is not None and found.misfit <= BROUGHT
    assert found.rate == pytest.approx(4.0, rel=0.05)
    kind = kind_told(slow, as_designed)
    assert kind.part is Part.RATE
    when = told_when(slow, kind, as_designed.would_ns(slow.link))
    assert when.when is When.PERIODIC
    assert when.begins_s == pytest.approx(RECURRING_S[: len(when.begins_s)], abs=0.02)


def test_a_rate_that_alternates_within_messages_is_no_loss_if_none_is_as_those_are_that_are_sent_again() -> None:
    slower = replace(ASKED, rate_bps=ASKED.rate_bps / 3)
    begins_s = [0.0225 + 0.045 * time for time in range(200)]
    steps = [(at_s + late_s, link) for at_s in begins_s for late_s, link in ((0.0, slower), (0.02, ASKED))]
    slow, as_designed = judged(*steps, buckets=(30_000,) * 12, iterations=2)
    found = lower_rate(slow, as_designed)
    assert found is not None and found.misfit >= BY_NO_RATE
    assert kind_told(slow, as_designed).part is Part.RATE_DELAY_OR_LOSS


@pytest.mark.parametrize("loss", few([0.02, 0.05], 0.02))
def test_no_rate_brings_messages_when_a_link_that_loses_some_did(loss: float) -> None:
    slow, as_designed = judged((6.0, replace(ASKED, loss=loss)))
    found = lower_rate(slow, as_designed)
    assert found is not None and found.misfit >= BY_NO_RATE
    assert kind_told(slow, as_designed).part is Part.LOSS


FAST = replace(ASKED, rate_bps=480e6, delay_s=0.012, jitter_s=0.0)


@pytest.mark.parametrize(("begin_s", "end_s"), [(0.0, 0.1), (0.05, 0.35)])
def test_messages_that_take_a_round_trip_each_are_late_by_losses_if_no_rate_brings_them(
    begin_s: float, end_s: float
) -> None:
    steps = [(begin_s, replace(FAST, loss=0.05)), (end_s, FAST)]
    slow, as_designed = judged(*steps, buckets=(40_000,), iterations=24, asked=FAST, strategy=Ako)
    assert kind_of(slow.link, slow.of.messages(slow.judged.windows)).part is Part.RATE
    assert kind_told(slow, as_designed).part is Part.LOSS


def test_a_rate_by_which_messages_take_a_round_trip_each_is_no_loss() -> None:
    slower = replace(FAST, rate_bps=14e6)  # 40 kB in 24 ms
    slow, as_designed = judged((0.1, slower), buckets=(40_000,), iterations=24, asked=FAST, strategy=Ako)
    assert kind_told(slow, as_designed).part is Part.RATE_OR_DELAY


def test_the_first_rate_that_suits_well_enough_is_the_last_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, as_designed = judged((6.0, replace(ASKED, rate_bps=ASKED.rate_bps / 3)))
    simulated = Mock(side_effect=as_designed.off_ns)
    monkeypatch.setattr(as_designed, "off_ns", simulated)
    best, most = lower_rate(slow, as_designed), simulated.call_count
    simulated.reset_mock()
    first = lower_rate(slow, as_designed, enough=BY_NO_RATE)
    assert best is not None and first is not None
    assert best.misfit <= first.misfit < BY_NO_RATE
    assert 1 <= simulated.call_count < most


def test_where_nobody_knows_what_tcp_makes_of_a_link_no_rate_is_tried() -> None:
    slow, as_designed = judged((6.0, replace(ASKED, rate_bps=ASKED.rate_bps / 3)))
    assert lower_rate(slow, as_designed) is not None
    design = replace(as_designed._design, reference=replace(as_designed._design.reference, tcp=None))
    assert lower_rate(slow, AsDesigned([slow.link], design)) is None
