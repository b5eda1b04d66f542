"""What changes or is shared by design accuses nobody; what departs from that is named; what-ifs of shares come true."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Element, ElementKind, Report
from e2c_dl.diagnosis.piecewise import Piecewise, least
from e2c_dl.diagnosis.shown.sharing import left_for
from e2c_dl.scenario.model import LinkSchedule, Schedules, Tcp
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.parameterserver import ParameterServer
from e2c_dl.topology import Bottleneck as Shared
from e2c_dl.worlds.virtual import LinkModel, SharedRate

BUCKETS = (120_000, 60_000)
UNTIL_S = 500.0
SIZE = 4

schedules = st.builds(
    lambda values, gaps: Schedule(points=tuple(zip(np.cumsum([0.0, *gaps]).tolist(), values, strict=False))),
    st.lists(st.floats(1e6, 1e8), min_size=1, max_size=6),
    st.lists(st.floats(0.1, 5.0), min_size=5, max_size=5),
)


@settings(max_examples=50, deadline=None)
@given(schedule=schedules, begin_s=st.floats(-5.0, 40.0), bits=st.floats(0.0, 1e9))
def test_what_came_together_until_a_moment_tells_the_moment(schedule: Schedule, begin_s: float, bits: float) -> None:
    held = Piecewise.of(schedule, UNTIL_S)
    end_s = held.when(held.total(np.array([begin_s])) + bits)
    assert end_s[0] >= begin_s - 1e-9
    assert held.total(end_s)[0] - held.total(np.array([begin_s]))[0] == pytest.approx(bits, abs=1.0)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), links=st.integers(1, 4))
def test_shares_use_the_whole_and_no_more_while_somebody_needs_it(seed: int, links: int) -> None:
    draw = random.Random(seed)
    pairs = [("edge-1", f"fog-{number}") for number in range(links)]
    own = {pair: Piecewise.constant(draw.choice([2e6, 5e6, 50e6])) for pair in pairs if draw.random() < 0.8}
    busy = {}
    for pair in pairs:
        moments = np.sort(np.array([draw.uniform(0.0, 10.0) for _ in range(6)]))
        busy[pair] = (moments[::2], moments[1::2])
    capacity = Piecewise(starts_s=np.array([0.0, 5.0]), values=np.array([10e6, draw.choice([3e6, 30e6])]))
    left = left_for(own, busy, capacity)
    rates = {pair: least(left[pair], own[pair]) if pair in own else left[pair] for pair in pairs}
    for time_s in np.linspace(0.01, 9.99, 50):
        now = np.array([time_s])
        active = [pair for pair, (begins, ends) in busy.items() if ((begins <= time_s) & (time_s < ends)).any()]
        taken = sum(rates[pair].at(now)[0] for pair in active)
        needed = sum(own[pair].at(now)[0] if pair in own else np.inf for pair in active)
        assert taken == pytest.approx(min(needed, capacity.at(now)[0]))


def changing(schedule: Schedule, slower: float = 1.0) -> LinkModel:
    """A link that follows ``schedule``, ``slower`` times slower."""
    steps = [(time_s, LinkModel(rate_bps=value / slower, delay_s=0.002)) for time_s, value in schedule.steps(UNTIL_S)]
    return LinkModel(delay_s=0.002, conditions=lambda: iter(steps))


def trace_of_a_link(seed: int) -> Schedule:
    draw = random.Random(f"schedule {seed}")
    return Schedule(points=tuple((0.5 * i, draw.uniform(4e6, 40e6)) for i in range(20)), period_s=10.0)


@pytest.mark.parametrize("slower", [1.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_link_on_its_schedule_is_accused_only_if_it_is_slower_than_that(seed: int, slower: float) -> None:
    schedule, pair = trace_of_a_link(seed), (seed % SIZE, (seed + 1) % SIZE)
    names = (f"edge-{pair[0] + 1}", f"edge-{pair[1] + 1}")
    steady = virtual_world.everywhere(SIZE, LinkModel(rate_bps=20e6, delay_s=0.002))
    run = virtual_world.run(
        Allreduce, size=SIZE, seed=seed, links={**steady, pair: changing(schedule, slower)}, noise=0.02, iterations=30,
        of=virtual_world.profile(BUCKETS),
    )  # fmt: skip
    reference = replace(run, links=steady).reference()
    asked = replace(reference, schedules=Schedules(links={names: LinkSchedule(rate_bps=schedule)}))
    report = analyse(run.trace, asked)
    assert [str(culprit.element) for culprit in report.culprits] == ([" -> ".join(names)] if slower > 1 else [])
    if slower > 1:
        assert report.culprits[0].slowdown == pytest.approx(slower, rel=0.25)
    else:
        assert report.findings == ()


class OnSchedule:
    """Computes as slowly as ``factor`` says, exactly: a Speed."""

    def __init__(self, factor: Schedule) -> None:
        self._speed = Piecewise.of(factor, UNTIL_S).mapped(np.reciprocal)

    def ends_ns(self, begin_ns: int, cpu_s: float) -> int:
        return round(self._speed.when(self._speed.total(np.array([begin_ns / 1e9])) + cpu_s)[0] * 1e9)

    def finished(self, begin_ns: int, cpu_s: float) -> None:
        """Nothing comes of it."""


@pytest.mark.parametrize("slower", [1.0, 2.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_host_on_its_schedule_is_accused_only_if_it_is_slower_than_that(seed: int, slower: float) -> None:
    slow = seed % SIZE
    asked = virtual_world.hosts(SIZE)
    schedule = Schedule(points=((0.0, 1.0), (0.1, 5.0), (0.3, 2.0)))
    built = Schedule(points=tuple((time_s, factor * slower) for time_s, factor in schedule.points))
    hosts = tuple(replace(host, speed=OnSchedule(built)) if rank == slow else host for rank, host in enumerate(asked))
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=50e6, delay_s=0.002))
    run = virtual_world.run(Allreduce, size=SIZE, seed=seed, links=links, on_hosts=hosts, iterations=20)
    reference = run.reference()
    report = analyse(run.trace, replace(reference, compute_factors={f"edge-{slow + 1}": schedule}))
    assert [str(each.element) for each in report.findings] == ([f"edge-{slow + 1}"] if slower > 1 else [])
    assert [each.slowdown for each in report.findings] == pytest.approx([slower] * (slower > 1), rel=0.02)


def of_a_server(rate_bps: float, seed: int, asked_bps: float, links: Mapping[tuple[int, int], LinkModel]) -> Report:
    """All push to edge-1 through one shared line of ``rate_bps``, of which ``asked_bps`` were asked for."""
    pushing = [(rank, 0) for rank in range(1, SIZE)]
    run = virtual_world.run(
        ParameterServer, size=SIZE, seed=seed, links=links, noise=0.02, iterations=12,
        of=virtual_world.profile(BUCKETS), bottlenecks=[SharedRate(rate_bps=rate_bps, links=tuple(pushing))],
    )  # fmt: skip
    reference = run.reference()
    names: Sequence[tuple[str, str]] = [(f"edge-{src + 1}", "edge-1") for src, _ in pushing]
    shared = Shared(name="uplink", rate_bps=asked_bps, links=tuple(names))
    return analyse(run.trace, replace(reference, topology=replace(reference.topology, bottlenecks=(shared,))))


UPLINK = Element(kind=ElementKind.SHARED, src="uplink")


@pytest.mark.parametrize("seed", range(5))
def test_links_that_share_a_line_by_design_are_not_accused_and_the_line_is_what_would_help(seed: int) -> None:
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=60e6, delay_s=0.002))
    report = of_a_server(15e6, seed, 15e6, links)
    assert report.findings == ()
    best = report.bottlenecks[0]
    assert best.element == UPLINK
    assert str(best.element) == "uplink"
    # A faster link of its own helps nobody who waits for the line.
    alone = [each for each in report.bottlenecks if each.element.dst == "edge-1"]
    assert len(alone) == SIZE - 1
    assert all(each.saved_s < 0.1 * best.saved_s for each in alone)
    truth = of_a_server(30e6, seed, 30e6, links)
    assert report.run_s - best.saved_s == pytest.approx(truth.run_s, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_a_shared_line_that_is_slower_than_asked_is_named_itself(seed: int) -> None:
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=60e6, delay_s=0.002))
    report = of_a_server(5e6, seed, 15e6, links)
    (culprit,) = report.culprits
    assert culprit.element == UPLINK
    assert culprit.slowdown == pytest.approx(3.0, rel=0.15)
    assert report.run_s - culprit.saved_s == pytest.approx(of_a_server(15e6, seed, 15e6, links).run_s, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_of_links_that_share_a_line_the_slow_one_is_named(seed: int) -> None:
    asked = virtual_world.everywhere(SIZE, LinkModel(rate_bps=60e6, delay_s=0.002))
    slow = (1 + seed, 0)
    run = virtual_world.run(
        ParameterServer, size=SIZE, seed=seed, links={**asked, slow: LinkModel(rate_bps=2e6, delay_s=0.002)},
        noise=0.02, iterations=12, of=virtual_world.profile(BUCKETS),
        bottlenecks=[SharedRate(rate_bps=15e6, links=((1, 0), (2, 0), (3, 0)))],
    )  # fmt: skip
    reference = replace(run, links=asked).reference()
    shared = Shared(name="uplink", rate_bps=15e6, links=tuple((f"edge-{rank}", "edge-1") for rank in (2, 3, 4)))
    report = analyse(run.trace, replace(reference, topology=replace(reference.topology, bottlenecks=(shared,))))
    assert [str(each.element) for each in report.culprits] == [f"edge-{seed + 2} -> edge-1"]


def alive(run: virtual_world.Run, stopped: tuple[str, float, float] | None = None) -> dict[str, np.ndarray]:
    """Every host was seen once a second; ``stopped`` not between two moments."""
    moments = {host.name: np.arange(0, run.result.end_ns, 10**9, dtype=np.int64) for host in run.hosts}
    if stopped is not None:
        name, begin_s, end_s = stopped
        seen = moments[name]
        moments[name] = seen[(seen < begin_s * 1e9) | (seen > end_s * 1e9)]
    return moments


def standing(pair: tuple[int, int], begin_s: float, end_s: float) -> dict[tuple[int, int], LinkModel]:
    """All links as they are asked to be; the one of ``pair`` carries nothing for a while."""
    link = LinkModel(rate_bps=20e6, delay_s=0.002)
    steps = [(0.0, link), (begin_s, replace(link, down=True)), (end_s, link)]
    changing_link = replace(link, conditions=lambda: iter(steps))
    return {**virtual_world.everywhere(SIZE, link), pair: changing_link}


@pytest.mark.parametrize("seed", range(4))
def test_a_link_that_stood_still_is_named_and_what_it_cost(seed: int) -> None:
    pair = (seed, (seed + 1) % SIZE)
    links = standing(pair, 1.0, 6.0)
    run = virtual_world.run(
        Allreduce, size=SIZE, seed=seed, links=links, iterations=30, of=virtual_world.profile(BUCKETS)
    )
    asked = virtual_world.everywhere(SIZE, LinkModel(rate_bps=20e6, delay_s=0.002))
    reference = replace(run, links=asked).reference()
    report = analyse(replace(run.trace, alive=alive(run)), reference)
    (culprit,) = report.culprits
    assert str(culprit.element) == f"edge-{pair[0] + 1} -> edge-{pair[1] + 1}"
    assert culprit.stalled_s == pytest.approx(5.0, rel=0.05)
    steady = virtual_world.run(
        Allreduce, size=SIZE, seed=seed, links=asked, iterations=30, of=virtual_world.profile(BUCKETS)
    )
    assert report.run_s - culprit.saved_s == pytest.approx(steady.end_s, rel=0.05)
    # Of a host that did not run meanwhile it is the host's doing; of hosts that nobody watched it is not known whose.
    receiver = f"edge-{pair[1] + 1}"
    stopped = analyse(replace(run.trace, alive=alive(run, (receiver, 1.0, 6.0))), reference)
    assert [str(each.element) for each in stopped.culprits] == [receiver]
    # nor of those of which the last sign of life was before
    seen = {host: moments[moments < 10**9] for host, moments in alive(run).items()}
    for unknown in (run.trace, replace(run.trace, alive=seen)):
        assert analyse(unknown, reference).findings == ()
    vague = tuple(replace(rank, clock=replace(rank.clock, uncertainty_ns=4 * 10**9)) for rank in run.trace.ranks)
    assert analyse(replace(run.trace, alive=alive(run), ranks=vague), reference).findings == ()
    unaligned = replace(run.trace, alive=alive(run), facts={"hosts_without_clock": (receiver,)})
    assert analyse(unaligned, reference).findings == ()


def test_a_link_that_loses_a_little_by_design_is_named_when_it_stands_still() -> None:
    tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
    losing = LinkModel(rate_bps=20e6, delay_s=0.002, loss=0.002, tcp=tcp)
    steps = [(0.0, losing), (1.0, replace(losing, down=True)), (6.0, losing)]
    everywhere = virtual_world.everywhere(SIZE, losing)
    links = {**everywhere, (0, 1): replace(losing, conditions=lambda: iter(steps))}
    run = virtual_world.run(Allreduce, size=SIZE, links=links, iterations=30, of=virtual_world.profile(BUCKETS))
    report = analyse(replace(run.trace, alive=alive(run)), replace(run, links=everywhere).reference())
    (culprit,) = report.culprits
    assert str(culprit.element) == "edge-1 -> edge-2"
    assert culprit.stalled_s == pytest.approx(5.0, rel=0.4), "TCP asks again after 200 ms, 400 ms, ..."


def test_a_host_that_stood_still_while_it_computed_is_named() -> None:
    hosts = virtual_world.hosts(SIZE)
    schedule = Schedule(points=((0.0, 1.0), (0.1, 1e6), (4.1, 1.0)))
    built = tuple(replace(host, speed=OnSchedule(schedule)) if rank == 1 else host for rank, host in enumerate(hosts))
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=50e6, delay_s=0.002))
    run = virtual_world.run(Allreduce, size=SIZE, links=links, on_hosts=built, iterations=20)
    (culprit,) = analyse(run.trace, run.reference()).culprits
    assert (str(culprit.element), culprit.slowdown) == ("edge-2", 1.0)
    assert culprit.stalled_s == pytest.approx(4.0, rel=0.05)
    steady = virtual_world.run(Allreduce, size=SIZE, links=links, on_hosts=hosts, iterations=20)
    assert run.end_s - culprit.saved_s == pytest.approx(steady.end_s, rel=0.05)


def test_a_gradient_that_is_slow_by_design_is_no_stall() -> None:
    schedule = Schedule(points=((0.0, 1.0), (0.1, 2000.0), (8.1, 1.0)))
    hosts = virtual_world.hosts(SIZE)
    built = tuple(replace(host, speed=OnSchedule(schedule)) if rank == 1 else host for rank, host in enumerate(hosts))
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=50e6, delay_s=0.002))
    run = virtual_world.run(Allreduce, size=SIZE, links=links, on_hosts=built, iterations=30)
    reference = run.reference()
    assert [str(each.element) for each in analyse(run.trace, reference).culprits] == ["edge-2"]
    assert analyse(run.trace, replace(reference, compute_factors={"edge-2": schedule})).findings == ()


@pytest.mark.parametrize("batches", [(8, 8, 8, 2), (16, 16, 16, 4)])
def test_a_small_batch_on_a_slow_host_is_no_departure(batches: tuple[int, ...]) -> None:
    hosts = virtual_world.hosts(SIZE, samples=batches, factors=(1.0, 1.0, 1.0, 4.0))
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=50e6, delay_s=0.002))
    run = virtual_world.run(Allreduce, size=SIZE, links=links, on_hosts=hosts, iterations=10)
    report = analyse(run.trace, run.reference())
    assert report.findings == ()
    assert any("whether edge-4 computes slower all the time" in limitation for limitation in report.limitations)
    changing_batches = analyse(run.trace, replace(run.reference(), batches_change=True))
    assert changing_batches.findings == ()
    assert any(
        "edge-4 is slower in its compute all the time, if by less" in each for each in changing_batches.limitations
    )


def test_what_a_line_of_both_directions_was_asked_for_is_counted_once() -> None:
    links = virtual_world.everywhere(SIZE, LinkModel(rate_bps=60e6, delay_s=0.002))
    both = [pair for rank in range(1, SIZE) for pair in ((rank, 0), (0, rank))]
    run = virtual_world.run(
        ParameterServer, size=SIZE, links=links, iterations=12, of=virtual_world.profile(BUCKETS),
        bottlenecks=[SharedRate(rate_bps=5e6, links=tuple(both))],
    )  # fmt: skip
    reference = run.reference()
    names = tuple((f"edge-{src + 1}", f"edge-{dst + 1}") for src, dst in both)
    shared = Shared(name="uplink", rate_bps=15e6, links=names)
    report = analyse(run.trace, replace(reference, topology=replace(reference.topology, bottlenecks=(shared,))))
    (culprit,) = report.culprits
    assert culprit.element == UPLINK
    assert culprit.expected == pytest.approx(15e6)
    assert culprit.observed == pytest.approx(5e6, rel=0.1)
