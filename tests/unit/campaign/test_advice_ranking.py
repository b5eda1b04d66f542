"""Candidates are ranked by what is asked for, from what all of their trials say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2c_dl.campaign.predicting.advice.advise import AdviceRequest
from e2c_dl.campaign.predicting.advice.candidates import Candidate
from e2c_dl.campaign.predicting.advice.learning import Learned
from e2c_dl.campaign.predicting.advice.ranking import Objective, jain, ranking
from e2c_dl.campaign.predicting.advice.trial import Tried


def tried(name: str, seed: int, run_s: float, *curve: tuple[float, float]) -> Tried:
    learned = Learned(curve=curve, accuracy=0.5, by_host=(0.5, 0.5)) if curve else None
    return Tried(candidate=Candidate(strategy=name), seed=seed, run_s=run_s, busy=(1.0, 0.0), learned=learned)


def test_figures_are_medians_and_what_failed_is_told() -> None:
    trials = [tried("adpsgd", seed, run_s) for seed, run_s in enumerate((3.0, 9.0, 4.0))]
    trials += [tried("allreduce", seed, 5.0) for seed in range(3)]
    trials += [Tried(candidate=Candidate(strategy="diloco"), seed=0, problem="it diverged")]
    found = ranking(Objective.MAKESPAN, Candidate(strategy="allreduce"), trials)
    assert [(row.candidate.strategy, row.run_s, row.least_s, row.most_s) for row in found.rows] == [
        ("adpsgd", 4.0, 3.0, 9.0), ("allreduce", 5.0, 5.0, 5.0),
    ]  # fmt: skip
    assert found.problems == {"diloco": "it diverged"}
    assert found.rows[0].evenly_busy == 0.5


def test_a_strategy_that_goes_by_verdicts_is_said_to_hear_none() -> None:
    hearing = Candidate(strategy="adpsgd", settings=(("route_around", True),))
    trials = [tried("adpsgd", 0, 3.0), Tried(candidate=hearing, seed=0, run_s=4.0, busy=(1.0, 0.0))]
    assert ranking(Objective.MAKESPAN, hearing, trials).limitations == (
        "adpsgd, route_around True: tried so, the training hears no verdicts: it goes round nothing.",
    )
    assert ranking(Objective.MAKESPAN, hearing, trials[:1]).limitations == ()


def test_who_skips_iterations_is_said_to_train_on_less() -> None:
    skipping = Candidate(strategy="hop", settings=(("max_jump", 10),))
    trials = [tried("hop", 0, 3.0), Tried(candidate=skipping, seed=0, run_s=1.0, busy=(1.0, 0.0))]
    assert ranking(Objective.MAKESPAN, skipping, trials).limitations == (
        "hop, max_jump 10: iterations that it skips count as done: it trains on fewer samples than the others.",
    )


def test_the_loss_to_reach_is_what_the_own_strategy_has_after_three_quarters() -> None:
    own = tried("allreduce", 0, 4.0, (1.0, 3.0), (2.0, 2.5), (3.0, 2.0), (4.0, 1.8), (4.0, 1.7))
    fast = tried("adpsgd", 0, 2.0, (1.0, 2.4), (2.0, 1.8))
    never = tried("localsgd", 0, 1.0, (0.5, 3.0), (1.0, 2.8))
    found = ranking(Objective.ACCURACY, own.candidate, [own, fast, never])
    assert [(row.candidate.strategy, row.to_loss_s) for row in found.rows] == [
        ("adpsgd", 2.0), ("allreduce", 3.0), ("localsgd", None),
    ]  # fmt: skip


def test_where_the_own_strategy_diverges_nobody_comes_to_its_loss_and_json_has_no_infinity() -> None:
    inf = float("inf")
    trials = [tried("allreduce", 0, 2.0, (1.0, inf), (2.0, inf)), tried("localsgd", 0, 1.0, (0.5, inf), (1.0, inf))]
    found = ranking(Objective.ACCURACY, Candidate(strategy="allreduce"), trials)
    assert [row.to_loss_s for row in found.rows] == [None, None]
    assert json.loads(json.dumps([row.plain() for row in found.rows], allow_nan=False))[0]["loss"] is None


def test_the_fairest_is_evenly_busy_and_evenly_accurate() -> None:
    def of(name: str, busy: tuple[float, float], by_host: tuple[float, float] | None) -> Tried:
        learned = None if by_host is None else Learned(curve=((1.0, 2.0),), accuracy=0.5, by_host=by_host)
        return Tried(candidate=Candidate(strategy=name), seed=0, run_s=1.0, busy=busy, learned=learned)

    def order(*trials: Tried) -> list[str]:
        found = ranking(Objective.FAIRNESS, trials[0].candidate, trials)
        return [row.candidate.strategy for row in found.rows]

    even, uneven = (0.5, 0.5), (0.9, 0.1)
    learned = (of("adpsgd", even, uneven), of("allreduce", uneven, even), of("localsgd", (0.6, 0.5), (0.6, 0.5)))
    assert order(*learned)[0] == "localsgd"  # nearly even in both
    assert order(of("adpsgd", uneven, None), of("allreduce", even, None))[0] == "allreduce"  # all that is known


@pytest.mark.parametrize(
    ("objective", "computing", "real"),
    [("makespan", None, False), ("makespan", True, True), ("fairness", None, True), ("fairness", False, False),
     ("accuracy", None, True)],
)  # fmt: skip
def test_gradients_are_real_where_what_is_learned_is_asked_for(
    objective: str, computing: bool | None, real: bool
) -> None:
    request = AdviceRequest(where=Path(), objective=Objective(objective), seeds=1, computing=computing)
    assert request.real is real


@pytest.mark.parametrize(("values", "index"), [((1, 1, 1, 1), 1.0), ((1, 0, 0, 0), 0.25), ((0, 0), 1.0)])
def test_evenness_is_one_of_all_alike_and_one_nth_of_one_alone(values: tuple[float, ...], index: float) -> None:
    assert jain(values) == index
