"""Defaults of one's own: from a file, from the environment, and what is wrong with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2c_dl.cli.main import cli, main
from e2c_dl.errors import InputError
from e2c_dl.testbeds.registry import STATE_VARIABLE


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    (tmp_path / "e2c_dl").mkdir()
    return tmp_path / "e2c_dl" / "config.yaml"


def said(*argv: str) -> str:
    result = CliRunner().invoke(cli, argv, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_file_the_environment_and_the_command_line_win_in_turn(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    archives = str(tmp_path / "none")
    assert said("runs", archives).startswith("no archive")
    file.write_text("runs: {json: true}\n")
    assert json.loads(said("runs", archives)) == []
    monkeypatch.setenv("E2CDL_RUNS_AS_JSON", "0")
    assert said("runs", archives).startswith("no archive")
    assert json.loads(said("runs", archives, "--json")) == []


def test_config_shows_what_is_said_and_where(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "(not there)" in said("config")
    file.write_text("deploy: {on: static, strict: true}\n")  # on: YAML reads it as true
    monkeypatch.setenv("E2CDL_DEPLOY_ARCHIVE", "/else/where")
    rows = {
        (row["option"], str(row["value"])): row["where"] for row in json.loads(said("config", "--json"))["defaults"]
    }
    assert rows[("on", "static")] == str(file) and rows[("strict", "True")] == str(file)
    assert rows[("archive", "/else/where")] == "E2CDL_DEPLOY_ARCHIVE"
    assert "deploy --on static" in said("config")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("depoy: {strict: true}", "depoy: no such command; write deploy"),
        ("deploy: {stric: true}", "deploy.stric: no such option; write strict"),
        ("deploy: 3", "deploy: no mapping of options"),
        ("[deploy]", "no mapping of commands"),
        ("deploy: {", "config.yaml:1: YAML syntax error"),
        ("deploy: {seed: [1, 2]}", "deploy.seed: it takes one value; write seed: VALUE"),
        ("deploy: {seed: {a: 1}}", "deploy.seed: it takes one value"),
        ("emulate: {shwo: {json: true}}", "emulate.shwo: no such command; write show"),
        ("emulate: {show: {jsn: true}}", "emulate.show.jsn: no such option; write json"),
        ("emulate: {show: 1}", "emulate.show: no mapping of options; write show: {option: value}"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=says) as error:
        said("config")
    assert str(file.parent) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(InputError):
        said(*(("emulate", "show", "--help") if text.startswith("emu") else ("deploy", "nowhere", "--dry-run")))


def test_variables_have_the_words_that_are_typed(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("E2CDL_RUNS_JSON", "1")
    monkeypatch.setenv("E2CDL_EMULATE_SHOW_RUN", "abc")
    file.write_text("image: {list: {json: true}}")
    (tmp_path / "none").mkdir()
    assert json.loads(said("runs", str(tmp_path / "none"))) == []
    rows = {
        (row["command"], row["option"], str(row["value"])) for row in json.loads(said("config", "--json"))["defaults"]
    }
    assert rows == {("runs", "json", "1"), ("emulate show", "run", "abc"), ("image list", "json", "True")}


@pytest.mark.parametrize("argv", [("config",), ("runs", "none")])
def test_a_variable_that_no_option_has_is_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.setenv("E2CDL_RUNS_JSN", "1")
    with pytest.raises(InputError, match=r"E2CDL_RUNS_JSN: e2c-dl runs has no such option; write E2CDL_RUNS_JSON"):
        said(*argv)


@pytest.mark.parametrize(
    ("text", "variable", "says"),
    [("deploy: {strict: perhaps}", "", "it stands in {file}"), ("", "perhaps", "it stands in E2CDL_DEPLOY_STRICT")],
)
def test_of_a_bad_value_it_is_said_where_it_stands(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, variable: str, says: str
) -> None:
    file.write_text(text or "{}")
    monkeypatch.setenv("E2CDL_DEPLOY_STRICT", variable)
    monkeypatch.setattr(sys, "argv", ["e2c-dl", "deploy", "nowhere"])
    with pytest.raises(SystemExit) as ended:
        main()
    line = capsys.readouterr().err
    assert ended.value.code == 2 and says.format(file=file) in line and len(line.splitlines()) == 1
