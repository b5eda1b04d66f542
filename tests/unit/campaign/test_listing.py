"""``runs`` and ``completion``, and ``check --json``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from e2c_dl.archive.write import Archive
from e2c_dl.cli.main import COMPLETE_VARIABLE, cli
from e2c_dl.errors import InputError
from e2c_dl.scenario.folder import copies
from e2c_dl.testbeds.registry import STATE_VARIABLE


@pytest.fixture(autouse=True)
def no_runs_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))


def said(*argv: str) -> str:
    result = CliRunner().invoke(cli, argv)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    for day, run in ((1, "aaaaaaaa"), (3, "cccccccc"), (2, "bbbbbbbb")):
        Archive.create(tmp_path / "runs" / run, run, started=f"2026-01-0{day}T00:00:00+00:00")
    (tmp_path / "runs" / "torn").mkdir()
    (tmp_path / "runs" / "torn" / "run.json").write_text("{")
    rows = json.loads(said("runs", str(tmp_path / "runs"), "--json"))
    assert [row["run"] for row in rows] == ["cccccccc", "bbbbbbbb", "aaaaaaaa"]
    assert set(rows[0]) == {"run", "scenario", "testbed", "started", "outcome", "archive", "up"}
    assert "2026-01-03 00:00" in said("runs", str(tmp_path / "runs"))


def test_no_runs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said("runs", str(tmp_path)).startswith("no archive in")
    monkeypatch.chdir(tmp_path)
    assert said("runs").startswith("no archive in runs")


def test_a_folder_that_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: there is no such directory"):
        CliRunner().invoke(cli, ["runs", str(tmp_path / "nothing")], catch_exceptions=False, standalone_mode=False)


def test_check_says_what_training_will_use(tmp_path: Path) -> None:
    copies.example("first-light", tmp_path / "mine")
    found = json.loads(said("check", str(tmp_path / "mine"), "--json"))
    assert found["valid"] and len(found["links_used"]) == 6 and len(found["links_unused"]) == 24
    ring = 2 * 5 / 6 * 439_656  # bytes of the model, over six ranks
    assert all(ring < link["bytes_per_iteration"] < 1.01 * ring for link in found["links_used"])
    services = tmp_path / "mine" / "layers_services.yaml"
    services.write_text(
        services.read_text().replace("strategy: allreduce", "compression: fp16\n      strategy: allreduce")
    )
    found = json.loads(said("check", str(tmp_path / "mine"), "--json"))
    assert all(ring / 2 < link["bytes_per_iteration"] < 1.02 * ring / 2 for link in found["links_used"])
    (tmp_path / "mine" / "profile.json").unlink()
    found = json.loads(said("check", str(tmp_path / "mine"), "--json"))
    assert len(found["links_used"]) == 6 and found["links_used"][0]["bytes_per_iteration"] is None
    assert "e2c-dl calibrate" in said("check", str(tmp_path / "mine"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    assert "_E2C_DL_COMPLETE" in said("completion", shell)


ASKED = """\
import sys
sys.argv[0] = "e2c-dl"
from e2c_dl.cli.main import main
main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """``e2c-dl`` on a path of its own, and beside it what each shell is told."""
    command = tmp_path / "e2c-dl"
    command.write_text(f"#!{sys.executable}\n{ASKED}")
    command.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / shell).write_text(said("completion", shell))
    return tmp_path


_BASH = """
source ./bash
COMP_WORDS=(e2c-dl {words} "{begun}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _e2c_dl_completion e2c-dl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_FISH = "source ./fish; complete --do-complete 'e2c-dl {words} {begun}'"
# What is typed, in a terminal: completion by the line editor is all that zsh has. END shows that the line is there.
_ZSH = """
zmodload zsh/zpty
zpty typed 'zsh -f -i'
zpty -w typed 'autoload -Uz compinit; compinit -D -u; zstyle ":completion:*" insert-tab false'
zpty -w typed 'source ./zsh; PS1=rea""dy'
heard() {{ zpty -r typed all "*$1*"; print -r -- $all }}
heard ready
zpty -w -n typed $'e2c-dl {words} {begun}\\t #EN\\x44\\n'
heard END
zpty -d typed
"""
_SHELLS = {"bash": ["bash", "--norc", "-c"], "fish": ["fish", "--no-config", "-c"], "zsh": ["zsh", "-f", "-c"]}


@pytest.mark.parametrize(
    ("words", "begun", "wanted"),
    [
        ("", "sim", "simulate"),
        ("deploy mine", "--dry", "--dry-run"),
        ("deploy mine --on", "doc", "docker"),
    ],
)
@pytest.mark.parametrize(("shell", "typed"), [("bash", _BASH), ("fish", _FISH), ("zsh", _ZSH)])
def test_what_is_begun_is_completed(program: Path, shell: str, typed: str, words: str, begun: str, wanted: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here; apt-get install {shell}")
    environ = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "HOME": str(program), "TERM": "dumb"}
    argv = [*_SHELLS[shell], typed.format(words=words, begun=begun)]
    done = subprocess.run(argv, cwd=program, env=environ, capture_output=True, text=True, check=False, timeout=90)
    assert wanted in done.stdout, (done.stdout, done.stderr)


def test_names_of_experiments_are_completed() -> None:
    begun = ShellComplete(cli, {}, "e2c-dl", COMPLETE_VARIABLE).get_completions(["init", "mine", "--example"], "first")
    assert [each.value for each in begun] == ["first-light"]
