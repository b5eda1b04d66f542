"""What changes by design: schedules of links, bottlenecks and processors, and devices that get hot."""

import pytest
from small_scenario import SERVICES, STRATEGIES, found, writer

from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import LinkSchedule
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal

BASE = (
    "compute: {cores: 0.2}\nbottlenecks: [{name: up, rate: 9mbit, links: [{src: edge.*, dst: cloud.*}]}]\nschedules:\n"
)


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def schedules(path):
    return load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: []).schedules


def test_links_follow_schedules(write):
    came = schedules(
        write(
            emulation=BASE + "  links:\n"
            "  - {src: edge.*, dst: cloud-1, rate: {steps: {0s: 8mbit, 20s: 2mbit}, period: 1min},"
            " loss: {steps: {0s: 0%, 5s: 2%}}}\n"
            "  - {src: edge-1, dst: cloud-1, delay: {ramp: {0ms: 10ms, 1500ms: 40ms}}}\n"
        )
    )
    rate = Schedule(points=((0, 8e6), (20, 2e6)), period_s=60)
    loss = Schedule(points=((0, 0), (5, 0.02)))
    delay = Schedule(points=((0, 0.01), (1.5, 0.04)), ramp=True)
    assert came.links == {
        ("edge-1", "cloud-1"): LinkSchedule(rate_bps=rate, delay_s=delay, loss=loss),
        ("edge-2", "cloud-1"): LinkSchedule(rate_bps=rate, loss=loss),
    }


def test_bottlenecks_and_processors_follow_schedules(write):
    came = schedules(
        write(
            emulation=BASE + "  bottlenecks: [{name: up, rate: {steps: {0s: 9mbit, 2s: 1mbit}}}]\n"
            "  compute:\n"
            "  - {host: edge.*, factor: {steps: {0s: 1, 15s: 3}}}\n"
            "  - {host: cloud-1, cores: {steps: {0s: 0.2, 4s: 0.05}, period: 8s}}\n"
        )
    )
    assert came.bottlenecks == {"up": Schedule(points=((0, 9e6), (2, 1e6)))}
    assert came.compute["edge-1"] == came.compute["edge-2"] == Schedule(points=((0, 1), (15, 3)))
    assert came.compute["cloud-1"] == Schedule(points=((0, 1), (4, pytest.approx(4))), period_s=8)


def test_a_ramp_of_cores_is_one_of_cores_and_not_of_factors(write):
    text = "  compute: [{host: edge-1, cores: {ramp: {0s: 0.2, 10s: 0.02, 20s: 0.02}}}]\n"
    schedule = schedules(write(emulation=BASE + text)).compute["edge-1"]
    assert schedule.points[0] == (0, 1) and schedule.points[-1] == (20, pytest.approx(10))
    for tenth in range(200):
        time_s = tenth / 10
        cores = 0.2 - 0.018 * min(10, time_s)
        assert 0.2 / schedule.at(time_s) == pytest.approx(cores, abs=0.0021)  # what a step of 0.1 s changes, and 1 %


def test_a_device_that_gets_hot(write):
    text = "  thermal: [{host: edge.*, tau: 5s, limit: 60, factor: 3}, {host: cloud-1, rise: 90}]\n"
    came = schedules(write(emulation=BASE + text)).thermal
    assert came["edge-1"] == came["edge-2"] == Thermal(tau_s=5, limit_c=60, factor=3)
    assert came["cloud-1"] == Thermal(rise_c=90)


def link(schedule):
    return f"links: [{{src: edge-1, dst: cloud-1, {schedule}}}]"


