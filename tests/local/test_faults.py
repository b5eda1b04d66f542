"""A sample of the fault campaign: drawn faults in whole runs, and what must hold after each."""

from __future__ import annotations

import pytest
from thorough import few

from benchmarks.faults.drawn import campaign, drawn
from benchmarks.faults.kinds import KINDS, TESTBEDS
from benchmarks.faults.lane import side_by_side
from benchmarks.faults.table import described

pytestmark = [pytest.mark.local, pytest.mark.slow]

SEED = 1
NUMBERS = (1, 2, 15, 18, 20, 36, 48)
"""Of the campaign's runs (`make bench`) some that end soon, on each testbed but docker's, which needs a daemon."""
KEPT = (1, 18)
"""Of these what `make test` runs: an archive that is removed before a host ends, and a worker that ends.

What the others draw, it meets in test_agent.py (an agent that is stopped), test_runs_frozen.py and test_runs_broken.py
(a full disk).
"""


@pytest.mark.parametrize("number", few(NUMBERS, *KEPT), ids=lambda number: f"{number}-{drawn(SEED, number).testbed}")
def test_a_run_that_meets_faults_ends_as_it_must(number: int) -> None:
    (found,) = side_by_side([drawn(SEED, number)], lanes=1, patience=6)  # other tests are beside it
    assert not found["wrong"], "\n".join(described(dict(found)))


def test_the_same_seed_draws_the_same_faults_and_all_kinds_come() -> None:
    drawn_once = [*campaign(SEED, 300, TESTBEDS, tuple(KINDS))]
    assert drawn_once == [*campaign(SEED, 300, TESTBEDS, tuple(KINDS))]
    met = {(fault.kind, one.testbed) for one in drawn_once for fault in one.faults}
    assert {kind for kind, _ in met} == set(KINDS)
    assert all(bed in kind.testbeds for name, kind in KINDS.items() for each, bed in met if each == name)
