"""One YAML file, read without surprises: its value, and the line on which each key stands.

Stricter than E2Clab's ``yaml.safe_load``, which reads the same values: a duplicate key, an anchor that contains itself,
keys that are not plain words, and files too large or nested too deeply to be meant are refused. Whatever is wrong is
one :class:`ScenarioError` of one line; nothing else is raised.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2c_dl.errors import ScenarioError

MAX_BYTES = 256 * 1024  # far more than anybody writes by hand
MAX_DEPTH = 40  # well below Python's recursion limit, which PyYAML's constructor would meet
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of a file: ``("networks", 0, "rate")``."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A file's name, its value as plain Python, and its YAML nodes, which know their lines."""

    file: str
    value: object
    root: yaml.Node

    def line(self, path: KeyPath) -> int:
        """The line, from 1, of the key or list entry at ``path``, or of the closest that is there."""
        node = place = self.root
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            place, node = found
        return int(place.start_mark.line) + 1


def read(path: Path) -> Document:
    """The YAML document in the file at ``path``.

    Raises: ScenarioError, if it is missing, not a readable UTF-8 file, not YAML, empty, or not meant as configuration.
    """
    text = _text(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _syntax_error(path.name, error) from error
    except RecursionError as error:  # composing recurses, before _check_tree can look at the depth
        raise ScenarioError(path.name, "", _TOO_DEEP, "flatten it") from error
    if root is None:
        raise ScenarioError(path.name, "", "the file is empty", "write it, or start from 'e2c-dl init'")
    _check_tree(path.name, root)
    return Document(file=path.name, value=_construct(path.name, root), root=root)


def _text(path: Path) -> str:
    remedy = "put a YAML file there, or start from 'e2c-dl init'"
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # a pipe would be waited for
            what = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
            raise ScenarioError(path.name, "", f"{path} {what}", remedy)
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)  # one more, to see that there is more
    except FileNotFoundError as error:
        raise ScenarioError(path.name, "", f"{path} does not exist", remedy) from error
    except OSError as error:
        raise ScenarioError(path.name, "", f"{path} cannot be read: {error.strerror}", remedy) from error
    if len(raw) > MAX_BYTES:
        raise ScenarioError(path.name, "", f"larger than {MAX_BYTES // 1024} KiB", "keep configuration only in it")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ScenarioError(path.name, "", "not UTF-8 text", "save it as UTF-8", line=line) from error


def _syntax_error(file: str, error: yaml.YAMLError) -> ScenarioError:
    remedy = "correct the YAML syntax"
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        what = f"YAML syntax error: {error.problem or error.context}"
        if mark is None:
            return ScenarioError(file, "", what, remedy)
        return ScenarioError(file, "", f"{what} (column {mark.column + 1})", remedy, line=mark.line + 1)
    if isinstance(error, yaml.reader.ReaderError):
        what = f"YAML syntax error: character {error.character!r} at position {error.position} is not allowed"
        return ScenarioError(file, "", what, "remove it")  # a control character: it has no mark
    return ScenarioError(file, "", f"YAML syntax error: {str(error)[:120]}", remedy)


def _check_tree(file: str, root: yaml.Node) -> None:
    """Raises: ScenarioError, for nodes that contain themselves, depth, duplicate keys and keys that are not scalars."""
    heights: dict[int, int] = {}  # by node: an aliased one is looked at once, and counts in full wherever it stands

    def height(node: yaml.Node, above: tuple[int, ...]) -> int:
        line = node.start_mark.line + 1
        if len(above) >= MAX_DEPTH:  # before this recursion meets Python's limit, too
            raise ScenarioError(file, "", _TOO_DEEP, "flatten it", line=line)
        if id(node) in above:
            raise ScenarioError(file, "", "an anchor contains an alias of itself", "write the value out", line=line)
        if id(node) not in heights:
            if isinstance(node, yaml.MappingNode):
                _check_keys(file, node)
            inside = (*above, id(node))
            heights[id(node)] = 1 + max((height(inner, inside) for inner in _children(node)), default=0)
        if len(above) + heights[id(node)] > MAX_DEPTH:
            raise ScenarioError(file, "", _TOO_DEEP, "flatten it", line=line)
        return heights[id(node)]

    height(root, ())


def _check_keys(file: str, mapping: yaml.MappingNode) -> None:
    first: dict[tuple[str, str], int] = {}
    for key, _ in mapping.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ScenarioError(file, "", "a key is a list or a mapping", "write a word as key", line=line)
        name = (key.tag, key.value)  # 1 and '1' are two keys to YAML
        if name in first:
            problem = f"key {key.value[:40]!r} stands twice in one mapping, first on line {first[name]}"
            raise ScenarioError(file, "", problem, "keep one of them", line=line)
        first[name] = line


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [value for _, value in node.value]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """(where it begins, its value) of what stands at ``step`` in ``node``."""
    if isinstance(node, yaml.MappingNode):
        # Last first: a mapping's own keys stand behind those it takes over with "<<".
        return next(((key, value) for key, value in reversed(node.value) if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        inner: yaml.Node = node.value[step]
        return inner, inner
    return None


def _construct(file: str, root: yaml.Node) -> object:
    try:
        return yaml.SafeLoader("").construct_document(root)
    except yaml.YAMLError as error:
        raise _syntax_error(file, error) from error
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        # PyYAML lets these out for scalars that look like, or are tagged as, a date or number and are none.
        problem = f"a value cannot be read: {str(error)[:80] or type(error).__name__}"
        raise ScenarioError(file, "", problem, "put text that looks like a date or a number in quotes") from error
