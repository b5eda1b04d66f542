"""e2c_dl in Python: a run simulated, loaded, and read as tables in three libraries."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import e2c_dl
from e2c_dl.errors import ArchiveError, InputError
from e2c_dl.trace.columns import SCHEMA

FIRST_LIGHT = Path(__file__).parents[3] / "experiments" / "first-light"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> e2c_dl.ArchivedRun:
    archive = tmp_path_factory.mktemp("api") / "run"
    return e2c_dl.simulate(str(FIRST_LIGHT), archive=str(archive), shapes_only=True, frames="arrow")


def test_a_run_has_a_report_of_frozen_values(run: e2c_dl.ArchivedRun) -> None:
    assert {str(found.element) for found in run.report.culprits} == {"cloud-1", "edge-1 -> edge-2"}
    assert run.run.outcome.value == "finished" and run.path.is_dir()


def test_spans_are_a_table_of_all_hosts(run: e2c_dl.ArchivedRun) -> None:
    table = run.spans()
    assert table.schema.names == SCHEMA.names
    assert set(table.column("host").unique().to_pylist()) == {
        "edge-1",
        "edge-2",
        "fog-1",
        "fog-2",
        "cloud-1",
        "cloud-2",
    }
    assert table.num_rows == sum(len(rank.spans) for rank in run.trace.ranks)
    few = run.spans(columns=["phase", "start_ns"])
    assert few.schema.names == ["phase", "start_ns"] and min(few.column("start_ns").to_pylist()) == 0
    with pytest.raises(InputError, match="no column strat_ns"):
        run.spans(columns=["strat_ns"])
    with pytest.raises(InputError, match=r"in a list, such as \['host'\]"):
        run.spans(columns="host")


def test_of_a_damaged_table_the_rest_is_read_with_a_warning(run: e2c_dl.ArchivedRun, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run.path, tmp_path / "run"))
    whole = run.spans().num_rows
    table = copied / "traces/fog-1.parquet"
    about = pq.ParquetFile(table).metadata
    assert about.num_row_groups > 1
    columns = [about.row_group(0).column(number) for number in range(about.num_columns)]
    (column,) = (each for each in columns if each.path_in_schema == "own_start_ns")
    content = bytearray(table.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    table.write_bytes(content)
    lost = about.row_group(0).num_rows
    with pytest.warns(UserWarning, match=f"fog-1: its trace is damaged, {lost} spans are missing; run e2c-dl verify"):
        assert e2c_dl.load(copied, frames="arrow").spans().num_rows == whole - lost


def test_links_and_progress_are_tables(run: e2c_dl.ArchivedRun) -> None:
    links = run.links()
    assert links.num_rows == 30 and {"src", "dst", "designed_rate_bps", "requested_rate_bps"} <= set(links.schema.names)
    assert run.progress().num_rows == 6 * 60


def test_of_links_of_which_some_were_measured_a_table_tells_what_was(run: e2c_dl.ArchivedRun, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run.path, tmp_path / "run"))
    first, *others = run.archive.links()
    seen = {"rate_bps": 9e5, "loss": 0.0, "loss_interval": None}
    rows = [first, *({**row, "measured": seen} for row in others)]
    e2c_dl.load(copied).archive.write_links(rows)
    links = e2c_dl.load(copied, frames="arrow").links()
    assert links.column("measured_rate_bps").to_pylist() == [None, *29 * [9e5]]
    assert "measured" not in links.schema.names and "measured_loss" in links.schema.names


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_come_as_the_library_that_one_uses(run: e2c_dl.ArchivedRun, library: str) -> None:
    pytest.importorskip(library)
    loaded = e2c_dl.load(run.path, frames=library)
    assert type(loaded.spans()).__module__.startswith(library)
    assert len(loaded.spans()) == run.spans().num_rows and len(loaded.links()) == 30


def test_what_is_wrong_is_said(run: e2c_dl.ArchivedRun, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        e2c_dl.load(tmp_path)
    with pytest.raises(InputError, match="pandas, polars, arrow"):
        e2c_dl.load(run.path, frames="panda")
    for begin in (e2c_dl.simulate, e2c_dl.deploy):
        with pytest.raises(InputError, match="pandas, polars, arrow"):
            begin(tmp_path / "nothing", frames="panda")
    with pytest.raises(InputError, match="not a folder"):
        e2c_dl.deploy(tmp_path / "nothing", archive=tmp_path / "archive")
    with pytest.raises(AttributeError):
        _ = e2c_dl.lood


def test_what_the_page_shows_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("polars")
    page = FIRST_LIGHT.parents[1] / "docs" / "python.md"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(FIRST_LIGHT.parent)
    exec("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)), {})
    said = capsys.readouterr().out
    assert "edge-1 -> edge-2 3.3 x slower" in said and "cloud-1" in said


def test_the_package_alone_imports_little() -> None:
    program = "import e2c_dl, sys; assert 'numpy' not in sys.modules; assert 'load' in dir(e2c_dl)"
    subprocess.run([sys.executable, "-c", program], check=True)
