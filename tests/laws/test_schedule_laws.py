"""Laws of values that change: schedules, devices that get hot, clocks that a scenario skews."""

import math
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2c_dl.dynamics.heat import Heat
from e2c_dl.errors import InputError
from e2c_dl.scenario.schedule import RAMP_STEP_S, SAME_S, Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.trace.clocks.skew import Skew, TraceClock

MOST_STEPS = 200


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Times on a grid of milliseconds, as people write them."""
    gaps = draw(st.lists(st.integers(1, 3000), min_size=0, max_size=5))
    values = draw(st.lists(st.floats(1, 1e9), min_size=len(gaps) + 1, max_size=len(gaps) + 1))
    times = [0.0] + [sum(gaps[: count + 1]) / 1000 for count in range(len(gaps))]
    period_s = draw(st.none() | st.integers(1, 4000).map(lambda more: times[-1] + more / 1000))
    return Schedule(points=tuple(zip(times, values, strict=True)), ramp=draw(st.booleans()), period_s=period_s)


@given(schedules(), st.floats(0, 1000))
def test_nothing_changes_before_the_next_change(schedule: Schedule, time_s: float) -> None:
    value, at_s = schedule.at(time_s), schedule.next_change_s(time_s)
    assert at_s > time_s
    if math.isinf(at_s):
        assert schedule.at(time_s + 1e4) == value
        return
    for share in (0.25, 0.5, 0.999):
        moment_s = time_s + share * (at_s - time_s)
        if moment_s < at_s - SAME_S:
            assert schedule.at(moment_s) == value


@given(schedules(), st.integers(0, 40))
def test_every_period_is_as_the_first(schedule: Schedule, lap: int) -> None:
    assume(schedule.period_s is not None)
    assert schedule.period_s is not None
    begin_s = lap * schedule.period_s
    first = list(schedule.steps(schedule.period_s))[:MOST_STEPS]
    time_s = begin_s
    for at_s, value in first:
        assert schedule.at(begin_s + at_s) == value
        assert abs(time_s - begin_s - at_s) < 10 * SAME_S or math.isinf(time_s)
        time_s = schedule.next_change_s(time_s)


@pytest.mark.parametrize("ramp", [True, False])
def test_the_next_change_is_found_at_once_at_the_end_of_an_hour_too(ramp: bool) -> None:
    points = ((0.0, 1.0), (3600.0, 2.0)) if ramp else tuple((tenth / 10, 1.0 + tenth) for tenth in range(36_000))
    schedule = Schedule(points=points, ramp=ramp)
    begin_s, time_s = time.process_time(), 3599.0
    while time_s < 3599.85:
        for _ in range(20):
            at_s = schedule.next_change_s(time_s)
        assert at_s == pytest.approx(time_s + 0.1)
        time_s = at_s
    assert time.process_time() - begin_s < 0.1  # an agent asks ten times a second, for each link: searched, it took 0.6


@given(schedules(), st.floats(-10, 1000))
def test_no_value_is_beyond_the_schedule(schedule: Schedule, time_s: float) -> None:
    slack = 1e-9 * schedule.greatest
    assert schedule.least - slack <= schedule.at(time_s) <= schedule.greatest + slack
    assert schedule.at(-1.0) == schedule.points[0][1]


@given(st.floats(1, 100), st.floats(1, 100), st.integers(1, 50))
def test_a_ramp_is_a_staircase_around_its_line(begin: float, end: float, steps: int) -> None:
    length_s = steps * RAMP_STEP_S
    schedule = Schedule(points=((0.0, begin), (length_s, end)), ramp=True)
    for number in range(steps):
        middle_s = (number + 0.5) * RAMP_STEP_S
        on_line = begin + (end - begin) * middle_s / length_s
        assert schedule.at(middle_s) == schedule.at(number * RAMP_STEP_S) == pytest.approx(on_line)
    assert schedule.at(length_s) == end


@st.composite
def devices(draw: st.DrawFn) -> Thermal:
    ambient, rise = draw(st.floats(-20, 40)), draw(st.floats(5, 80))
    limit = ambient + draw(st.floats(3, 90))
    return Thermal(
        ambient_c=ambient, rise_c=rise, throttled_rise_c=rise * draw(st.floats(0, 0.95)),
        tau_s=draw(st.floats(0.5, 100)), limit_c=limit,
        hysteresis_c=draw(st.floats(0.1, 0.9)) * (limit - ambient), factor=draw(st.floats(1.1, 5)),
    )  # fmt: skip


@given(devices(), st.lists(st.tuples(st.booleans(), st.floats(0.01, 60)), max_size=12))
def test_a_device_is_throttled_from_its_limit_until_it_has_cooled(
    device: Thermal, doings: list[tuple[bool, float]]
) -> None:
    heat, slack_c = Heat.cold(device, 0.0), 1e-6
    for busy, seconds in doings:
        end_s = heat.time_s + seconds
        while busy and heat.time_s + heat.next_switch_s(device) <= end_s:
            before = heat
            heat = heat.busy_for(device, heat.next_switch_s(device))
            assert heat.throttled is not before.throttled
        heat = heat.busy_for(device, end_s - heat.time_s) if busy else heat.idle_until(device, end_s)
        assert heat.temperature_c <= device.ambient_c + device.rise_c + slack_c
        if heat.throttled:
            assert heat.temperature_c >= device.limit_c - device.hysteresis_c - slack_c
        else:
            assert heat.temperature_c <= device.limit_c + slack_c


@given(devices(), st.floats(0.01, 20), st.floats(0.01, 20))
def test_heating_in_two_parts_is_heating_at_once(device: Thermal, one_s: float, other_s: float) -> None:
    cold = Heat.cold(device, 0.0)
    assume(cold.next_switch_s(device) > one_s + other_s)
    parts = cold.busy_for(device, one_s).busy_for(device, other_s)
    assert parts.temperature_c == pytest.approx(cold.busy_for(device, one_s + other_s).temperature_c)


@given(devices())
def test_a_throttled_device_recovers_when_it_says(device: Thermal) -> None:
    hot = Heat(time_s=0.0, temperature_c=device.limit_c, throttled=True)
    recovers_s = hot.recovers_s(device)
    assert hot.idle_until(device, recovers_s * 0.999).throttled
    assert not hot.idle_until(device, recovers_s * 1.001 + 1e-9).throttled
    assert math.isinf(Heat.cold(device, 0.0).recovers_s(device))


def test_a_device_that_stays_hot_while_throttled_does_not_recover_by_computing() -> None:
    device = Thermal(throttled_rise_c=50, limit_c=70, hysteresis_c=5)  # throttled, it still heats to 75 degrees
    assert math.isinf(Heat(time_s=0.0, temperature_c=70.0, throttled=True).next_switch_s(device))


skews = st.builds(
    Skew, begin_ns=st.integers(0, 10**12), step_ns=st.integers(-(10**9), 10**9), drift=st.floats(-1e-3, 1e-3)
)


@given(st.lists(skews, max_size=4), st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_clock_never_goes_back_and_the_past_stays(added: list[Skew], one_ns: int, other_ns: int) -> None:
    clock = TraceClock(lambda: one_ns)
    clock.reset(added)
    assert clock() == clock.own_ns(one_ns)
    early, late = sorted((one_ns, other_ns))
    assert clock.own_ns(early) <= clock.own_ns(late)
    first_ns = min([skew.begin_ns for skew in added], default=10**13)
    assert clock.own_ns(min(first_ns - 1, one_ns)) == min(first_ns - 1, one_ns)


@given(st.lists(skews, max_size=4))
def test_skews_add_up_once_the_clock_has_caught_up(added: list[Skew]) -> None:
    clock, now_ns = TraceClock(time.monotonic_ns), 10**13
    for skew in added:
        clock.skew(skew)
    gained = sum(skew.step_ns + round(skew.drift * (now_ns - skew.begin_ns)) for skew in added)
    assert clock.own_ns(now_ns) == now_ns + gained


@pytest.mark.parametrize("points", [(), ((1.0, 2.0),), ((0.0, 1.0), (0.0, 2.0))])
def test_a_schedule_begins_at_0_and_rises(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InputError, match="schedule"):
        Schedule(points=points)
