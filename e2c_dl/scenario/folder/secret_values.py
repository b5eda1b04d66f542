"""Secrets that stand in a scenario's files: found by what names them, hidden in copies, and given from elsewhere.

::

    registry_password: hunter22                  found: hidden in every archive, and `check` remarks on it
    registry_password: env:REGISTRY_PASSWORD     taken from the environment of who deploys
    registry_password: file:~/.registry          taken from a file that nobody else may read (mode 0600)
    registry_password: REDACTED                  it was hidden: `check` says that it must be given again
"""

from __future__ import annotations

import json
import re
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import yaml

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.redaction import Redactor, found, of_environment, without_spans
from e2c_dl.scenario.documents.document import MAX_BYTES
from e2c_dl.scenario.folder.secrets_in_code import secrets_in
from e2c_dl.secret_names import REDACTED, is_secret, looks_secret, says_little

Span = tuple[int, int]
_GIVEN = re.compile(r"(?P<how>env|file):(?P<what>.+)")
_MARKS = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor, a tag: they stay before the value
_TEXTS = ("*", "*/*.y*ml", "*/*.py", "*/*.sh", "*/*.json")
_WORKFLOW = "workflow.yaml"
CODE = ".py"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A secret in the text of a file, or what says where it is: ``name`` is its key, empty if only its form tells."""

    span: Span
    value: str
    name: str = ""


def planted(text: str, *, code: bool = False) -> tuple[Planted, ...]:
    """What looks like a secret in the ``text`` of a scenario's file, YAML or any other, in its order.

    ``code``: it is Python's.
    """
    if code:
        some = (Planted(span=span, value=value, name=name) for span, value, name in secrets_in(text))
        return tuple(sorted(some, key=lambda each: each.span))
    named = {each.span: each for each in _of_keys(text) if is_secret(each.value, each.name)}
    inside = [span for span in named if span[0] < span[1]]
    shaped = [
        Planted(span=span, value=text[slice(*span)])
        for span in found(text)
        if not any(begin <= span[0] and span[1] <= end for begin, end in inside)
    ]
    return tuple(sorted([*named.values(), *shaped], key=lambda each: each.span))


def hidden(text: str, redactor: Redactor, *, code: bool = False) -> str:
    """``text`` of a scenario's file with REDACTED in place of every secret in it, and of those that ``redactor`` knows.

    ``code``: it is Python's.
    """
    known = redactor.text(text)  # first: of what looks like one, a part may be seen
    return without_spans(known, (each.span for each in planted(known, code=code)))


def redactor_of(folder: Path, environ: Mapping[str, str], more: Collection[str] = ()) -> Redactor:
    """What replaces the secrets in the files of the scenario in ``folder``, those of ``environ``, and ``more``."""
    found_there = {each.value for kind in _TEXTS for file in folder.glob(kind) for each in planted_in(file)}
    values = found_there | {_of_shell(value) for value in found_there}
    return Redactor({*values, *chain.from_iterable(of_environment(environ).values()), *more})


def planted_in(file: Path) -> tuple[Planted, ...]:
    """As :func:`planted`, of what ``file`` holds."""
    return planted(text_of(file), code=file.suffix == CODE)


def resolved(file: Path, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """(text of ``file`` with the secrets that it only names in their places, these secrets).

    Raises: ScenarioError, if a variable is not set, or a file cannot be read, or others may read it.
    """
    text, values = text_of(file), []
    for each in sorted(_of_keys(text), key=lambda each: each.span, reverse=True):
        match = _GIVEN.fullmatch(each.value)
        if match is None or not looks_secret(each.name):
            continue
        line = text.count("\n", 0, each.span[0]) + 1
        try:
            value = environ[match["what"]] if match["how"] == "env" else _read_closed(Path(match["what"]).expanduser())
        except KeyError as error:
            problem = f"the variable {match['what']} is not set"
            raise ScenarioError(file.name, each.name, problem, "set it where you deploy", line=line) from error
        except (OSError, InputError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            remedy = "name a file that you alone may read (chmod 600)"
            raise ScenarioError(file.name, each.name, f"{match['what']}: {why}", remedy, line=line) from error
        values.append(value)
        text = text[: each.span[0]] + json.dumps(value) + text[each.span[1] :]  # JSON's text is YAML's
    return text, tuple(values)


def remarks(folder: Path) -> tuple[str, ...]:
    """What to do about each secret in the files of ``folder``, and about each that was hidden."""
    lines = []
    for file in sorted(folder.glob("*")):
        text = text_of(file)
        for each in planted_in(file):
            line, name = text.count("\n", 0, each.span[0]) + 1, each.name or "a value"
            instead = f"env:{_variable(each.name)}, or file:PATH of a file with mode 0600"
            if file.suffix != ".yaml" or not each.name:
                instead = "a look-up of the environment, such as {{ lookup('env', 'NAME') }} or $NAME"
            lines.append(f"{file.name}:{line}: {name} is a secret, which archives do not keep; write {instead}")
        if file.name == _WORKFLOW:
            for line, name in _in_environments(text):
                instead = "copy a file of mode 0600 with no_log, and read it in the command: `. ./secrets.sh && ...`"
                lines.append(f"{file.name}:{line}: {name} under environment: stands on command lines; {instead}")
        for match in re.finditer(rf"\b{REDACTED}\b", text):
            line = text.count("\n", 0, match.start()) + 1
            name = next(
                (each.name for each in _of_keys(text) if each.span[0] <= match.start() < each.span[1]), "a value"
            )
            how = f"env:{_variable(name)}, or file:PATH" if looks_secret(name) else "it"
            lines.append(f"{file.name}:{line}: {name} was hidden when this was archived; give it again: write {how}")
    return tuple(dict.fromkeys(lines))


def text_of(file: Path) -> str:
    """What a small text file holds; nothing, if it is none."""
    try:
        entry = file.stat()
        if not stat.S_ISREG(entry.st_mode) or entry.st_size > MAX_BYTES:
            return ""
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _of_keys(text: str) -> Iterator[Planted]:
    """Every text and number at a key that looks like a secret's, at any depth below it."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return
    waiting: list[tuple[yaml.Node | None, str]] = [(root, "")]
    seen = set()
    while waiting:
        node, name = waiting.pop()
        if (id(node), name) in seen:  # by an alias
            continue
        seen.add((id(node), name))
        if isinstance(node, yaml.MappingNode):
            called = _called(node)
            for key, value in node.value:
                if called and key.value == "value":
                    waiting.append((value, called))
                    continue
                own = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
                waiting.append((value, own if looks_secret(own) else name))
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(value, name) for value in node.value]
        elif isinstance(node, yaml.ScalarNode) and name:
            begin, end = node.start_mark.index, node.end_mark.index
            begin += _MARKS.match(text[begin:end]).end()  # type: ignore[union-attr] # it matches nothing, too
            if node.style in ("|", ">"):
                end = begin + len(text[begin:end].rstrip("\n"))
            yield Planted(span=(begin, end), value=str(node.value), name=name)


