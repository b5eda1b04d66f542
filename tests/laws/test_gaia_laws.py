"""Gaia's laws: nothing is lost, what is held back is insignificant, and without a threshold it is SGD on all batches
together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import Problem, Quadratic, difference

from e2c_dl.errors import InputError
from e2c_dl.strategies import gaia
from e2c_dl.strategies.base import Message, Pending, Worker
from e2c_dl.strategies.gaia import Gaia
from e2c_dl.strategies.seam.wrapped import Wrapped
from e2c_dl.strategies.sparse import significant
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 10_000), threshold=st.sampled_from([0.0, 0.01, 0.3, 1e9]))
@settings(max_examples=10, deadline=None)
def test_sent_and_accumulated_are_all_updates_and_the_rest_is_insignificant(
    dtype: type, seed: int, threshold: float
) -> None:
    problem = Problem(2, seed, lengths=(40, 20), dtype=dtype)
    sent: list[list[Message]] = [[], []]
    accumulated: dict[int, np.ndarray] = {}
    updates = [np.zeros(60, dtype), np.zeros(60, dtype)]

    class Kept(gaia._Server):
        async def _update(self) -> None:
            rank = self._worker.rank
            before = self._worker.parameters.copy()
            await super()._update()
            updates[rank] += self._worker.parameters - before

        async def _send(self, clock: int) -> list[Pending[None]]:
            leaving = await super()._send(clock)
            held = accumulated[self._worker.rank] = self._accumulated
            bound = self._settings.threshold(clock) * np.abs(self._worker.parameters)
            assert np.all(np.abs(held) <= bound * (1 + 1e-6))
            return leaving

    patched = pytest.MonkeyPatch()
    with patched.context() as context:
        context.setattr(gaia, "_Server", Kept)
        virtual_world.run(
            lambda: Gaia(threshold=threshold), size=2, seed=seed, iterations=9, computes=problem.computes(),
            samples=problem.samples, layers=["a", "b"], wrapping=lambda worker: Watching(worker, sent[worker.rank]),
        )  # fmt: skip
    for rank in range(2):
        total = accumulated[rank].copy()
        for message in sent[rank]:
            if isinstance(message.payload, tuple):
                indices, values = message.sparse
                total[indices] += values
            elif message.payload is not None:
                total += message.vector
        assert np.allclose(total, updates[rank], rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-6)


@given(size=st.integers(2, 4), seed=st.integers(0, 10_000), threshold=st.sampled_from([0.0, 0.05, 1.0]))
@settings(max_examples=12, deadline=None)
def test_replicas_differ_by_what_is_insignificant_to_each_at_most(size: int, seed: int, threshold: float) -> None:
    problem = Problem(size, seed)
    held = trained(Gaia(threshold=threshold, decay="none"), problem, size, seed, size, 15)
    models = [compute.parameters for compute in held]
    for one, other in itertools.combinations(models, 2):  # what neither has told the other yet
        assert np.all(np.abs(one - other) <= threshold * (np.abs(one) + np.abs(other)) * (1 + 1e-9) + 1e-12)


@given(seed=st.integers(0, 10_000), threshold=st.sampled_from([0.0, 0.01, 0.5, float("inf")]))
@settings(max_examples=20, deadline=None)
def test_the_filter_is_the_papers_element_by_element(seed: int, threshold: float) -> None:
    draw = np.random.default_rng(seed)
    accumulated, parameters = draw.normal(size=(2, 50)) * draw.integers(0, 2, (2, 50))
    expected = [
        index for index in range(50)
        if accumulated[index] != 0
        and (parameters[index] == 0 or abs(accumulated[index] / parameters[index]) > threshold)
    ]  # fmt: skip
    assert significant(accumulated, parameters, threshold).tolist() == expected


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


def test_a_burst_is_announced_and_waited_for() -> None:
    sent: list[Message] = []
    problem = Problem(2, 3, lengths=(400,), dtype=np.float32)
    run = virtual_world.run(
        lambda: Gaia(threshold=0.0, slack=3), size=2, iterations=8, computes=problem.computes(),
        samples=problem.samples, layers=["a", "b"], wrapping=lambda worker: Watching(worker, sent),
        links=virtual_world.everywhere(2, LinkModel(rate_bps=1e5, delay_s=0.01)),
    )  # fmt: skip
    assert any(each.kind == "barrier" for each in sent)
    for rank in range(2):
        came, awaited = run.spans(rank, Phase.RECEIVE), run.spans(rank, Phase.AWAIT_MESSAGE)
        assert sorted(awaited[["src", "seq"]].tolist()) == sorted(came[["src", "seq"]].tolist())


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
