"""Links that lose segments by design are held to themselves by other luck, and named when they are further off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
import virtual_world as vw
from thorough import few

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection.links.losing import judged
from e2c_dl.diagnosis.model import ElementKind, Part, Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.topology import BurstLoss
from e2c_dl.worlds.virtual import LinkModel
from e2c_dl.worlds.virtual.links import RankPair

ASKED = LinkModel(
    rate_bps=12e6, delay_s=0.01, loss=0.003, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False)
)
DESIGNED = {(0, 1): ASKED, (1, 0): ASKED}
WAY, BACK = "edge-2 -> edge-1", "edge-1 -> edge-2"
CHANGED = {
    Part.RATE: replace(ASKED, rate_bps=ASKED.rate_bps / 3),
    Part.DELAY: replace(ASKED, delay_s=0.05),
    Part.LOSS: replace(ASKED, loss=0.03),
}


def trained(links: Mapping[RankPair, LinkModel], seed: int = 1, iterations: int = 40) -> vw.Run:
    return vw.run(
        Allreduce, size=2, seed=seed, links=links, on_hosts=vw.hosts(2, of=vw.profile((60_000,))), iterations=iterations
    )


def diagnosed(run: vw.Run, designed: Mapping[RankPair, LinkModel] = DESIGNED, *, modelled: bool = True) -> Report:
    reference = replace(replace(run, links=designed).reference(), modelled=modelled, tcp=ASKED.tcp)
    return analyse(run.trace, reference)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_is_named_where_losses_are_as_designed(seed: int) -> None:
    report = diagnosed(trained(DESIGNED, seed))
    assert report.findings == ()
    assert report.unjudged == ()


@pytest.mark.parametrize(
    "changed", few(product(CHANGED, (0.0, 4.0)), (Part.RATE, 4.0), (Part.DELAY, 0.0), (Part.LOSS, 4.0))
)
def test_what_is_not_as_designed_is_named_as_what_it_is_and_what_it_costs(changed: tuple[Part, float]) -> None:
    part, since_s = changed
    steps = [(0.0, ASKED), (since_s, CHANGED[part])]
    link = replace(ASKED, conditions=lambda: iter(steps)) if since_s else CHANGED[part]
    run = trained({**DESIGNED, (1, 0): link})
    report = diagnosed(run)
    (culprit,) = report.culprits
    assert str(culprit.element) == WAY
    assert culprit.part is part or (part is Part.LOSS and culprit.part is Part.RATE_DELAY_OR_LOSS)
    assert culprit.when.onset_s == pytest.approx(since_s, abs=0.7)
    costs_s = run.end_s - trained(DESIGNED).end_s
    assert culprit.saved_s == pytest.approx(costs_s, abs=0.05 * run.end_s)  # other segments are lost
    assert "0.3 % of its segments" in culprit.evidence


@pytest.mark.parametrize(("seed", "rate_bps"), [(9, 50e6), (13, 50e6), (7, 100e6)])
def test_few_losses_that_follow_each_other_are_luck(seed: int, rate_bps: float) -> None:
    designed = dict.fromkeys(DESIGNED, replace(ASKED, rate_bps=rate_bps, delay_s=0.03, loss=0.0002))
    assert diagnosed(trained(designed, seed, iterations=60), designed).findings == ()


@pytest.mark.parametrize(
    ("changed", "told"),
    [(Part.RATE, Part.RATE_DELAY_OR_LOSS), (Part.DELAY, Part.DELAY), (Part.LOSS, Part.RATE_DELAY_OR_LOSS)],
)
def test_of_a_link_that_is_no_model_and_whose_sockets_tell_nothing_a_delay_alone_is_told(
    changed: Part, told: Part
) -> None:
    run = trained({**DESIGNED, (1, 0): CHANGED[changed]})
    (culprit,) = diagnosed(run, modelled=False).culprits
    assert (str(culprit.element), culprit.part) == (WAY, told)


BURSTS = BurstLoss(good_to_bad=0.001, bad_to_good=0.5)


@pytest.mark.parametrize("good_to_bad", [BURSTS.good_to_bad, 0.03])
def test_of_bursts_it_is_not_told_whether_there_are_more_of_them(good_to_bad: float) -> None:
    asked = replace(ASKED, loss=0.0, burst=BURSTS)
    designed = dict.fromkeys(DESIGNED, asked)
    more = replace(asked, burst=replace(BURSTS, good_to_bad=good_to_bad))
    findings = diagnosed(trained({**designed, (1, 0): more}), designed).findings
    named = [] if good_to_bad == BURSTS.good_to_bad else [(WAY, Part.RATE_DELAY_OR_LOSS)]
    assert [(str(each.element), each.part) for each in findings] == named


def test_how_far_luck_takes_them_is_the_detection_limit() -> None:
    report = diagnosed(trained(DESIGNED))
    assert report.least_visible[ElementKind.LINK] > 1.2  # a link that loses nothing: 1.05


def test_few_messages_say_nothing_and_that_is_said() -> None:
    designed = dict.fromkeys(DESIGNED, replace(ASKED, loss=0.02, delay_s=0.1))
    report = diagnosed(trained(designed, iterations=4), designed)
    assert {WAY, BACK} <= {*report.unjudged}
    assert any("by luck alone it may be more than 2 x slower" in each for each in report.limitations)


def test_what_would_take_too_long_to_simulate_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "MOST_SEGMENTS", 50_000)
    report = diagnosed(trained(DESIGNED))  # of two links one
    assert len(report.unjudged) == 1
    (said,) = (each for each in report.limitations if "is not simulated for it" in each)
    assert report.unjudged[0] in said


def test_verdicts_while_training_leave_them_out() -> None:
    run = trained({**DESIGNED, (1, 0): CHANGED[Part.DELAY]})
    reference = replace(replace(run, links=DESIGNED).reference(), modelled=True, tcp=ASKED.tcp)
    assert observe(run.trace, reference, by_luck=False).links.departures == ()
