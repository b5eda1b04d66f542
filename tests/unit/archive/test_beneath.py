"""Files of a folder that anybody may have made: nothing is followed, waited for or read without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2c_dl import codec
from e2c_dl.beneath import Place, placed
from e2c_dl.errors import ArchiveError

ODD = "nothing in an archive is followed"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    root = tmp_path / "archive"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_text("ours")
    (root / "to-file").symlink_to(outside / "file")
    (root / "to-folder").symlink_to(outside)
    (root / "to-own").symlink_to("folder/file")
    (root / "nowhere").symlink_to("no such file")
    os.mkfifo(root / "pipe")
    return root


def test_plain_files_are_read_and_replaced_also_where_the_root_is_a_link(root: Path, tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.symlink_to(root)
    place = Place(named) / "folder" / "file"
    assert place.read() == b"ours" and place.exists() and place.is_plain() and str(place) == str(named / "folder/file")
    codec.put(place, b"new")
    assert (root / "folder" / "file").read_bytes() == b"new"
    assert Place(root).names() == ("folder", "nowhere", "pipe", "to-file", "to-folder", "to-own")


@pytest.mark.parametrize("name", ["to-file", "to-own", "nowhere", "to-folder/file", "pipe", "folder", "to-folder"])
def test_what_is_odd_is_not_opened(root: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match=ODD) as told:
        Place(root, name).read()
    assert str(root / name) in str(told.value)


@pytest.mark.parametrize("name", ["../outside/file", "/etc/passwd", "folder/../../outside/file", "a\0b", "", "."])
def test_names_that_lead_out_are_refused(root: Path, name: str) -> None:
    for act in (Place(root, name).read, lambda: codec.put(Place(root, name), b"x")):
        with pytest.raises(ArchiveError, match="not a path inside an archive"):
            act()


def test_nothing_is_written_through_a_link(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=ODD):
        codec.put(Place(root) / "to-folder" / "file", b"x")
    codec.put(Place(root) / "to-file", b"x")
    assert (tmp_path / "outside" / "file").read_text() == "theirs"
    assert (root / "to-file").read_bytes() == b"x" and not (root / "to-file").is_symlink()


def test_what_could_not_be_written_whole_leaves_the_earlier_file_and_nothing_beside(root: Path) -> None:
    place = Place(root) / "folder" / "file"
    with pytest.raises(OSError, match="full"), place.replaced() as file:
        file.write(b"half")
        raise OSError(28, "full")
    assert os.listdir(root / "folder") == ["file"] and place.read() == b"ours"


def test_a_file_that_is_too_large_is_refused_before_it_is_read(root: Path) -> None:
    os.truncate(root / "folder" / "file", 1 << 40)  # takes no room: it is a hole
    with pytest.raises(ArchiveError, match="holds more than 64 MiB"):
        (Place(root) / "folder" / "file").read()


def test_folders_are_listed_without_following(root: Path) -> None:
    with pytest.raises(ArchiveError, match=ODD):
        Place(root).folders()
    with pytest.raises(ArchiveError, match=ODD):
        Place(root).refuse_odd()
    for name in ("to-file", "to-folder", "to-own", "nowhere", "pipe"):
        (root / name).unlink()
    Place(root).refuse_odd()
    assert Place(root).folders() == ("folder",) and (Place(root) / "none").folders() == ()


def test_the_folder_of_a_path_is_trusted(root: Path) -> None:
    assert placed(root / "to-folder" / "file").read() == b"theirs"
    with pytest.raises(ArchiveError, match=ODD):
        placed(root / "to-file").read()
