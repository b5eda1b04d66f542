"""What is declared once and must agree: versions, constraints, extras, package data, the make targets."""

from __future__ import annotations

import configparser
import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import e2c_dl

HOME = "https://forge.example/group/e2c_dl"
APART = ("mlflow",)  # extras with an environment of their own
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
    extras = declared["options.extras_require"]
    texts = [declared["options"]["install_requires"], *(extras[name] for name in extras if name not in APART)]
    for requirement in (one for text in texts for one in requirements(text) if wanted(one, python)):
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} but {version} is pinned"


@pytest.mark.parametrize("python", PYTHONS)
def test_what_does_not_fit_beside_e2clab_is_pinned_apart(repository: Path, python: str) -> None:
    for name in ("import-linter", "mlflow-skinny"):
        assert name in pinned(repository / "constraints-lint.txt", python)
        assert name not in pinned(repository / "constraints.txt", python)


def test_torch_is_pinned_without_a_local_build(repository: Path) -> None:
    assert pinned(repository / "constraints.txt", "3.11")["torch"] == "2.13.0"
    assert "+" not in (repository / "constraints.txt").read_text()


def test_changelog_speaks_of_what_comes_or_of_this_version(repository: Path) -> None:
    headings = re.findall(r"^## \[(.+?)\]", (repository / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] in ("Unreleased", e2c_dl.__version__)
    assert e2c_dl.__version__ in headings
    cited = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert cited["version"] == e2c_dl.__version__
    dated = re.search(
        rf"^## \[{re.escape(e2c_dl.__version__)}\] - (\S+)$", (repository / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert dated is not None and dated[1] == cited["date-released"]


def test_make_alone_lists_every_target(repository: Path) -> None:
    listed = subprocess.run(["make"], cwd=repository, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "demo", "docs", "test", "test-fast", "bench", "clean"):
        assert re.search(rf"^make {target} ", listed, re.MULTILINE), target


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the archive of sources, and the wheel that was built from what is in it."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    source.mkdir()
    ask = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(ask, cwd=repository, capture_output=True, check=False).stdout
    if not files:
        pytest.skip("no clone: what belongs to the tree is not known")
    copy = ["rsync", "-a", "--from0", "--files-from=-", "--ignore-missing-args", ".", str(source)]
    subprocess.run(copy, cwd=repository, input=files, check=True)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    environment = {**os.environ, "E2CDL_HOME_URL": HOME}
    done = subprocess.run(build, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_wheel_holds_code_and_all_it_ships_beside(repository: Path, built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"e2c_dl/{path}" for path in shipped(repository / "e2c_dl")} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", "benchmarks"))]


def test_an_index_takes_what_is_built(repository: Path, built: Path) -> None:
    twine = [repository / ".venv-lint/bin/twine", "check", "--strict", *built.glob("e2c_dl-*")]
    checked = subprocess.run(twine, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout.count("PASSED")) == (0, 2), checked.stdout + checked.stderr


def test_what_an_index_shows_leads_somewhere(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(name))
    assert told["Author"] == "The e2c_dl authors"
    assert told["Keywords"].split(",")[:2] == ["distributed training", "edge computing"]
    assert f"Source, {HOME}" in told.get_all("Project-URL")
    text = told.get_payload()
    assert f"![One run of first light: the slowed host and the slowed link are named]({HOME}/raw/HEAD/docs/" in text
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []


def test_without_a_home_nothing_is_made_up(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(repository / "scripts" / "site")
    import home

    monkeypatch.setattr(home, "ROOT", tmp_path)
    for told, url in (("", ""), ("git@forge.example:group/e2c_dl.git", "https://forge.example/group/e2c_dl"),
                      ("https://user:secret@forge.example/e2c_dl", ""), ("/srv/git/e2c_dl", "")):  # fmt: skip
        monkeypatch.setenv("E2CDL_HOME_URL", told)
        assert home.url() == url
    assert home.of("docs/faq.md", "") == ""
    assert home.raw("a.png", "https://gitlab.example/e2c_dl") == "https://gitlab.example/e2c_dl/-/raw/HEAD/a.png"


def test_how_to_cite_and_what_runs_before_a_commit_are_well_formed(repository: Path) -> None:
    tools = repository / ".venv-lint" / "bin"
    for command in ([tools / "cffconvert", "--validate"], [tools / "pre-commit", "validate-config"]):
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_templates_of_issues_are_forms(repository: Path) -> None:
    forms = sorted((repository / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 4
    for form in forms[1:]:
        told = yaml.safe_load(form.read_text())
        assert {"name", "description", "body"} <= set(told)
        assert [each["attributes"]["label"] for each in told["body"]]


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
