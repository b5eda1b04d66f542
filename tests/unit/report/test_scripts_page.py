"""The page and plots of a run whose library hides its messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import sample_report as sample
from ddp import Ddp, name, simulate

from e2c_dl.diagnosis.model import EXPECTED
from e2c_dl.diagnosis.shown.activity import from_trace
from e2c_dl.report.page import sections
from e2c_dl.report.page.packed import unpacked
from e2c_dl.report.page.timeline import Drawn, section, timeline
from e2c_dl.report.plots import lanes
from e2c_dl.trace.model import Phase


def content(made: Drawn) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    return unpacked(made.content.partition(">")[2].partition("<")[0])


def test_the_timeline_has_every_ranks_collectives_and_every_links_flows() -> None:
    trace = simulate(Ddp(iterations=6))
    drawn = timeline(from_trace(trace))
    facts, columns = content(drawn)
    joined = [int((rank.spans["phase"] == Phase.COLLECTIVE).sum()) for rank in trace.ranks]
    assert np.diff(columns["k_first"]).tolist() == joined
    flows = sum(int((rank.spans["phase"] == Phase.FLOW).sum()) for rank in trace.ranks)
    assert columns["m_first"][-1] == flows
    assert [link["name"] for link in facts["links"]] == sorted(f"{name(r)} → {name((r + 1) % 4)}" for r in range(4))
    assert "the collectives that this rank has joined" in section(drawn)


def test_a_run_without_collectives_has_no_columns_of_them() -> None:
    trace = simulate(Ddp(iterations=6))
    ranks = [replace(rank, spans=rank.spans[rank.spans["phase"] != Phase.COLLECTIVE]) for rank in trace.ranks]
    drawn = timeline(from_trace(replace(trace, ranks=tuple(ranks))))
    assert "k_first" not in content(drawn)[1]
    assert "Per link: messages" in section(drawn)


def test_a_figure_of_its_lanes_is_drawn() -> None:
    assert lanes.timeline(from_trace(simulate(Ddp(iterations=4))), 3.33, 3).axes


def test_culprits_are_held_to_what_was_expected_where_nothing_was_designed() -> None:
    report = replace(sample.report(sample.activity(6)), reference=EXPECTED)
    told = sections.verdict(sample.run(), report)
    assert '<th class="n">expected</th>' in told and "designed</th>" not in told
