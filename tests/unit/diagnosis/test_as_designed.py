"""What links do as designed, too, while TCP learns how much it may send, is no departure, and nothing saves it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.scenario.model import Tcp
from e2c_dl.worlds.virtual import LinkModel

SIZE, ITERATIONS, BUCKETS = 4, 20, (30_000,)
TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
FAR = LinkModel(rate_bps=100e6, delay_s=0.05, tcp=TCP)
DESIGNED = vw.everywhere(SIZE, FAR)
LATE_S, UNTIL_S, TURN_S = 0.1, 0.9, 0.14


def ran(links: dict[tuple[int, int], LinkModel]) -> vw.Run:
    on = vw.hosts(SIZE, of=vw.profile(BUCKETS, per_sample_s=1e-3))
    return vw.run(strategies.load("allreduce"), size=SIZE, seed=1, links=links, on_hosts=on, iterations=ITERATIONS)


def report(run: vw.Run) -> Report:
    designed = replace(run, links=DESIGNED).reference()
    return analyse(run.trace, replace(designed, modelled=True, tcp=TCP))


def test_a_delay_that_ends_before_anything_is_judged_is_named() -> None:
    late = replace(FAR, delay_s=FAR.delay_s + LATE_S)
    steps = [(0.0, late), (UNTIL_S, FAR)]
    run, undisturbed = ran(DESIGNED | {(1, 2): replace(FAR, conditions=lambda: iter(steps))}), ran(DESIGNED)
    assert run.end_s > 1.05 * undisturbed.end_s
    told = report(run)
    assert [str(each.element) for each in told.culprits] == ["edge-2 -> edge-3"]
    assert told.culprits[0].saved_s == pytest.approx(run.end_s - undisturbed.end_s, rel=0.15)
    assert not report(undisturbed).culprits


def test_windows_that_open_as_slowly_at_the_designed_rate_are_no_saving() -> None:
    run, undisturbed = ran(vw.everywhere(SIZE, replace(FAR, rate_bps=FAR.rate_bps / 1.5))), ran(DESIGNED)
    told = report(run)
    (finding,) = told.findings
    assert len(finding.members) == SIZE
    assert finding.saved_s == pytest.approx(run.end_s - undisturbed.end_s, abs=0.02 * run.end_s)


def test_a_delay_that_comes_and_goes_with_every_other_message_is_named() -> None:
    """By their own unevenness, neighbours differ by more than what a level could depart by."""
    late = replace(FAR, delay_s=FAR.delay_s + LATE_S)
    steps = [(place * TURN_S, late if place % 2 else FAR) for place in range(60)]
    run, undisturbed = ran(DESIGNED | {(1, 2): replace(FAR, conditions=lambda: iter(steps))}), ran(DESIGNED)
    assert run.end_s > 1.2 * undisturbed.end_s
    told = report(run)
    assert [str(each.element) for each in told.culprits] == ["edge-2 -> edge-3"]
    assert told.culprits[0].saved_s == pytest.approx(run.end_s - undisturbed.end_s, rel=0.25)
