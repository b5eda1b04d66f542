"""The benchmark of links that lose segments by design judges silence apart from having no verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.diagnosis.drawn import drawn
from benchmarks.diagnosis.judging import CLEAN, MATERIAL
from benchmarks.losing.__main__ import missed, table
from benchmarks.losing.run import Judged, with_losses

SEEN = Judged(
    number=1, strategy="allreduce", loss=0.003, injected="delay of edge-1 -> edge-2 +40 ms, persistent", kind=MATERIAL,
    speedup=1.4, named=True, part_right=True, verdict=True, falsely=(), predicted_error=0.01, seconds=1.0,
)  # fmt: skip
UNTOLD = replace(SEEN, named=False, part_right=False, verdict=False)
SILENT = replace(UNTOLD, verdict=True)
QUIET = replace(UNTOLD, kind=CLEAN, injected="", speedup=1.0)
FALSE = replace(QUIET, falsely=("edge-2 -> edge-3",))


def test_what_is_said_to_be_untold_is_not_missed() -> None:
    assert missed([SEEN] * 9 + [UNTOLD] * 5 + [QUIET] * 9) == []


@pytest.mark.parametrize(
    ("done", "why"),
    [
        ([SEEN] * 8 + [SILENT] * 2 + [QUIET], "8 of 10 named"),
        ([SEEN] * 9 + [replace(SEEN, part_right=False)] + [QUIET], "9 of 10 as what it is"),
        ([SEEN, QUIET, FALSE], "1 of 3 false alarms"),
        ([UNTOLD, QUIET], "too few runs to judge by"),
    ],
)
def test_what_is_missed_is_told(done: list[Judged], why: str) -> None:
    assert missed(done) == [why]


def test_wrong_runs_are_listed_by_number() -> None:
    assert "* `1`, allreduce, losses of 0.30%" in table([SEEN, SILENT, QUIET])
    assert "falsely: edge-2 -> edge-3" in table([FALSE])


def test_a_system_loses_where_it_is_asked_to_and_nowhere_else() -> None:
    system = drawn(2, 0).system
    pair = system.used_links[0]
    losing = with_losses(system, [pair], 0.01)
    lost = {each: losing.scenario.topology.link(*each).loss for each in losing.used_links}
    assert lost.pop(pair) == 0.01
    assert not any(lost.values())
