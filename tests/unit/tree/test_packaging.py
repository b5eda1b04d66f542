"""What is declared once and must agree: versions, constraints, extras, package data, the make targets."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import e2c_dl

PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@pytest.fixture(scope="module")
def declared(repository: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(repository / "setup.cfg")
    return parser


def requirements(text: str) -> list[Requirement]:
    lines = (line.strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pinned(constraints: Path, python: str) -> dict[str, str]:
    """Package -> the one version that ``constraints`` allows under Python ``python``."""
    found: dict[str, str] = {}
    for requirement in requirements(constraints.read_text()):
        if wanted(requirement, python):
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            assert canonicalize_name(requirement.name) not in found, f"{requirement.name} twice under {python}"
            found[canonicalize_name(requirement.name)] = specifier.version
    return found


def wanted(requirement: Requirement, python: str) -> bool:
    """Whether ``requirement`` holds under Python ``python``, all else being as on this machine."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_declared_is_pinned_within_its_bounds(
    repository: Path, declared: configparser.ConfigParser, python: str
) -> None:
    pins = pinned(repository / "constraints.txt", python)
    texts = [declared["options"]["install_requires"], *declared["options.extras_require"].values()]
    for requirement in (one for text in texts for one in requirements(text) if wanted(one, python)):
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} but {version} is pinned"


@pytest.mark.parametrize("python", PYTHONS)
def test_import_linter_is_pinned_apart(repository: Path, python: str) -> None:
    assert "import-linter" in pinned(repository / "constraints-lint.txt", python)
    assert "import-linter" not in pinned(repository / "constraints.txt", python)


def test_torch_is_pinned_without_a_local_build(repository: Path) -> None:
    assert pinned(repository / "constraints.txt", "3.11")["torch"] == "2.13.0"
    assert "+" not in (repository / "constraints.txt").read_text()


def test_changelog_speaks_of_what_comes_or_of_this_version(repository: Path) -> None:
    headings = re.findall(r"^## \[(.+?)\]", (repository / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] in ("Unreleased", e2c_dl.__version__)


def test_make_alone_lists_every_target(repository: Path) -> None:
    listed = subprocess.run(["make"], cwd=repository, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "demo", "test", "test-fast", "bench", "clean"):
        assert re.search(rf"^make {target} ", listed, re.MULTILINE), target


def test_wheel_holds_code_and_all_it_ships_beside(repository: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    copy = ["setup.cfg", "pyproject.toml", "constraints.txt", "LICENSE", "Dockerfile", "e2c_dl", "layers_services"]
    copy.append("playbooks")
    source.mkdir()
    present = [name for name in (*copy, "README.md", "MANIFEST.in", "experiments") if (repository / name).exists()]
    subprocess.run(["cp", "-a", *present, str(source)], cwd=repository, check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    built = subprocess.run([*build, str(source)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"e2c_dl/{path}" for path in shipped(repository / "e2c_dl")} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", "benchmarks"))]


def shipped(package: Path) -> set[str]:
    """Files of the package relative to it, through its symbolic links; checks that there are some of each kind."""
    files = {path.relative_to(package) for folder in (package, *followed(package)) for path in folder.rglob("*")}
    names = {str(path) for path in files if (package / path).is_file() and "__pycache__" not in path.parts}
    kinds = ("py.typed", "data/Dockerfile", "data/layers_services/Trainer.py", "data/playbooks/", "scenario/template/")
    for expected in kinds:
        assert any(name.startswith(expected) for name in names), f"{expected} is not in the checkout"
    return names


def followed(package: Path) -> list[Path]:
    """The symbolic links to folders in the package: rglob does not enter them by itself."""
    return [path for path in package.rglob("*") if path.is_symlink() and path.is_dir()]
