"""Faults of a scenario: read, placed and timed by the seed."""

import statistics
from itertools import pairwise

import pytest
from small_scenario import LAYERS, SERVICES, STRATEGIES, found, replaced, writer

from e2c_dl.scenario.folder.copies import overridden
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Fault, FaultKind

UP = [("edge-1", "cloud-1"), ("edge-1", "cloud-2"), ("edge-2", "cloud-1"), ("edge-2", "cloud-2")]
RING = [(0, 2), (2, 1), (1, 2)]  # edge-1 -> cloud-1 -> edge-2 -> cloud-1


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def injected(path):
    return load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: RING).injected


def faults(write, *lines, seed=1):
    text = "".join(f"  - {line}\n" for line in lines)
    return injected(write(emulation=f"injected:\n  seed: {seed}\n  faults:\n{text}")).faults


def test_every_kind_is_read(write):
    came = faults(
        write,
        "{cut: [{src: edge-1, dst: cloud-1, symmetric: true}], at: 20s, for: 5s}",
        "{partition: [[edge-1, edge-2], [cloud-1], [cloud-2]], at: iteration 30}",
        "{slow_link: {src: edge.*, dst: cloud.*}, rate_factor: 0.3, at: 2min, for: 500ms}",
        "{slow_host: edge.*, factor: 3, at: 20s, for: 10s}",
        "{late_link: {src: edge-1, dst: cloud-1}, delay: 40ms, at: 0s}",
        "{lossy_link: {src: cloud-1, dst: edge-2}, loss: 2%, at: iteration 7, for: 1s}",
        "{late_data: cloud.*, delay: 200ms, at: 1s}",
        "{late_step: edge-2, delay: 1.5s, at: 2s, for: 3s}",
        "{pause: edge-1, at: 10s, for: 2s}",
        "{kill: cloud.*, at: 0s}",
        "{clock_step: edge-2, by: -50ms, at: 10s}",
        "{clock_drift: edge-1, by: 100ppm, at: 0s, for: 30s}",
    )
    crossing = [*UP, *((dst, src) for src, dst in UP), ("cloud-1", "cloud-2"), ("cloud-2", "cloud-1")]
    assert set(came[1].links) == set(crossing) and len(came[1].links) == len(crossing)
    assert came[1] == Fault(kind=FaultKind.CUT, at_iteration=30, links=came[1].links)
    assert (came[0], *came[2:]) == (
        Fault(kind=FaultKind.CUT, at_s=20, for_s=5, links=(("edge-1", "cloud-1"), ("cloud-1", "edge-1"))),
        Fault(kind=FaultKind.SLOW_LINK, at_s=120, for_s=0.5, links=tuple(UP), value=0.3),
        Fault(kind=FaultKind.SLOW_HOST, at_s=20, for_s=10, host="edge-1", value=3),
        Fault(kind=FaultKind.SLOW_HOST, at_s=20, for_s=10, host="edge-2", value=3),
        Fault(kind=FaultKind.LATE_LINK, at_s=0, links=(("edge-1", "cloud-1"),), value=0.04),
        Fault(kind=FaultKind.LOSSY_LINK, at_iteration=7, for_s=1, links=(("cloud-1", "edge-2"),), value=0.02),
        Fault(kind=FaultKind.LATE_DATA, at_s=1, host="cloud-1", value=0.2),
        Fault(kind=FaultKind.LATE_STEP, at_s=2, for_s=3, host="edge-2", value=1.5),
        Fault(kind=FaultKind.PAUSE, at_s=10, for_s=2, host="edge-1"),
        Fault(kind=FaultKind.KILL, at_s=0, host="cloud-1"),  # cloud-2 does not train
        Fault(kind=FaultKind.CLOCK_STEP, at_s=10, host="edge-2", value=-0.05),
        Fault(kind=FaultKind.CLOCK_DRIFT, at_s=0, for_s=30, host="edge-1", value=pytest.approx(1e-4)),
    )


