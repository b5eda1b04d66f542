"""Gaia's laws: nothing is lost, what is held back is insignificant, and without a threshold it is SGD on all batches
together."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

import numpy as np
import pytest
import virtual_world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quadratic import Problem, Quadratic, difference

from e2c_dl.errors import InputError
from e2c_dl.strategies import gaia
from e2c_dl.strategies.base import Bucket, Message, Payload, Pending, Worker
from e2c_dl.strategies.gaia import Gaia
from e2c_dl.strategies.seam.wrapped import Wrapped
from e2c_dl.strategies.sparse import significant, sparse_bytes
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES

cases = given(size=st.integers(1, 5), seed=st.integers(0, 10_000))


def layers(size: int, centres: int) -> list[str]:
    return [f"centre-{rank % centres}" for rank in range(size)]


def trained(strategy: Gaia, problem: Problem, size: int, seed: int, centres: int, iterations: int) -> list[Quadratic]:
    computes = problem.computes()
    virtual_world.run(
        lambda: strategy, size=size, seed=seed, iterations=iterations, computes=computes, samples=problem.samples,
        layers=layers(size, centres),
    )  # fmt: skip
    return computes


@cases
@settings(max_examples=4, deadline=None)
def test_without_threshold_and_slack_it_is_sgd_on_all_batches(size: int, seed: int) -> None:
    for centres in (size, 2):  # one rank per data centre, and several
        problem = Problem(size, seed)
        computes = trained(Gaia(threshold=0.0), problem, size, seed, centres, 100)
        for compute in computes:
            assert difference(compute.parameters, problem.sgd(100)) <= 1e-9


@cases
@settings(max_examples=5, deadline=None)
def test_slack_changes_when_updates_count_and_loses_none(size: int, seed: int) -> None:
    problem = Problem(size, seed)
    constant = problem.computes(lambda rank, iteration, w: np.full_like(w, rank + 1.0))
    virtual_world.run(
        lambda: Gaia(threshold=0.0, slack=3), size=size, seed=seed, iterations=7, computes=constant,
        samples=problem.samples, layers=layers(size, size),
    )  # fmt: skip
    mean = np.average(np.arange(size) + 1.0, weights=problem.samples)
    for compute in constant:
        assert np.allclose(compute.parameters, problem.start - 7 * problem.rate * mean, rtol=1e-12)


@pytest.mark.parametrize("slack", [0, 1, 3])
def test_a_data_centre_is_ahead_of_another_by_its_slack_and_no_more(slack: int) -> None:
    run = virtual_world.run(
        lambda: Gaia(slack=slack, selective_barrier=False, selectivity=0.1), size=4, iterations=12,
        layers=layers(4, 4), factors=[1, 1, 1, 50], links=virtual_world.everywhere(4, LinkModel(rate_bps=1e9)),
    )  # fmt: skip
    begins = [np.sort(run.spans(rank, Phase.ITERATION)["start_ns"]) for rank in range(4)]
    for fast, slow in itertools.permutations(range(4), 2):  # clocks begun by the other, as each of its own begins
        ahead = np.arange(12) - (np.searchsorted(begins[slow], begins[fast], side="right") - 1)
        assert ahead.max() <= slack + 1
        if slow == 3:
            assert ahead.max() == slack + 1


def test_an_infinite_threshold_sends_nothing() -> None:
    problem = Problem(4, 1, lengths=(600,))
    run = virtual_world.run(
        lambda: Gaia(threshold=float("inf")), size=4, iterations=6, computes=problem.computes(),
        samples=problem.samples, layers=layers(4, 4),
    )  # fmt: skip
    sent = np.concatenate([run.spans(rank, Phase.SEND)["nbytes"] for rank in range(4)])
    assert len(sent) == 4 * 3 * 6
    assert max(sent) < 100  # the clock alone


class Watching(Wrapped):
    """A worker that keeps what is sent."""

    def __init__(self, worker: Worker, sent: list[Message]) -> None:
        super().__init__(worker)
        self.sent = sent

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        self.sent.append(message)
        return super().send(dst, message, priority)


class Kept(gaia._Server):
    """A server that is looked over: what it holds back, and its parameters as they were when it judged that."""

    seen: ClassVar[dict[int, Kept]] = {}

    async def run(self) -> None:
        self.seen[self._worker.rank] = self
        self.updates = np.zeros_like(self._worker.parameters)
        await super().run()

    async def _update(self) -> None:
        before, owed = self._worker.parameters.copy(), self._accumulated.copy()
        await super()._update()
        update = self._worker.parameters - before
        assert np.array_equal(self._accumulated, owed + update)
        self.updates += update

    def _filtered(self, clock: int) -> Payload | None:
        owed, self.judged = self._accumulated.copy(), self._worker.parameters.copy()
        payload = super()._filtered(clock)
        sent = np.zeros_like(owed)
        entries = len(significant(owed, self.judged, self._settings.threshold(clock)))
        assert isinstance(payload, tuple) == (entries > 0 and sparse_bytes(entries, owed.itemsize) < owed.nbytes)
        if isinstance(payload, tuple):
            sent[payload[0]] = payload[1]
        elif payload is not None:
            sent[:] = payload
        assert np.array_equal(sent + self._accumulated, owed)
        assert not np.any((sent != 0) & (self._accumulated != 0))
        bound = self._settings.threshold(clock) * np.abs(self.judged)
        assert np.all(np.abs(self._accumulated) <= bound * (1 + 1e-6))
        return payload


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> dict[int, Kept]:
    """The servers of the last run, by rank; each step of theirs is checked as it is taken."""
    monkeypatch.setattr(gaia, "_Server", Kept)
    return Kept.seen


looked_over = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    size=st.integers(1, 5), seed=st.integers(0, 10_000), centres=st.integers(1, 5), slack=st.integers(0, 2),
    threshold=st.sampled_from([0.0, 0.01, 0.3, 1e9]),
)  # fmt: skip
@looked_over
def test_sent_and_accumulated_are_all_updates_and_the_rest_is_insignificant(
    servers: dict[int, Kept], dtype: type, size: int, seed: int, centres: int, slack: int, threshold: float
) -> None:
    servers.clear()
    sent: list[list[Message]] = [[] for _ in range(size)]
    problem = Problem(size, seed, lengths=(40, 20), dtype=dtype)
    virtual_world.run(
        lambda: Gaia(threshold=threshold, slack=slack), size=size, seed=seed, iterations=9,
        computes=problem.computes(), samples=problem.samples, layers=layers(size, centres),
        wrapping=lambda worker: Watching(worker, sent[worker.rank]),
    )  # fmt: skip
    assert len(servers) == min(size, centres)
    for rank, server in servers.items():
        total = server._accumulated.copy()
        for message in {each.iteration: each for each in sent[rank] if each.kind == "update"}.values():
            if isinstance(message.payload, tuple):
                indices, values = message.sparse
                total[indices] += values
            elif message.payload is not None:
                total += message.vector
        if len(servers) > 1:
            assert np.allclose(total, server.updates, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-6)


@given(size=st.integers(2, 4), seed=st.integers(0, 10_000), threshold=st.sampled_from([0.0, 0.05, 1.0]))
@looked_over
def test_replicas_differ_by_what_was_insignificant_to_each(
    servers: dict[int, Kept], size: int, seed: int, threshold: float
) -> None:
    trained(Gaia(threshold=threshold, decay="none"), Problem(size, seed), size, seed, size, 15)
    for one, other in itertools.combinations([servers[rank] for rank in range(size)], 2):  # what neither has told yet
        apart = one._worker.parameters - other._worker.parameters
        assert np.allclose(apart, one._accumulated - other._accumulated, rtol=0, atol=1e-12)
        assert np.all(np.abs(apart) <= threshold * (np.abs(one.judged) + np.abs(other.judged)) + 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 10_000), threshold=st.sampled_from([0.0, 0.01, 0.01 / 3**0.5, 0.5, float("inf")]))
@settings(max_examples=20, deadline=None)
def test_the_filter_is_the_papers_element_by_element(dtype: type, seed: int, threshold: float) -> None:
    draw = np.random.default_rng(seed)
    accumulated, parameters = (draw.normal(size=(2, 60)) * draw.integers(0, 2, (2, 60))).astype(dtype)
    if threshold < np.inf:  # as much as the threshold, and next to it
        accumulated[:30] = parameters[:30] * dtype(threshold)
        accumulated[10:30] = np.nextafter(accumulated[10:30], [dtype(np.inf)] * 10 + [dtype(-np.inf)] * 10)
    expected = [
        index for index in range(60)
        if accumulated[index] != 0
        and (parameters[index] == 0 or abs(accumulated[index] / parameters[index]) > dtype(threshold))
    ]  # fmt: skip
    assert significant(accumulated, parameters, threshold).tolist() == expected


def test_the_threshold_falls_with_the_root_of_the_clock_unless_told_otherwise() -> None:
    assert [Gaia().threshold(clock) for clock in (0, 3, 99)] == pytest.approx([0.01, 0.005, 0.001])
    assert Gaia(decay="none").threshold(99) == 0.01


def test_a_table_is_sent_whole_where_entries_are_not_smaller() -> None:
    def payloads(threshold: float) -> list[Message]:
        sent: list[Message] = []
        problem = Problem(2, 3, lengths=(400,))
        virtual_world.run(
            lambda: Gaia(threshold=threshold, decay="none"), size=2, iterations=3, computes=problem.computes(),
            samples=problem.samples, layers=["a", "b"], wrapping=lambda worker: Watching(worker, sent),
        )  # fmt: skip
        return sent

    assert not any(isinstance(each.payload, tuple) for each in payloads(0.0))
    assert any(isinstance(each.payload, tuple) for each in payloads(0.3))


class Heeding(Wrapped):
    """A worker that begins no gradient before what was announced has come."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.announced: set[tuple[int, int]] = set()
        self._came: set[tuple[int, int]] = set()

    def arrived(self, kind: str) -> Sequence[Message]:
        messages = super().arrived(kind)
        self.announced |= {(each.src, each.iteration) for each in messages if kind == "barrier"}
        return messages

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        message = await super().receive(kind, src=src, iteration=iteration, bucket=bucket, step=step)
        self._came.add((src, iteration))
        return message

    def gradient(self) -> AsyncIterator[Bucket]:
        assert self.announced <= self._came
        return super().gradient()


