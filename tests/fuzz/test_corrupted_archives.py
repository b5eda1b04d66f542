"""Two hundred corruptions of a sealed archive: ``verify`` names each, and no command does worse than one line."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import said
from hostile_archives import Edit, copied, made, tamper
from judged import judged, wrong_with
from thorough import few

from e2c_dl.archive import layout

GROUPS, EACH = 16, 12


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("original"))


def _flipped(file: Path, draw: random.Random) -> Edit:
    offset = draw.randrange(file.stat().st_size)
    return {"offset": offset, "bytes": bytes([file.read_bytes()[offset] ^ (1 << draw.randrange(8))]).hex()}


def _cut(file: Path, draw: random.Random) -> Edit:
    return {"cut": draw.randrange(file.stat().st_size)}


KINDS: tuple[Callable[[Path, random.Random], Edit], ...] = (
    _flipped, _flipped, _flipped, _cut, _cut,
    lambda file, draw: {"is": "nothing"},
    lambda file, draw: {"is": "link", "to": draw.choice(["OUTSIDE/kept", "OUTSIDE", "nowhere"])},
    lambda file, draw: {"is": "pipe"},
    lambda file, draw: {"is": "named", "to": f"{file.name}.new"},
)  # fmt: skip


def _corruptions(archive: Path, group: int) -> Iterator[Edit]:
    """EACH of them, each of one file."""
    draw = random.Random(group)
    files = sorted(path for path in archive.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(EACH):
        file = draw.choice(files)
        yield {"file": file.relative_to(archive).as_posix(), **draw.choice(KINDS)(file, draw)}


@pytest.mark.parametrize("group", range(GROUPS))
def test_each_is_named(archive: Path, tmp_path: Path, group: int) -> None:
    for edit in _corruptions(archive, group):
        altered = copied(archive, tmp_path / "altered")
        tamper(altered, [edit], tmp_path)
        found = said("verify", altered)
        assert found.code == 1 and (edit["file"] in found.err or edit["file"] == layout.MANIFEST), (edit, found)
        shutil.rmtree(altered)


@pytest.mark.parametrize("group", few(range(GROUPS), 0))
def test_none_does_harm(archive: Path, tmp_path: Path, group: int) -> None:
    for edit in _corruptions(archive, group):
        assert judged(archive, [edit], tmp_path / "case") is None, edit
        shutil.rmtree(tmp_path / "case")


@pytest.mark.parametrize(
    "edits",
    [
        [{"file": "hosts/edge-1", "is": "named", "to": "edge-9"}],
        [{"file": "hosts/edge-1", "is": "named", "to": "x"}, {"file": "hosts/edge-2", "is": "named", "to": "edge-1"}],
        [{"file": "hosts/edge-1/new.txt", "text": "new"}],
        [{"file": "hosts/edge-9/spans.bin", "is": "folder"}],
    ],
)
def test_hosts_that_are_renamed_and_files_that_are_added_are_named(
    archive: Path, tmp_path: Path, edits: list[Edit]
) -> None:
    assert judged(archive, edits, tmp_path / "case") is None
    altered = copied(archive, tmp_path / "altered")
    tamper(altered, edits, tmp_path)
    if "is" in edits[0] and edits[0]["is"] == "folder":
        return  # an empty one holds nothing to vouch for
    found = said("verify", altered)
    assert found.code == 1 and Path(edits[0]["file"]).name in found.err


def test_the_program_itself_says_one_line_and_ends_at_once(archive: Path, tmp_path: Path) -> None:
    for number, (file, kind) in enumerate({"run.json": "pipe", "links.json": "pipe", "hosts": "link"}.items()):
        altered = copied(archive, tmp_path / str(number))
        tamper(altered, [{"file": file, "is": kind, "to": "OUTSIDE"}], tmp_path)
        argv = [str(Path(sys.executable).with_name("e2c-dl")), "report", str(altered)]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
        assert str(altered / file) in ended.stderr and "nothing in an archive is followed" in ended.stderr


def test_the_page_is_whole_or_as_it_was_where_files_may_not_grow(archive: Path, tmp_path: Path) -> None:
    altered = copied(archive, tmp_path / "run")
    (altered / layout.REPORT_HTML).write_text("as it was")
    program = Path(sys.executable).with_name("e2c-dl")
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -f 100 && exec "$@"', "sh", str(program), "report", str(altered)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
    assert (altered / layout.REPORT_HTML).read_text() == "as it was"
    assert not list(altered.glob(".*.new"))


def test_a_log_that_would_command_the_terminal_is_spelled_out(archive: Path, tmp_path: Path) -> None:
    altered = copied(archive, tmp_path / "run")
    (altered / "hosts/edge-2/worker.log").write_bytes(b"\x1b]52;c;ZXZpbA==\x07\xc2\x9bm\xe2\x80\xae\n")
    found = said("logs", altered)
    assert "\n\\x1b]52;c;ZXZpbA==\\x07\\x9bm\\u202e\n" in found.out
    (altered / "run\x1b[2J\n.json").write_text("")
    assert "run\\x1b[2J\\n.json: was not there" in said("verify", altered).err
    assert wrong_with("verify", altered) is None
