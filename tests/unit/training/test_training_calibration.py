"""Calibrating: a profile that the virtual world reads, for the sizes asked for; strategies are listed without torch."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from e2c_dl.cli.simulate import calibrate as command
from e2c_dl.errors import InputError
from e2c_dl.scenario.training import default_training
from e2c_dl.strategies import names
from e2c_dl.training.calibration import calibrate
from e2c_dl.worlds.virtual.profile import ComputeProfile

TRAINING = dataclasses.replace(default_training("allreduce"), model="mlp", bucket_bytes=16384)


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def test_a_profile_has_every_time_and_is_read_back() -> None:
    training = dataclasses.replace(TRAINING, batch_sizes=(8, 32))
    profile = calibrate(training, repetitions=3)
    assert (profile.model, profile.dtype, profile.parameters) == ("mlp", "float32", 26_122)
    assert sorted(profile.gradients) == [4, 8, 16, 32, 64]
    assert profile.slices[0].stop == 26_122
    for times in profile.gradients.values():
        assert min(times.data_s, times.forward_s, *times.backward_s) > 0
    rates = (profile.copy_s_per_byte, profile.accumulate_s_per_byte, profile.scale_s_per_byte)
    assert min(profile.step_s, profile.evaluate_s, *rates) > 0
    assert ComputeProfile.from_json(profile.to_json()) == profile


def test_the_sizes_are_those_asked_for() -> None:
    assert sorted(calibrate(TRAINING, [16, 2, 16], repetitions=1).gradients) == [2, 16]
    with pytest.raises(InputError, match="batch size 5000: dataset digits has 1438 training samples"):
        calibrate(TRAINING, [5000], repetitions=1)


def test_the_command_writes_it_and_says_where(tmp_path: Path) -> None:
    output = tmp_path / "profile.json"
    done = CliRunner().invoke(command, ["--output", str(output), "--batch-size", "4"], catch_exceptions=False)
    assert done.output.splitlines()[-1] == str(output)
    assert sorted(ComputeProfile.from_json(output.read_text()).gradients) == [4]
    with pytest.raises(InputError, match="cannot be written: Is a directory; name another file with --output"):
        CliRunner().invoke(command, ["--output", str(tmp_path), "--batch-size", "4"], catch_exceptions=False)


LISTED = """
import sys
sys.modules["torch"] = None
from e2c_dl.cli.scenarios import strategies
strategies(sys.argv[1:])
"""


def test_strategies_are_listed_without_torch(repository: Path) -> None:
    def listed(*options: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", LISTED, *options], cwd=repository, capture_output=True, text=True, check=True
        ).stdout

    found = {each["name"]: each for each in json.loads(listed("--json"))}
    assert tuple(found) == names()
    assert found["localsgd"]["settings"]["period"] == 4
    lines = listed().splitlines()
    assert lines[lines.index("localsgd") + 1].startswith("    Local SGD: ")
    assert '    weights: "samples"' in lines
