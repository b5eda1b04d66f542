"""An archive is valid at every moment, overwrites nothing, and is complete even when the disk is full."""

from __future__ import annotations

import errno
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from e2c_dl.archive import layout, reserve
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.verify import verify
from e2c_dl.archive.write import Archive, amend
from e2c_dl.errors import ArchiveError, ArchiveTaken, InputError
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import Recorder

STARTED = "2025-01-31T10:00:00+00:00"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive.create(tmp_path / "run", "5a3b1e07", started=STARTED, scenario="first-light")


def recorded(archive: Archive, host: str, rank: int) -> Path:
    path = archive.path / layout.HOSTS / host / layout.SPANS_RAW
    path.parent.mkdir(parents=True)
    with Recorder(path, rank=rank, host=host, layer="edge") as recorder:
        recorder.record(Phase.FORWARD, 0, 1, 2, iteration=0)
        recorder.record(Phase.TRAINING, 0, 0, 9)
    return path


def test_a_new_archive_says_that_it_is_running(archive: Archive) -> None:
    run = open_archive(archive.path).run
    assert (run.run_id, run.outcome, run.started, run.scenario) == ("5a3b1e07", Outcome.RUNNING, STARTED, "first-light")


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveTaken, match="is not empty; name a new directory") as refused:
        Archive.create(tmp_path, "x", started=STARTED)
    assert refused.value.exit_code == InputError.exit_code  # nothing was started
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ArchiveError, match="cannot be made"):
        Archive.create(tmp_path / "run", "x", started=STARTED)


@pytest.mark.parametrize("there", [False, True])
def test_of_many_that_begin_at_once_one_has_the_archive(tmp_path: Path, there: bool) -> None:
    def begin(run_id: str, path: Path, together: Barrier) -> str:
        """The archive's run; what it was told if it is not the one."""
        together.wait()
        try:
            return Archive.create(path, run_id, started=STARTED).run.run_id
        except ArchiveError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        for race in range(40):
            path, together = tmp_path / f"{race}" / "run", Barrier(8)
            if there:
                path.mkdir(parents=True)
            begun = list(pool.map(lambda i, p=path, t=together: begin(f"{i:08x}", p, t), range(8)))
            winner = open_archive(path).run.run_id
            refused = f"{path}: is not empty; name a new directory with --archive"
            assert sorted(begun) == sorted([winner, *[refused] * 7])


def test_facts_merge_by_key_and_lists_grow_by_sentence(archive: Archive) -> None:
    archive.record(emulation={"backend": "relay", "compute": {"method": "sleep"}})
    archive.record(emulation={"compute": {"cores": 2}})
    archive.happened("rank 3 was killed")
    archive.happened("rank 4 lost rank 3")
    archive.step("deploy", 1.5, "done")
    archive.end(Outcome.FAILED, "2025-01-31T10:01:00+00:00", "training failed")
    run = open_archive(archive.path).run
    assert run.emulation == {"backend": "relay", "compute": {"method": "sleep", "cores": 2}}
    assert run.what_happened == ("rank 3 was killed", "rank 4 lost rank 3", "training failed")
    assert [(s.step, s.seconds, s.outcome) for s in run.steps] == [("deploy", 1.5, "done")]
    assert run.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"what_hapened": ["x"]}, "unknown key 'what_hapened'; did you mean 'what_happened'"),
        ({"facts": {"loss": float("nan")}}, "cannot be written as JSON"),
        ({"facts": {"model": object()}}, "cannot be written as JSON"),
        ({"outcome": "succeeded"}, "outcome 'succeeded' must be one of running, finished, failed, interrupted"),
        ({"hosts": {"edge-1": {}}}, r"Expected `array`, got `object` - at `\$\.hosts`"),
    ],
)
def test_a_wrong_fact_is_refused_and_what_was_recorded_stands(
    archive: Archive, facts: dict[str, Any], said: str
) -> None:
    before = (archive.path / layout.RUN).read_bytes()
    with pytest.raises(ArchiveError, match=said):
        archive.record(**facts)
    assert (archive.path / layout.RUN).read_bytes() == before
    archive.record(testbed="local")
    assert archive.run.testbed == "local"


def test_names_that_are_not_utf8_survive(archive: Archive) -> None:
    archive.record(facts={"file": "caf\udce9"})
    assert open_archive(archive.path).run.facts["file"] == "caf\udce9"


def test_resuming_goes_on_where_the_record_ended(archive: Archive) -> None:
    archive.happened("first")
    archive.let_go()
    again = Archive.resume(archive.path)
    again.happened("second")
    assert open_archive(archive.path).run.what_happened == ("first", "second")


def fill(monkeypatch: pytest.MonkeyPatch, full: list[bool]) -> None:
    """While ``full`` holds True no new file can be written, as on a full disk; blocks already there can."""
    write = reserve._write

    def refuse(path: Path, content: bytes) -> None:
        if full[0]:
            path.touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)

    monkeypatch.setattr(reserve, "_write", refuse)


