"""The machine itself: what a program in it says and comes to, and that it always ends."""

from __future__ import annotations

import os
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


def test_programs_run_side_by_side_with_their_own_words_and_write_nothing_outside(tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = f"cat; echo aside >&2; mkdir -p {tmp_path} && touch {written} && exit 7"
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(boot.run, ["sh", "-c", script], text=text) for text in ("one", "two")]
        done = [run.result() for run in runs]
    assert [(each.stdout, each.stderr, each.status) for each in done] == [("one", "aside\n", 7), ("two", "aside\n", 7)]
    assert not written.exists()


def test_a_program_that_hangs_is_ended_and_nothing_stays() -> None:
    with pytest.raises(boot.UmlError, match=r"took longer than 2 s: sh -c .*; it said: still here"):
        boot.run(["sh", "-c", "echo still here >&2; sleep 1000"], timeout_s=2)
    assert machines() == set()