CASES = [
    (link("rate: {steps: {5s: 8mbit}}"), "links[0].rate.steps.5s: begins at '5s'; write its value at 0s first"),
    (link("rate: {steps: {0s: 8mbit, 0ms: 2mbit}}"), "steps.0ms: '0ms' is not after the point before it"),
    (link("rate: {steps: {0s: 8mbit, 9s: 2mbit, 5s: 1mbit}}"), "steps.5s: '5s' is not after the point before it"),
    (link("rate: {steps: {0: 8mbit}}"), "rate.steps: key 0 is not text"),
    (link("rate: {steps: {0s: 8}}"), "steps.0s: 8 has no unit; write e.g. 10mbit"),
    (link("rate: {steps: {}}"), "rate.steps: has too few points; write at least one"),
    (link("rate: {ramp: {0s: 8mbit}}"), "rate.ramp: has too few points; write at least two"),
    (link("rate: {steps: {0s: 8mbit, 9s: 2mbit}, period: 9s}"), "period: ends before or with the last point, at 9s"),
    (link("rate: {steps: {0s: 8mbit}, ramp: {}}"), "links[0].rate: names steps and ramp; write one of them"),
    (link("rate: {period: 9s}"), "links[0].rate: names none of steps, ramp, trace"),
    (link("rate: 8mbit"), "links[0].rate: expected a schedule, not '8mbit'; write e.g. {steps: {0s: ..., 20s: ...}}"),
    (link("rate: {steps: {0s: 8mbit}, window: 1s}"), "window: averages a trace, and none is named"),
    (link("delay: {trace: traces/a.csv}"), "delay.trace: unknown key"),
    (link("loss: {steps: {0s: 100%}}"), "'100%' is out of range"),
    (link("symmetric: false"), "links[0]: changes nothing; write one of rate, delay, loss"),
    ("links: [{src: cloud-1, dst: edge-1, rate: {steps: {0s: 8mbit}}}]", "cloud-1 -> edge-1 has no rate by design"),
    ("links: [{src: cloud-1, dst: edge-1, loss: {steps: {0s: 1%}}}]", "cloud-1 -> edge-1 has no rate by design"),
    ("bottlenecks: [{name: pu, rate: {steps: {0s: 8mbit}}}]", "no bottleneck is called 'pu'; write one of up"),
    ("bottlenecks: [{name: up}]", "key 'rate' is missing"),
    ("compute: [{host: edge-1}]", "compute[0]: names neither or both of factor and cores"),
    ("compute: [{host: edge-1, factor: {steps: {0s: 0.5}}}]", "0.5 is out of range; write a number from 1 to 1000"),
    ("compute: [{host: edge-1, cores: {steps: {0s: 0.3}}}]", "0.3 is out of range; write a number from 0.0002 to 0.2"),
    ("compute: [{host: fog.*, factor: {steps: {0s: 2}}}]", "'fog.*' matches no host"),
    ("thermal: [{host: edge-1, tau: 0s}]", "thermal[0]: tau and hysteresis are above 0"),
    ("thermal: [{host: edge-1, ambient: 80}]", "let it never recover"),
    ("thermal: [{host: edge-1, rise: 40}]", "gets 65 C at most, and is throttled from 70 C on: never"),
    ("thermal: [{host: edge-1, tau: 20}]", "thermal[0].tau: 20 has no unit; write e.g. 20s"),
    ("thermal: [{host: edge-1, limt: 20}]", "limt: unknown key; did you mean 'limit'?"),
    ("therml: []", "schedules.therml: unknown key; did you mean 'thermal'?"),
    ("links: {}", "schedules.links: expected a list, not a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), CASES)
def test_what_is_wrong_is_said_once_with_its_line(write, text, says):
    (error,) = found(write(emulation=f"{BASE}  {text}\n"))
    assert error.startswith("emulation.yaml:4: schedules.")
    assert says in error


@pytest.mark.parametrize(
    "text",
    [
        "links:\n  - {src: edge.*, dst: cloud-1, rate: {steps: {0s: 8mbit}}}\n"
        "  - {src: edge-2, dst: cloud.*, rate: {steps: {0s: 1mbit}}}",
        "bottlenecks:\n  - {name: up, rate: {steps: {0s: 1mbit}}}\n  - {name: up, rate: {steps: {0s: 1mbit}}}",
        "compute:\n  - {host: edge.*, factor: {steps: {0s: 2}}}\n  - {host: edge-2, cores: {steps: {0s: 0.1}}}",
        "thermal:\n  - {host: edge.*}\n  - {host: edge-2, tau: 5s}",
    ],
)
def test_no_two_entries_speak_of_the_same(write, text):
    (error,) = found(write(emulation=f"{BASE}  {text}\n"))
    assert error.startswith("emulation.yaml:6: ")
    assert "already, by line 5; keep one of them" in error


def test_cores_need_the_cores_of_a_host_of_factor_1(write):
    text = "schedules: {compute: [{host: edge-1, cores: {steps: {0s: 0.3}}}]}"
    assert (
        "cores of what, compute.cores does not say; write 'cores:' under 'compute:'" in found(write(emulation=text))[0]
    )


@pytest.mark.parametrize(
    ("quality", "schedule", "says"),
    [
        ("jitter: 5ms", "delay: {steps: {0s: 10ms, 5s: 2ms}}", "uniform jitter of 5ms around a delay of 2ms"),
        ("reorder: 1%", "delay: {steps: {0s: 10ms, 5s: 0ms}}", "reorders, which takes a delay"),
        ("burst: {good_to_bad: 1%, bad_to_good: 9%}", "loss: {steps: {0s: 1%}}", "loses in bursts"),
    ],
)
def test_a_schedule_fits_what_else_the_link_does(write, quality, schedule, says):
    text = f"links: [{{src: edge-1, dst: cloud-1, {quality}}}]\nschedules:\n  {link(schedule)}\n"
    (error,) = found(write(emulation=text))
    assert says in error