def test_a_burst_is_announced_ahead_of_what_waits_and_waited_for_before_the_next_gradient() -> None:
    seen: list[Heeding] = []

    def heeding(worker: Worker) -> Worker:
        seen.append(Heeding(worker))
        return seen[-1]

    run = virtual_world.run(
        lambda: Gaia(slack=3, selectivity=1.0), size=2, iterations=12, of=virtual_world.profile((200_000,)),
        layers=["a", "b"], wrapping=heeding,
        links={(0, 1): LinkModel(rate_bps=1e7, delay_s=0.01), (1, 0): LinkModel(rate_bps=1e8, delay_s=0.01)},
    )  # fmt: skip
    assert all(worker.announced for worker in seen)
    overtaken = 0
    for rank in range(2):
        came, awaited = run.spans(rank, Phase.RECEIVE), run.spans(rank, Phase.AWAIT_MESSAGE)
        assert sorted(awaited[["src", "seq"]].tolist()) == sorted(came[["src", "seq"]].tolist())
        announced = came["nbytes"] == MESSAGE_HEADER_BYTES
        ends_ns = {int(each["iteration"]): int(each["end_ns"]) for each in came[~announced]}
        for each in came[announced]:
            assert each["end_ns"] < ends_ns[int(each["iteration"])]
            overtaken += int(each["end_ns"]) < ends_ns[int(each["iteration"]) - 1]
    assert overtaken  # updates of earlier clocks


def test_shapes_alone_need_to_be_told_how_much_is_significant() -> None:
    with pytest.raises(InputError, match=r"which a run of shapes alone has not; write .* selectivity: 0\.05"):
        virtual_world.run(Gaia, size=2, layers=["a", "b"])
    run = virtual_world.run(lambda: Gaia(selectivity=0.1), size=2, layers=["a", "b"], iterations=3)
    assert set(run.spans(0, Phase.SEND)["nbytes"]) == {MESSAGE_HEADER_BYTES + 40 + 150 * 8}


@pytest.mark.parametrize(
    "wrong", [{"threshold": -1.0}, {"threshold": float("nan")}, {"decay": "x"}, {"slack": -1}, {"selectivity": 2.0}]
)
def test_settings_out_of_range_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"strategy 'gaia': {next(iter(wrong))} is .*; write"):
        Gaia(**wrong)  # type: ignore[arg-type]
