"""DLion's laws: budgets are kept and used, N is the largest, nothing is lost; everything off is the full exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import virtual_world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quadratic import Problem, Quadratic

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.strategies import dlion
from e2c_dl.strategies.base import LinkEstimate, Message, Payload, Pending, Setting, Sparse, Worker
from e2c_dl.strategies.dlion import DLion
from e2c_dl.strategies.seam.messages import size_bytes
from e2c_dl.strategies.seam.wrapped import Wrapped
from e2c_dl.strategies.sparse import add_sparse, max_n, most_entries, sparse_bytes
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel

OFF: dict[str, Setting] = {"max_n": False, "transfer_period": 0}
SPARE_BYTES = 32  # an entry, what pads two arrays, and what is set aside for a longer header
UPLINKS_BPS = (50e6, 50e6, 35e6, 35e6, 20e6, 20e6)


@given(size=st.integers(1, 6), seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_everything_off_is_the_full_exchange_summed_in_rank_order_to_the_bit(size: int, seed: int) -> None:
    problem = Problem(size, seed, dtype=np.float32)
    problem.samples = [8] * size
    computes = problem.computes()
    virtual_world.run(
        lambda: DLion(**OFF),  # type: ignore[arg-type]
        size=size, seed=seed, iterations=20, computes=computes, samples=problem.samples,
    )  # fmt: skip
    w = problem.start.copy()
    for iteration in range(20):
        total = np.zeros_like(w)
        for rank in range(size):
            total += problem.gradient(rank, iteration, w) * (8 / (8 * size))
        w -= problem.rate * total
    assert all(np.array_equal(compute.parameters, w) for compute in computes)


class Watching(Wrapped):
    """A worker that keeps what it is told of links, and the gradients that are sent."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.budgets: dict[tuple[int, int], float] = {}
        self.sent: dict[int, list[Message]] = {}

    def link(self, dst: int) -> LinkEstimate | None:
        told = super().link(dst)
        if told is not None:
            self.budgets[dst, len(self.sent.get(dst, []))] = told.rate_bps / 8 * self.compute_s
        return told

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        if message.kind == "gradient":
            payload = message.payload if isinstance(message.payload, tuple) else message.vector[:]
            whole = payload if isinstance(payload, tuple) or not isinstance(payload, np.ndarray) else payload.copy()
            self.sent.setdefault(dst, []).append(replace(message, payload=whole))
        return super().send(dst, message, priority)


@pytest.mark.parametrize("part", [0.2, 0.5])
@pytest.mark.parametrize("real", [True, False])
def test_bytes_of_a_link_never_exceed_its_budget_and_use_it_up(real: bool, part: float) -> None:
    noise = np.random.default_rng(1).normal(size=(6, 2000)).astype(np.float32)
    seen: list[Watching] = []

    def watched(worker: Worker) -> Worker:
        seen.append(Watching(worker))
        return seen[-1]

    links = {(src, dst): LinkModel(rate_bps=UPLINKS_BPS[src], delay_s=0.002) for src, dst in DLion.links(6)}
    run = virtual_world.run(
        lambda: DLion(budget_part=part), size=6, iterations=8, links=links, wrapping=watched,
        of=virtual_world.profile((1500, 500), per_sample_s=1e-4, fixed_s=5e-4),
        computes=[
            Quadratic(lambda iteration, _, own=own: own + iteration, own, [slice(500, 2000), slice(0, 500)], 0.05)
            for own in noise
        ] if real else None,
    )  # fmt: skip
    for worker in seen:
        assert len(worker.budgets) >= 5 * 6  # rates become known by the first exchange, as acknowledgements come
        spans = run.spans(worker.rank, Phase.SEND)
        for (dst, place), budget in worker.budgets.items():
            sent = spans["nbytes"][spans["dst"] == dst]
            assert part * budget - SPARE_BYTES < sent[place] <= part * budget


class Kept(dlion._Rank):
    """A rank that is looked over: of what was owed and the new gradient, each entry is sent, or owed, as it is."""

    whole: ClassVar[set[bool]] = set()  # whether all was sent, of each message

    async def _payload(self, dst: int, buckets: Sequence[slice]) -> Payload:
        gradient = self._worker.gradients.copy()
        due = gradient + self._owed[dst] if dst in self._owed else gradient
        payload = await super()._payload(dst, buckets)
        owed = self._owed.get(dst, np.zeros_like(due))
        sent = np.zeros_like(due)
        self.whole.add(not isinstance(payload, tuple))
        if isinstance(payload, tuple):
            sent[payload[0]] = payload[1]
        else:
            sent[:] = payload
        if self._settings.residuals:
            assert np.array_equal(sent + owed, due)
            assert not np.any((sent != 0) & (owed != 0))
        else:
            assert np.array_equal(sent[sent != 0], gradient[sent != 0])
            assert not self._owed
        return payload


