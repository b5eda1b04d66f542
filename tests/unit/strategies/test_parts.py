"""Parts of a vector by bandwidth: as good as the optima that hivemind's tests have, and whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.collectives.parts import divided_by_bandwidth, longest

ORACLE = Path(__file__).parents[4] / "shared" / "oracles" / "hivemind_load_balance_vectors.json"


def vectors(kind: str) -> list[list[object]]:
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} is not there")
    found: list[list[object]] = json.loads(ORACLE.read_text())[kind]
    return found


def test_none_takes_longer_than_the_known_optimum() -> None:
    for length, bandwidths, known in vectors("optimality"):
        parts = divided_by_bandwidth(length, bandwidths)
        assert sum(parts) == length
        assert longest(length, bandwidths, parts) <= longest(length, bandwidths, known) * (1 + 1e-9), (parts, known)


def test_small_parts_and_unknown_bandwidths() -> None:
    for length, bandwidths, least, known in vectors("exact"):
        assert divided_by_bandwidth(length, bandwidths, least) == known


@given(
    length=st.integers(1, 10_000_000),
    bandwidths=st.lists(st.one_of(st.just(0.0), st.floats(0.01, 100.0)), min_size=1, max_size=8).filter(any),
)
def test_none_takes_longer_than_any_division_must(length: int, bandwidths: list[float]) -> None:
    parts, others = divided_by_bandwidth(length, bandwidths), len(bandwidths) - 1
    assert sum(parts) == length
    assert min(parts) >= 0
    assert not any(part for part, each in zip(parts, bandwidths, strict=True) if not each)
    a_part_more = max(abs(others - 1) / each for each in bandwidths if each)  # entries are whole
    assert longest(length, bandwidths, parts) <= least_time(length, bandwidths) * (1 + 1e-6) + a_part_more


def least_time(length: int, bandwidths: list[float]) -> float:
    """By bisection: by the time t a rank has sent what it has no part of, and of its part what t leaves room for."""
    able, others = [each for each in bandwidths if each], len(bandwidths) - 1

    def room(time: float) -> float:
        spare = [time * each - length for each in able]
        if min(spare) < -1e-9 * length and others > 1:
            return -1.0  # a rank cannot even send its vector away
        return sum(min(float(length), max(0.0, each) / (others - 1)) for each in spare)

    if others < 2:
        return max(length / each for each in able) if others else 0.0  # however it is divided
    early, late = 0.0, length * others / min(able)
    for _ in range(100):
        middle = (early + late) / 2
        early, late = (early, middle) if room(middle) >= length else (middle, late)
    return late


@pytest.mark.parametrize(
    ("bandwidths", "parts"),
    [([1.0], [12]), ([1, 3], [3, 9]), ([2, 2, 2], [4, 4, 4]), ([0, 5, 0], [0, 12, 0]), ([None, 0], [12, 0])],
)
def test_plain_cases(bandwidths: list[float | None], parts: list[int]) -> None:
    assert divided_by_bandwidth(12, bandwidths) == parts


@pytest.mark.parametrize("bandwidths", [[0, 0], [1, -1]])
def test_what_divides_nothing_is_refused(bandwidths: list[float]) -> None:
    with pytest.raises(TrainingError, match="divide no vector"):
        divided_by_bandwidth(12, bandwidths)
