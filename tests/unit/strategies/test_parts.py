"""Parts of a vector by bandwidth: as good as the optima that hivemind's tests have, and whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
