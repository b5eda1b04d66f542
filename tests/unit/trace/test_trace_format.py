"""docs/trace-format.md: its columns are the table's, and every query on it runs, in pandas, Polars and DuckDB."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic import Ring, simulate

from e2c_dl.beneath import Place
from e2c_dl.topology import Link
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.columns import COLUMNS, SCHEMA, TASKS, to_table
from e2c_dl.trace.model import ClockAlignment, ClockStep, Collective, Phase, Trace
from e2c_dl.trace.places import CLOCK, recorded
from e2c_dl.trace.store import read_trace, write_parquet
from e2c_dl.trace.summary import summarize
from e2c_dl.trace.tables import table_of_host

PAGE = (Path(__file__).parents[3] / "docs/trace-format.md").read_text()
BEGAN_NS = 1_000_000


@pytest.fixture(scope="module")
def trace() -> Trace:
    ring = Ring(compute_s=(0.01, 0.02), links=(Link(rate_bps=1e8),) * 2, bucket_bytes=(1000,), iterations=4)
    return simulate(ring)


@pytest.fixture(scope="module")
def folder(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts' tables in ARCHIVE; the second clock is off."""
    folder = tmp_path_factory.mktemp("page")
    for rank in trace.ranks:
        own = recorded(folder / "ARCHIVE", rank.host)
        own.folder.path.mkdir(parents=True)
        spans, offset_ns = rank.spans.copy(), 777 * rank.rank
        for name in ("posted_ns", "start_ns", "end_ns"):
            spans[name] -= offset_ns
        facts = {"rank": rank.rank, "host": rank.host, "layer": rank.layer}
        clock = ClockAlignment(offset_ns=offset_ns)
        write_parquet(own.table.path, spans, facts, complete=True, clock=clock, origin_ns=BEGAN_NS)
        write_alignment((own.folder / CLOCK).path, clock)
    return folder


def blocks(section: str, language: str) -> list[str]:
    _, _, text = PAGE.partition(f"### {section}\n")
    return re.findall(rf"```{language}\n(.*?)```", re.split(r"\n##+ ", text)[0], re.DOTALL)


