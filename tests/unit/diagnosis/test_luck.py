"""Means over laps: of a run that hangs on chance, and of none that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_resimulation import host, ran, world_of

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.departures import Departure, findings
from e2c_dl.diagnosis.model import Chance, Element, Part, Report
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, WhatIf, scaled
from e2c_dl.diagnosis.resimulation.luck import LAPS, MOST_LAPS, averaged
from e2c_dl.diagnosis.stretches import throughout

SECOND = 10**9


@dataclass(frozen=True, kw_only=True)
class Known:
    """A run of which is known how long it takes in each lap, as it was and with whatever changed: RunTimes."""

    was_s: Sequence[float]
    changed_s: Sequence[float]
    elements: tuple[Element, ...] = (host(0),)
    cheap: int = 4

    @property
    def replayed_ns(self) -> int:
        return self.run_ns()

    @property
    def as_it_was_ns(self) -> tuple[int, ...]:
        return (self.replayed_ns,)

    def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
        return round((self.changed_s if change.changes else self.was_s)[lap] * SECOND)

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        return [self.run_ns(each) for each in whatifs]

    def laps_ns(self, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        return [(ns,) for ns in self.runs_ns(whatifs)]

    def most_saved_ns(self, whatif: WhatIf) -> float:
        return float(SECOND)


def departure() -> Departure:
    return Departure(
        element=host(0), part=Part.COMPUTE, when=throughout(10.0), slowdown=2.0, observed=2.0, expected=1.0,
        evidence="", restored=scaled(host(0), 0.5), excess_s=20.0,
    )  # fmt: skip


def test_savings_are_means_over_laps_and_say_how_far_apart_they_are() -> None:
    known = Known(was_s=[100, 140, 90, 120, 100], changed_s=[100, 100, 90, 100, 80])
    laps = averaged(known, known.cheap)
    assert laps is not None
    assert (laps.chance.runs, laps.chance.least_s, laps.chance.most_s) == (5, 90.0, 140.0)
    (found,) = findings([departure()], laps)
    (by_one_lap,) = findings([departure()], known)
    assert not by_one_lap.material, "its own lap says that nothing is saved"
    assert found.material
    assert found.saved_s == pytest.approx(16.0)
    assert found.speedup == pytest.approx(110 / 94)
    assert found.saved_spread_s == pytest.approx(np.std([0, 40, 0, 20, 20]))


def test_what_takes_as_long_by_any_luck_is_told_by_one_lap() -> None:
    assert averaged(Known(was_s=[100, 100.4, 99.9], changed_s=[])) is None


def test_other_laps_of_a_run_in_groups_by_chance_have_other_groups() -> None:
    world = world_of(ran("prague", size=6, noise=0.1), "prague")
    laps_ns = [world.run_ns(lap=lap) for lap in range(LAPS)]
    assert len(set(laps_ns)) == LAPS
    assert world.run_ns(lap=2) == laps_ns[2], "each is a function of its lap"
    laps = averaged(world)
    assert laps is not None
    assert len(laps) == MOST_LAPS, "a small world's are cheap"
    assert laps.as_it_was_ns[:LAPS] == tuple(laps_ns)
    assert laps.replayed_ns == pytest.approx(np.mean(laps.as_it_was_ns), rel=1e-9)


@pytest.mark.parametrize(("asked", "laps"), [(1, 20), (7, 10), (15, 5), (20, 5), (21, 3)])
def test_there_are_as_many_laps_as_the_changes_leave_patience_for(asked: int, laps: int) -> None:
    was_s = [100.0, 140.0, 90.0, 120.0, 100.0] * 4
    found = averaged(Known(was_s=was_s, changed_s=[], cheap=20), asked)
    assert found is not None
    assert len(found) == laps


@pytest.mark.parametrize("chance", [None, Chance(runs=5, least_s=178.0, most_s=289.0)])
def test_a_report_says_in_its_file_how_far_chance_moves_the_run(chance: Chance | None) -> None:
    run = ran("allreduce")
    report = replace(analyse(run.trace, run.reference()), chance=chance)
    assert Report.from_json(report.to_json(), "report.json").chance == chance
