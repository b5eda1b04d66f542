"""Whatever is wrong with a command line, or with the places it names, is one line and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2c_dl.campaign import request
from e2c_dl.cli import main as entry

PROGRAM = "import sys; sys.argv[0] = 'e2c-dl'; from e2c_dl.cli.main import main; main()"


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str, int]:
    monkeypatch.setattr(sys, "argv", ["e2c-dl", *argv])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    code = ended.value.code
    assert isinstance(code, int)
    return capsys.readouterr().err, code


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["depoly"], "e2c-dl: No such command 'depoly'; did you mean 'deploy'? (e2c-dl --help says more)"),
        (["zzz"], "e2c-dl: No such command 'zzz' (e2c-dl --help says more)"),
        (["deploy"], "e2c-dl deploy: Missing argument 'SCENARIO' (e2c-dl deploy --help says more)"),
        (["verify", "--all", "x"], "e2c-dl verify: No such option '--all'"),
        (["simulate", "x", "--seed", "one"], "e2c-dl simulate: Invalid value for '--seed': 'one' is not a valid int"),
        (["deploy", "x", "y", "--seed", "1", "--healthy"], "e2c-dl deploy: --seed and --healthy exclude each other; "),
        (["simulate", "x", "--seed", "1", "--healthy"], "e2c-dl simulate: --seed and --healthy exclude each other; "),
        (["deploy", "x", "y", "--dry-run", "--json"], "e2c-dl deploy: --json and --dry-run exclude each other; "),
        (["deploy", "x", "y", "--seed", "-1"], "e2c-dl deploy: Invalid value for '--seed': -1 is not in the range"),
        (["report", "x", "--json", "--figure", "y"], "e2c-dl report: --json and --figure exclude each other; "),
        (["export", "x", "--tracking-uri", "y"], "e2c-dl export: --tracking-uri is of --format mlflow, "),
        (["compare", "x", "y", "--metric", "bytes", "--accuracy", "0.9"], "e2c-dl compare: --accuracy is of --metric "),
        (
            ["plot", "x", "--figure", "cdf", "--out", "y.pdf", "--iterations", "2"],
            "e2c-dl plot: --iterations is of --figure timeline",
        ),
        (["report", "x", "--picture", "y.txt"], "e2c-dl report: --picture y.txt: pictures are PNG; write y.png"),
        (
            ["plot", "x", "--figure", "cdf", "--out", "y.pdf", "--width", "nan"],
            "e2c-dl plot: Invalid value for '--width': 'nan' is no finite",
        ),
        (["calibrate", "--output", "no/where"], "e2c-dl: no: no such folder; make it, or name another file"),
        (["check", "x", "--on", "locl"], "e2c-dl: --on locl: no such testbed; did you mean local?"),
    ],
)
def test_a_wrong_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], line: str
) -> None:
    error, code = said(monkeypatch, capsys, *argv)
    assert error.startswith(line)
    assert error.count("\n") == 1
    assert code == 2


def test_a_group_without_a_command_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code = said(monkeypatch, capsys, "emulate")
    assert error.startswith("Usage: e2c-dl emulate")
    assert code == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT])
def test_a_place_that_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    def fail(**_: object) -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr(entry.cli, "main", fail)
    monkeypatch.setattr(entry.streams, "to_nowhere", lambda descriptor: None)
    error, code = said(monkeypatch, capsys)
    assert error.startswith(f"e2c-dl: /some/file: {os.strerror(number)}; ")
    assert error.count("\n") == 1
    assert code == 1


@pytest.mark.parametrize("argv", [["doctor"], ["deploy", "x", "y"], ["report", "x"], ["simulate", "x"]])
def test_in_a_working_directory_that_is_gone_that_is_said(tmp_path: Path, argv: list[str]) -> None:
    code = f"import os, sys; os.rmdir(os.getcwd()); sys.argv += {argv}; {PROGRAM}"
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "gone", capture_output=True, text=True, check=False
    )
    assert done.stderr == "e2c-dl: the working directory was removed; cd to one that exists\n"
    assert (done.stdout, done.returncode) == ("", 2)


@pytest.mark.parametrize("name", ["a{{ 7*7 }}", "${HOME}", "a$b", "{% if x %}", "{#b"])
@pytest.mark.parametrize("option", ["--archive", "artifacts", "E2CDL_STATE"])
def test_a_path_that_ansible_would_change_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path,
    name: str, option: str,
) -> None:  # fmt: skip
    place = tmp_path / name
    place.mkdir()
    artifacts = place if option == "artifacts" else tmp_path
    monkeypatch.setenv("E2CDL_STATE", str(place if option == "E2CDL_STATE" else tmp_path))
    argv = ["deploy", str(repository / "experiments/first-light"), str(artifacts), "--dry-run"]
    argv += ["--archive", str(place)] if option == "--archive" else []
    error, code = said(monkeypatch, capsys, *argv)
    assert error.startswith(f"e2c-dl: {option}: {str(place)!r} has ")
    assert error.endswith("; name a path without, or rename the folder\n")
    assert (error.count("\n"), code) == (1, 2)


def test_other_paths_are_ansibles_too(tmp_path: Path) -> None:
    for name in ("a b", "it's", 'say "x"', "two\nlines", "ü", "[a]*?", "{a}", "b\\c", "%(x)s", "~t", "a,b;c|d&e"):
        request._check_plain("--archive", tmp_path / name)


def test_without_a_home_that_can_be_written_that_is_said() -> None:
    code = "from e2c_dl.testbeds.e2clab import upstream; upstream.check()"
    environ = {**os.environ, "HOME": "/proc"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    *_, last = done.stderr.splitlines()
    assert last.startswith("e2c_dl.errors.TestbedError: e2clab.providers.provider cannot be imported: ")
    assert last.endswith(" and HOME be writable")


def test_a_defect_is_no_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr(entry.cli, "main", fail)
    with pytest.raises(ConnectionRefusedError):
        entry.main()


def test_ctrl_c_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry.cli, "invoke", fail)
    error, code = said(monkeypatch, capsys, "strategies")
    assert error.strip() == "e2c-dl: interrupted"
    assert code == 130


def test_a_damaged_archive_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    error, code = said(monkeypatch, capsys, "report", str(tmp_path))
    assert "the archive is damaged" in error
    assert (error.count("\n"), code) == (1, 1)
    error, code = said(monkeypatch, capsys, "report", str(tmp_path / "run.json"))
    assert "is no archive" in error
    assert (error.count("\n"), code) == (1, 2)


def test_logs_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code = said(monkeypatch, capsys, "logs", str(tmp_path))
    assert (error, code) == (f"e2c-dl: {tmp_path}: holds no logs; name the directory of a live run\n", 2)
    (tmp_path / "hosts" / "edge-1").mkdir(parents=True)
    (tmp_path / "hosts" / "edge-1" / "worker.log").touch()
    error, code = said(monkeypatch, capsys, "logs", str(tmp_path), "--host", "mars")
    assert (error, code) == (f"e2c-dl: {tmp_path}: no log of mars; name one of edge-1\n", 2)


def test_what_is_wrong_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code = said(monkeypatch, capsys, "simulate", str(tmp_path / "nowhere"), "--shapes-only")
    assert error.count("is not a folder") == 1
    assert error.splitlines()[-2:-1] == ["check     FAILED: nothing was started"]
    assert code == 2


def test_ctrl_c_before_anything_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("e2c_dl.campaign.simulated.load", stop)
    monkeypatch.chdir(tmp_path)
    error, code = said(monkeypatch, capsys, "simulate", str(tmp_path), "--shapes-only")
    assert error.splitlines()[-1] == "e2c-dl: stopped before anything was started"
    assert (list(tmp_path.iterdir()), code) == ([], 130)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output(unbuffered: str, repository: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "strategies"], cwd=repository, stdout=full, stderr=subprocess.PIPE,
            text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert done.stderr.count("\n") == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert done.returncode == 1
