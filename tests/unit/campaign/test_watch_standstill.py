"""Who watches a run that goes no further is told so, for how long, who is behind, and what did not arrive."""

from __future__ import annotations

from dataclasses import dataclass, replace

import continued
import pytest
from synthetic import simulate
from test_watch import LAST, RING, run, write  # noqa: F401  # a fixture among them

from e2c_dl.archive import layout
from e2c_dl.campaign.watch import watch as watching
from e2c_dl.campaign.watch.standstill import LEAST_S
from e2c_dl.campaign.watch.watch import Watch
from e2c_dl.cli.watch import _verdict as verdict
from e2c_dl.report import live
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.trace.model import Trace
from e2c_dl.trace.recording import span_log


@dataclass
class Clock:
    """What the watching takes for the time."""

    now_s: float = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watching, "time", made)
    return made


@pytest.fixture(scope="module")
def trace() -> Trace:
    return simulate(replace(RING, iterations=12))


def test_a_run_that_stands_still_is_told_with_what_did_not_arrive(
    run: RegisteredRun,  # noqa: F811
    trace: Trace,
    clock: Clock,
) -> None:
    with Watch(run, last=LAST) as watch:
        write(run, trace, 8)
        before = watch.look()
        assert before is not None and before.standstill == ""
        ahead = trace.ranks[1]
        (run.directory / ahead.host / layout.SPANS_RAW).write_bytes(continued.until(ahead, 9))
        clock.now_s += LEAST_S - 0.1
        assert watch.look() is None
        clock.now_s += 0.2
        now = watch.look()
        assert now is not None and now.diagnosis is before.diagnosis is not None
        assert now.standstill.startswith(
            "No iteration has ended on all workers for 5.10 s, where one of the last took "
        )
        assert "Behind: edge-1, edge-3, edge-4, with 9 of 10. " in now.standstill
        assert "Sent and not received: over edge-2 -> edge-3; it carries nothing, or " in now.standstill
        assert live.headline(now) == f"{now.standstill} {live.headline(before)}"
        assert verdict(now) == now.standstill != verdict(before)
        clock.now_s += LEAST_S
        assert watch.look() is None, "said once, it is not said again at once"
        clock.now_s += LEAST_S
        again = watch.look()
        assert again is not None and "for 15.1 s" in again.standstill
        write(run, trace, 9)
        went_on = watch.look()
        assert went_on is not None and (went_on.standstill, went_on.stop) == ("", 10)


def test_a_standstill_before_any_verdict_is_told_and_of_long_iterations_later(
    run: RegisteredRun,  # noqa: F811
    clock: Clock,
) -> None:
    long = simulate(replace(RING, compute_s=(9.0,) * 4, iterations=4))
    with Watch(run, last=LAST) as watch:
        assert watch.look() is not None
        write(run, long, 1)
        assert watch.look() is not None
        clock.now_s += 26.0
        assert watch.look() is None
        clock.now_s += 3.0
        now = watch.look()
        assert now is not None and now.diagnosis is None
        assert now.standstill.startswith(
            "No iteration has ended on all workers for 29.0 s, where one of the last took 9"
        )
        assert "Sent and not received" not in now.standstill
        assert live.headline(now).endswith("No verdict yet.")


def test_nobody_who_has_told_nothing_stands_still(run: RegisteredRun, clock: Clock) -> None:  # noqa: F811
    with Watch(run, last=LAST) as watch:
        assert watch.look() is not None
        clock.now_s += 1000
        assert watch.look() is None


def test_while_it_is_set_up_a_run_does_not_stand_still(
    run: RegisteredRun,  # noqa: F811
    trace: Trace,
    clock: Clock,
) -> None:
    with Watch(run, last=LAST) as watch:
        assert watch.look() is not None
        clock.now_s += 60
        for rank in trace.ranks:
            opening = span_log.opening(rank.rank, rank.host, rank.layer)
            (run.directory / rank.host / layout.SPANS_RAW).write_bytes(opening)
        now = watch.look()
        assert now is not None and now.standstill == ""
        assert now.not_yet == ("edge-1 has finished 0 iterations; a verdict needs 4 of every worker.",)
        clock.now_s += 60
        assert watch.look() is None
