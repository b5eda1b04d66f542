"""Commands on the archive of a script's run, whose library hides its messages: they work, or refuse in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import said
from ddp import Ddp, run_s, simulate

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import HostFacts
from e2c_dl.archive.write import Archive
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.model import ClockAlignment, Phase
from e2c_dl.trace.places import recorded
from e2c_dl.trace.store import write_parquet

SLOW = Ddp(extra_s={(2, Phase.DATA): 0.1}, slow_links={0: 0.5}, counts=False)


def archived(ddp: Ddp, path: Path, called: str = "node-3") -> Path:
    for rank in (replace(each, host=each.host.replace("node-3", called)) for each in simulate(ddp).ranks):
        own = path / "hosts" / rank.host
        own.mkdir(parents=True)
        facts = {"rank": rank.rank, "host": rank.host, "layer": rank.layer}
        write_parquet(recorded(path, rank.host).table.path, rank.spans, facts, complete=True, clock=ClockAlignment())
        write_alignment(own / "clock.json", ClockAlignment())
        HostRecords(own).write_facts(HostFacts(cpu_model="any", cores=2))
    archive = Archive.around(path, "0f0f0f0f", started="2025-01-31T10:00:00+00:00", testbed="traced")
    archive.let_go()
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archived(SLOW, tmp_path_factory.mktemp("runs") / "script")


def answered(path: Path, *argv: str) -> dict[str, Any]:
    told = said("whatif", path, *argv, "--json")
    assert told.code == 0, told.err
    return dict(json.loads(told.out))


def test_the_report_names_the_loader(archive: Path) -> None:
    told = said("report", archive)
    assert told.code == 0, told.err
    assert "host node-3 loads data" in told.out
    assert (archive / "report.html").exists()


def test_where_most_of_the_time_has_no_known_cause_a_prediction_says_so(archive: Path, tmp_path: Path) -> None:
    change, unknown = ["--set", "host:node-3.speed=2x"], " of the run's longest path has no known cause in the trace: "
    assert not any(unknown in each for each in answered(archive, *change)["limitations"])
    mostly = archived(replace(SLOW, extra_s={}, slow_links={}, gap_s=0.05), tmp_path / "script")
    assert "No verdict" in said("report", mostly).out
    assert any(unknown in each for each in answered(mostly, *change)["limitations"])


def test_what_hosts_are_called_changes_nothing_of_the_terminal(tmp_path: Path) -> None:
    archive = archived(SLOW, tmp_path / "script", called="node\x1b]0;mine\x07")
    told = said("whatif", archive, "--without", "node\x1b]0;mine\x07")
    assert told.code == 0, told.err
    assert {each for each in told.out if not each.isprintable()} == {"\n"}
    assert "node\\x1b]0;mine\\x07: left out" in told.out


def test_a_host_twice_as_fast_ends_sooner_and_a_link_of_half_its_rate_later(archive: Path) -> None:
    measured_s = run_s(simulate(SLOW))
    faster = answered(archive, "--set", "host:node-3.speed=2x")
    assert faster["measured_s"] == pytest.approx(measured_s, rel=1e-6)
    assert measured_s - float(str(faster["predicted_s"])) > 0.04 * SLOW.iterations
    slower = answered(archive, "--set", "link:node-1->node-2.rate=0.5x")
    assert float(str(slower["predicted_s"])) > measured_s


def test_a_run_without_a_host_is_as_if_it_had_nothing_to_do(archive: Path) -> None:
    told = answered(archive, "--without", "host:node-3")
    assert float(str(told["predicted_s"])) < float(str(told["measured_s"])) - 0.09 * SLOW.iterations
    assert any("trained by nobody" in each for each in told["limitations"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("whatif", "--set", "host:node-3.speed=2x", "--rerun"), "a script of its own trained there"),
        (("whatif", "--set", "link:node-1->node-2.delay=1ms"), "no round trip was told"),
        (("whatif", "--set", "link:node-1->node-3.rate=2x"), "nothing was sent there"),
        (("whatif", "--without", "host:node-9"), "there is no host 'node-9'"),
        (("whatif", *(f"--without=host:node-{number}" for number in range(1, 1 + Ddp.ranks))), "no rank would be left"),
        (("stragglers",), "a library's collectives hide who waited for whom"),
        (("advise",), "a script of its own trained there"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_in_one_line(archive: Path, argv: tuple[str, ...], why: str) -> None:
    told = said(argv[0], archive, *argv[1:])
    assert told.code != 0
    assert why in told.err
    assert "Traceback" not in told.err


def test_two_runs_are_compared_and_drawn(archive: Path, tmp_path: Path) -> None:
    other = archived(Ddp(counts=False), tmp_path / "other")
    told = said("compare", archive, other)
    assert told.code == 0, told.err
    for figure in ("states", "timeline", "heatmap", "cdf"):
        drawn = said("plot", archive, "--figure", figure, "--out", tmp_path / f"{figure}.svg")
        assert drawn.code == 0, drawn.err
