"""PowerSGD's laws: what all apply and what they have yet to send are, in the mean, what they were to; all apply alike.

That it equals torch's hook is in tests/local/test_against_ddp.py, beside torch's own processes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import virtual_world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quadratic import Problem, difference

from e2c_dl.strategies import powersgd
from e2c_dl.strategies.base import Bucket, Vector
from e2c_dl.strategies.compression import COMPRESSORS
from e2c_dl.strategies.powersgd import PowerSGD
from e2c_dl.trace.model import Phase

Reduced = tuple[Vector, Vector, Vector]
"""Of a bucket on a rank: what was to be sent, what is applied, what is owed after it."""


class Kept(powersgd._Factors):
    """Factors that are looked over."""

    seen: ClassVar[dict[tuple[int, int], list[Reduced]]] = {}  # by iteration and bucket

    async def reduce(self, iteration: int, bucket: Bucket) -> None:
        worker = self._worker
        due = bucket.values * (worker.size * worker.samples / worker.total_samples) + self._owed
        await super().reduce(iteration, bucket)
        self.seen.setdefault((iteration, bucket.index), []).append((due, bucket.values.copy(), self._owed.copy()))


@given(size=st.integers(1, 5), seed=st.integers(0, 10_000), rank=st.integers(1, 5))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_applied_and_owed_are_in_the_mean_what_was_to_be_sent(
    monkeypatch: pytest.MonkeyPatch, size: int, seed: int, rank: int
) -> None:
    monkeypatch.setattr(powersgd, "_Factors", Kept)
    Kept.seen.clear()
    problem = Problem(size, seed, lengths=(324, 170, 5))
    computes = problem.computes()
    virtual_world.run(
        lambda: PowerSGD(rank=rank), size=size, seed=seed, iterations=6, computes=computes, samples=problem.samples
    )
    assert len(Kept.seen) == 6 * 3
    for (_, bucket), ranks in Kept.seen.items():
        due, applied, owed = (np.array(each) for each in zip(*ranks, strict=True))
        assert len(due) == size
        assert np.all(applied == applied[0])
        assert difference(applied[0] + owed.mean(axis=0), due.mean(axis=0)) <= 1e-12
        assert owed.any() == (bucket < 2)  # of 5 entries, factors would be no shorter
        if bucket == 0:  # a full square
            assert np.linalg.matrix_rank(applied[0].reshape(18, 18)) == rank
    assert all(np.array_equal(compute.parameters, computes[0].parameters) for compute in computes)


TENSORS = (((12, 5, 4), (12,), (30, 20)), ((2, 2), ()))
"""Of two buckets: matrices of 12 x 20 and 30 x 20, of which factors of up to 5 columns are shorter; vectors; small."""


@given(size=st.integers(1, 5), seed=st.integers(0, 10_000), rank=st.integers(1, 5))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_tensor_is_a_matrix_and_what_is_none_is_averaged(
    monkeypatch: pytest.MonkeyPatch, size: int, seed: int, rank: int
) -> None:
    monkeypatch.setattr(powersgd, "_Factors", Kept)
    Kept.seen.clear()
    problem = Problem(size, seed, lengths=(852, 5), tensor_shapes=TENSORS)
    computes = problem.computes()
    virtual_world.run(
        lambda: PowerSGD(rank=rank), size=size, seed=seed, iterations=4, computes=computes, samples=problem.samples
    )
    for (_, bucket), ranks in Kept.seen.items():
        due, applied, owed = (np.array(each) for each in zip(*ranks, strict=True))
        assert np.all(applied == applied[0])
        assert difference(applied[0] + owed.mean(axis=0), due.mean(axis=0)) <= 1e-12
        if bucket == 0:
            for where, rows in ((slice(0, 240), 12), (slice(252, 852), 30)):
                assert np.linalg.matrix_rank(applied[0][where].reshape(rows, 20)) == rank
                assert owed[:, where].any()
        whole = applied[0][240:252] if bucket == 0 else applied[0]
        mean = due.mean(axis=0)[240:252] if bucket == 0 else due.mean(axis=0)
        assert difference(whole, mean) <= 1e-12
        assert not (owed[:, 240:252] if bucket == 0 else owed).any()


def test_shapes_alone_send_what_real_gradients_do() -> None:
    problem = Problem(3, 1, lengths=(852, 5), tensor_shapes=TENSORS)
    known = replace(virtual_world.profile_of(problem.computes()[0]), tensor_shapes=TENSORS)
    sent = []
    for computes in (problem.computes(), None):
        run = virtual_world.run(lambda: PowerSGD(rank=3), size=3, iterations=3, computes=computes, of=known)
        spans = [rank.spans[rank.spans["phase"] == Phase.SEND] for rank in run.trace.ranks]
        sent.append([[(row["dst"], row["nbytes"]) for row in rows] for rows in spans])
    assert sent[0] == sent[1]
    assert 0 < sum(nbytes for _, nbytes in sent[0][0]) < 3 * 4 * problem.start.nbytes


@given(seed=st.integers(0, 10_000), rank=st.integers(1, 5))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_one_rank_the_compressor_does_what_the_strategy_does(
    monkeypatch: pytest.MonkeyPatch, seed: int, rank: int
) -> None:
    monkeypatch.setattr(powersgd, "_Factors", Kept)
    Kept.seen.clear()
    problem = Problem(1, seed, lengths=(324, 170))
    virtual_world.run(
        lambda: PowerSGD(rank=rank), size=1, seed=seed, iterations=6, computes=problem.computes(), samples=[8]
    )
    for bucket in range(2):
        compressor = COMPRESSORS["powersgd"](rank=rank)
        owed = np.zeros_like(Kept.seen[0, bucket][0][2])
        for iteration in range(6):
            due, applied, left = Kept.seen[iteration, bucket][0]
            came = compressor.decode(compressor.encode(due - owed, adds=True), len(due), str(due.dtype))
            assert difference(came, applied) <= 1e-9
            owed = left


@pytest.mark.parametrize("rank", [1, 4])
def test_what_is_owed_is_sent_in_time(rank: int) -> None:
    problem = Problem(3, 1, lengths=(400, 300))
    computes = problem.computes(lambda rank, iteration, w: w - problem.targets[rank])
    virtual_world.run(lambda: PowerSGD(rank=rank), size=3, iterations=400, computes=computes, samples=problem.samples)
    ideal = np.average(problem.targets, axis=0, weights=problem.samples)
    assert difference(computes[0].parameters, ideal) < 0.1 * difference(problem.start, ideal)
