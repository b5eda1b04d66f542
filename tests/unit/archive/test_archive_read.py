"""Archives of runs that broke off can be read; each missing or damaged piece is named in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.write import Archive
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.recording.recorder import Recorder

LINE = '{"iteration": %d, "iterations": 9, "loss": 0.5, "elapsed_s": 1.5}\n'


@pytest.fixture
def archive(tmp_path: Path) -> ReadArchive:
    path = tmp_path / "run"
    Archive.create(path, "5a3b1e07", started="2025-01-31T10:00:00+00:00")
    return open_archive(path)


@pytest.fixture
def host(archive: ReadArchive) -> Path:
    folder = archive.path / layout.HOSTS / "edge-1"
    folder.mkdir(parents=True)
    return folder


def test_an_archive_that_holds_nothing_yet_can_be_read(archive: ReadArchive) -> None:
    assert (archive.hosts, archive.links(), archive.host("edge-1").progress()) == ((), (), ())
    assert archive.host("edge-1").outcome() is None
    with pytest.raises(ArchiveError, match="scenario: missing; the run stopped before"):
        print(archive.scenario)
    with pytest.raises(ArchiveError, match="hosts: missing; no worker left a trace"):
        archive.trace()
    with pytest.raises(ArchiveError, match=r"metrics\.csv: missing"):
        archive.host("edge-1").metrics()


def test_an_archive_is_opened_by_its_name_as_text(archive: ReadArchive) -> None:
    assert open_archive(str(archive.path)) == archive


def test_a_line_that_was_being_written_is_left_out(archive: ReadArchive, host: Path) -> None:
    (host / layout.PROGRESS).write_text("".join(LINE % number for number in (1, 2)) + '{"iterat')
    (host / layout.METRICS).write_text("time_ns,cpu_s\n1,0.5\n2,\n3,0.")
    assert [row.iteration for row in archive.host("edge-1").progress()] == [1, 2]
    metrics = archive.host("edge-1").metrics()
    np.testing.assert_array_equal(metrics["time_ns"], [1.0, 2.0])
    np.testing.assert_array_equal(metrics["cpu_s"], [0.5, np.nan])


def test_metrics_of_a_host_that_wrote_no_line_have_no_rows(archive: ReadArchive, host: Path) -> None:
    (host / layout.METRICS).write_text("time_ns,cpu_s\n")
    assert {name: len(column) for name, column in archive.host("edge-1").metrics().items()} == {
        "time_ns": 0,
        "cpu_s": 0,
    }


@pytest.mark.parametrize(
    ("metrics", "seen"), [("", []), ("time_ns,cpu_s\n", []), ("time_ns,cpu_s\n1,0.5\n2,\n3", [1, 2])]
)
def test_a_trace_knows_when_its_hosts_were_seen_alive(
    archive: ReadArchive, host: Path, metrics: str, seen: list[int]
) -> None:
    with Recorder(host / "spans.bin", rank=0, host="edge-1", layer="edge"):
        pass
    (host / layout.METRICS).write_text(metrics)
    assert archive.trace().alive["edge-1"].tolist() == seen


def test_damage_is_told_in_one_line(archive: ReadArchive, host: Path) -> None:
    (archive.path / layout.LINKS).write_text('{"src": "a"}')
    (host / layout.PROGRESS).write_text("junk\n")
    (host / layout.METRICS).write_text("a,b\n1\n")
    (host / layout.FACTS).write_bytes(b"\xff\xfe")
    (host / layout.OUTCOME).write_text("[]")
    left = archive.host("edge-1")
    for read in (archive.links, left.progress, left.metrics, left.facts, left.outcome):
        with pytest.raises(ArchiveError, match="damaged") as error:
            read()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not valid JSON"),
        ("[]", "is not a JSON object"),
        ('{"format": 2}', "missing required field `run_id`"),
        ('{"format": 99, "run_id": "x"}', "format 99, this program reads 2"),
        ('{"format": 2, "run_id": 7}', r"Expected `str`, got `int` - at `\$\.run_id`"),
        ('{"format": 2, "run_id": "x", "steps": [{"step": "a"}]}', "missing required field `seconds`"),
        ('{"format": 2, "run_id": "x", "sceanrio": "y"}', "did you mean 'scenario'"),
    ],
)
def test_a_damaged_record_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / layout.RUN).write_text(content)
    with pytest.raises(ArchiveError, match=said) as error:
        open_archive(tmp_path)
    assert "\n" not in str(error.value)


def test_a_directory_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is no archive"):
        open_archive(tmp_path)


def test_links_come_back_as_they_were_written(archive: ReadArchive) -> None:
    rows = [{"src": "a", "dst": "b", "measured": None}]
    (archive.path / layout.LINKS).write_text(json.dumps(rows))
    assert list(archive.links()) == rows


def test_an_archive_of_format_1_is_read_under_todays_keys() -> None:
    """tests/unit/archive/format-1 was written by an earlier version, and cut down."""
    archive = open_archive(Path(__file__).parent / "format-1")
    assert (archive.run.format, archive.run.limitations) == (2, ("a limit of then",))
    row = archive.links()[0]
    assert (row["requested"]["rate_bps"], row["requested_round_trip_s"]) == (1e7, 0.05)
    left = archive.host("edge-1")
    outcome, facts = left.outcome(), left.facts()
    assert outcome is not None and (outcome.status, outcome.iterations_done) == ("finished", 2)
    assert facts is not None and (facts.cores, facts.compute.agreed_s) == (2, (0.1, 0.2))
    assert [line.loss for line in left.progress()] == [0.5, None]
    assert left.clock().offset_ns == 3


def test_rows_of_links_may_be_as_many_as_hundreds_of_hosts_have(archive: ReadArchive) -> None:
    row = b'{"src": "a", "dst": "b"}'
    (archive.path / layout.LINKS).write_bytes(b'{"format": 2, "rows": [' + b" " * (65 << 20) + row + b"]}")
    assert archive.links() == ({"src": "a", "dst": "b"},)


def test_a_run_of_a_later_format_is_called_that_whatever_keys_it_has(archive: ReadArchive) -> None:
    facts = json.loads((archive.path / layout.RUN).read_text())
    (archive.path / layout.RUN).write_text(json.dumps({"later": 1, **facts, "format": 9}))
    with pytest.raises(ArchiveError, match="format 9, this program reads 2; use its version"):
        open_archive(archive.path)
