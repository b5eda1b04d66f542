"""Laws of speeds that change: work is the area under the speed."""

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from e2c_dl.dynamics.faults import BegunFaults
from e2c_dl.dynamics.heat import Heat
from e2c_dl.dynamics.speed import HostSpeed
from e2c_dl.scenario.model import Fault, FaultKind
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal


@st.composite
def host_speeds(draw: st.DrawFn, hot: bool = False) -> HostSpeed:
    gaps = draw(st.lists(st.integers(1, 2000), max_size=4))
    factors = draw(st.lists(st.floats(1, 8), min_size=len(gaps) + 1, max_size=len(gaps) + 1))
    times = [sum(gaps[:count]) / 1000 for count in range(len(gaps) + 1)]
    period_s = draw(st.none() | st.integers(100, 3000).map(lambda more: times[-1] + more / 1000))
    window = st.tuples(st.floats(0, 8), st.floats(0.05, 5), st.floats(1.1, 4))
    slow = [
        (number, Fault(kind=FaultKind.SLOW_HOST, host="edge-1", at_s=at_s, for_s=for_s, value=value))
        for number, (at_s, for_s, value) in enumerate(draw(st.lists(window, max_size=3)))
    ]
    return HostSpeed(
        base=draw(st.floats(0.05, 1)),
        schedule=Schedule(points=tuple(zip(times, factors, strict=True)), ramp=draw(st.booleans()), period_s=period_s),
        injected=draw(st.sampled_from([1.0, 2.5])),
        slow=tuple(slow),
        device=Thermal(tau_s=3.0) if hot else None,
    )


def at(time_s: float) -> Heat:
    return Heat(time_s=time_s, temperature_c=25.0)


@given(host_speeds(), st.floats(0, 10), st.floats(0.01, 1))
def test_work_is_the_area_under_the_speed(host: HostSpeed, begin_s: float, cpu_s: float) -> None:
    end_s = host.computed(at(begin_s), cpu_s, BegunFaults())[-1].time_s
    area, time_s = 0.0, begin_s
    while time_s < end_s:
        until_s = min(end_s, host.next_change_s(time_s, BegunFaults()))
        area += (until_s - time_s) * host.base / host.factor((time_s + until_s) / 2, BegunFaults())
        time_s = until_s
    assert area == pytest.approx(cpu_s, rel=1e-6, abs=1e-7)


@given(host_speeds(hot=True), st.floats(0, 10), st.floats(0.01, 2), st.floats(0.01, 2))
def test_two_pieces_of_work_end_when_both_at_once_do(host: HostSpeed, begin_s: float, one: float, other: float) -> None:
    half = host.computed(at(begin_s), one, BegunFaults())[-1]
    both = host.computed(at(begin_s), one + other, BegunFaults())[-1]
    parts = host.computed(half, other, BegunFaults())[-1]
    assert parts.time_s == pytest.approx(both.time_s, rel=1e-6)
    assert parts.temperature_c == pytest.approx(both.temperature_c, rel=1e-5)


@given(host_speeds(hot=True), st.floats(0, 10), st.floats(0.01, 1))
def test_heat_and_slow_windows_only_slow_down(host: HostSpeed, begin_s: float, cpu_s: float) -> None:
    free = HostSpeed(base=host.base, schedule=host.schedule, injected=host.injected)
    slowed_s = host.computed(at(begin_s), cpu_s, BegunFaults())[-1].time_s
    assert slowed_s >= free.computed(at(begin_s), cpu_s, BegunFaults())[-1].time_s - 1e-6
    assert cpu_s / host.greatest_speed <= slowed_s - begin_s + 1e-6


@given(st.floats(0.1, 1), st.floats(1, 8), st.floats(0, 100), st.floats(0, 10))
def test_a_speed_that_does_not_change_divides(base: float, factor: float, begin_s: float, cpu_s: float) -> None:
    host = HostSpeed(base=base, schedule=Schedule.constant(factor))
    assert not host.changes
    end_s = host.computed(at(begin_s), cpu_s, BegunFaults())[-1].time_s
    assert end_s == pytest.approx(begin_s + cpu_s * factor / base)


@given(st.floats(0.5, 20), st.floats(0.1, 5))
def test_a_window_that_an_iteration_begins_counts_from_there(begun_s: float, for_s: float) -> None:
    fault = Fault(kind=FaultKind.SLOW_HOST, host="edge-1", at_iteration=7, for_s=for_s, value=2.0)
    host = HostSpeed(base=1.0, schedule=Schedule.constant(1.0), slow=((3, fault),))
    assert host.computed(at(0.0), begun_s + for_s, BegunFaults())[-1].time_s == pytest.approx(begun_s + for_s)
    begun = BegunFaults({3: begun_s})
    assert host.factor(begun_s, begun) == 2.0
    assert host.computed(at(0.0), begun_s + for_s / 2, begun)[-1].time_s == pytest.approx(begun_s + for_s)


@settings(max_examples=10)  # some switch thousands of times
@given(host_speeds(hot=True), st.floats(1, 60))
def test_a_hot_device_switches_at_its_thresholds(host: HostSpeed, cpu_s: float) -> None:
    device = host.device
    assert device is not None
    states = (host.cold, *host.computed(host.cold, cpu_s, BegunFaults()))
    switches = [(a, b) for a, b in pairwise(states) if a.throttled is not b.throttled]
    assume(switches)
    for before, after in switches:
        threshold_c = device.limit_c - (device.hysteresis_c if before.throttled else 0.0)
        assert after.temperature_c == pytest.approx(threshold_c)