def shown(source: str, names: dict[str, Any]) -> Any:
    """The value of the last line, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "page", "exec"), names)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names)


@pytest.mark.parametrize("section", ["pandas", "Polars", "DuckDB"])
def test_every_query_on_the_page_answers(
    section: str, folder: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    if section == "DuckDB":
        answers = [duckdb.sql(query).fetchall() for query in blocks(section, "sql")]
    else:
        answers = [shown(source, names) for source in blocks(section, "python")]
    by_phase, slowest, links = answers
    assert len(by_phase) >= 2 and len(slowest) == 5 and len(links) == 2
    slow_s = slowest[0][2] if section == "DuckDB" else float(slowest["s"].max())
    iterations = [rank.spans[rank.spans["phase"] == Phase.ITERATION] for rank in trace.ranks]
    assert slow_s == pytest.approx(max((own["end_ns"] - own["start_ns"]).max() for own in iterations) / 1e9)


@pytest.mark.parametrize("read", [pd.read_parquet, pl.read_parquet, lambda path: duckdb.read_parquet(path).df()])
def test_the_folder_of_all_hosts_is_a_table(
    read: Any, folder: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    spans = read("ARCHIVE/traces")
    assert list(spans.columns) == SCHEMA.names
    assert len(spans) == sum(len(rank.spans) for rank in trace.ranks)
    assert set(spans["host"]) == set(trace.hosts)


def test_tables_where_and_as_version_2_had_them_are_read(folder: Path, tmp_path: Path) -> None:
    before = read_trace(folder / "ARCHIVE")
    former = Path(shutil.copytree(folder / "ARCHIVE", tmp_path / "former"))
    for file in (former / "traces").iterdir():
        table = pq.read_table(file, partitioning=None)
        about = json.loads(table.schema.metadata[b"e2c_dl"]) | {"version": 2}
        for name in TASKS:
            table = table.set_column(
                table.schema.get_field_index(name), SCHEMA.field(name), pc.subtract(table[name], 1).cast(pa.int32())
            )
        table = table.cast(SCHEMA.with_metadata({b"e2c_dl": json.dumps(about)}))
        pq.write_table(table, former / "hosts" / file.stem / "spans.parquet")
    shutil.rmtree(former / "traces")
    assert [rank.spans.tobytes() for rank in read_trace(former).ranks] == [
        rank.spans.tobytes() for rank in before.ranks
    ]
    summaries = [summarize(Place(each))[0] for each in (former, folder / "ARCHIVE")]
    assert summaries[0] == summaries[1]
    own = recorded(former, before.hosts[1])
    assert table_of_host(own, origin_ns=BEGAN_NS).equals(table_of_host(recorded(folder / "ARCHIVE", own.host)))


def test_the_page_names_every_column_with_its_unit() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*?) \|$", PAGE, re.MULTILINE)
    kinds = ["string" if pa.types.is_dictionary(column.kind) else str(column.kind) for column in COLUMNS]
    told = [(column.name, kind, column.unit, column.description) for column, kind in zip(COLUMNS, kinds, strict=True)]
    assert rows == told
    for name in [each.name.lower() for each in (*Phase, *Collective)]:
        assert f"`{name}`" in PAGE


def test_the_file_explains_itself(folder: Path, trace: Trace) -> None:
    file = folder / "ARCHIVE/traces" / f"{trace.ranks[1].host}.parquet"
    schema = pq.read_schema(file)
    for field in schema:
        assert field.metadata[b"description"], field.name
        assert b"unit" in field.metadata
    about = json.loads(schema.metadata[b"e2c_dl"])
    assert (about["version"], about["rank"], about["origin_ns"], about["complete"]) == (3, 1, BEGAN_NS, True)
    assert about["clock"]["offset_ns"] == 777
    assert about["lost"] == {"spans": 0, "damaged_bytes": 0, "dropped": 0}


def test_times_are_since_training_began_and_nothing_is_minus_one(folder: Path, trace: Trace) -> None:
    rank = trace.ranks[1]
    table = pq.read_table(folder / "ARCHIVE/traces" / f"{rank.host}.parquet", partitioning=None)
    assert table.schema.equals(SCHEMA)
    assert (table["start_ns"].to_numpy() == rank.spans["start_ns"] - BEGAN_NS).all()
    assert (table["own_start_ns"].to_numpy() == rank.spans["start_ns"] - 777).all()
    phases = np.array(table["phase"].to_pylist())
    assert (phases[rank.spans["phase"] == Phase.FORWARD] == "forward").all()
    for name in ("iteration", "bucket", "src", "dst", "seq"):
        assert [value is None for value in table[name].to_pylist()] == (rank.spans[name] == -1).tolist()
    assert table["kind"].null_count == len(table)
    for column in table.schema.names:
        if pa.types.is_integer(table.schema.field(column).type) and not column.endswith("_ns"):
            assert min((value for value in table[column].to_pylist() if value is not None), default=0) >= 0, column
    warm = {row["iteration"] for row in table.to_pylist() if row["warm_up"]}
    assert warm == {0, 1}


def test_a_span_shorter_than_its_clock_was_certain_is_uncertain(trace: Trace) -> None:
    spans = trace.ranks[1].spans
    lengths_ns, half_ns = spans["end_ns"] - spans["start_ns"], int(np.median(spans["start_ns"]))
    step = ClockStep(from_ns=half_ns, to_ns=int(spans["end_ns"].max()), uncertainty_ns=10**9)
    clock = ClockAlignment(offset_ns=777, uncertainty_ns=10**9, usual_uncertainty_ns=1000, steps=(step,))
    table = to_table(spans, {"rank": 1, "host": "b", "layer": "edge"}, complete=True, clock=clock, origin_ns=0)
    certain_ns = np.where(spans["end_ns"] < half_ns, 1000, 10**9)
    assert ((spans["start_ns"] < half_ns) & (spans["end_ns"] >= half_ns)).any(), "some reach into it"
    assert (table["uncertain"].to_numpy() == (lengths_ns < certain_ns)).all()
    assert 0 < table["uncertain"].to_numpy().sum() < len(spans)
    sure = to_table(spans, {"rank": 1, "host": "b", "layer": "edge"}, complete=True, clock=None, origin_ns=0)
    assert not sure["uncertain"].to_numpy().any()
