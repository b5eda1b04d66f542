"""What holds for the whole tree: an analysis laptop needs neither torch nor E2Clab, modules stay small and portable."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from e2c_dl.cli.main import cli

HEAVY = ("torch", "e2clab", "enoslib", "ansible", "sklearn", "scipy")
LIGHT_ROOMS = ("diagnosis", "dynamics", "archive", "report", "scenario", "strategies", "worlds.virtual")
MAX_LINES = 300
MAX_README_LINES = 96
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
ROOTS = (
    ".ci",
    "artifacts",
    "benchmarks",
    "e2c_dl",
    "experiments",
    "layers_services",
    "playbooks",
    "scripts",
    "tests",
)
BINARY = {".png", ".jpg", ".gif", ".ico", ".npz", ".bin", ".parquet", ".gz", ".whl", ".pyc", ".pftrace"}

IMPORT_ALL = """
import importlib, pkgutil, sys
heavy, rooms = sys.argv[1].split(","), sys.argv[2].split(",")
for name in heavy:
    sys.modules[name] = None
count = 0
for room in rooms:
    package = importlib.import_module(f"e2c_dl.{room}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
        count += 1
print(count)
"""

HELP = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
from e2c_dl.cli.main import main
sys.argv[0] = "e2c-dl"
main()
"""


def python(repository: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], cwd=repository, capture_output=True, text=True, check=False)


def modules(repository: Path) -> list[Path]:
    folders = ("e2c_dl", "layers_services", "benchmarks", "tests")
    return sorted(path for folder in folders for path in (repository / folder).rglob("*.py"))


def project_files(repository: Path) -> list[Path]:
    """Every text file of the project; what tools and runs leave behind is none."""
    nested = (path for root in ROOTS for path in (repository / root).rglob("*"))
    files = (path for path in (*repository.glob("*"), *nested) if path.is_file() and not path.is_symlink())
    own = (path for path in files if path.name != ".git")  # a file, which holds a path, in a linked worktree
    return sorted(path for path in own if "__pycache__" not in path.parts and path.suffix not in BINARY)


def test_light_rooms_import_without_torch_and_e2clab(repository: Path) -> None:
    done = python(repository, "-c", IMPORT_ALL, ",".join(HEAVY), ",".join(LIGHT_ROOMS))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > len(LIGHT_ROOMS)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_command_line_answers_without_heavy_packages(repository: Path, argument: str) -> None:
    heavy = ",".join((*HEAVY, "numpy", "pyarrow", "plotly", "matplotlib", "rocrate"))
    done = python(repository, "-c", HELP, heavy, argument)
    assert done.returncode == 0, done.stderr
    assert "e2c-dl" in done.stdout


def test_every_command_stands_in_the_help_and_on_its_page(repository: Path) -> None:
    listed = CliRunner().invoke(cli, ["--help"]).output
    page = (repository / "docs/commands.md").read_text()
    names = cli.list_commands(click.Context(cli))
    assert names
    assert [name for name in names if not re.search(rf"^  {name}  +\S", listed, re.MULTILINE)] == []
    assert [name for name in names if not re.search(rf"e2c-dl {name}\b", page)] == []

    readme = (repository / "README.md").read_text().splitlines()
    assert len(readme) <= MAX_README_LINES, "a screen and a half: more belongs on a page of docs/"


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_command_and_option_explains_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else [])]
    assert [one.name for one in commands if not one.help] == []
    options = [param for one in commands for param in one.params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_modules_are_short(repository: Path) -> None:
    lengths = {path.relative_to(repository): len(path.read_text().splitlines()) for path in modules(repository)}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_names_say_what_is_inside(repository: Path) -> None:
    parts = [path.relative_to(repository).with_suffix("") for path in modules(repository)]
    assert [path for path in parts if VAGUE_NAMES & set(path.parts)] == []


def test_test_files_have_names_of_their_own(repository: Path) -> None:
    names = [path.name for path in (repository / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_no_file_knows_the_machine_it_was_written_on(repository: Path) -> None:
    home = re.compile(r"(?<![\w.$}~-])/(?:work|root|home/\w+)/[\w.]")
    found = [
        f"{path.relative_to(repository)}:{number}: {line.strip()[:100]}"
        for path in project_files(repository)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if home.search(line)
    ]
    assert found == []
