"""What was slowed on purpose is told on the page, so that a person can hold the diagnosis beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import sample_report as sample

from e2c_dl.report.page.on_purpose import on_purpose
from e2c_dl.scenario.model import Fault, FaultKind


def told(**injected: Any) -> str:
    archived = msgspec.json.decode(msgspec.json.encode(injected))  # as run.json holds it
    return on_purpose(replace(sample.run(), injected=archived))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(kind=FaultKind.CUT, at_iteration=3, for_s=5.0, links=(("a", "b"),)),
         "a -&gt; b: carries nothing, with iteration 3, for 5.00 s"),
        (Fault(kind=FaultKind.SLOW_LINK, at_s=2.0, links=(("a", "b"), ("a", "c"), ("b", "c")), value=0.25),
         "a -&gt; b and 2 more links: 0.25 of its rate, from 2 s on"),
        (Fault(kind=FaultKind.LATE_LINK, at_s=0.0, links=(("a", "b"),), value=0.04), "delivers 40.0 ms later"),
        (Fault(kind=FaultKind.LOSSY_LINK, at_s=0.0, links=(("a", "b"),), value=0.02), "loses 2.0 % of its segments"),
        (Fault(kind=FaultKind.SLOW_HOST, at_s=0.0, host="a", value=3.0), "a: computes 3.0 × slower, from 0 s on"),
        (Fault(kind=FaultKind.LATE_DATA, at_s=0.0, host="a", value=0.2), "a: its batches come 200 ms later"),
        (Fault(kind=FaultKind.LATE_STEP, at_s=0.0, host="a", value=0.05), "a: its steps take 50.0 ms longer"),
        (Fault(kind=FaultKind.PAUSE, at_s=1.0, for_s=2.0, host="a"), "its worker is stopped, from 1 s on, for 2.00 s"),
        (Fault(kind=FaultKind.KILL, at_s=1.0, host="a"), "a: its worker is killed"),
        (Fault(kind=FaultKind.CLOCK_STEP, at_s=1.0, host="a", value=-0.05), "the clock of its trace jumps by -0.05 s"),
        (Fault(kind=FaultKind.CLOCK_DRIFT, at_s=1.0, host="a", value=1e-4), "the clock of its trace gains 100 ppm"),
    ],
)  # fmt: skip
def test_each_fault_has_a_sentence(fault: Fault, says: str) -> None:
    assert says in told(faults=[vars(fault)])


def test_every_kind_is_known() -> None:
    for kind in FaultKind:
        said = told(faults=[vars(Fault(kind=kind, at_s=1.0, host="a", value=0.5))])
        assert f"a: {kind.value}," not in said


def test_what_happens_again_and_again_is_told_once() -> None:
    slow = [vars(Fault(kind=FaultKind.SLOW_HOST, at_s=float(at), for_s=1.0, host="a", value=3.0)) for at in range(40)]
    assert "a: computes 3.0 × slower, from 0 s on, for 1.00 s, and 39 times more" in told(faults=slow)


def test_nothing_is_told_of_a_healthy_run() -> None:
    assert told() == told(compute={}, links={}, faults=[]) == ""


def test_faults_that_cannot_be_read_spoil_nothing_else() -> None:
    said = told(compute={"edge-1": 2.0}, faults=[{"kind": 7}])
    assert "edge-1: computes 2.0 × slower" in said
    assert "faults that cannot be read" in said
