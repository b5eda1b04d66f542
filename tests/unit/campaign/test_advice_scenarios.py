"""Scenarios that advice is asked of, with a model of their own or any budget, and those that it writes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from simulated_scenario import PROFILE, scenario, simulated

from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.predicting.advice.advise import AdviceRequest, write_winner
from e2c_dl.campaign.predicting.advice.candidates import Candidate
from e2c_dl.campaign.predicting.advice.ground import of_archive, of_scenario
from e2c_dl.campaign.predicting.advice.learning import ModelBeside
from e2c_dl.campaign.predicting.advice.ranking import Objective
from e2c_dl.campaign.predicting.advice.trial import tried
from e2c_dl.campaign.predicting.advice.workers import in_processes
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.load import load
from e2c_dl.worlds.allotment import own_pace

IN_STEP, OWN_PACE = Candidate(strategy="allreduce"), Candidate(strategy="asyncparameterserver")
CODE = """
from torch import nn
def Net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 10))
class Failing(nn.Linear):
    def forward(self, images):
        if len(images) == 16:
            raise ValueError("16 samples\\nare too many")
        return super().forward(images.flatten(1))
def Fails():
    return Failing(64, 10)
"""


@pytest.mark.parametrize("winner", [IN_STEP, OWN_PACE], ids=str)
@pytest.mark.parametrize(
    "ends", [{"seconds": 2}, {"updates": 18}, {"samples": 290}, {"iterations": 6}], ids=lambda each: next(iter(each))
)
def test_what_is_written_ends_behind_the_samples_that_were_compared(
    tmp_path: Path, ends: Mapping[str, int], winner: Candidate
) -> None:
    made = scenario(tmp_path / "s", strategy="asyncparameterserver", evaluate_every=0, **{"iterations": None, **ends})
    archive = simulated(made, shapes_only=True).path
    ground = of_archive(open_archive(archive), real=False)
    assert not tried(ground, winner, 0).problem
    asked = AdviceRequest(where=archive, objective=Objective.MAKESPAN, seeds=1)
    write_winner(asked, ground, winner, tmp_path / "best")
    training = load(tmp_path / "best").training
    samples = Budget(unit=Unit.SAMPLES, amount=ground.total_samples)
    if own_pace(training):
        assert training.ends == samples
    assert training.ends.in_step(training.batch_sizes) == samples.in_step(training.batch_sizes)


def test_iterations_that_say_as_much_stay(tmp_path: Path) -> None:
    made = scenario(tmp_path / "s")
    asked = AdviceRequest(where=made, objective=Objective.MAKESPAN, seeds=1)
    write_winner(asked, of_scenario(made, real=False), Candidate(strategy="localsgd"), tmp_path / "best")
    assert load(tmp_path / "best").training.ends.unit is Unit.ITERATIONS


@pytest.mark.parametrize("server", [0, 1])
def test_what_is_written_serves_where_it_was_tried_beside_a_host_that_does_not_train(
    tmp_path: Path, server: int
) -> None:
    emulation = {"compute": {"method": "sleep", "cores": 0.1}, "what_if": {"without": ["edge-1"]}}
    made = scenario(tmp_path / "s", emulation=emulation)
    asked = AdviceRequest(where=made, objective=Objective.MAKESPAN, seeds=1)
    winner = Candidate.of("parameterserver", {"server": server}, "fixed")
    write_winner(asked, of_scenario(made, real=False), winner, tmp_path / "best")
    assert load(tmp_path / "best").training.strategy_settings == {"server": server}


def is_deaf(_ground: None, _trial: int) -> bool:
    """Whether Ctrl-C was kept from this process as it was started."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_processes_do_not_hear_of_ctrl_c_even_while_they_begin() -> None:
    assert [*in_processes(is_deaf, None, [(0,), (1,)], 2)] == [True, True]
    assert not is_deaf(None, 0)


def test_large_traces_of_bandwidth_go_along(tmp_path: Path) -> None:
    made = scenario(tmp_path / "s")
    (made / "traces").mkdir()
    (made / "traces" / "long.csv").write_text("1\n" * (5 << 19))
    assert "traces/long.csv" in of_scenario(made, real=False).files


@pytest.fixture
def imports() -> Iterator[None]:
    """What is imported from a scenario's own code is forgotten."""
    places, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = places
    for name in set(sys.modules) - known:
        if name.startswith("advised_net"):
            del sys.modules[name]


def with_code(folder: Path, model: str, parameters: int = 626) -> Path:
    """A scenario whose model stands in its own code."""
    profile = replace(PROFILE, model=model, parameters=parameters, buckets=((0, parameters),))
    made = scenario(folder, model=model, profile=profile.to_json(), iterations=30, learning_rate=0.1)
    (made / "code").mkdir()
    (made / "code" / "advised_net.py").write_text(CODE)
    return made


@pytest.mark.usefixtures("imports")
def test_a_model_of_the_scenarios_own_is_tried(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = tried(of_scenario(with_code(tmp_path / "s", "advised_net:Net"), real=True), IN_STEP, 0)
    assert not found.problem
    assert found.learned is not None
    assert found.learned.accuracy == found.learned.by_host[0]  # one model: its parameters, and its statistics


@pytest.mark.usefixtures("imports")
def test_a_model_that_fails_is_told_and_leaves_the_others(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = tried(of_scenario(with_code(tmp_path / "s", "advised_net:Fails", 650), real=True), IN_STEP, 0)
    assert found.problem == "ValueError: 16 samples are too many"


@pytest.mark.usefixtures("imports")
def test_evaluating_the_model_leaves_the_ranks_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    training = load(with_code(tmp_path / "s", "advised_net:Net")).training
    model = ModelBeside(replace(training, strategy="localsgd"))
    for rank, compute in enumerate(model.computes):
        compute.parameters[:] = rank
    assert model.evaluate() == model.evaluate()
    assert [set(compute.parameters) for compute in model.computes] == [{0.0}, {1.0}, {2.0}]
