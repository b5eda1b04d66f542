"""Ako's laws: every part is sent in its turn, and what is sent and owed adds up to all gradients."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from live_world import Linear, train
from quadratic import Problem

from e2c_dl.errors import InputError
from e2c_dl.strategies.ako import Ako
from e2c_dl.strategies.base import Message, Pending, Worker
from e2c_dl.strategies.collectives import split
from e2c_dl.strategies.seam.wrapped import Wrapped
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.live import OwnShare, network


class Watching(Wrapped):
    """A worker that keeps the parts that are sent to one other."""

    def __init__(self, worker: Worker, sent: list[Message]) -> None:
        super().__init__(worker)
        self._sent, self._first = sent, 1 if worker.rank == 0 else 0

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        if message.payload is not None and dst == self._first:
            self._sent.append(message)
        return super().send(dst, message, priority)


@given(size=st.integers(2, 4), seed=st.integers(0, 10_000), partitions=st.integers(1, 6), rounds=st.integers(1, 3))
@settings(max_examples=8, deadline=None)
def test_a_round_sends_every_part_with_all_that_is_owed_of_it(
    size: int, seed: int, partitions: int, rounds: int
) -> None:
    iterations = partitions * rounds
    problem = Problem(size, seed, lengths=(12, 5))
    problem.samples = [4] * size
    whole = np.round(np.random.default_rng(seed).normal(size=(iterations, 17)) * 1024)
    sent: list[list[Message]] = [[] for _ in range(size)]
    run = virtual_world.run(
        lambda: Ako(partitions=partitions), size=size, seed=seed, iterations=iterations, samples=problem.samples,
        computes=problem.computes(lambda rank, iteration, w: whole[iteration]),
        wrapping=lambda worker: Watching(worker, sent[worker.rank]),
    )  # fmt: skip
    for parts in sent:
        assert [each.bucket for each in parts] == [iteration % partitions for iteration in range(iterations)]
        total = np.zeros(17)
        for message in parts:
            part = split(total, partitions)[message.bucket]
            part += message.vector
            due = split(whole[: message.iteration + 1].sum(axis=0) / size, partitions)[message.bucket]
            assert np.allclose(part, due, rtol=1e-12, atol=1e-9)
    assert all(len(run.spans(rank, Phase.ITERATION)) == iterations for rank in range(size))


@given(size=st.integers(1, 4), seed=st.integers(0, 10_000), partitions=st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_every_rank_applies_its_own_gradients_whole_and_all_that_others_sent(
    size: int, seed: int, partitions: int
) -> None:
    problem, iterations = Problem(size, seed), 7
    lengths = [len(each) for each in split(problem.start, partitions)]
    computes = problem.computes(lambda rank, iteration, w: problem.gradient(rank, iteration, problem.start))
    virtual_world.run(
        lambda: Ako(partitions=partitions), size=size, seed=seed, iterations=iterations, computes=computes,
        samples=problem.samples, factors=np.random.default_rng(seed).choice([1.0, 9.0], size).tolist(), noise=0.2,
    )  # fmt: skip
    last = [max(k for k in range(-1, iterations) if k < 0 or k % partitions == place) for place in range(partitions)]
    sent = np.repeat(last, lengths) + 1  # of each entry: how many iterations' gradients left in the end
    shares = np.array(problem.samples) / sum(problem.samples)
    for rank, compute in enumerate(computes):
        moved = np.zeros_like(problem.start)
        for other in range(size):
            for iteration in range(iterations):
                counts = 1 if other == rank else iteration < sent
                moved += shares[other] * problem.gradient(other, iteration, problem.start) * counts
        assert np.allclose(compute.parameters, problem.start - problem.rate * moved, rtol=1e-12, atol=1e-12)


def test_a_slow_rank_slows_nobody_down() -> None:
    run = virtual_world.run(
        Ako, size=4, iterations=10, factors=[1, 1, 1, 20], links=virtual_world.everywhere(4, virtual_world.LinkModel())
    )
    ends_ns = [int(run.spans(rank, Phase.ITERATION)["end_ns"].max()) for rank in range(4)]
    assert max(ends_ns[:3]) * 10 < ends_ns[3]


def test_who_has_ended_takes_what_slow_ranks_still_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "QUEUED_MODELS", 0)
    monkeypatch.setattr(network, "QUEUED_BYTES", 100_000)  # the slow rank's parts: 40 of 10 kB
    start = np.zeros(2500, np.float32)
    computes = [Linear(start, [slice(0, 2500)], lambda _, w: np.ones_like(w), 1.0) for _ in range(2)]
    train(
        tmp_path, Ako, computes, [1, 1], 1, settings={"partitions": 1},
        shares=lambda: [OwnShare(Equal(iterations), 0, time.monotonic_ns) for iterations in (2, 40)],
    )  # fmt: skip
    for compute in computes:
        assert np.allclose(compute.parameters, -21)  # half of what both computed


def test_partitions_below_one_are_told() -> None:
    with pytest.raises(InputError, match="partitions is 0; write 1 or more"):
        Ako(partitions=0)