def _called(mapping: yaml.MappingNode) -> str:
    """A secret's name where ``mapping`` is a variable of its own: ``{name: A_TOKEN, value: ...}``; else nothing."""
    names = (str(value.value) for key, value in mapping.value if key.value == "name")
    return next(filter(looks_secret, names), "")


def _in_environments(text: str) -> Iterator[tuple[int, str]]:
    """(line, name) of what looks like a secret in a play's or a task's ``environment``: shells are told it."""
    for entries in _mappings(text):
        for key, value in entries:
            if key.value == "environment" and isinstance(value, yaml.MappingNode):
                for name, held in value.value:
                    if isinstance(name, yaml.ScalarNode) and _speaks_of_one(str(name.value), held):
                        yield name.start_mark.line + 1, name.value


def _speaks_of_one(name: str, held: yaml.Node) -> bool:
    return looks_secret(name) and (not says_little(name) or is_secret(str(held.value), name))


def _mappings(text: str) -> Iterator[list[tuple[yaml.Node, yaml.Node]]]:
    """The entries of every mapping in ``text``, YAML, once each; of none, if it cannot be read."""
    try:
        waiting, seen = [yaml.compose(text, Loader=yaml.SafeLoader)], set()
    except (yaml.YAMLError, RecursionError):
        return
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:  # by an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node.value
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _read_closed(file: Path) -> str:
    """Raises: OSError; InputError, if others may read it."""
    if file.stat().st_mode & _OTHERS:
        raise InputError("others may read it")
    return file.read_text(encoding="utf-8").strip()


def _of_shell(word: str) -> str:
    """What a shell makes of ``word``: quotes of several kinds stand in one, `'it'\\''s'`."""
    try:
        return "".join(shlex.split(word)[:1])
    except ValueError:  # an open quote
        return word


def _variable(name: str) -> str:
    """The variable of the environment that a key suggests."""
    return re.sub(r"\W+", "_", name).upper()