def test_places_are_drawn_by_the_seed_among_ranks_and_used_links(write):
    hosts, cut, slow, late = set(), set(), set(), set()
    for seed in range(60):
        came = faults(
            write,
            "{slow_host: random, factor: 2, at: 1s}",
            "{cut: {src: random, dst: random}, at: 1s, for: 1s}",
            "{slow_link: {src: random, dst: random, symmetric: true}, rate_factor: 0.5, at: 1s}",
            "{late_link: {src: random, dst: random}, delay: 5ms, at: 1s}",
            seed=seed,
        )
        hosts.add(came[0].host)
        cut.add(came[1].links)
        slow.add(came[2].links)
        late.add(came[3].links)
    assert hosts == {"edge-1", "edge-2", "cloud-1"}
    assert cut == {(("edge-1", "cloud-1"),), (("cloud-1", "edge-2"),), (("edge-2", "cloud-1"),)}
    assert late == cut
    # Links without a rate are not slowed.
    assert slow == {(("edge-1", "cloud-1"), ("cloud-1", "edge-1")), (("edge-2", "cloud-1"), ("cloud-1", "edge-2"))}


def test_times_and_iterations_are_drawn_from_all_of_their_range(write):
    times, iterations = [], []
    for seed in range(200):
        at, later = faults(
            write,
            "{kill: random, at: {between: [10s, 60s]}}",
            "{pause: edge-1, at: {between: [iteration 3, iteration 5]}, for: 1s}",
            seed=seed,
        )
        times.append(at.at_s)
        iterations.append(later.at_iteration)
    assert 10 <= min(times) < 13 and 57 < max(times) < 60
    assert set(iterations) == {3, 4, 5}


def test_what_is_repeated_begins_again_after_exponential_gaps(write):
    gaps, hosts = [], set()
    for seed in range(20):
        came = faults(write, "{pause: random, at: 5s, for: 2s, repeat: {every: 10s, until: 500s}}", seed=seed)
        times = [fault.at_s for fault in came]
        assert times[0] == 5 and times[-1] < 500
        gaps += [after - before - 2 for before, after in pairwise(times)]
        hosts |= {fault.host for fault in came}
    assert min(gaps) > 0
    assert statistics.mean(gaps) == pytest.approx(10, rel=0.15)
    assert statistics.stdev(gaps) == pytest.approx(10, rel=0.15)
    assert hosts == {"edge-1", "edge-2", "cloud-1"}


def test_an_entry_behind_moves_none_before_it(write):
    lines = [
        "{kill: random, at: {between: [1s, 9s]}}",
        "{pause: random, at: 1s, for: 1s, repeat: {every: 1s, until: 9s}}",
    ]
    both = faults(write, *lines, "{slow_host: random, factor: 2, at: 1s}")
    assert both[: len(faults(write, *lines))] == faults(write, *lines)


def test_nobody_is_killed_twice(write):
    for seed in range(10):
        came = faults(write, "{kill: random, at: 1s}", "{kill: edge-2, at: 2s}", "{kill: random, at: 3s}", seed=seed)
        assert sorted(fault.host for fault in came) == ["cloud-1", "edge-1", "edge-2"]


def test_the_draw_stays_what_it_was(write):
    """Whoever changes this changes what published scenarios mean."""
    came = faults(
        write,
        "{kill: random, at: {between: [10s, 60s]}}",
        "{slow_link: {src: random, dst: random}, rate_factor: 0.3, at: 20s, for: 9s, repeat: {every: 20s, until: 60s}}",
    )
    assert [(fault.host, fault.links, round(fault.at_s, 6)) for fault in came] == DRAWN


DRAWN = [("cloud-1", (), 42.186697), (None, (("edge-1", "cloud-1"),), 20.0)]


def test_the_emulator_is_asked_for_every_link_that_a_fault_may_touch(write):
    path = write(emulation="injected: {seed: 1, faults: [{partition: [[edge-1], [edge-2]], at: 1s, for: 1s}]}")
    scenario = load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: RING)
    assert set(scenario.topology.links) == set(UP)
    assert set(scenario.emulated_topology().links) == {*UP, ("edge-1", "edge-2"), ("edge-2", "edge-1")}


