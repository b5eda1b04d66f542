"""``--json``: which commands have it, and that they print what the page about it says."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from e2c_dl.cli.main import COMMANDS, cli, find
from e2c_dl.testbeds.registry import STATE_VARIABLE

WITHOUT = {"export", "plot", "horovod build", "horovod install", "horovod path", "completion", "logs", "shell", "trace",
           "emulate apply", "emulate clear"}  # fmt: skip


def leaves() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = find(name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        else:
            yield name, command


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs/json.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(page: str) -> dict[str, str]:
    """Command -> what the page says that it prints."""
    table = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|$", page, re.MULTILINE)
    return {name: said for names, said in table for name in re.findall(r"`([^`]+)`", names)}


def test_every_command_that_says_something_has_it_and_stands_on_the_page(rows: dict[str, str], page: str) -> None:
    have = {name for name, each in leaves() if any("--json" in option.opts for option in each.params)}
    assert have == {name for name, _ in leaves()} - WITHOUT
    assert set(rows) == have
    without = page.rpartition("\n\n")[2]
    assert {name for name in WITHOUT if f"`{name.split()[0]}`" not in without and f"`{name}`" not in without} == set()


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    said = CliRunner().invoke(cli, ["init", str(folder / "mine"), "--example", "first-light", "--json"])
    assert json.loads(said.stdout)["scenario"] == str(folder / "mine")
    services = folder / "mine/layers_services.yaml"
    services.write_text(services.read_text().replace("iterations: 60", "iterations: 12"))
    return folder / "mine"


@pytest.fixture(scope="module")
def archive(scenario: Path, rows: dict[str, str]) -> Path:
    folder = scenario.parent / "archive"
    found = printed("simulate", str(scenario), "--shapes-only", "--archive", str(folder))
    assert found["archive"] == str(folder)
    assert printed("report", str(folder)) | {"archive": str(folder)} == found
    return folder


def printed(*argv: str) -> Any:
    done = CliRunner().invoke(cli, [*argv, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def is_as_the_page_says(found: Any, said: str) -> None:
    before = said.partition(";")[0].partition(" (")[0]
    names = set(re.findall(r"`(\w+)`", before))
    each = found if isinstance(found, list) else [found]
    assert all(set(row) == names for row in each), (found, names)


@pytest.mark.parametrize("name", ["doctor", "strategies", "runs", "destroy", "config", "services list"])
def test_commands_without_a_scenario(
    name: str, rows: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    done = CliRunner().invoke(cli, [*name.split(), "--json"])
    assert done.exit_code in (0, 1), done.output  # of doctor: a run would not work here
    is_as_the_page_says(json.loads(done.stdout), rows[name])


def test_commands_of_a_scenario(scenario: Path, rows: dict[str, str]) -> None:
    is_as_the_page_says(printed("init", str(scenario.parent / "other")), rows["init"])
    is_as_the_page_says(printed("check", str(scenario)), rows["check"])
    refused = CliRunner().invoke(cli, ["check", str(scenario.parent / "absent"), "--json"])
    assert refused.exit_code == 2
    assert set(json.loads(refused.stdout)) == {"valid", "problems"}


def test_commands_of_an_archive(archive: Path, rows: dict[str, str]) -> None:
    more_of = {"compare": [str(archive)], "whatif": ["--set", "host:cloud-1.speed=2x"]}
    for name in ("summary", "stragglers", "compare", "verify", "whatif"):
        more = more_of.get(name, [])
        is_as_the_page_says(printed(name, str(archive), *more), rows[name])


def test_a_report_of_an_archive_that_was_altered_says_so(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(archive, other)
    assert not [each for each in printed("report", str(other))["limitations"] if "the archive was sealed" in each]
    (other / "links.json").write_text("[]\n")
    gone = f"hosts/{next((other / 'hosts').iterdir()).name}/facts.json"
    (other / gone).unlink()
    (other / "report.html").unlink()  # which report writes anew
    (said,) = [each for each in printed("report", str(other))["limitations"] if "the archive was sealed" in each]
    told = f"Since the archive was sealed, gone: {gone}; altered: links.json."
    assert said == f"{told} What is left was believed; see `e2c-dl verify`."


def test_how_long_computing_takes(scenario: Path, rows: dict[str, str]) -> None:
    pytest.importorskip("torch")
    file = scenario.parent / "profile.json"
    found = printed("calibrate", str(scenario), "--output", str(file), "--batch-size", "8")
    is_as_the_page_says(found, rows["calibrate"])
    assert found["profile"] == json.loads(file.read_text())
