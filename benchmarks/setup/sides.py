"""The two trees that are compared, each with a Python environment whose e2c_dl is its own.

::

    TEMPORARY/before/        git worktree of the earlier commit        TEMPORARY/before.venv/   its e2c_dl
    this tree                as it is, committed or not                TEMPORARY/now.venv/      its e2c_dl

Both environments share the packages of the one that runs this, so that both sides have the same torch and Ansible. Byte
code is compiled before anything is timed. The worktree is gone when the context ends, whatever happened in it.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

HERE = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Side:
    """One tree. ``python`` imports its e2c_dl."""

    name: str
    tree: Path
    python: Path


@contextmanager
def sides(commit: str, place: Path) -> Iterator[tuple[Side, Side]]:
    """(before, now): the tree as it was at ``commit``, and this one. Raises: ClickException if git has no such one."""
    before = place / "before"
    added = _git("worktree", "add", "--detach", str(before), commit)
    if added.returncode:
        raise click.ClickException(f"git worktree add {commit}: {added.stderr.strip()}; fetch that commit first")
    try:
        yield _side("before", before, place), _side("now", HERE, place)
    finally:
        _git("worktree", "remove", "--force", str(before))


def commit() -> str:
    """That of this tree; with a + if the tree differs from it."""
    changed = _git("status", "--porcelain", "--", "e2c_dl", "experiments", "layers_services").stdout.strip()
    return _git("rev-parse", "--short", "HEAD").stdout.strip() + ("+" if changed else "")


def _side(name: str, tree: Path, place: Path) -> Side:
    environment = place / f"{name}.venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    # By name: this tree first, so that an e2c_dl among the shared packages is not met.
    (packages / "0_tree.pth").write_text(f"{tree}\n", encoding="utf-8")
    shared = sysconfig.get_path("purelib")
    (packages / "1_shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n", encoding="utf-8")
    compileall.compile_dir(tree / "e2c_dl", quiet=2)
    imported = subprocess.run(
        [str(python), "-c", "import e2c_dl; print(e2c_dl.__file__)"],
        cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    if not Path(imported.stdout.strip()).is_relative_to(tree):
        raise click.ClickException(f"{name}: its environment imports {imported.stdout.strip()}, not that of {tree}")
    return Side(name=name, tree=tree, python=python)


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
