"""Partitions and streams: every sample in one part, and once in each epoch, whatever is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import InputError
from e2c_dl.training.partitions import Stream, parts

PARTITIONS = st.sampled_from(["iid", "classes:0.1", "classes:100", "sizes:0.2", "sizes:50"])


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=300), size=st.integers(1, 12), seed=st.integers(0, 99),
    partition=PARTITIONS,
)  # fmt: skip
def test_parts_hold_every_sample_exactly_once(labels: list[int], size: int, seed: int, partition: str) -> None:
    values = np.array(labels)
    own = parts(values, partition=partition, seed=seed, size=size)
    assert len(own) == size
    assert sorted(np.concatenate(own)) == list(range(len(labels)))
    again = parts(values, partition=partition, seed=seed, size=size)
    assert all(np.array_equal(a, b) for a, b in zip(own, again, strict=True))


@given(samples=st.integers(1, 300), size=st.integers(1, 12), seed=st.integers(0, 99))
def test_iid_parts_differ_by_one_at_most(samples: int, size: int, seed: int) -> None:
    lengths = [len(each) for each in parts(np.zeros(samples, dtype=np.int64), seed=seed, size=size)]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("kind", ["classes", "sizes"])
def test_the_smaller_alpha_the_less_even_the_parts(kind: str) -> None:
    labels = np.repeat(np.arange(10), 500)

    def spread(alpha: float) -> float:
        tables = [
            [
                np.bincount(labels[own], minlength=10)
                for own in parts(labels, partition=f"{kind}:{alpha}", seed=seed, size=8)
            ]
            for seed in range(20)
        ]
        counts = np.array(tables) if kind == "classes" else np.array(tables).sum(axis=-1)
        return float(counts.std() / counts.mean())

    assert spread(0.1) > 1.5 * spread(1) > 3 * spread(100)


def test_sizes_change_nothing_about_classes_and_classes_nothing_about_each_other() -> None:
    labels = np.repeat(np.arange(4), 2000)
    for own in parts(labels, partition="sizes:2", seed=1, size=4):
        shares = np.bincount(labels[own], minlength=4) / len(own)
        assert np.allclose(shares, 0.25, atol=0.06)


@given(
    samples=st.integers(1, 60), seed=st.integers(0, 99),
    counts=st.lists(st.integers(1, 80), min_size=1, max_size=12),
)  # fmt: skip
def test_each_epoch_draws_every_sample_once_in_a_new_order(samples: int, seed: int, counts: list[int]) -> None:
    own = np.arange(100, 100 + samples)
    stream, begin, came = Stream(own, seed=seed, rank=1), 0, []
    for count in counts:
        batch = stream.at(begin, count)
        assert np.array_equal(batch, stream.at(begin, count))
        begin += count
        came.append(batch)
    drawn = np.concatenate(came)
    assert len(drawn) == sum(counts)
    epochs = drawn[: len(drawn) // samples * samples].reshape(-1, samples)
    assert all(sorted(epoch) == own.tolist() for epoch in epochs)
    assert samples < 8 or len({tuple(epoch) for epoch in epochs[:3]}) == len(epochs[:3])


def test_an_unknown_partition_is_refused() -> None:
    with pytest.raises(InputError, match="partition: 'class:1' is not known; write iid, classes:ALPHA"):
        parts(np.zeros(5, dtype=np.int64), partition="class:1", seed=1, size=2)