def test_a_seed_places_faults_anew_and_healthy_takes_them_out(write, tmp_path):
    line = "{pause: random, at: {between: [1s, 100s]}, for: 1s}"
    text = "injected: {{seed: {}, faults: [{}]}}"
    path = write(emulation=text.format(1, line))
    overridden(path, tmp_path / "other", seed=7)
    overridden(path, tmp_path / "healthy", healthy=True)
    assert injected(tmp_path / "other").faults == faults(write, line, seed=7)
    assert injected(tmp_path / "healthy").faults == ()


CASES = [
    ("{at: 1s}", "names no kind of fault; write one of cut, partition, slow_link"),
    ("{kill: edge-1, pause: edge-1, at: 1s}", "is pause and kill at once"),
    ("{kil: edge-1, at: 1s}", "kil: unknown key; did you mean 'kill'?"),
    ("{kill: edge-1}", "key 'at' is missing"),
    ("{kill: edge-1, at: 1s, for: 2s}", "for: kill is done in a moment"),
    ("{kill: edge-1, at: 1s, repeat: {every: 1s, until: 9s}}", "repeat: nobody is killed twice"),
    ("{clock_step: edge-1, by: 1s, at: 1s, for: 2s}", "for: clock_step is done in a moment"),
    ("{clock_step: edge-1, by: 0s, at: 1s}", "by: '0s' is out of range"),
    ("{clock_step: edge-1, at: 1s}", "clock_step needs by"),
    ("{clock_drift: edge-1, by: 5ms, at: 1s}", "'5ms' has an unknown unit; write one of ppm"),
    ("{clock_drift: edge-1, by: 200000ppm, at: 1s}", "is out of range; write a drift up to 100000ppm"),
    ("{pause: edge-1, at: 1s}", "a pause without end stops the run; add for"),
    ("{pause: edge-1, at: 1s, for: 0s}", "for: lasts no time"),
    ("{pause: edge-1, at: 1s, for: 1s, factor: 2}", "factor: means nothing to pause"),
    ("{pause: cloud-2, at: 1s, for: 1s}", "pause: 'cloud-2' does not train"),
    ("{pause: fog-1, at: 1s, for: 1s}", "'fog-1' matches no host"),
    ("{slow_host: edge-1, factor: 1, at: 1s}", "factor: 1 is out of range; write a number above 1"),
    ("{slow_host: edge-1, at: 1s}", "slow_host needs factor"),
    ("{slow_link: {src: edge-1, dst: cloud-1}, rate_factor: 2, at: 1s}", "rate_factor: 2 is out of range"),
    ("{slow_link: {src: cloud-1, dst: edge-1}, rate_factor: 0.5, at: 1s}", "cloud-1 -> edge-1 has no rate"),
    ("{slow_link: {src: edge-1, dst: cloud-1}, rate_factor: 1.0e-5, at: 1s}", "leaves edge-1 -> cloud-1 with 100bit"),
    ("{late_link: {src: edge-1, dst: cloud-1}, delay: 0ms, at: 1s}", "delay: changes nothing; write more than 0"),
    ("{late_link: {src: edge-1, dst: cloud-1}, at: 1s}", "late_link needs delay"),
    ("{lossy_link: {src: edge-1, dst: cloud-1}, loss: 100%, at: 1s}", "loss: '100%' is out of range"),
    ("{late_data: edge-1, delay: 70s, at: 1s}", "delay: '70s' is out of range; write a delay below 60s"),
    ("{late_step: cloud-2, delay: 5ms, at: 1s}", "late_step: 'cloud-2' does not train"),
    ("{cut: [], at: 1s}", "cut: names no link"),
    ("{cut: {src: random, dst: cloud-1}, at: 1s}", "a link with one random end"),
    ("{cut: {src: edge-1, dst: edge-1}, at: 1s}", "one and the same host"),
    ("{cut: {src: edge-1}, at: 1s}", "cut: key 'dst' is missing"),
    ("{cut: edge-1, at: 1s}", "cut: expected a mapping, not 'edge-1'"),
    ("{partition: [[edge.*]], at: 1s}", "partition: has not two sides with hosts in them"),
    ("{partition: [[edge.*], []], at: 1s}", "partition: has not two sides with hosts in them"),
    ("{partition: [[edge.*], [edge-2, cloud-1]], at: 1s}", "partition: edge-2 is on two sides"),
    ("{partition: [[random], [cloud-1]], at: 1s}", "nothing is drawn here"),
    ("{kill: edge-1, at: 5}", "at: expected text, not 5"),
    ("{kill: edge-1, at: iteration x}", "at: 'iteration x' is no iteration; write e.g. iteration 30"),
    ("{kill: edge-1, at: iteration 100}", "never begins: training has 100, counted from 0; write at most iteration 99"),
    ("{kill: edge-1, at: {between: [1s]}}", "at.between: expected two moments, not 1"),
    ("{kill: edge-1, at: {between: [2s, 1s]}}", "at.between: the second is not after the first"),
    ("{kill: edge-1, at: {between: [2s, iteration 9]}}", "one is a time and one an iteration"),
    ("{kill: edge-1, at: {betwen: [2s, 3s]}}", "betwen: unknown key; did you mean 'between'?"),
    ("{cut: {src: edge-1, dst: cloud-1}, at: 1s, repeat: {every: 1s, until: 9s}}", "what lasts for good cannot begin"),
    ("{pause: edge-1, at: 1s, for: 1s, repeat: {every: 1s}}", "repeat: key 'until' is missing"),
    ("{pause: edge-1, at: 1s, for: 1s, repeat: {every: 1s, until: 1s}}", "until: is over before it begins"),
    ("{pause: edge-1, at: 1s, for: 1s, repeat: {every: 1s, until: 24h}}", "every: would happen more than 1000 times"),
    ("{pause: edge-1, at: iteration 1, for: 1s, repeat: {every: 1s, until: 9s}}", "but begins with an iteration"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), CASES)
