"""The first summary: sums by rank and phase, without the warm-up; of damaged and of early files, too."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import Ring, simulate

from e2c_dl.beneath import Place
from e2c_dl.cli.analysis.summary import summary
from e2c_dl.codec import ALTERED
from e2c_dl.errors import ArchiveError
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.places import recorded
from e2c_dl.trace.recording import span_log
from e2c_dl.trace.store import write_parquet
from e2c_dl.trace.summary import summarize


@pytest.fixture(scope="module")
def trace() -> Trace:
    ring = Ring(compute_s=(0.01, 0.02), links=(Link(rate_bps=1e8),) * 2, bucket_bytes=(1000,), iterations=6)
    return simulate(ring)


@pytest.fixture
def hosts(trace: Trace, tmp_path: Path) -> Path:
    """One host's table, the other's recording."""
    for rank in trace.ranks:
        folder = tmp_path / "hosts" / rank.host
        folder.mkdir(parents=True)
        facts = {"rank": rank.rank, "host": rank.host, "layer": rank.layer}
        if rank.rank:
            records = span_log.frames(rank.spans.tobytes(), number=0, per_frame=4)
            (folder / "spans.bin").write_bytes(span_log.opening(rank.rank, rank.host, rank.layer) + records)
        else:
            write_parquet(recorded(tmp_path, rank.host).table.path, rank.spans, facts, complete=True)
    return tmp_path / "hosts"


def test_sums_are_those_of_the_spans(trace: Trace, hosts: Path) -> None:
    for found, rank in zip(summarize(Place(hosts.parent))[0], trace.ranks, strict=True):
        spans = rank.spans
        assert (found.host, found.spans, found.iterations, found.judged) == (rank.host, len(spans), 6, 4)
        late = spans[spans["iteration"] >= 2]
        for phase in (Phase.FORWARD, Phase.SEND, Phase.AWAIT_MESSAGE):
            own = late[late["phase"] == phase]
            expected_s = (own["end_ns"] - own["start_ns"]).sum() / 1e9
            assert found.phase_s[phase.name.lower()] == pytest.approx(expected_s)
        own = late[late["phase"] == Phase.ITERATION]
        assert found.iteration_s == pytest.approx((own["end_ns"] - own["start_ns"]).mean() / 1e9)
        assert not {"iteration", "training", "spawn"} & set(found.phase_s)


def test_what_no_iteration_has_is_in_no_mean(trace: Trace, tmp_path: Path) -> None:
    rank = trace.ranks[0]
    after = rank.spans[rank.spans["phase"] == Phase.FORWARD][-2:].copy()
    after["phase"], after["iteration"] = Phase.EVALUATE, (6, -1)  # as a rank evaluates when all is trained
    spans = np.concatenate([rank.spans, after])
    (tmp_path / "hosts" / rank.host).mkdir(parents=True)
    facts = {"rank": rank.rank, "host": rank.host, "layer": rank.layer}
    write_parquet(recorded(tmp_path, rank.host).table.path, spans, facts, complete=True)
    (found,) = summarize(Place(tmp_path))[0]
    assert found.spans == len(spans) and "forward" in found.phase_s and "evaluate" not in found.phase_s


def test_what_is_damaged_is_counted(hosts: Path) -> None:
    raw = hosts / "edge-2/spans.bin"
    content = bytearray(raw.read_bytes())
    content[len(content) // 2] ^= 8
    raw.write_bytes(content)
    assert 1 <= summarize(Place(hosts.parent))[0][1].lost.spans <= 4
    table = hosts.parent / "traces/edge-1.parquet"
    content = bytearray(table.read_bytes())
    content[300] ^= 8
    table.write_bytes(content)
    ranks, (problem,) = summarize(Place(hosts.parent))
    assert [rank.host for rank in ranks] == ["edge-2"]
    assert "traces/edge-1.parquet: cannot read the trace" in problem
    shutil.rmtree(hosts)
    with pytest.raises(ArchiveError, match="no host has left a trace"):
        summarize(Place(hosts.parent))


def test_the_command_prints_it(hosts: Path) -> None:
    archive = hosts.parent
    (archive / "run.json").write_text(json.dumps({"format": 2, "run_id": "0badcafe", "outcome": "finished"}))
    said = CliRunner().invoke(summary, [str(archive)], catch_exceptions=False).output
    assert "2 ranks, " in said and "forward" in said and "edge-2" in said
    rows = json.loads(CliRunner().invoke(summary, [str(archive), "--json"], catch_exceptions=False).output)["ranks"]
    assert [row["host"] for row in rows] == ["edge-1", "edge-2"]
    raw = hosts / "edge-2/spans.bin"
    content = bytearray(raw.read_bytes())
    content[len(content) // 2] ^= 8
    raw.write_bytes(content)
    said = " ".join(CliRunner().invoke(summary, [str(archive)], catch_exceptions=False).output.split())
    assert "edge-2 is damaged" in said and f"could not be read; {ALTERED}." in said
    assert rows[1]["complete"] is True and rows[1]["lost"] == {"spans": 0, "damaged_bytes": 0, "dropped": 0}


def test_a_rank_without_an_iteration_has_no_mean(hosts: Path, trace: Trace) -> None:
    rank = trace.ranks[1]
    (hosts / "edge-2/spans.bin").write_bytes(span_log.opening(1, "edge-2", rank.layer))
    found = summarize(Place(hosts.parent))[0][1]
    assert math.isnan(found.iteration_s) and found.phase_s == {} and not found.complete
