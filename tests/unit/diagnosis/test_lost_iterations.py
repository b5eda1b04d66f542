"""Traces that lack iterations, the first or some in the middle: the most in a row that are there are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ddp
import numpy as np
import pytest
from simulated_scenario import scenario, simulated
from synthetic import Ring, simulate

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.scripts import script_reference
from e2c_dl.diagnosis.window import longest
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.store import read_parquet, write_parquet

SLOW = {"injected": {"seed": 1, "faults": [{"slow_host": "edge-2", "at": "iteration 20", "factor": 3}]}}
EDGE_2 = Element(kind=ElementKind.HOST, src="edge-2")
RING = Ring(
    compute_s=(0.1, 0.1, 0.1), links=(Link(rate_bps=40e6, delay_s=0.002),) * 3, bucket_bytes=(20_000, 200_000),
    iterations=20, seed=7,
)  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> ReadArchive:
    """Of a run of 40 iterations in which edge-2 gets slow in the twentieth."""
    emulation = {"compute": {"method": "sleep", "cores": 0.1}, **SLOW}
    return simulated(
        scenario(tmp_path / "s", emulation=emulation, iterations=40, evaluate_every=None), shapes_only=True
    )


def without(archive: ReadArchive, host: str, *lost: int) -> ReadArchive:
    """``archive``, whose ``host`` has nothing of the iterations ``lost``."""
    table = archive.path / layout.TRACES / f"{host}.parquet"
    facts, spans, complete = read_parquet(table)
    kept = spans[~np.isin(spans["iteration"], lost)]
    who = {"rank": facts.rank, "host": facts.host, "layer": facts.layer}
    write_parquet(table, kept, who, complete=complete)
    return open_archive(archive.path)


def numbers(trace: Trace) -> list[list[int]]:
    return [sorted(rank.of(Phase.ITERATION)["iteration"].tolist()) for rank in trace.ranks]


def lacking(trace: Trace, rank: int, *lost: int) -> Trace:
    """``trace``, whose ``rank`` has nothing of the iterations ``lost``."""
    own = trace.ranks[rank]
    short = replace(own, spans=own.spans[~np.isin(own.spans["iteration"], lost)])
    return replace(trace, ranks=tuple(short if each is own else each for each in trace.ranks))


def test_where_the_first_iterations_are_lost_the_others_are_judged(archive: ReadArchive) -> None:
    found = diagnose(without(archive, "edge-1", *range(6)))
    (culprit,) = found.report.culprits
    assert culprit.element == EDGE_2
    assert culprit.when.onset_iteration == pytest.approx(20, abs=1)
    assert found.report.iterations == 34
    judged = "judged are the 34 from iteration 6 on, the most in a row that all ranks have"
    assert found.report.limitations[0] == f"The trace of edge-1 lacks iterations: {judged}."
    assert found.report.first_iteration == 6
    assert found.activity is not None
    assert [int(lane.iterations["iteration"].min()) for lane in found.activity.lanes] == [6] * 3
    lane = found.activity.lanes[0].iterations
    onset = lane[lane["iteration"] == culprit.when.onset_iteration]
    assert culprit.when.onset_s - found.first_s == pytest.approx(float(onset["start_s"][0]), abs=0.2)  # an iteration


def test_of_a_gap_the_longer_side_counts(archive: ReadArchive) -> None:
    found = diagnose(without(archive, "cloud-1", 12))
    assert (found.report.first_iteration, found.report.iterations) == (13, 27)
    assert [each.element for each in found.report.culprits] == [EDGE_2]
    later = diagnose(without(archive, "cloud-1", 12, 30))
    assert (later.report.first_iteration, later.report.iterations) == (13, 17)
    early = diagnose(without(archive, "edge-1", 31))
    assert (early.report.first_iteration, early.report.iterations) == (13, 17)


def test_the_whole_and_a_part_of_it_save_alike() -> None:
    ring = replace(RING, slow_hosts={1: 2.0})
    trace = simulate(ring)
    kept, first = longest(lacking(trace, 2, 3))
    assert first == 4
    assert numbers(kept) == [[*range(16)]] * 3
    (whole,), (part,) = (analyse(each, ring.reference()).culprits for each in (trace, kept))
    assert part.element == whole.element
    assert part.saved_s == pytest.approx(whole.saved_s * 16 / 20, rel=0.1)


@pytest.mark.parametrize("slow", [{"extra_s": {(1, Phase.DATA): 0.2}}, {"slow_links": {2: 0.3}}], ids=["host", "link"])
def test_a_script_whose_first_iterations_are_lost_is_judged_by_the_others(slow: dict[str, Any]) -> None:
    trace = ddp.simulate(ddp.Ddp(noise=0.1, iterations=30, **slow))
    kept, first = longest(lacking(trace, 0, 0, 1, 2))
    assert first == 3
    facts = {host: HostFacts(cpu_model="any", cores=2) for host in trace.hosts}
    reports = [analyse(each, script_reference(each, facts)) for each in (trace, kept)]
    whole, part = ([(each.element, each.part) for each in report.culprits] for report in reports)
    assert part == whole != []
    assert reports[1].culprits[0].saved_s == pytest.approx(reports[0].culprits[0].saved_s * 27 / 30, rel=0.1)


def test_what_begins_with_the_most_is_left_as_it_is() -> None:
    trace = simulate(RING)
    assert longest(trace) == (trace, 0)
    nothing = replace(trace, ranks=())
    assert longest(nothing) == (nothing, 0)
