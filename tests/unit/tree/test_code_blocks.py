"""Every code block of README, docs, experiments and benchmarks is of a kind that is checked, and passes.

::

    yaml  json  sql       loaded; what Trainers' env takes, networks and inventories as a scenario's own are
    python                compiled; what it imports of this project is there, and no name is undefined
    (none)                typed into a shell: bash reads it, and whoever is called takes what is typed after his name,
                          values, too, where they are no stand-ins
    console               the same, of lines that begin with a prompt; what is shown of their output: as for text
    text                  known to test_shown_text.py, one by one; tutorials are typed instead (tests/unit/site)

Those that are executed have tests of their own: tutorials, queries of traces, a strategy, three lines of tracing.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import duckdb
import pytest
import typed
import yaml
from small_scenario import LAYERS, writer

from e2c_dl.cli.main import cli
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import problems
from e2c_dl.testbeds.machines import inventory

LANGUAGES = {"", "console", "json", "python", "sql", "text", "yaml"}
FENCED = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "experiments/*/README.md", "benchmarks/README.md",
          "benchmarks/*/README.md")  # fmt: skip
OTHERS = {
    "e2clab", "git", "cat", "sed", "mkdir", "rm", "tensorboard", "torchrun", "horovodrun", "jq", ".venv-lint/bin/twine",
}  # fmt: skip
"""Programs that are not this project's: bash reads the line, and that is all that is checked."""
OF_ENV = {"strategy", "compression", "device", "batching"}
"""Keys of which one stands in a block that belongs into the env of a Trainer."""
_OF_THE_SHELL = {"for", "do", "done", "if", "then", "fi", "echo", "cd"}
ASSUMED = {"worker": "object()", "k": "0", "indices": "()", "values": "()", "run": "object()"}
"""Names that a page has from the sentence before a block."""


def pages(repository: Path) -> list[Path]:
    return [path for pattern in FENCED for path in sorted(repository.glob(pattern))]


def every(repository: Path) -> list[tuple[str, typed.Block]]:
    return [
        (f"{path.relative_to(repository)}:{block.line}", block)
        for path in pages(repository)
        for block in typed.blocks(path.read_text(encoding="utf-8"))
    ]


def wrong(block: typed.Block, repository: Path) -> str:
    """What is wrong with ``block``; empty: nothing."""
    try:
        match block.language:
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "python":
                return _unresolved(ast.parse(block.text))
            case "json":
                json.loads(block.text)
            case "sql":
                duckdb.extract_statements(block.text)
            case "" | "console":
                return _unread(block) or next(
                    filter(None, (untypable(line, repository) for line in typed_lines(block))), ""
                )
    except (ValueError, SyntaxError, yaml.YAMLError, duckdb.Error) as error:
        return f"{block.language}: {error}"
    return ""


def _unresolved(tree: ast.Module) -> str:
    """The first import of this project that leads nowhere."""
    for node in ast.walk(tree):
        modules = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules = [node.module]
        for name in modules:
            if not _there(name):
                return f"python: no module {name}"
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("e2c_dl"):
            module = importlib.import_module(node.module)
            for each in node.names:
                if not hasattr(module, each.name) and not _there(f"{node.module}.{each.name}"):
                    return f"python: {node.module} has no {each.name}"
    return ""


def typed_lines(block: typed.Block) -> Iterator[str]:
    """What is typed into a shell: of ``console`` what stands behind a prompt, else every line."""
    if block.language == "console":
        yield from (command for command, _ in typed.steps(block))
        return
    yield from (line.strip() for line in block.text.replace("\\\n", " ").splitlines() if line.strip())


def _unread(block: typed.Block) -> str:
    """What bash says against all that is typed."""
    lines = "\n".join(typed_lines(block))
    return subprocess.run(["bash", "-n", "-c", lines], capture_output=True, text=True, check=False).stderr.strip()


