"""Polyline: the published example, the precision that is asked for, and what is no polyline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from e2c_dl.errors import TrainingError
from e2c_dl.strategies.compression.polyline import Polyline, decoded, encoded

PUBLISHED = [38.5, -120.2, 40.7, -120.95, 43.252, -126.453]  # latitude, longitude
AS_CHARACTERS = b"_p~iF~ps|U_ulLnnqC_mqNvxq`@"

Vector = npt.NDArray[np.float64]


def test_the_published_example() -> None:
    characters = encoded(np.array(PUBLISHED), precision=5, dimensions=2)
    assert characters.tobytes() == AS_CHARACTERS
    assert decoded(characters, precision=5, dimensions=2).tolist() == PUBLISHED


@given(
    values=drawn.arrays(np.float64, st.integers(0, 200), elements=st.floats(-1e5, 1e5)),
    precision=st.integers(0, 9), dimensions=st.integers(1, 3),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_what_comes_is_half_of_the_last_place_off_at_most(values: Vector, precision: int, dimensions: int) -> None:
    characters = encoded(values, precision, dimensions)
    assert characters.min(initial=63) >= 63
    assert characters.max(initial=63) < 127
    came = decoded(characters, precision, dimensions)
    assert len(came) == len(values)
    assert np.all(np.abs(came - values) <= 0.5 * 10.0**-precision + 4 * np.spacing(np.abs(values)))


@given(
    values=drawn.arrays(np.float32, st.integers(1, 200), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    precision=st.integers(0, 9),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_a_model_comes_as_precise_as_its_type_and_the_setting_allow(values: Vector, precision: int) -> None:
    compressor = Polyline(precision=precision)
    came = compressor.decode(compressor.encode(values, adds=False), len(values), "float32")
    off = np.abs(came.astype(np.float64) - values)
    assert np.all(off <= 0.5 * 10.0**-precision * (1 + 1e-9) + np.spacing(np.abs(values)).astype(np.float64))


def test_models_take_less_than_halves_would() -> None:
    values = np.random.default_rng(1).normal(scale=0.01, size=10_000).astype(np.float32)
    (characters,) = Polyline().encode(values, adds=False)
    assert len(characters) < 2 * len(values)


@pytest.mark.parametrize("characters", [b"_", b"?_", b"\x00?", b"?\x7f", b"_" * 11 + b"?"])
def test_what_is_no_polyline_is_refused(characters: bytes) -> None:
    with pytest.raises(TrainingError, match="no polyline of numbers"):
        decoded(np.frombuffer(characters, np.uint8), 4)


def test_shapes_take_what_is_stated() -> None:
    (characters,) = Polyline(entry_bytes=3.5).shapes(100, "float32", False, np.zeros)
    assert (len(characters), characters.dtype) == (350, np.uint8)