def test_what_is_wrong_is_said_once_with_its_line(write, line, says):
    (error,) = found(write(emulation=f"injected:\n  seed: 1\n  faults:\n  - {line}\n"))
    assert error.startswith("emulation.yaml:4: injected.faults[0]")
    assert says in error


def test_more_are_killed_at_random_than_there_are(write):
    lines = "".join("  - {kill: random, at: 1s}\n" for _ in range(4))
    (error,) = found(write(emulation=f"injected:\n  seed: 1\n  faults:\n{lines}"))
    assert error.startswith("emulation.yaml:7: injected.faults[3].kill: nothing is left to draw from")


def test_faults_are_looked_at_even_without_a_seed(write):
    errors = found(write(emulation="injected: {faults: [{kill: edge-9, at: 1s}]}"))
    assert ["key 'seed' is missing" in errors[0], "'edge-9' matches no host" in errors[1]] == [True, True]


def test_the_lowest_rate_of_a_link_counts(write):
    text = (
        "schedules: {links: [{src: edge-1, dst: cloud-1, rate: {steps: {0s: 1mbit, 5s: 2kbit}}}]}\n"
        "injected: {seed: 1, faults: [{slow_link: {src: edge-1, dst: cloud-1}, rate_factor: 0.1, at: 1s}]}\n"
    )
    assert "leaves edge-1 -> cloud-1 with 200bit" in found(write(emulation=text))[0]


def test_a_long_training_has_more_iterations(write):
    layers = replaced(LAYERS, "{strategy: allreduce}", "{strategy: allreduce, iterations: 200}")
    path = write(layers=layers, emulation="injected: {seed: 1, faults: [{kill: edge-1, at: iteration 150}]}")
    assert injected(path).faults[0].at_iteration == 150
