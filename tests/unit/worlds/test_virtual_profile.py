"""Shapes, and the stored profiles that virtual hosts go by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import ComputeProfile, HostModel
from e2c_dl.worlds.virtual.computing import HostPace
from e2c_dl.worlds.virtual.shape import shape


def test_shapes_have_length_and_no_values() -> None:
    vector = shape(10, "float64")
    assert (len(vector[2:5]), vector[2:5].nbytes, vector[-3:].size, vector.itemsize) == (3, 24, 3, 8)
    for misuse in (lambda: vector[0], lambda: vector.__setitem__(slice(None), 1.0), lambda: np.sum(vector)):
        with pytest.raises(TrainingError, match="no values in a run of shapes alone"):
            misuse()


def test_profiles_are_stored_and_read_back() -> None:
    profile = virtual_world.profile()
    assert ComputeProfile.from_json(profile.to_json()) == profile
    between = profile.gradient(32)
    assert between.forward_s == pytest.approx((2e-3 + 32e-3) / 3)
    assert profile.gradient(128).forward_s == pytest.approx((2e-3 + 128e-3) / 3)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (('"step_s"', '"stepp_s"'), "stepp_s: unknown key; write step_s"),
        (('"data_s"', '"date_s"'), "gradients.1: date_s: unknown key; write data_s"),
        (("{", "["), "no JSON"),
        (
            ('"step_s": 0.0002', '"step_s": -0.1'),
            r"here.json: Expected `float` >= 0.0 - at `\$.step_s`; write a number",
        ),
        (
            ('"step_s": 0.0002', '"step_s": NaN'),
            r"here.json: Expected `float`, got `str` - at `\$.step_s`; write a number",
        ),
        (('"step_s": 0.0002', '"step_s": Infinity'), r"Expected `float`, got `str` - at `\$.step_s`"),
        (('"step_s": 0.0002', '"step_s": 1e300'), r"Expected `float` <= 1000000.0 - at `\$.step_s`"),
        (('"step_s": 0.0002', '"step_s": null'), r"Expected `float`, got `null` - at `\$.step_s`"),
        (('"step_s": 0.0002', '"step_s": "soon"'), r"Expected `float`, got `str` - at `\$.step_s`"),
        (('"data_s": ', '"data_s": -'), r"here.json: gradients.1: Expected `float` >= 0.0 - at `\$.data_s`"),
        (('"1": {', '"-1": {'), "gradients.-1: is no batch size"),
        (('"parameters": ', '"parameters": -'), r"Expected `int` >= 1 - at `\$.parameters`"),
    ],
)
def test_damaged_profiles_are_refused(damage: tuple[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        ComputeProfile.from_json(virtual_world.profile().to_json().replace(*damage), "here.json")


def test_a_profile_of_one_batch_size_does_not_guess() -> None:
    profile = virtual_world.profile()
    one = replace(profile, gradients={64: profile.gradients[64]})
    with pytest.raises(InputError, match="at least two batch sizes"):
        one.gradient(32)


def test_one_phase_is_slower_from_a_moment_on() -> None:
    slower = {Phase.DATA: Schedule.constant(2.0), Phase.STEP: Schedule(points=((0.0, 1.0), (1.0, 3.0)))}
    host = HostModel(name="edge-1", profile=virtual_world.profile(), samples=8)
    usual, slow = (HostPace(each, rank=0, seed=1) for each in (host, replace(host, slower=slower)))
    for before, after in zip(usual.gradient(8, 0), slow.gradient(8, 0), strict=True):
        times = 2 if before.phase is Phase.DATA else 1
        assert after.end_ns - after.start_ns == times * (before.end_ns - before.start_ns)
    assert [slow.stepped_ns(at_ns) for at_ns in (0, 10**9)] == [usual.stepped_ns(0), 3 * usual.stepped_ns(0)]
