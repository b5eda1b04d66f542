"""The compute profile that is stored with a scenario, beside its other files: what hosts go by, live and virtual.

Live hosts that find one pace by it instead of what they measure themselves, so that a scenario computes alike in every
run. A host that is slower than where the profile was measured may still be late.
"""

from __future__ import annotations

from pathlib import Path

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.worlds.virtual.profile import ComputeProfile


def read_profile(file: Path, scenario: Scenario) -> ComputeProfile:
    """The profile in ``file``, if it is of the model that ``scenario`` trains. Raises: InputError."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        remedy = f"measure one: e2c-dl calibrate {scenario.path}"
        raise InputError(f"{file}: no compute profile there: {error.strerror}; {remedy}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not text; measure again: e2c-dl calibrate") from error
    profile = ComputeProfile.from_json(text, str(file))
    training = scenario.training
    measured, asked = (profile.model, profile.dtype), (training.model, training.dtype)
    if measured != asked:
        raise InputError(
            f"{file}: measured for {' in '.join(measured)}, but the scenario trains {' in '.join(asked)}; "
            f"measure again: e2c-dl calibrate {scenario.path}{_where(file, scenario)}"
        )
    return profile


def _where(file: Path, scenario: Scenario) -> str:
    return "" if file == scenario.path / PROFILE else f" --output {file}"


def check_profile(scenario: Scenario) -> None:
    """Raises: InputError, unless the profile of ``scenario``, whose hosts compute by it alone, tells all they ask."""
    training = scenario.training
    read_profile(scenario.path / PROFILE, scenario).check(training.batch_sizes, training.batching)


def stored_segments_s(scenario: Scenario, samples: int, buckets: int) -> list[float] | None:
    """Seconds of a gradient's segments, drawing and forward first, then each of ``buckets``, by the scenario's profile.

    None if the scenario has no profile. Raises: InputError if it has one that does not fit.
    """
    file = scenario.path / PROFILE
    if not file.exists():  # then hosts go by what they measure
        return None
    times = read_profile(file, scenario).gradient(samples)  # by samples: ranks may have batches of unlike sizes
    if len(times.backward_s) != buckets:
        raise InputError(
            f"{file}: measured for {len(times.backward_s)} buckets, the model has {buckets}; "
            f"measure again: e2c-dl calibrate {scenario.path}{_where(file, scenario)}"
        )
    return [times.data_s + times.forward_s, *times.backward_s]
