"""What was sent and never arrived, at the end of a run that broke off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated_scenario

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.undelivered import silent_s
from e2c_dl.diagnosis.diagnose import diagnose, read_run
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import E2cDlError
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.trace.model import Lost, Phase

CUT = {"cut": {"src": "edge-1", "dst": "edge-2"}, "at": "iteration 6"}  # for good


def ended_by(folder: Path, fault: dict[str, Any]) -> ReadArchive:
    emulation = {"compute": {"method": "sleep", "cores": 0.1}, "injected": {"seed": 1, "faults": [fault]}}
    made = simulated_scenario.scenario(folder, iterations=12, emulation=emulation)
    with pytest.raises(E2cDlError, match="lost rank"):
        simulated_scenario.simulated(made, shapes_only=True)
    return open_archive(folder.parent / f"{folder.name}-archive")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> ReadArchive:
    return ended_by(tmp_path_factory.mktemp("undelivered") / "cut", CUT)


def test_a_link_that_was_cut_until_the_run_was_given_up_is_named(cut: ReadArchive) -> None:
    report = diagnose(cut).report
    assert list(report.silent_s) == ["edge-1 -> edge-2"]
    assert report.silent_s["edge-1 -> edge-2"] == pytest.approx(20, abs=1.5)  # as long as a peer is waited for
    assert Report.from_json(report.to_json(), "report.json").silent_s == report.silent_s
    said = verdict_of(report)
    after = f"But after the {report.iterations} iterations that all finished, link edge-1 -> edge-2 carried nothing for"
    assert after in said.headline and said.tone is Tone.UNDECIDED


def test_nobody_is_named_for_what_was_sent_to_one_that_was_killed(tmp_path: Path) -> None:
    killed = ended_by(tmp_path / "killed", {"kill": "edge-2", "at": "iteration 6"})
    assert not diagnose(killed).report.silent_s


def test_nobody_is_named_where_what_arrived_may_be_lost(cut: ReadArchive) -> None:
    trace, _, reference = read_run(cut)
    design = Design.of(trace, reference)
    receiver = next(rank for rank in trace.ranks if rank.host == "edge-2")
    damaged = replace(receiver, lost=Lost(spans=1))
    stopped = replace(receiver, spans=receiver.spans[receiver.spans["phase"] != Phase.SEND])
    for less in (damaged, stopped):
        ranks = tuple(less if rank is receiver else rank for rank in trace.ranks)
        assert silent_s(trace, design) and not silent_s(replace(trace, ranks=ranks), design)
    unseen = {host: np.empty(0, dtype=np.int64) for host in trace.hosts}
    assert not silent_s(replace(trace, alive=unseen), design)
    assert not silent_s(replace(trace, facts={**trace.facts, "hosts_without_clock": ("edge-1",)}), design)


def test_a_link_that_is_as_slow_as_that_by_design_is_not_named(cut: ReadArchive) -> None:
    trace, _, reference = read_run(cut)
    links = {pair: replace(link, rate_bps=1e5) for pair, link in reference.topology.links.items()}
    slow = replace(reference, topology=replace(reference.topology, links=links))  # 440 kB take 35 s
    assert not silent_s(trace, Design.of(trace, slow))
