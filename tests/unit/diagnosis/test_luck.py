"""Means over laps: of a run that hangs on chance, and of none that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_resimulation import host, ran, world_of

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.departures import Departure, findings
from e2c_dl.diagnosis.model import MATERIAL_SPEEDUP, Chance, Element, Part, Report
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, WhatIf, alone_and_together, scaled
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

    def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
        return round((self.changed_s if change.changes else self.was_s)[lap] * SECOND)

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        return [self.run_ns(each) for each in whatifs]

    def laps_ns(self, whatifs: Sequence[WhatIf]) -> list[tuple[int, ...]]:
        return [(self.replayed_ns,), *((ns,) for ns in self.runs_ns(whatifs))]

    def most_saved_ns(self, whatif: WhatIf) -> float:
        return float(SECOND)


def departure() -> Departure:
    return Departure(
        element=host(0), part=Part.COMPUTE, when=throughout(10.0), slowdown=2.0, observed=2.0, expected=1.0,
        evidence="", restored=scaled(host(0), 0.5), excess_s=20.0,
    )  # fmt: skip


def test_savings_are_means_over_laps_and_say_how_far_apart_they_are() -> None:
    known = Known(was_s=[100, 140, 90, 120, 100], changed_s=[100, 100, 90, 100, 80], cheap=1)
    laps = averaged(known, [departure().restored])
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
    known = Known(was_s=[100, 100.4, 99.9], changed_s=[90, 90.1, 89.9])
    assert averaged(known) is None
    assert averaged(known, [departure().restored]) is None


@pytest.mark.parametrize(("count", "asked"), [(0, 0), (1, 1), (2, 3), (3, 7), (10, 21)])
def test_no_set_of_changes_is_asked_for_twice(count: int, asked: int) -> None:
    found = alone_and_together(count)
    assert len(found) == len(set(found)) == asked
    assert not found or found[0] == set(range(count))


def test_each_lap_is_simulated_once() -> None:
    runs: list[tuple[WhatIf, int]] = []

    class Counted(Known):
        def run_ns(self, change: WhatIf = UNCHANGED, lap: int = 0) -> int:
            runs.append((change, lap))
            return super().run_ns(change, lap)

    slow = [departure()]
    laps = averaged(Counted(was_s=[100, 140, 90, 120, 100], changed_s=[100] * 5, cheap=1), [slow[0].restored])
    assert laps is not None
    findings(slow, laps)
    assert laps.replayed_ns == round(laps.chance.runs * 110 * SECOND / 5)
    assert len(runs) == len(set(runs)) == 10


def test_what_takes_as_long_but_not_once_it_is_restored_is_told_by_several() -> None:
    known = Known(was_s=[100.0] * 20, changed_s=[103, 87, 91, 88, 89] * 4, cheap=4)
    laps = averaged(known, [departure().restored])
    assert laps is not None
    assert laps.chance.is_steady
    (found,) = findings([departure()], laps)
    (by_its_own_lap,) = findings([departure()], known)
    assert by_its_own_lap.saved_s < 0, "by the luck of its own lap it loses"
    assert found.saved_s == pytest.approx(100 - 91.6)
    assert found.material


@pytest.mark.parametrize(("own_s", "others_s", "material"), [
    (90, [97, 99, 96, 98] * 5, True), (97, [97, 99, 96, 98] * 5, False), (90, [120, 80, 105, 95] * 5, False),
])  # fmt: skip
def test_what_surely_slows_runs_down_is_material_if_it_cost_this_one_enough(
    own_s: float, others_s: Sequence[float], material: bool
) -> None:
    known = Known(was_s=[100.0] * 21, changed_s=[own_s, *others_s], cheap=4)
    laps = averaged(known, [departure().restored])
    assert laps is not None
    (found,) = findings([departure()], laps)
    assert found.speedup < MATERIAL_SPEEDUP
    assert found.material is material


def test_there_are_no_more_laps_than_make_what_is_saved_certain() -> None:
    many = [140.0, 100.0, 120.0, 90.0, 130.0] * 4
    known = Known(was_s=many, changed_s=[each - 20 + place % 2 for place, each in enumerate(many)], cheap=4)
    laps = averaged(known, [departure().restored])
    assert laps is not None
    assert len(laps.laps_ns([departure().restored])[0]) == LAPS, "by any luck it saves 19 or 20 s"
    scattered = replace(known, changed_s=[100.0] * 20)
    laps = averaged(scattered, [departure().restored])
    assert laps is not None
    assert len(laps.laps_ns([departure().restored])[0]) == laps.most == 20


def test_other_laps_of_a_run_in_groups_by_chance_have_other_groups() -> None:
    world = world_of(ran("prague", size=6, noise=0.1), "prague")
    laps_ns = [world.run_ns(lap=lap) for lap in range(LAPS)]
    assert len(set(laps_ns)) == LAPS
    assert world.run_ns(lap=2) == laps_ns[2], "each is a function of its lap"
    laps = averaged(world)
    assert laps is not None
    assert laps.most == MOST_LAPS, "a small world's are cheap"
    assert laps.laps_ns(()) == [tuple(laps_ns)]
    assert laps.replayed_ns == pytest.approx(np.mean(laps_ns), rel=1e-9)


@pytest.mark.parametrize(("restored", "laps"), [(1, 100), (3, 25), (7, 12), (10, 9), (40, 3)])
def test_there_are_as_many_laps_as_the_changes_leave_patience_for(restored: int, laps: int) -> None:
    was_s = [100.0, 140.0, 90.0, 120.0, 100.0] * 4
    found = averaged(Known(was_s=was_s, changed_s=was_s, cheap=20), [departure().restored] * restored)
    assert found is not None
    assert found.most == laps


@pytest.mark.parametrize("chance", [None, Chance(runs=5, least_s=178.0, most_s=289.0)])
def test_a_report_says_in_its_file_how_far_chance_moves_the_run(chance: Chance | None) -> None:
    run = ran("allreduce")
    report = replace(analyse(run.trace, run.reference()), chance=chance)
    assert Report.from_json(report.to_json(), "report.json").chance == chance
