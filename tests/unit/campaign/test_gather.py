"""What hosts left is gathered host by host: one's damage is nobody else's, and what cannot be taken over is kept."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from host_access import access

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import collect
from e2c_dl.campaign.hosts import brought, gather, ranks
from e2c_dl.campaign.hosts.gather import Source
from e2c_dl.errors import Interrupted
from e2c_dl.testbeds import programs
from e2c_dl.topology import Host

NAMES = ("edge-1", "edge-2")
HOSTS = tuple(
    Host(name=name, layer="edge", service="s", service_id=f"1_1_{i}", role=name, rank=i) for i, name in enumerate(NAMES)
)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    Archive.create(tmp_path / "a", "5a3b1e07", started="2025-01-31T10:00:00+00:00")
    return tmp_path / "a"


def source(tmp_path: Path, files: Mapping[str, bytes], *, packed: tuple[str, ...] = NAMES) -> Source:
    """Two hosts of this machine, each with ``files`` in its run directory, and packed as finalize does."""
    state = tmp_path / "state"
    (tmp_path / "packed").mkdir()
    accesses = {}
    for host in HOSTS:
        run_dir = state / "hosts" / host.name / "work"
        run_dir.mkdir(parents=True)
        for name, content in files.items():
            (run_dir / name).write_bytes(content)
        if host.name in packed:
            with tarfile.open(tmp_path / "packed" / f"{host.service_id}.tar.gz", "w:gz") as tar:
                tar.add(run_dir, ".")
        accesses[host.name] = access(host.name, run_dir)
    return Source(packed=tmp_path / "packed", state_dir=state, accesses=accesses)


def left(archive: Path) -> dict[str, bytes]:
    folder = archive / layout.HOSTS
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FILES = {layout.OUTCOME: b"{}", layout.SPANS_RAW: os.urandom(4096)}
BOTH = {f"{host}/{name}": content for host in NAMES for name, content in FILES.items()}


@pytest.mark.parametrize("packed", [(), ("edge-2",), NAMES])
def test_what_was_not_fetched_is_read_where_it_is(tmp_path: Path, archive: Path, packed: tuple[str, ...]) -> None:
    assert gather.gather(HOSTS, source(tmp_path, FILES, packed=packed), archive) == ()
    assert left(archive) == BOTH


def test_a_damaged_one_before_healthy_ones_loses_nothing(tmp_path: Path, archive: Path) -> None:
    found = source(tmp_path, FILES)
    first = tmp_path / "packed/1_1_0.tar.gz"
    first.write_bytes(first.read_bytes()[:-200])
    assert gather.gather(HOSTS, found, archive) == ()
    assert left(archive) == BOTH


def test_what_the_archive_cannot_take_is_kept_and_named(tmp_path: Path, archive: Path) -> None:
    found = source(tmp_path, FILES)
    (archive / layout.HOSTS).mkdir()
    (archive / layout.HOSTS / "edge-1").write_text("in the way")
    (kept,) = gather.gather(HOSTS, found, archive)
    assert kept.host == "edge-1" and kept.where == str(tmp_path / "state/hosts/edge-1/work")
    assert "`e2c-dl collect 5a3b1e07`" in kept.sentence("5a3b1e07")
    assert left(archive) == {"edge-1": b"in the way"} | {name: it for name, it in BOTH.items() if "edge-2" in name}


def test_an_archive_that_is_gone_is_not_made_anew(tmp_path: Path, archive: Path) -> None:
    found = source(tmp_path, FILES)
    archive.rename(tmp_path / "elsewhere")
    assert [each.host for each in gather.gather(HOSTS, found, archive)] == list(NAMES)
    assert not archive.exists()


def test_links_in_a_run_directory_are_not_followed(tmp_path: Path, archive: Path) -> None:
    found = source(tmp_path, FILES, packed=())
    run_dir = tmp_path / "state/hosts/edge-1/work"
    (tmp_path / "secret").write_text("nobody else's")
    (run_dir / layout.WORKER_LOG).symlink_to(tmp_path / "secret")
    os.mkfifo(run_dir / layout.METRICS)
    gather.gather(HOSTS, found, archive)
    assert left(archive) == BOTH


def test_a_second_ctrl_c_keeps_what_was_collected_and_what_was_not(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = source(tmp_path, FILES, packed=("edge-1",))

    def interrupted(*_: object) -> None:
        raise Interrupted("SIGINT again")

    monkeypatch.setattr(gather, "_from_directory", interrupted)
    (kept,) = gather.gather(HOSTS, found, archive)
    assert (kept.host, kept.why) == ("edge-2", "SIGINT again")
    assert left(archive) == {name: content for name, content in BOTH.items() if "edge-1" in name}


def test_the_parameters_of_rank_0_stand_beside_run_json(tmp_path: Path, archive: Path) -> None:
    gather.gather(HOSTS, source(tmp_path, {layout.MODEL: b"parameters"}), archive)
    assert (archive / layout.MODEL).read_bytes() == b"parameters"
    assert "edge-1/model.npz" not in left(archive)


def test_a_host_that_was_not_collected_is_not_said_to_have_no_outcome(archive: Path) -> None:
    (event,) = collect.events(open_archive(archive), HOSTS, kept={"edge-1"})
    assert event.sentence.startswith("worker edge-2 left nothing")


def test_ranks_of_a_users_program_have_folders_beside_their_hosts(tmp_path: Path, archive: Path) -> None:
    """As many as it has started; what else stands there, links too, is left behind."""
    found = source(tmp_path, {}, packed=())
    run_dir = tmp_path / "state/hosts/edge-1/work"
    traces = run_dir / "traces/hosts"
    for rank in ("edge-1_0", "edge-1_1", "edge-2", "else"):
        (traces / rank).mkdir(parents=True)
        (traces / rank / "spans.bin").write_bytes(b"spans")
        (traces / rank / "timeline.json").symlink_to("/etc/passwd")
    assert gather.gather(HOSTS, found, archive) == ()
    assert left(archive) == {"edge-1_0/spans.bin": b"spans", "edge-1_1/spans.bin": b"spans"}


def test_files_come_over_ssh_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path) -> None:
    """Nothing else of the folder is sent, whatever a program has put there."""
    found = source(tmp_path, {"image.tar": bytes(1000)}, packed=())
    run_dir = tmp_path / "state/hosts/edge-1/work"
    (run_dir / "traces/hosts/edge-1_0").mkdir(parents=True)
    (run_dir / "traces/hosts/edge-1_0/spans.bin").write_bytes(b"spans")
    monkeypatch.setattr(programs, "ssh_argv", lambda access, *argv: list(argv))
    assert ranks.fetched("edge-1", found.accesses["edge-1"], archive) is None
    assert left(archive) == {"edge-1_0/spans.bin": b"spans"}
    assert brought.fetched(found.accesses["edge-2"], str(run_dir), archive, gather.NAMES) is None


def of_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Source:
    """Two hosts over SSH (asked here), the first of which has files ``names`` of a rank."""
    found = source(tmp_path, {}, packed=())
    rank = tmp_path / "state/hosts/edge-1" / "work" / "traces/hosts/edge-1_0"
    rank.mkdir(parents=True)
    for name in names:
        (rank / name).write_bytes(b"spans")
    monkeypatch.setattr(programs, "ssh_argv", lambda access, *argv: list(argv))
    return found


def test_a_host_that_is_out_of_reach_is_not_said_to_have_no_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    found = of_ranks(tmp_path, monkeypatch, "spans.bin")
    monkeypatch.setattr(programs, "ssh_argv", lambda *_: ["sh", "-c", "echo Connection refused >&2; exit 255"])
    said = ranks.fetched("edge-1", found.accesses["edge-1"], archive)
    assert said == "it cannot be asked over SSH: Connection refused"


def test_more_files_than_one_command_has_words_for_come_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    found = of_ranks(tmp_path, monkeypatch, "a.bin", "b.bin", "c.bin")
    monkeypatch.setattr(ranks, "AT_ONCE", 2)
    assert ranks.fetched("edge-1", found.accesses["edge-1"], archive) is None
    assert left(archive) == {f"edge-1_0/{name}.bin": b"spans" for name in "abc"}


def test_ranks_are_gathered_though_something_else_of_their_host_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    """Their node may be gone before anybody comes back for them."""
    found = of_ranks(tmp_path, monkeypatch, "spans.bin")
    monkeypatch.setattr(gather, "_from_directory", lambda *_: "facts.json: Input/output error")
    assert [each.why for each in gather.gather(HOSTS[:1], found, archive)] == ["facts.json: Input/output error"]
    assert left(archive) == {"edge-1_0/spans.bin": b"spans"}
