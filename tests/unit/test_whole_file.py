"""What breaks off while a file is written leaves the earlier one, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2c_dl.whole_file import whole


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