def test_on_a_full_disk_what_happened_is_still_recorded(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    full = [True]
    fill(monkeypatch, full)
    archive.end(Outcome.FAILED, STARTED, "the disk is full")
    assert open_archive(archive.path).run.what_happened == ("the disk is full",)
    with pytest.raises(ArchiveError, match="the disk is full; make room"):
        archive.happened("once more")  # the reserve is spent, and could not be made anew
    assert open_archive(archive.path).run.outcome is Outcome.FAILED
    full[0] = False
    archive.happened("there is room again")
    assert open_archive(archive.path).run.what_happened[-1] == "there is room again"


def test_an_archive_that_cannot_be_begun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(monkeypatch, [True])
    with pytest.raises(ArchiveError, match="the disk is full; make room"):
        Archive.create(tmp_path / "run", "5a3b1e07", started=STARTED)
    assert list(tmp_path.iterdir()) == []


def test_other_failures_to_write_are_told(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(reserve, "_write", refuse)
    with pytest.raises(ArchiveError, match="cannot be written: Input/output error"):
        archive.happened("x")


def test_files_are_copied_in_and_never_over_others(archive: Archive, tmp_path: Path) -> None:
    source = tmp_path / "network.yaml"
    source.write_text("networks:")
    assert archive.add_file(source, "scenario/network.yaml").read_text() == "networks:"
    with pytest.raises(ArchiveError, match="is there already"):
        archive.add_file(source, "scenario/network.yaml")
    for name in ("../outside", "/etc/passwd", "."):
        with pytest.raises(ArchiveError, match="is not a path inside"):
            archive.add_file(source, name)
    with pytest.raises(ArchiveError, match="cannot be copied"):
        archive.add_file(tmp_path / "absent", "logs/absent")


def test_sealing_converts_traces_and_leaves_no_reserve(archive: Archive) -> None:
    raw = recorded(archive, "edge-1", 0)
    archive.seal()
    assert not raw.exists()
    assert not list(archive.path.glob(".*"))
    trace = open_archive(archive.path).trace()
    assert [(rank.host, len(rank.spans)) for rank in trace.ranks] == [("edge-1", 2)]
    assert verify(archive.path) == ()


def test_a_trace_that_cannot_be_converted_is_kept_and_told(archive: Archive) -> None:
    raw = recorded(archive, "edge-1", 0)
    raw.write_bytes(b"")
    archive.seal()
    archive.seal()
    assert raw.exists()
    assert not list((archive.path / layout.TRACES).glob("*"))
    (said,) = open_archive(archive.path).run.limitations
    assert said.startswith("hosts/edge-1/spans.bin is kept as recorded: ")
    assert verify(archive.path) == ()


KEY = (
    b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"A" * 70 + b"\n" + b"B" * 70 + b"\n-----END OPENSSH PRIVATE KEY-----\n"
)


@pytest.mark.parametrize("content", [KEY, b"key: |\n    " + b"B" * 70 + b"\r\n", b"x" * (1 << 20) + b"B" * 70])
def test_an_archive_that_holds_a_secret_is_not_sealed(archive: Archive, content: bytes) -> None:
    leak = archive.path / "logs" / "run.log"
    leak.parent.mkdir()
    leak.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"logs/run\.log: holds a secret") as error:
        archive.seal([KEY])
    assert "BBBB" not in str(error.value)
    assert not (archive.path / layout.MANIFEST).exists()
    leak.unlink()
    archive.seal([KEY, b"a-token-of-the-run"])
    assert verify(archive.path) == ()


def test_a_secret_too_short_to_search_for_is_refused(archive: Archive) -> None:
    with pytest.raises(ArchiveError, match="a secret of 0 bytes"):
        archive.seal([b"  "])


def test_links_are_not_sealed(archive: Archive) -> None:
    (archive.path / "latest").symlink_to("/etc")
    with pytest.raises(ArchiveError, match="latest: is a link"):
        archive.seal()


def test_a_name_that_no_crate_can_hold_is_told(archive: Archive) -> None:
    (archive.path / "caf\udce9").write_text("x")
    with pytest.raises(ArchiveError, match="its name is not UTF-8"):
        archive.seal()


def test_amending_vouches_for_the_named_files_only(archive: Archive) -> None:
    (archive.path / "other.txt").write_text("before")
    archive.seal()
    (archive.path / "other.txt").write_text("after")
    (archive.path / layout.REPORT_HTML).write_text("<p>new</p>")
    amend(archive.path, [layout.REPORT_HTML])
    assert verify(archive.path) == ("other.txt: was altered since the archive was sealed",)
    graph = json.loads((archive.path / layout.CRATE).read_text())["@graph"]
    assert layout.REPORT_HTML in {entity["@id"] for entity in graph}


def test_an_archive_that_is_not_sealed_cannot_be_amended(archive: Archive) -> None:
    with pytest.raises(ArchiveError, match="the run was not sealed"):
        amend(archive.path, [layout.RUN])


def test_a_fork_that_outlives_its_process_does_not_have_the_archive(archive: Archive) -> None:
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        there.send(b".")  # it is what it will be by now
        there.recv(1)  # until the other end is closed
        os._exit(0)
    here.recv(1)
    archive.let_go()
    Archive.resume(archive.path).let_go()
    here.close()
    there.close()
    os.waitpid(pid, 0)
