"""Speeds that change: ends of computing, and what is told of the changes on the way."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from e2c_dl.dynamics.faults import BegunFaults
from e2c_dl.dynamics.heat import Heat
from e2c_dl.dynamics.speed import ChangingSpeed, ConstantSpeed, HostSpeed
from e2c_dl.errors import TrainingError
from e2c_dl.scenario.model import Fault, FaultKind
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.trace.changes import Change
from e2c_dl.training.pacing import Pacing, SegmentTimes

S = 10**9
BEGAN = 1000 * S


class Told:
    """A speed, and what it told."""

    def __init__(self, host: HostSpeed) -> None:
        self.changes: list[tuple[Change, float, float, int | None]] = []
        self.heats: list[Heat] = []
        self.begun = BegunFaults()
        self.speed = ChangingSpeed(host, lambda *change: self.changes.append(change), self.heats.append, self.begun)

    def computes(self, begin_s: float, cpu_s: float) -> float:
        """When, in seconds of training, computing begun then has ended."""
        begin_ns = BEGAN + round(begin_s * S)
        end_ns = self.speed.ends_ns(begin_ns, cpu_s)
        self.speed.finished(begin_ns, cpu_s)
        return (end_ns - BEGAN) / S


STEPS = Schedule(points=((0.0, 1.0), (2.0, 4.0), (6.0, 2.0)))


def test_computing_across_changes_ends_when_the_area_is_full() -> None:
    told = Told(HostSpeed(base=0.5, schedule=STEPS))
    assert told.speed.ends_ns(BEGAN, 1.0) == BEGAN + 2 * S  # not training yet: as at first
    told.speed.began(BEGAN)
    assert told.computes(0.0, 0.5) == pytest.approx(1.0)
    assert told.computes(1.0, 1.25) == pytest.approx(7.0)  # 1 s at 0.5, 4 s at 0.125, 1 s at 0.25
    assert told.computes(7.5, 0.25) == pytest.approx(8.5)
    assert told.changes == [
        (Change.COMPUTE, 0.0, 1.0, None), (Change.COMPUTE, 2.0, 4.0, None), (Change.COMPUTE, 6.0, 2.0, None)
    ]  # fmt: skip
    assert told.heats == []


def test_changes_while_nothing_is_computed_are_told_too() -> None:
    told = Told(HostSpeed(base=1.0, schedule=STEPS))
    told.speed.began(BEGAN)
    told.speed.idle(BEGAN + 5 * S)
    assert [at_s for _, at_s, _, _ in told.changes] == [0.0, 2.0]


def test_a_device_heats_while_it_computes_and_cools_while_it_does_not() -> None:
    device = Thermal(ambient_c=25, rise_c=60, throttled_rise_c=0, tau_s=10, limit_c=55, hysteresis_c=10, factor=3)
    told = Told(HostSpeed(base=1.0, schedule=Schedule.constant(1.0), device=device))
    told.speed.began(BEGAN)
    hot_s = 10 * 0.6931471805599453  # from 25 half-way to 85 degrees
    assert told.computes(0.0, hot_s) == pytest.approx(hot_s)
    end_s = told.computes(hot_s, 1.0)
    assert end_s == pytest.approx(hot_s + 3.0)  # throttled
    told.speed.idle(BEGAN + 60 * S)
    (_, throttled_s, at_c, _), (what, recovered_s, below_c, _) = told.changes[1:]
    assert throttled_s == pytest.approx(hot_s) and at_c == pytest.approx(55)
    assert what is Change.RECOVER and below_c == pytest.approx(45) and recovered_s > end_s
    seconds = [heat.time_s for heat in told.heats if heat.time_s == int(heat.time_s)]
    assert seconds == [float(second) for second in range(61)]
    assert all(b.time_s >= a.time_s for a, b in pairwise(told.heats))
    assert told.computes(60.0, 1.0) == pytest.approx(61.0)


def test_a_window_that_begins_during_a_segment_holds_it_longer() -> None:
    fault = Fault(kind=FaultKind.SLOW_HOST, host="edge-1", at_iteration=5, value=2.0)
    told = Told(HostSpeed(base=1.0, schedule=Schedule.constant(1.0), slow=((0, fault),)))
    pacing = Pacing(told.speed)
    pacing.calibrated(SegmentTimes(samples=1, seconds=(0.3,), fixed=(0.0,)))
    begin_ns = time.monotonic_ns()
    told.speed.began(begin_ns)

    def slow() -> None:
        assert told.begun.begin([(0, fault)], 5, 0.1) == (0,)
        told.speed.slowed(5, 0.1)

    slower = threading.Timer(0.02, slow)
    slower.start()
    pacing.gradient(begin_ns, 1).segment(0)
    slower.join()
    assert time.monotonic_ns() >= begin_ns + 0.5 * S  # 0.1 s at once, 0.2 s twice as long
    assert told.changes[1] == (Change.COMPUTE, 0.1, 2.0, 5)


def test_constant_speeds_divide() -> None:
    speed = ConstantSpeed(0.25)
    assert speed.ends_ns(5, 1.0) == 5 + 4 * S
    speed.finished(5, 1.0)


def test_nobody_is_faster_than_a_core() -> None:
    with pytest.raises(TrainingError, match="speed"):
        Told(HostSpeed(base=1.0, schedule=Schedule(points=((0.0, 1.0), (1.0, 0.5)))))