def untypable(line: str, repository: Path) -> str:
    """Why ``line`` cannot be typed; empty: it can. Words such as ARCHIVE stand for what a user writes there."""
    for command in _commands(line):
        words = [word for word in command if word not in ("...", "sudo")]
        while words and re.match(r"^\w+=", words[0]):
            del words[0]
        if words and words[0] not in _OF_THE_SHELL and (why := _refused(words, repository)):
            return f"{line}: {why}"
    return ""


def _commands(line: str) -> Iterator[list[str]]:
    """The commands that ``line`` joins, each as its words; what is redirected goes anywhere."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|&;"):
            yield words
            words = []
        elif set(word) <= set("<>"):
            next(lexer)
        else:
            words.append(word)
    yield words


def _there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _refused(words: list[str], repository: Path) -> str:
    absent = [word for word in words if re.match(r"experiments/[\w-]+$", word) and not (repository / word).is_dir()]
    if absent:
        return f"there is no {absent[0]}"
    program, *rest = words
    if program == "e2c-dl":
        return _parsed(cli, rest, click.Context(cli, info_name="e2c-dl"))
    if program == "make":
        return (
            "" if set(re.findall(r"^[a-z-]+$", "\n".join(rest), re.MULTILINE)) <= targets(repository) else "no target"
        )
    if program.rpartition("/")[2] in ("python", "pip"):
        return _python([*(["-m", "pip"] if program.endswith("pip") else []), *rest], repository)
    return "" if program in OTHERS or program.endswith("/bin/pip") else f"{program}: nobody knows it"


def _python(words: list[str], repository: Path) -> str:
    if words[:2] == ["-m", "pip"] or words[:1] == ["install"]:
        said = configparser.ConfigParser()
        said.read(repository / "setup.cfg")
        asked = {
            extra for found in re.findall(r"(?:\.|e2c_dl)\[([\w,]+)\]", " ".join(words)) for extra in found.split(",")
        }
        unknown = asked - set(said["options.extras_require"])
        return f"no extra {unknown}" if unknown else ""
    if words[:1] != ["-m"]:
        return "neither a module nor a script that is here" if not (repository / words[0]).is_file() else ""
    _, module, *rest = words
    if module.startswith("benchmarks.") and module != "benchmarks.NAME":
        entry = "" if module == "benchmarks.headlines" else ".__main__"
        if not _there(module + entry):
            return f"no module {module}"
        command = getattr(importlib.import_module(module + entry), "main")  # noqa: B009 - of a module found by name
        return _parsed(command, rest, click.Context(command)) if isinstance(command, click.Command) else ""
    known = module in ("benchmarks.NAME", "build", "venv") or _there(module)
    return "" if known else f"no module {module}"


def targets(repository: Path) -> set[str]:
    listed = subprocess.run(["make"], cwd=repository, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^make ([a-z-]+)", listed, re.MULTILINE)) | {"lint"}


def _parsed(command: click.Command, words: list[str], parent: click.Context) -> str:
    try:
        if isinstance(command, click.Group):
            name, inner, rest = command.resolve_command(parent, words)
            assert inner is not None
            return _parsed(inner, rest, click.Context(inner, parent=parent, info_name=name))
        values, _, _ = command.make_parser(parent).parse_args(list(words))
        for each in command.params:
            given = values.get(each.name or "")
            if isinstance(each, click.Option) and isinstance(given, str) and not _stands_in(given):
                each.type_cast_value(parent, given)
    except click.UsageError as error:
        return error.format_message()
    return ""


def _stands_in(word: str) -> bool:
    """Whether a user writes something else there: HOST, my-scenario, ARCHIVE/hosts."""
    return word.isupper() or any(part in word for part in ("/", "my-", "...", "$"))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```yaml\na: [1\n```\n", "yaml: "),
        ("```python\nif:\n```\n", "python: "),
        ("```python\nfrom e2c_dl.archive.read import open_archiv\n```\n", "e2c_dl.archive.read has no open_archiv"),
        ("```python\nimport e2c_dl.archives\n```\n", "no module e2c_dl.archives"),
        ("```console\n$ e2c-dl chek x\n```\n", "did you mean 'check'"),
        ("text\n\n    e2c-dl check x --jsn\n\ntext\n", "No such option '--jsn'"),
        ("```\ne2c-dl check my-scenario    # reads it\n```\n", ""),
        ("```\ne2c-dl check 'my-scenario\n```\n", "unexpected EOF"),
        ("```\ne2c-dl check experiments/nowhere\n```\n", "there is no experiments/nowhere"),
        ("```console\n$ e2c-dl deploy A B --on local | cat\ne2c-dl no command: output\n```\n", ""),
        ("```\nmake deemo\n```\n", "no target"),
        ("```\nmake demo TORCH_INDEX=URL\n```\n", ""),
        ("```\npip install 'e2c_dl[tensorbord]'\n```\n", "no extra"),
        ("```\npython -m benchmarks.relay --writ\n```\n", "No such option '--writ'"),
        ("```\npython -m benchmarks.relais\n```\n", "no module benchmarks.relais"),
        ("```\nfrobnicate --now\n```\n", "nobody knows it"),
        ("```\ne2c-dl advise ARCHIVE --objective speed\n```\n", "'speed' is not one of"),
        ("```\ne2c-dl advise ARCHIVE --objective WHICH\n```\n", ""),
    ],
)
def test_what_is_wrong_with_a_block_is_found(block: str, why: str, repository: Path) -> None:
    (found,) = typed.blocks(block)
    assert why in wrong(found, repository) if why else wrong(found, repository) == ""


def test_every_block_loads_compiles_or_can_be_typed(repository: Path) -> None:
    found = every(repository)
    assert sum(1 for _, block in found for _ in typed.commands(block)) > 90
    assert [f"{where}: {why}" for where, block in found if (why := wrong(block, repository))] == []


def test_what_env_takes_is_taken(repository: Path, tmp_path: Path) -> None:
    blocks = [(where, yaml.safe_load(block.text)) for where, block in every(repository) if block.language == "yaml"]
    found = {where: text for where, text in blocks if isinstance(text, dict) and OF_ENV & set(text)}
    assert len(found) >= 4
    for number, (where, env) in enumerate(found.items()):
        (tmp_path / str(number)).mkdir()
        layers = LAYERS.replace("{strategy: allreduce}", json.dumps({"strategy": "allreduce"} | env))
        folder = writer(tmp_path / str(number))(layers)
        wrong = [str(each) for each in problems(folder, frozenset({"Trainer", "Default"}))]
        assert [each for each in wrong if "without CUDA" not in each] == [], where


def test_networks_are_read_as_a_scenarios_are(repository: Path, tmp_path: Path) -> None:
    blocks = [(where, block) for where, block in every(repository) if block.text.startswith("networks:")]
    for number, (where, block) in enumerate(blocks):
        folder = tmp_path / str(number)
        copies.example("first-light", folder)
        (folder / "network.yaml").write_text(block.text)
        (folder / "emulation.yaml").unlink()
        assert [str(each) for each in problems(folder, frozenset({"Trainer"}))] == [], where


def test_the_inventory_is_read_as_any_is(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519").touch(mode=0o600)
    (block,) = (block for _, block in every(repository) if block.text.startswith("defaults: {user"))
    (tmp_path / "inventory.yaml").write_text(block.text)
    assert len(inventory.load(tmp_path / "inventory.yaml").machines) == 3


def test_every_block_is_of_a_kind_that_is_checked(repository: Path) -> None:
    assert {(where, block.language) for where, block in every(repository) if block.language not in LANGUAGES} == set()


def test_no_name_of_python_is_undefined(repository: Path, tmp_path: Path) -> None:
    for path in pages(repository):
        blocks = [block for block in typed.blocks(path.read_text(encoding="utf-8")) if block.language == "python"]
        if blocks:
            assumed = "".join(f"{name} = {value}\n" for name, value in ASSUMED.items())
            file = tmp_path / f"{'-'.join(path.relative_to(repository).with_suffix('').parts)}.py"
            file.write_text(assumed + "\n".join(block.text for block in blocks))
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821", str(tmp_path)]
    done = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
