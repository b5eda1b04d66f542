"""An archive is sealed whether or not it can be reported, and later if that was not come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from simulated_scenario import Quiet, scenario, simulated

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.verify import verify
from e2c_dl.campaign import underway
from e2c_dl.campaign.simulated import SimulationRequest, run
from e2c_dl.cli.main import cli
from e2c_dl.errors import AnalysisError, ArchiveError, E2cDlError, Interrupted

VOUCHED = (layout.MANIFEST, layout.CRATE, layout.REPORT_JSON, layout.REPORT_HTML)


def failing(error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The archive of a run whose report ends with ``error``."""

    def write_report(*_: object) -> None:
        raise error

    monkeypatch.setattr(underway, "write_report", write_report)
    request = SimulationRequest(scenario=scenario(tmp_path / "s"), archive=tmp_path / "a", shapes_only=True)
    if isinstance(error, AnalysisError):
        run(request, Quiet())
    else:
        with pytest.raises(E2cDlError):
            run(request, Quiet())
    return tmp_path / "a"


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"), ArchiveError("hosts/edge-1/facts.json: damaged"),
        AnalysisError("nothing to analyse"), Interrupted("SIGINT again"), RuntimeError("a defect"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_cannot_be_reported_is_sealed(error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = failing(error, monkeypatch, tmp_path)
    assert verify(archive) == ()
    assert str(error) in open_archive(archive).run.what_happened[-1]


def left_open(tmp_path: Path, **facts: object) -> Path:
    """An archive as a process leaves it that is killed before it has sealed it."""
    archive = simulated(scenario(tmp_path / "s"), shapes_only=True).path
    for name in VOUCHED:
        (archive / name).unlink()
    written = json.loads((archive / layout.RUN).read_text())
    (archive / layout.RUN).write_text(json.dumps(written | facts))
    return archive


def seal(archive: Path) -> Result:
    return CliRunner().invoke(cli, ["verify", "--seal", str(archive)])


def test_an_archive_that_was_left_open_is_reported_and_sealed(tmp_path: Path) -> None:
    archive = left_open(tmp_path)
    (archive / ".report.html.77-77.new").write_text("half of")
    done = seal(archive)
    assert done.exit_code == 0, done.output
    assert verify(archive) == ()
    assert all((archive / name).is_file() for name in VOUCHED)
    assert not list(archive.glob(".*.new"))
    assert open_archive(archive).run.outcome is Outcome.FINISHED  # it was, before it was to be sealed


def test_a_run_that_was_killed_did_not_finish(tmp_path: Path) -> None:
    archive = left_open(tmp_path, outcome="running", ended="")
    assert seal(archive).exit_code == 0
    told = open_archive(archive).run
    assert told.outcome is Outcome.FAILED and told.ended
    assert told.what_happened[0].startswith("its controller was killed, or the machine went down, after its step")


def test_a_sealed_archive_is_not_sealed_again(tmp_path: Path) -> None:
    archive = simulated(scenario(tmp_path / "s"), shapes_only=True).path
    before = (archive / layout.MANIFEST).read_bytes()
    done = seal(archive)
    assert done.exit_code != 0 and "is sealed" in str(done.exception)
    assert (archive / layout.MANIFEST).read_bytes() == before


def test_what_was_altered_since_is_not_hidden_by_sealing_again(tmp_path: Path) -> None:
    archive = simulated(scenario(tmp_path / "s"), shapes_only=True).path
    (archive / layout.LINKS).write_text("[]")
    assert seal(archive).exit_code != 0
    assert any(layout.LINKS in problem for problem in verify(archive))


def test_collect_says_what_it_wants() -> None:
    done = CliRunner().invoke(cli, ["collect", "not-a-run"])
    assert done.exit_code == 2 and "8 hexadecimal digits" in done.output


@pytest.mark.parametrize(("damaged", "said"), [(True, "the archive is damaged"), (False, "ranks 1 left no trace")])
def test_what_traced_ranks_say_of_themselves_is_told(tmp_path: Path, damaged: bool, said: str) -> None:
    """Whatever a host has sent: an archive is sealed."""
    archive = left_open(tmp_path)
    rank = {"format": 1, "rank": 0, "world_size": 2, "pid": 7, "boot": "b", "limitations": ["this was not seen"]}
    (archive / "hosts/edge-1/tracing.json").write_text(json.dumps(rank)[: 20 if damaged else None])
    assert seal(archive).exit_code == 0
    assert verify(archive) == ()
    found = open_archive(archive).run
    assert said in " ".join(found.what_happened)
    assert any("this was not seen" in each for each in found.limitations) is not damaged
