"""What must hold of every analysis: states partition, replays reproduce, culprits are named and nobody else is."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Ring, name, run_s, simulate

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import REPORT_FORMAT, Element, ElementKind, HostSummary, LinkSummary, Report
from e2c_dl.diagnosis.replay.replay import prepare
from e2c_dl.diagnosis.replay.whatif import scaled
from e2c_dl.diagnosis.states import STATES, State, partition, timelines
from e2c_dl.errors import ArchiveError
from e2c_dl.topology import Link
from e2c_dl.trace.messages import join

interval = st.tuples(st.integers(-5, 45), st.integers(-5, 45))


@given(sets=st.lists(st.lists(interval, max_size=6), min_size=1, max_size=4), end=st.integers(1, 40))
def test_states_partition_as_a_walk_over_every_nanosecond_would(sets: list[list[tuple[int, int]]], end: int) -> None:
    arrays = [np.array(intervals, dtype=np.int64).reshape(len(intervals), 2) for intervals in sets]
    bounds, codes = partition(0, end, arrays)
    walked = [
        next((code for code, intervals in enumerate(sets) if any(a <= t < b for a, b in intervals)), len(sets))
        for t in range(end)
    ]
    assert np.repeat(codes, np.diff(bounds)).tolist() == walked
    assert (bounds[0], bounds[-1]) == (0, end)
    assert (np.diff(bounds) > 0).all()
    assert (np.diff(codes.astype(int)) != 0).all()


def random_ring(seed: int, *, size: int | None = None) -> Ring:
    """A run of random shape and noise with nothing wrong in it: what is slow, is so by design."""
    draw = random.Random(seed)
    size = size or draw.randint(3, 6)
    rates = [draw.choice([20e6, 40e6, 60e6, 100e6]) for _ in range(size)]
    return Ring(
        compute_s=tuple(draw.choice([0.05, 0.1, 0.2]) for _ in range(size)),
        links=tuple(Link(rate_bps=rate, delay_s=draw.choice([0.001, 0.005, 0.015])) for rate in rates),
        bucket_bytes=(*(draw.choice([20_000, 150_000, 400_000]) for _ in range(draw.randint(0, 2))), 200_000),
        iterations=8,
        compute_noise=draw.uniform(0, 0.1),
        wake_s=draw.uniform(0, 1e-3),
        read_s=draw.uniform(0, 1e-3),
        clock_error_ns=draw.randint(0, 200_000),
        buffer_bytes=draw.choice([60_000, 4_000_000]),
        seed=seed,
    )


def slowed(ring: Ring) -> tuple[Ring, Element, Element]:
    """``ring`` with one slow host and one slow link, placed by its seed."""
    draw = random.Random(f"slowed {ring.seed}")
    host, link = draw.randrange(ring.size), draw.randrange(ring.size)
    slow = replace(ring, slow_hosts={host: draw.uniform(2, 4)}, slow_links={link: draw.uniform(0.1, 0.5)})
    return (
        slow,
        Element(kind=ElementKind.HOST, src=name(host)),
        Element(kind=ElementKind.LINK, src=name(link), dst=name((link + 1) % ring.size)),
    )


def delays_ns(ring: Ring) -> dict[tuple[int, int], int]:
    return {(r, (r + 1) % ring.size): round(link.delay_s * 1e9) for r, link in enumerate(ring.links)}


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_states_sum_to_wall_time(seed: int) -> None:
    trace = simulate(random_ring(seed))
    for timeline in timelines(trace, join(trace)):
        totals = timeline.totals_ns()
        assert sum(totals.values()) == timeline.wall_ns
        assert list(totals) == list(STATES)


@pytest.mark.parametrize("seed", range(40))
def test_the_slowed_host_and_link_are_found_and_nobody_else(seed: int) -> None:
    ring, host, link = slowed(random_ring(seed))
    report = analyse(simulate(ring), ring.reference())
    assert {finding.element for finding in report.findings} == {host, link}
    for finding in report.findings:
        injected = ring.slow_hosts if finding.element == host else {r: 1 / f for r, f in ring.slow_links.items()}
        assert finding.slowdown == pytest.approx(next(iter(injected.values())), rel=0.25)


@pytest.mark.parametrize("seed", range(40))
def test_nobody_is_accused_where_everything_is_as_designed(seed: int) -> None:
    ring = random_ring(1000 + seed)
    report = analyse(simulate(ring), ring.reference())
    assert report.findings == ()


@pytest.mark.parametrize("seed", range(15))
def test_what_ifs_agree_with_a_run_that_is_restored(seed: int) -> None:
    ring, host, _ = slowed(random_ring(2000 + seed))
    report = analyse(simulate(ring), ring.reference())
    for finding in report.findings:
        rank = int(finding.element.src.removeprefix("edge-")) - 1
        restored = ring.restored(host=rank) if finding.element == host else ring.restored(link=rank)
        assert report.run_s - finding.saved_s == pytest.approx(run_s(simulate(restored)), rel=0.05)


@pytest.mark.parametrize("seed", range(10))
def test_what_ifs_of_twice_as_fast_agree_with_such_a_run(seed: int) -> None:
    ring = random_ring(3000 + seed)
    trace = simulate(ring)
    replay = prepare(trace, join(trace), delays_ns(ring))
    rank = seed % ring.size
    change = scaled(Element(kind=ElementKind.HOST, src=name(rank)), 0.5)
    truth = run_s(simulate(replace(ring, slow_hosts={rank: 0.5})))
    assert replay.run_ns(change) / 1e9 == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("seed", range(10))
def test_the_bottleneck_is_what_is_far_slowest_by_design(seed: int) -> None:
    ring = random_ring(4000 + seed, size=4)
    rank = seed % 4
    if seed % 2:
        ring = replace(ring, compute_s=tuple(3.0 if r == rank else 0.05 for r in range(4)))
        expected = Element(kind=ElementKind.HOST, src=name(rank))
    else:
        links = tuple(Link(rate_bps=2e6 if r == rank else 100e6, delay_s=0.001) for r in range(4))
        ring = replace(ring, links=links)
        expected = Element(kind=ElementKind.LINK, src=name(rank), dst=name((rank + 1) % 4))
    report = analyse(simulate(ring), ring.reference())
    assert report.bottlenecks[0].element == expected
    assert report.culprits == ()


@pytest.mark.parametrize("seed", range(10))
def test_added_delay_is_found_and_its_saving_predicted(seed: int) -> None:
    ring = random_ring(5000 + seed)
    links = tuple(replace(link, rate_bps=100e6) for link in ring.links)  # busy links hide delay
    buckets = (20_000, *ring.bucket_bytes)
    late = replace(ring, links=links, late_links={seed % ring.size: 0.05}, bucket_bytes=buckets)
    report = analyse(simulate(late), late.reference())
    (finding,) = report.findings
    assert finding.element.src == name(seed % ring.size)
    assert finding.element.kind is ElementKind.LINK
    truth = run_s(simulate(late.restored(link=seed % ring.size)))
    assert report.run_s - finding.saved_s == pytest.approx(truth, rel=0.05)


COUNTS = st.integers(0, 2**62)
LINKS = st.builds(LinkSummary, messages=COUNTS, sent_bytes=COUNTS, received_bytes=COUNTS)
HOSTS = st.builds(HostSummary, rank=COUNTS, states_s=st.dictionaries(st.sampled_from(State), st.floats()))
REPORTS = st.builds(Report, iterations=COUNTS, hosts=st.tuples(HOSTS, HOSTS), links=st.tuples(LINKS))


@given(REPORTS)
def test_a_report_reads_back_as_it_was_written(report: Report) -> None:
    written = replace(report, format=REPORT_FORMAT).to_json()
    again = Report.from_json(written, "report.json")
    assert again.to_json() == written
    if b"null" not in written:  # dst of a host; NaN, which equals nothing; infinity, which JSON cannot write
        assert again == replace(report, format=REPORT_FORMAT)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 0}',
        b'{"format": 1}',
        b'{"format": 2}',
        b'{"format": 3}',
        b'{"format": 4}',
        b'{"format": 4, "iterations": "x"}',
        b"\xff",
    ],
)
def test_what_is_no_report_of_this_format_is_refused_in_one_line(text: bytes) -> None:
    with pytest.raises(ArchiveError) as refused:
        Report.from_json(text, "a/report.json")
    assert str(refused.value).startswith("a/report.json: ") and "\n" not in str(refused.value)
