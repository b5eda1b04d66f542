"""The machine itself: what a program in it says and comes to, and that it always ends."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.uml import boot


def machines() -> set[str]:
    """Process ids of all machines of this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if b"umid=uml-" in line and f"UML_RUN={os.environ['TMPDIR']}/".encode() in line:
                found.add(entry.name)
    return found


@pytest.fixture(autouse=True)
def own_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path_factory.mktemp("m")
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr("tempfile.tempdir", str(directory))


def test_programs_run_side_by_side_with_their_own_words_and_write_only_where_they_may(tmp_path: Path) -> None:
    script = f"tee {tmp_path}/$0/said; echo aside >&2; touch {tmp_path}/written && exit 7"
    with ThreadPoolExecutor() as pool:
        runs = []
        for text in ("one", "two"):
            (tmp_path / text).mkdir()
            argv = ["sh", "-c", script, text]
            runs.append(pool.submit(boot.run, argv, text=text, writable=tmp_path / text))
        done = [run.result() for run in runs]
    assert [(each.stdout, each.stderr, each.status) for each in done] == [("one", "aside\n", 7), ("two", "aside\n", 7)]
    assert [(tmp_path / text / "said").read_text() for text in ("one", "two")] == ["one", "two"]
    assert not (tmp_path / "written").exists()


def test_wide_registers_hold_what_they_held_when_a_page_was_missing() -> None:
    script = "text = bytes(range(256)) * 8192\nassert all(bytes(bytearray(text)) == text for _ in range(20))"
    done = boot.run([sys.executable, "-c", script])
    assert done.status == 0, done.stderr


def test_a_program_that_hangs_is_ended_and_nothing_stays() -> None:
    with pytest.raises(boot.UmlError, match=r"took longer than 2 s: sh -c .*; it said: still here"):
        boot.run(["sh", "-c", "echo still here >&2; sleep 1000"], timeout_s=2)
    assert machines() == set()
