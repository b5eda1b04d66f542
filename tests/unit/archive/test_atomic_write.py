"""What breaks off while a file is written leaves the earlier one, and nothing else."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2c_dl.atomic_write import replacing, whole

COMM = Path(f"/proc/{os.getpid()}/comm")  # may be written; beside it nothing can be made, by nobody


def test_a_file_is_replaced_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text("earlier")
    with whole(path) as place:
        place.write_text("later")
        assert path.read_text() == "earlier"
    assert path.read_text() == "later"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("there", [True, False])
def test_a_failure_changes_nothing(tmp_path: Path, failure: type[BaseException], there: bool) -> None:
    path = tmp_path / "profile.json"
    if there:
        path.write_text("earlier")
    with pytest.raises(failure), whole(path) as place:
        place.write_text("half of i")
        raise failure
    assert [(each, each.read_text()) for each in tmp_path.iterdir()] == ([(path, "earlier")] if there else [])


def test_a_link_and_a_pipe_stay_what_they_are(tmp_path: Path) -> None:
    link, target, pipe = tmp_path / "link", tmp_path / "target", tmp_path / "pipe"
    target.touch()
    link.symlink_to(target)
    with whole(link) as place:
        place.write_text("through")
    assert (link.is_symlink(), target.read_text()) == (True, "through")
    os.mkfifo(pipe)
    with whole(pipe) as place:
        assert place == pipe
    assert pipe.is_fifo()


def test_two_at_once_do_not_write_into_each_others_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    with ThreadPoolExecutor(1) as pool, ExitStack() as mine, ExitStack() as theirs:
        place = mine.enter_context(whole(path))
        other = pool.submit(theirs.enter_context, whole(path)).result()
        place.write_text("mine")
        other.write_text("theirs")
        mine.close()
        assert path.read_text() == "mine"
        theirs.close()
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_written_directly_where_none_can_be_made_beside_it() -> None:
    before = COMM.read_text()
    try:
        with whole(COMM) as place:
            place.write_text("written")
        assert (place, COMM.read_text()) == (COMM, "written\n")
    finally:
        COMM.write_text(before)


def test_what_cannot_be_made_fails_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "profile.json"
    with pytest.raises(FileNotFoundError) as caught, whole(path) as place:
        place.write_text("lost")
    assert caught.value.filename == str(path)


def failing_to_replace(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def replace(self: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(Path, "replace", replace)


def test_a_file_that_is_mounted_by_itself_is_written_once_all_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "profile.json"
    path.write_text("earlier")
    failing_to_replace(monkeypatch, errno.EBUSY)
    with whole(path) as place:
        place.write_text("later")
        assert path.read_text() == "earlier"
    assert path.read_text() == "later"
    assert list(tmp_path.iterdir()) == [path]


def test_any_other_failure_to_replace_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profile.json"
    path.write_text("earlier")
    failing_to_replace(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"), whole(path) as place:
        place.write_text("later")
    assert [(each, each.read_text()) for each in tmp_path.iterdir()] == [(path, "earlier")]


def test_what_replaces_is_never_written_through_a_link(tmp_path: Path) -> None:
    theirs, path = tmp_path / "authorized_keys", tmp_path / "manifest"
    theirs.write_text("theirs")
    path.symlink_to(theirs)
    with replacing(path) as place:
        place.write_text("ours")
    assert (theirs.read_text(), path.read_text(), path.is_symlink()) == ("theirs", "ours", False)
    path.unlink()
    os.mkfifo(path)
    with replacing(path) as place:
        place.write_text("ours")
    assert path.read_text() == "ours"
    with pytest.raises(OSError, match="full"), replacing(path) as place:
        place.write_text("hal")
        raise OSError(errno.ENOSPC, "full")
    assert path.read_text() == "ours"
    assert sorted(tmp_path.iterdir()) == [theirs, path]