@pytest.mark.parametrize("residuals", [True, False])
@given(seed=st.integers(0, 10_000), part=st.floats(0.05, 0.9), rate=st.floats(1e5, 2e6))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_sent_and_what_is_owed_are_all_gradients(
    monkeypatch: pytest.MonkeyPatch, residuals: bool, seed: int, part: float, rate: float
) -> None:
    monkeypatch.setattr(dlion, "_Rank", Kept)
    problem = Problem(3, seed, lengths=(60, 40), dtype=np.float32)
    problem.samples = [8] * 3
    virtual_world.run(
        lambda: DLion(budget_part=part, residuals=residuals), size=3, seed=seed, iterations=9,
        samples=problem.samples, links=virtual_world.everywhere(3, LinkModel(rate_bps=rate)),
        computes=problem.computes(),
    )  # fmt: skip
    assert False in Kept.whole


@given(seed=st.integers(0, 10_000), most=st.integers(0, 60), levels=st.integers(1, 30), least_n=st.floats(0, 100))
@settings(max_examples=40, deadline=None)
def test_n_is_the_largest_that_fits(seed: int, most: int, levels: int, least_n: float) -> None:
    buckets = [slice(20, 50), slice(0, 20)]
    values = np.random.default_rng(seed).integers(-levels, levels + 1, 50).astype(np.float64)
    scores = np.concatenate([np.abs(values[each]) / max(1.0, np.abs(values[each]).max()) for each in buckets[::-1]])
    bounds = sorted({*scores.tolist(), 2.0})
    fitting = min(bound for bound in bounds if np.count_nonzero(scores >= bound) <= most) if most < 50 else 0.0
    assert max_n(values, buckets, most).tolist() == np.flatnonzero(scores >= min(fitting, 1.0)).tolist()
    floored = max_n(values, buckets, most, least_n)
    assert set(np.flatnonzero(scores >= 1 - least_n / 100)) <= set(floored.tolist())


@given(count=st.integers(0, 1000), itemsize=st.sampled_from([2, 4, 8]), budget=st.integers(0, 20_000))
@settings(max_examples=40, deadline=None)
def test_entries_fit_their_bytes(count: int, itemsize: int, budget: int) -> None:
    values = {2: np.float16, 4: np.float32, 8: np.float64}[itemsize]
    assert sparse_bytes(count, itemsize) == size_bytes(Sparse(np.zeros(count, np.int32), np.zeros(count, values)))
    most = most_entries(budget, itemsize)
    assert budget < sparse_bytes(most + 1, itemsize)
    assert most == 0 or sparse_bytes(most, itemsize) <= budget


@given(
    size=st.integers(1, 4), seed=st.integers(0, 10_000), period=st.integers(1, 12), rate=st.sampled_from([0, 0.75, 1]),
    levels=st.sampled_from([2, 1000]),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_all_move_towards_the_model_of_the_lowest_mean_of_the_last_losses(
    size: int, seed: int, period: int, rate: float, levels: int
) -> None:
    losses = np.random.default_rng(seed).integers(levels, size=(size, 24)).astype(float)  # of 2 levels: some equal
    problem = Problem(size, seed)
    computes = problem.computes(lambda rank, iteration, w: np.zeros_like(w))
    for rank, compute in enumerate(computes):
        compute.parameters[:] = rank
        compute.gradient = lambda iteration, *_, own=losses[rank]: own[iteration]  # type: ignore[method-assign]
    virtual_world.run(
        lambda: DLion(max_n=False, transfer_period=period, transfer_rate=rate), size=size, iterations=24,
        computes=computes,
    )  # fmt: skip
    models = np.arange(size, dtype=float)
    for done in range(period, 25, period):
        best = int(np.argmin(losses[:, max(0, done - dlion.LOSSES) : done].mean(axis=1)))
        models = models - rate * (models - models[best])
    assert [float(compute.parameters[0]) for compute in computes] == pytest.approx(models.tolist(), abs=1e-12)


@given(size=st.integers(1, 5), seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_the_printed_weighting_scales_each_ranks_learning_rate(size: int, seed: int) -> None:
    problem = Problem(size, seed)

    def moved(weighting: str) -> np.ndarray:
        computes = problem.computes()
        virtual_world.run(
            lambda: DLion(weighting=weighting, **OFF),  # type: ignore[arg-type]
            size=size, iterations=1, computes=computes, samples=problem.samples,
        )  # fmt: skip
        return np.array([compute.parameters - problem.start for compute in computes])

    batches = np.array(problem.samples)
    gradients = np.array([problem.gradient(rank, 0, problem.start) for rank in range(size)])
    paper = [-problem.rate * (batches[:, None] / own * gradients).mean(axis=0) for own in batches]
    assert np.allclose(moved("printed"), paper, rtol=1e-12, atol=1e-14)
    assert np.allclose(moved("printed"), (batches.mean() / batches)[:, None] * moved("safe"), rtol=1e-12, atol=1e-14)


def test_entries_beyond_the_vector_are_refused() -> None:
    async def script(worker: Worker) -> None:
        await add_sparse(worker, worker.zeros(), Sparse(np.array([0, 9], np.int32), np.ones(2)))

    with pytest.raises(TrainingError, match="entries beyond 9"):
        virtual_world.run(virtual_world.scripted(script), size=1, computes=Problem(1, 1).computes())


@pytest.mark.parametrize(
    "wrong",
    [{"weighting": "x"}, {"least_n": 101}, {"budget_part": 0}, {"transfer_period": -1}, {"transfer_rate": 2}],
)
def test_settings_out_of_range_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"strategy 'dlion': {next(iter(wrong))} is .*; write"):
        DLion(**wrong)  # type: ignore[arg-type]
