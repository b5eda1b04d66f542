"""What must hold of every virtual run: nothing is lost, nothing overtakes, more rate is never slower, replays agree."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import live_world
import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.replay.replay import prepare
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.messages import conservation, join
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import read_spans
from e2c_dl.worlds.virtual import InFiles, InMemory, LinkModel, SharedRate, simulate

SLOW, FAST = 8e6, 50e6
TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 6), shared=st.booleans(), noise=st.sampled_from([0.0, 0.1]))
@pytest.mark.parametrize("tcp", [None, TCP])
def test_messages_are_conserved_and_keep_their_order(
    tcp: Tcp | None, seed: int, size: int, shared: bool, noise: float
) -> None:
    access = SharedRate(rate_bps=30e6, links=tuple((rank, (rank + 1) % size) for rank in range(0, size, 2)))
    links = virtual_world.random_links(size, seed, tcp)
    run = virtual_world.run(
        Allreduce, size=size, seed=seed, noise=noise, links=links, bottlenecks=[access] if shared else []
    )
    for row in conservation(run.trace):
        assert (row.sent_messages, row.sent_bytes) == (row.received_messages, row.received_bytes)
    joined = join(run.trace)
    assert len(joined.joined) == run.result.messages
    for rows in joined.by_link().values():
        rows = np.sort(rows, order="seq")
        for field in ("send_start_ns", "send_end_ns", "recv_start_ns", "recv_end_ns"):
            assert np.all(np.diff(rows[field]) >= 0)
        assert np.all(rows["posted_ns"] <= rows["send_start_ns"])
        assert np.all(rows["send_end_ns"] <= rows["recv_end_ns"])
    for rank in range(size):
        spans = run.spans(rank)
        assert np.all(spans["posted_ns"] <= spans["start_ns"])
        assert np.all(spans["start_ns"] <= spans["end_ns"])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 5), noise=st.sampled_from([0.0, 0.1]), shared=st.booleans())
def test_every_wait_of_a_virtual_run_has_its_cause(seed: int, size: int, noise: float, shared: bool) -> None:
    access = SharedRate(rate_bps=30e6, links=tuple((rank, (rank + 1) % size) for rank in range(0, size, 2)))
    run = virtual_world.run(Allreduce, size=size, seed=seed, noise=noise, bottlenecks=[access] if shared else [])
    delays = {pair: round(link.delay_s * 1e9) for pair, link in run.links.items()}
    replay = prepare(run.trace, join(run.trace), delays)
    assert replay.measured_ns == run.result.end_ns
    assert replay.uncaused == 0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 5), faster=st.floats(1.0, 10.0), shared=st.booleans())
def test_more_rate_is_never_slower(seed: int, size: int, faster: float, shared: bool) -> None:
    ring = Allreduce.links(size)
    links = {
        pair: replace(link, loss=0.0, jitter_s=0.0)
        for pair, link in virtual_world.random_links(size, seed).items() if pair in ring
    }  # fmt: skip
    pair = ring[seed % len(ring)]
    quick = {**links, pair: replace(links[pair], rate_bps=(links[pair].rate_bps or 0.0) * faster)}
    ends = []
    for these, bound_bps in ((links, 20e6), (quick, 20e6 * faster)):
        access = [SharedRate(rate_bps=bound_bps, links=(pair,))] if shared else []
        ends.append(virtual_world.run(Allreduce, size=size, links=these, bottlenecks=access).result.end_ns)
    assert ends[1] <= ends[0] + 100  # rounding to nanoseconds, message by message


@pytest.mark.parametrize("seed", range(12))
def test_an_injected_slow_host_is_named(seed: int) -> None:
    size = 4 + seed % 3
    slow = seed % size
    links = virtual_world.everywhere(size, LinkModel(rate_bps=FAST, delay_s=0.002))
    asked = virtual_world.hosts(size, noise=0.02)
    built = tuple(replace(host, factor=2.5 if rank == slow else 1.0) for rank, host in enumerate(asked))
    run = virtual_world.run(Allreduce, size=size, seed=seed, links=links, on_hosts=built, iterations=10)
    report = analyse(run.trace, replace(run, hosts=asked).reference())
    assert [str(culprit.element) for culprit in report.culprits] == [f"edge-{slow + 1}"]
    assert report.findings[0].slowdown == pytest.approx(2.5, rel=0.1)
    restored = virtual_world.run(Allreduce, size=size, seed=seed, links=links, on_hosts=asked, iterations=10)
    assert report.run_s - report.findings[0].saved_s == pytest.approx(restored.end_s, rel=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_an_injected_slow_link_is_named(seed: int) -> None:
    size = 4 + seed % 3
    pair = (seed % size, (seed + 1) % size)
    of = virtual_world.profile((120_000, 60_000))
    asked = virtual_world.everywhere(size, LinkModel(rate_bps=FAST, delay_s=0.002))
    built = {**asked, pair: LinkModel(rate_bps=FAST / 5, delay_s=0.002)}
    run = virtual_world.run(Allreduce, size=size, seed=seed, links=built, of=of, noise=0.02, iterations=10)
    report = analyse(run.trace, replace(run, links=asked).reference())
    assert [str(culprit.element) for culprit in report.culprits] == [f"edge-{pair[0] + 1} -> edge-{pair[1] + 1}"]
    assert report.findings[0].slowdown == pytest.approx(5.0, rel=0.1)
    restored = virtual_world.run(Allreduce, size=size, seed=seed, links=asked, of=of, noise=0.02, iterations=10)
    assert report.run_s - report.findings[0].saved_s == pytest.approx(restored.end_s, rel=0.05)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 5), buckets=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_both_worlds_train_alike_to_the_bit(seed: int, size: int, buckets: list[int]) -> None:
    draw = np.random.default_rng(seed)
    bounds = np.cumsum([0, *buckets]).tolist()
    where = [slice(begin, end) for begin, end in pairwise(bounds)]
    samples = draw.integers(1, 50, size).tolist()
    own = draw.normal(size=(size, bounds[-1])).astype(np.float32)

    def computes() -> list[live_world.Linear]:
        start = np.linspace(-1, 1, bounds[-1], dtype=np.float32)
        return [
            live_world.Linear(start, where, lambda i, w, rank=rank: own[rank] * (i + 1) + w, 0.3)
            for rank in range(size)
        ]

    virtual, live = computes(), computes()
    virtual_world.run(Allreduce, size=size, seed=seed, computes=virtual, samples=samples, iterations=3)
    with TemporaryDirectory() as directory:
        live_world.train(Path(directory), Allreduce, live, samples, 3)
    for ours, theirs in zip(virtual, live, strict=True):
        assert np.array_equal(ours.parameters, theirs.parameters)


def test_values_change_no_times() -> None:
    """With real gradients the same happens at the same times as with shapes alone."""
    where = [slice(4, 8), slice(0, 4)]
    computes = [live_world.Linear(np.ones(8, dtype=np.float32), where, lambda i, w: w, 0.1) for _ in range(3)]
    real = virtual_world.run(Allreduce, size=3, seed=5, computes=computes)
    shapes = virtual_world.run(Allreduce, size=3, seed=5, of=real.hosts[0].profile)
    for rank in range(3):
        assert real.spans(rank).tobytes() == shapes.spans(rank).tobytes()


DIGEST = """
import hashlib, sys
import virtual_world
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.scenario.model import Tcp
links = virtual_world.random_links(5, 11, Tcp(congestion_control="cubic", slow_start_after_idle=False))
run = virtual_world.run(Allreduce, size=5, seed=11, noise=0.1, iterations=6, links=links)
print(hashlib.sha256(b"".join(rank.spans.tobytes() for rank in run.trace.ranks)).hexdigest())
"""


def test_the_same_seed_gives_the_same_trace_in_every_process(repository: Path) -> None:
    digests = set()
    for seed in ("0", "1", "4242"):
        path = f"{repository}:{repository / 'tests'}"
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path, "PATH": ""},
        )  # fmt: skip
        digests.add(done.stdout)
    assert len(digests) == 1
    other = virtual_world.run(Allreduce, size=5, seed=12, noise=0.1, iterations=6)
    same = virtual_world.run(Allreduce, size=5, seed=12, noise=0.1, iterations=6)
    assert [r.spans.tobytes() for r in other.trace.ranks] == [r.spans.tobytes() for r in same.trace.ranks]


def test_files_hold_what_memory_holds(tmp_path: Path) -> None:
    hosts, links = virtual_world.hosts(3), virtual_world.random_links(3, 1)
    memory, files = InMemory(), InFiles([tmp_path / f"{rank}.bin" for rank in range(3)])
    for sink in (memory, files):
        simulate(Allreduce, hosts=hosts, links=links, sink=sink, iterations=40, seed=1)
    for rank in range(3):
        facts, spans, complete = read_spans(tmp_path / f"{rank}.bin")
        assert (facts.rank, facts.host, facts.layer, complete) == (rank, f"edge-{rank + 1}", "edge", True)
        assert spans.tobytes() == memory.spans(rank).tobytes()
        assert (spans["phase"] == Phase.ITERATION).sum() == 40
