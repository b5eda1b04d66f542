"""A scenario's own code: found without running it, copied with the scenario, imported from where it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2c_dl.cli.main import cli
from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.scenario.folder import copies, own_code
from e2c_dl.scenario.load import load, problems
from e2c_dl.training.imported import call

DOCS = Path(__file__).parents[3] / "docs" / "own-model.md"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    copies.example("first-light", folder)
    (folder / "code").mkdir()
    return folder


def written(scenario: Path, name: str, text: str) -> None:
    file = scenario / "code" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "class Net: ...", "def Net(): ...", "Net = 3", "from torch.nn import Linear as Net", "import torch as Net",
        "if True:\n    Net = 1", "try:\n    pass\nexcept OSError:\n    Net = 1", "from math import *",
        "def __getattr__(name): ...", "for Net in range(3): ...", "with open('x') as Net: ...", "(Net := 3)",
    ],
)  # fmt: skip
def test_a_name_that_a_module_binds_is_there(scenario: Path, text: str) -> None:
    written(scenario, "my_net.py", text)
    assert own_code.problem("my_net:Net", scenario) is None


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nosuch.mod:Nope", "neither in the scenario's folder code/ nor installed"),
        ("my_net:Nett", "has no Nett"),
        ("my_net:inner", "has no inner"),
        ("torn:Net", "is no Python at line 1"),
        ("my_net.deeper:Net", "neither in"),
        ("json:nope", "module json has no nope"),
    ],
)
def test_what_is_not_there_is_said(scenario: Path, path: str, says: str) -> None:
    written(scenario, "my_net.py", "class Net:\n    inner = 1\n")
    written(scenario, "torn.py", "class Net(")
    found = own_code.problem(path, scenario)
    assert found is not None and says in found[0]
    if path == "my_net:Nett":
        assert "my_net:Net," in found[1]


def test_nothing_is_run_to_look(scenario: Path) -> None:
    written(scenario, "evil/__init__.py", "raise SystemExit('was run')")
    written(scenario, "evil/inner.py", "raise SystemExit('was run')\nNet = 1")
    assert own_code.problem("evil.inner:Net", scenario) is None


def test_check_says_it_in_one_line(scenario: Path) -> None:
    file = scenario / "layers_services.yaml"
    file.write_text(re.sub(r"model: \w+", "model: nosuch.mod:Nope", file.read_text()))
    result = CliRunner().invoke(cli, ["check", str(scenario)])
    assert result.exit_code == 2
    assert "env.model" in result.output and "nosuch.mod" in result.output


def test_code_goes_with_copies_and_caches_do_not(scenario: Path, tmp_path: Path) -> None:
    written(scenario, "deep/er/net.py", "Net = 1")
    written(scenario, "deep/__pycache__/net.pyc", "x")
    written(scenario, ".hidden/net.py", "x")
    copies.overridden(scenario, tmp_path / "copy")
    assert [file.relative_to(tmp_path / "copy") for file in own_code.files(tmp_path / "copy")] == [
        Path("code/deep/er/net.py")
    ]
    assert not (tmp_path / "copy" / "code" / ".hidden").exists()
    one, other = load(scenario).training, load(tmp_path / "copy").training
    assert one == other and one.code != other.code and "code" not in one.recorded()


@pytest.mark.parametrize("kind", ["file", "folder", "all"])
def test_a_link_in_it_is_refused(scenario: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").mkdir()
    place = scenario / "code" / "link"
    if kind == "all":
        shutil.rmtree(scenario / "code")
        place = scenario / "code"
    place.symlink_to(tmp_path / "secret" if kind != "file" else "/etc/passwd")
    (error,) = problems(scenario)
    assert "is a link" in str(error)
    with pytest.raises(ScenarioError):
        copies.overridden(scenario, tmp_path / "copy")


def test_too_much_is_refused(scenario: Path) -> None:
    with (scenario / "code" / "weights.bin").open("wb") as file:
        file.truncate(own_code.MAX_BYTES + 1)
    assert "16 MiB" in str(problems(scenario)[0])


def test_a_workflow_that_leaves_it_behind_is_refused(scenario: Path) -> None:
    file = scenario / "workflow.yaml"
    file.write_text(file.read_text().replace("traces code", "traces"))
    assert "the folder code" in str(problems(scenario)[0])


def test_two_scenarios_with_modules_of_one_name_have_their_own(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name.py").write_text(f"def made(): return {name!r}")
    for name in ("one", "other", "one"):
        assert call("same_name:made", "model", str(tmp_path / name)) == name
    with pytest.raises(InputError, match="is not there"):
        call("same_name:gone", "model", str(tmp_path / "one"))


def test_the_worked_example_trains(tmp_path: Path) -> None:
    scenario = tmp_path / "my-scenario"
    assert CliRunner().invoke(cli, ["init", str(scenario)]).exit_code == 0
    blocks = re.findall(r"`(code/\w+\.py)`:\n\n```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == ["code/my_net.py", "code/my_data.py"]
    (scenario / "code").mkdir()
    for name, text in blocks:
        (scenario / name).write_text(text)
    file = scenario / "layers_services.yaml"
    text = (
        file.read_text()
        .replace("model: cnn ", "model: my_net:Net ")
        .replace("dataset: digits ", "dataset: my_data:Rings ")
    )
    file.write_text(text.replace("iterations: 60", "iterations: 20"))
    for argv in (["check"], ["simulate", "--calibrate", "--archive", str(tmp_path / "run")], ["check"]):
        result = CliRunner().invoke(cli, [argv[0], str(scenario), *argv[1:]])
        assert result.exit_code == 0, result.output
    assert "per iteration" in result.output
