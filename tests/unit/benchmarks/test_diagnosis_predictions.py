"""How far a prediction is off: a report of one run's own luck is held against that run, one of means against means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.diagnosis.drawn import drawn
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.judging import judged
from benchmarks.diagnosis.truth import Cost, Truth
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Chance, Element, ElementKind, Finding, Part
from e2c_dl.diagnosis.stretches import throughout


@pytest.mark.parametrize("speedup", [1.25, 1.0])
@pytest.mark.parametrize(
    ("chance", "with_s", "without_s"), [(None, 10.0, 8.0), (Chance(runs=5, least_s=9.0, most_s=14.0), 12.0, 9.0)]
)
def test_a_prediction_is_held_against_what_it_tells_of(
    chance: Chance | None, with_s: float, without_s: float, speedup: float
) -> None:
    one = drawn(2, 0)
    host = one.system.scenario.topology.names[0]
    injection = Injection(what=What.COMPUTE, when=When.PERSISTENT, factor=2.0, amount=2.0, hosts=(host,))
    cost = Cost(
        injection=injection, with_s=12.0, without_s=9.0, alone=1.33, jointly=1.33, own=1.25, own_s=(10.0, 8.0),
        onset_iteration=None,
    )  # fmt: skip
    told = Truth(trace=one.system.run(), run_s=10.0, undisturbed_s=8.0, costs=(cost,))
    found = Finding(
        element=Element(kind=ElementKind.HOST, src=host), part=Part.COMPUTE, when=throughout(10.0), slowdown=2.0,
        observed=2.0, expected=1.0, saved_s=8.0 * (speedup - 1), speedup=speedup, material=True, evidence="",
    )  # fmt: skip
    plain = analyse(told.trace, one.system.reference(told.trace), speeding_up=False)
    report = replace(plain, findings=(found,), culprits=(found,), chance=chance)
    predicted_s = 8.0 if speedup != 1 else with_s
    expected = abs(predicted_s - without_s) / with_s
    assert judged(one, told, report, {}, 1.0).culprits[0].predicted_error == pytest.approx(expected)
