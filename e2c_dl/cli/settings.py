"""Defaults of one's own for the options of commands: a file in the user's configuration folder, and the environment.

::

    ~/.config/e2c_dl/config.yaml      deploy: {on: static, inventory: hosts.yaml}
                                      calibrate: {batch-size: [8, 32]}
                                      emulate: {show: {json: true}}
    E2CDL_DEPLOY_ON=static            one option of one command: its words in capitals
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


def apply(name: str, command: click.Command, ctx: click.Context) -> None:
    """Have ``command``, called ``name``, take from the file and the environment what its command line does not say.

    Raises: InputError, if the file cannot be read, or either names an option that the command does not have.
    """
    ctx.default_map = {name: _of_file(name, command, _section(name))}
    for words, each in _leaves(name, command):
        for option in _options(each):
            own = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
            ours = [_variable(words, spelled) for spelled in _spelled(option)]  # click's own has their names
            option.envvar = [*ours, *(each for each in own if each not in ours)]
        if words != "trace":  # what traces tell their ranks begins in the same way
            _check_variables(words, each)


def stands_in(option: click.Parameter | None, ctx: click.Context | None) -> str:
    """Where what was said of ``option`` stands, if that is not the command line; else nothing."""
    if option is None or ctx is None or not isinstance(option, click.Option):
        return ""
    source = ctx.get_parameter_source(str(option.name))
    if source is click.core.ParameterSource.DEFAULT_MAP:
        return str(config_file())
    if source is click.core.ParameterSource.ENVIRONMENT:
        return next((name for name in _variables(ctx.command_path.partition(" ")[2], option) if name in os.environ), "")
    return ""


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
        _of_file(name, command, section)
        for words, each in _leaves(name, command):
            if words != "trace":
                _check_variables(words, each)
            of_file = section if words == name else section.get(words.partition(" ")[2], {})
            yield from _told_of(words, each, of_file)


def _told_of(words: str, command: click.Command, section: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    for option in _options(command):
        spelled = _spelled(option)
        for variable in _variables(words, option):
            if os.environ.get(variable):
                yield words, spelled[0], os.environ[variable], variable
        for key in spelled:
            if key in section:
                yield words, key, section[key], str(config_file())


def _of_file(words: str, command: click.Command, section: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter -> what ``section`` of the file says of it; of a group: its command -> the same."""
    place = f"{config_file()}: {words.replace(' ', '.')}"
    if isinstance(command, click.Group):
        known: dict[str, Any] = dict(command.commands)
    else:
        known = {spelled: option for option in _options(command) for spelled in _spelled(option)}
    found = {}
    for key, value in section.items():
        if key not in known:
            close = get_close_matches(key, known, n=1) or sorted(known)
            what = "command" if isinstance(command, click.Group) else "option"
            raise InputError(f"{place}.{key}: no such {what}; write {' or '.join(close) or 'none'}")
        if isinstance(command, click.Group):
            found[key] = _of_file(f"{words} {key}", known[key], _mapping(f"{words} {key}", value))
        elif isinstance(value, dict) or (isinstance(value, list) and not known[key].multiple):
            raise InputError(f"{place}.{key}: it takes one value; write {key}: VALUE")
        else:
            found[str(known[key].name)] = value
    return found


def _leaves(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """(words, command), of a group those of its commands."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _leaves(f"{words} {name}", each)
    else:
        yield words, command


def _check_variables(words: str, command: click.Command) -> None:
    known = [name for option in _options(command) for name in _variables(words, option)]
    for name in sorted(os.environ):
        if name.startswith(_variable(words, "")) and name not in known:
            close = get_close_matches(name, known, n=1)
            raise InputError(
                f"{name}: e2c-dl {words} has no such option; {f'write {close[0]}' if close else 'unset it'}"
            )


def _variables(words: str, option: click.Option) -> list[str]:
    """By which ``option`` is said: as it is typed, and as click calls it."""
    return list(dict.fromkeys(_variable(words, each) for each in (*_spelled(option), str(option.name))))


def _variable(words: str, option: str) -> str:
    return f"{PREFIX}_{words}_{option}".upper().replace("-", "_").replace(" ", "_")


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and each.name not in _OPTIONS_OF_ALL]


def _spelled(option: click.Option) -> list[str]:
    return [each.lstrip("-") for each in option.opts if each.startswith("--")]


def _section(name: str) -> Mapping[str, Any]:
    return _mapping(name, _said().get(name, {}))


def _mapping(words: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        value = {("on" if key is True else key): each for key, each in value.items()}  # YAML reads on as true
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        place, name = words.replace(" ", "."), words.rpartition(" ")[2]
        raise InputError(f"{config_file()}: {place}: no mapping of options; write {name}: {{option: value}}")
    return value


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
        raise InputError(f"{file.parent}/{error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}: no mapping of commands; write e.g. deploy: {{strict: true}}")
    return value
