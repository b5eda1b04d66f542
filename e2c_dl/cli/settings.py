"""Defaults of one's own for the options of commands: a file in the user's configuration folder, and the environment.

::

    ~/.config/e2c_dl/config.yaml      deploy: {on: static, inventory: hosts.yaml}
                                      calibrate: {batch-size: [8, 32]}
    E2CDL_DEPLOY_STRICT=1             one option of one command: its words in capitals
    on the command line               wins over the environment, which wins over the file

Keys are options as they are typed, without dashes before them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import platformdirs

from e2c_dl.errors import InputError

PREFIX = "E2CDL"
FILE = "config.yaml"
_OPTIONS_OF_ALL = frozenset({"help", "version"})


def config_file() -> Path:
    """Where the file is looked for."""
    return Path(platformdirs.user_config_dir("e2c_dl")) / FILE


def of_command(name: str, command: click.Command) -> dict[str, Any]:
    """Parameter -> what the file says of the options of ``command``, which is called ``name``.

    Raises: InputError, if the file cannot be read, or names an option that the command does not have.
    """
    section = _section(name)
    known = {spelled: option for option in _options(command) for spelled in _spelled(option)}
    for key in section:
        if key not in known:
            close = get_close_matches(key, known, n=1) or sorted(known)
            raise InputError(f"{config_file()}: {name}.{key}: no such option; write {' or '.join(close) or 'none'}")
    return {str(known[key].name): value for key, value in section.items()}


def told(names: list[str], find: Callable[[str], click.Command]) -> Iterator[tuple[str, str, Any, str]]:
    """(command, option, value, where it stands) of all that is said. ``find``: name -> command. Raises: InputError."""
    for name in _said():
        if name not in names:
            close = get_close_matches(name, names, n=1) or names
            raise InputError(f"{config_file()}: {name}: no such command; write {' or '.join(close)}")
    for name in names:
        section = _section(name)
        if not section and not any(key.startswith(_variable(name, "")) for key in os.environ):
            continue  # importing a command takes a moment
        command = find(name)
        of_command(name, command)
        for option in _options(command):
            spelled, variable = _spelled(option), _variable(name, str(option.name))
            if os.environ.get(variable):
                yield name, spelled[0], os.environ[variable], variable
            for key in spelled:
                if key in section:
                    yield name, key, section[key], str(config_file())


def _variable(command: str, parameter: str) -> str:
    return f"{PREFIX}_{command}_{parameter}".upper().replace("-", "_")  # as click spells it


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and each.name not in _OPTIONS_OF_ALL]


def _spelled(option: click.Option) -> list[str]:
    return [each.lstrip("-") for each in option.opts if each.startswith("--")]


def _section(name: str) -> Mapping[str, Any]:
    section = _said().get(name, {})
    if isinstance(section, dict):
        section = {("on" if key is True else key): value for key, value in section.items()}  # YAML reads on as true
    if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
        raise InputError(f"{config_file()}: {name}: no mapping of options; write {name}: {{option: value}}")
    return section


def _said() -> Mapping[str, Any]:
    """Command -> what the file holds of it; nothing, if there is none. Raises: InputError."""
    file = config_file()
    if not os.path.lexists(file):
        return {}
    from e2c_dl.errors import ScenarioError
    from e2c_dl.scenario.documents.document import read  # here: YAML takes a moment, and most people have no such file

    try:
        value = read(file).value
    except ScenarioError as error:
        raise InputError(f"{file.parent}: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}: no mapping of commands; write e.g. deploy: {{strict: true}}")
    return value
