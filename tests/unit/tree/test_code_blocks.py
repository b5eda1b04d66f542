"""Every code block of README and docs is checked: YAML is loaded, Python compiled, each ``e2c-dl ...`` parsed.

Those that are executed have tests of their own: tutorials, queries of traces, a strategy, three lines of tracing.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import click
import duckdb
import pytest
import typed
import yaml

from e2c_dl.cli.main import cli

LANGUAGES = {"", "console", "json", "python", "sql", "yaml"}


def pages(repository: Path) -> list[Path]:
    return [repository / "README.md", repository / "CONTRIBUTING.md", *sorted((repository / "docs").rglob("*.md"))]


def every(repository: Path) -> list[tuple[str, typed.Block]]:
    return [
        (f"{path.relative_to(repository)}:{block.line}", block)
        for path in pages(repository)
        for block in typed.blocks(path.read_text(encoding="utf-8"))
    ]


def wrong(block: typed.Block) -> str:
    """What is wrong with ``block``; empty: nothing."""
    try:
        match block.language:
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "python":
                ast.parse(block.text)
            case "json":
                json.loads(block.text)
            case "sql":
                duckdb.extract_statements(block.text)
    except (ValueError, SyntaxError, yaml.YAMLError, duckdb.Error) as error:
        return f"{block.language}: {error}"
    return next((f"{line}: {why}" for line in typed.commands(block) if (why := unparsed(line))), "")


def unparsed(line: str) -> str:
    """Why ``line`` cannot be typed; empty: it can. Words such as ARCHIVE stand for what a user writes there."""
    try:
        words = [word for word in shlex.split(line)[1:] if word not in ("&", "...")]
    except ValueError as error:
        return str(error)
    cut = next((number for number, word in enumerate(words) if word in ("|", ">", "&&", ";", "2>")), len(words))
    words = [word.partition("|")[0] if "--on" in words else word for word in words[:cut]]
    return _parsed(cli, words, click.Context(cli, info_name="e2c-dl"))


def _parsed(command: click.Command, words: list[str], parent: click.Context) -> str:
    try:
        if isinstance(command, click.Group):
            name, inner, rest = command.resolve_command(parent, words)
            assert inner is not None
            return _parsed(inner, rest, click.Context(inner, parent=parent, info_name=name))
        command.make_parser(parent).parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```yaml\na: [1\n```\n", "yaml: "),
        ("```python\nif:\n```\n", "python: "),
        ("```\n$ e2c-dl chek x\n```\n", "did you mean 'check'"),
        ("text\n\n    e2c-dl check x --jsn\n\ntext\n", "No such option '--jsn'"),
        ("```\ne2c-dl check my-scenario    # reads it\n```\n", ""),
        ("```\n$ e2c-dl deploy A B --on local | tail\ne2c-dl no command: output\n```\n", ""),
    ],
)
def test_what_is_wrong_with_a_block_is_found(block: str, why: str) -> None:
    (found,) = typed.blocks(block)
    assert why in wrong(found) if why else wrong(found) == ""


def test_every_block_loads_compiles_or_parses(repository: Path) -> None:
    found = every(repository)
    assert sum(1 for _, block in found for _ in typed.commands(block)) > 50
    assert [f"{where}: {why}" for where, block in found if (why := wrong(block))] == []


def test_every_block_is_of_a_language_that_is_checked(repository: Path) -> None:
    assert {block.language for _, block in every(repository)} <= LANGUAGES


def test_make_targets_and_scripts_that_are_named_exist(repository: Path) -> None:
    listed = subprocess.run(["make"], cwd=repository, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^make ([a-z-]+)", listed, re.MULTILINE)) | {"lint"}
    named = {
        (where, target)
        for where, block in every(repository)
        for target in re.findall(r"^(?:\$ )?make ([a-z-]+)", block.text, re.MULTILINE)
    }
    assert {(where, target) for where, target in named if target not in targets} == set()
    modules = {
        (where, module)
        for where, block in every(repository)
        for module in re.findall(r"python -m (benchmarks\.[a-z_]+|e2c_dl\.[a-z_.]+)", block.text)
    }
    assert [(where, name) for where, name in modules if not (repository / name.replace(".", "/")).exists()] == []
