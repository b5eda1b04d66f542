"""What messages, docstrings and documents tell a user to type exists: commands, their options, testbeds."""

import re
from pathlib import Path

import click
import pytest

from e2c_dl.cli.main import cli
from e2c_dl.testbeds import catalogue

COMMAND = re.compile(r"(?<![\w/.~-])(?<!by )e2c-dl ([a-z]+)(?: ([a-z]+)\b)?([^`\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")
TESTBED = re.compile(r"(?<![\w-])--on[ =]([a-z0-9]+)")


def texts(repository: Path) -> list[Path]:
    of_users = [path for name in ("docs", "experiments") for path in (repository / name).rglob("*")]
    code = [path for name in ("e2c_dl", "layers_services") for path in (repository / name).rglob("*.py")]
    found = [*code, *of_users, *repository.glob("*.md")]
    return sorted(path for path in found if path.suffix in (".py", ".md", ".yaml") and path.is_file())


def told(repository: Path, pattern: re.Pattern[str]) -> list[tuple[str, re.Match[str]]]:
    """(where, match) for all that ``pattern`` finds, lines that are joined in code or shell made one."""
    found = []
    for path in texts(repository):
        text = re.sub(r"\\\n +", " ", path.read_text(encoding="utf-8"))
        found += [(path.relative_to(repository).as_posix(), match) for match in pattern.finditer(text)]
    return found


def options(command: click.Command) -> set[str]:
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    return own.union(*(options(each) for each in inner))


def wrong(match: re.Match[str]) -> str | None:
    """What of a command line does not exist; None if all does."""
    name, sub, rest = match[1], match[2], match[3]
    command = cli.get_command(click.Context(cli), name)
    if command is None:
        return f"there is no {name}"
    if sub is not None and isinstance(command, click.Group) and sub not in command.commands:
        return f"{name} has no {sub}"
    own = f" {sub or ''} {rest}".partition(" -- ")[0]  # behind it stands somebody else's command
    unknown = [option for option in OPTION.findall(own) if option not in options(command)]
    return f"{name} has no {unknown[0]}" if unknown else None


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("`e2c-dl race`", "there is no race"),
        ("e2c-dl image make", "image has no make"),
        ("e2c-dl deploy S A --frm x", "deploy has no --frm"),
        ("e2c-dl trace --frm x -- torchrun", "trace has no --frm"),
        ("e2c-dl trace -- torchrun --nnodes 2", None),
        ("`sudo e2c-dl image build --from-debootstrap` or --other", None),
    ],
)
def test_what_does_not_exist_is_found(line: str, what: str | None) -> None:
    match = COMMAND.search(line)
    assert match is not None and wrong(match) == what


def test_every_command_that_is_named_exists(repository: Path) -> None:
    found = told(repository, COMMAND)
    assert len(found) > 50
    assert [f"{where}: {match[0]}: {why}" for where, match in found if (why := wrong(match)) is not None] == []


def test_every_testbed_that_is_named_exists(repository: Path) -> None:
    found = told(repository, TESTBED)
    assert {match[1] for _, match in found} >= set(catalogue.names())
    assert [f"{where}: {match[0]}" for where, match in found if match[1] not in catalogue.names()] == []
