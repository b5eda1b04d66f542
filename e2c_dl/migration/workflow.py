"""``workflow.yaml``: dependencies as lists, patterns that match, commands that could not have worked.

::

    depends_on:                                depends_on:
      service_selector: "cloud.FLServer.*"  ->   - service_selector: "cloud.flserver.*"
      prefix: "server"                             prefix: "server"
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import yaml

from e2c_dl.migration.model import Asked, Kind, Said
from e2c_dl.migration.services import rename_in_pattern
from e2c_dl.migration.text import Source, entries, line
from e2c_dl.scenario.workflow import STEPS

_APP_CONF = re.compile(r"\{\{[^}]*\bapp_conf\b[^}]*\}\}")
_SWEEP = re.compile(r"\bwandb\s+(?:agent|sweep)\b|sweep_launcher")
_DEFAULT_GROUPING = 'grouping: "round_robin"'
_COPY = re.compile(r"(?<![\w./-])cp(?P<words>(?:\s+(?!\|\||&&|;)[^\s;|&]+)+)")
_PATH = re.compile(r"(?<![\w{}])(/[\w.@+-]+(?:/[\w.@+-]+)*)(/?)")
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rRa][a-zA-Z]*|--recursive|--archive")


def migrate_workflow(source: Source, asked: Asked) -> list[Said]:
    """What is told. Edits ``source``. Raises: ScenarioError."""
    said: list[Said] = []
    folders = _folders(source.text)
    for play in source.items(source.root, "the workflow"):
        keys = entries(source.mapping(play, "a play"))
        if "hosts" in keys:
            said += _pattern(source, keys["hosts"][1], "hosts", asked)
        if "depends_on" in keys:
            said += _depends_on(source, *keys["depends_on"], asked)
        for step in STEPS:
            if step in keys:
                for text in _texts(keys[step][1]):
                    said += _command(source, text, folders, asked)
    return [*said, *_needs(source)]


def _depends_on(source: Source, key: yaml.Node, value: yaml.Node, asked: Asked) -> list[Said]:
    said: list[Said] = []
    several = source.items(value, "depends_on") if isinstance(value, yaml.SequenceNode) else [value]
    for each in several:
        inner = entries(source.mapping(each, "depends_on"))
        if "service_selector" in inner:
            said += _pattern(source, inner["service_selector"][1], "service_selector", asked)
        if "grouping" not in inner and inner:
            first = next(iter(inner.values()))[0]
            between = ", " if each.flow_style else "\n" + " " * first.start_mark.column  # type: ignore[attr-defined]
            source.insert(first.start_mark.index, _DEFAULT_GROUPING + between)
            why = "E2Clab asks for one now, and this was its default"
            said.append(_said(source, Kind.GUESSED, key, f"{_DEFAULT_GROUPING} added", why))
    if isinstance(value, yaml.MappingNode):
        _listed(source, value)
        said.append(
            _said(source, Kind.CHANGED, key, "depends_on became a list", "a play may depend on several services")
        )
    return said


def _listed(source: Source, mapping: yaml.MappingNode) -> None:
    """Edit: ``mapping`` is the only entry of a list."""
    if mapping.flow_style:
        source.insert(mapping.start_mark.index, "[")
        source.insert(mapping.end_mark.index, "]")
        return
    for i, (key, value) in enumerate(mapping.value):
        begin, end = source.lines_of(key, value)
        for number in range(source.text.count("\n", 0, begin), source.text.count("\n", 0, end - 1) + 1):
            at = source.start(number)
            own = at + key.start_mark.column == key.start_mark.index
            if source.text[at : at + 1] != "\n":
                source.insert(at + (key.start_mark.column if own else 0), "- " if own and i == 0 else "  ")


def _pattern(source: Source, node: yaml.Node, name: str, asked: Asked) -> list[Said]:
    return rename_in_pattern(source, node, name, asked.services) if isinstance(node, yaml.ScalarNode) else []


def _texts(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Every text in ``node``, each once."""
    waiting, seen = [node], set()
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, yaml.ScalarNode):
            yield each
        elif isinstance(each, yaml.MappingNode):
            waiting += [inner for pair in each.value for inner in pair]
        else:
            waiting += each.value


def _folders(text: str) -> frozenset[str]:
    """Paths that ``text``, without its comments, treats as folders."""
    bare = "\n".join(each for each in text.splitlines() if not each.lstrip().startswith("#"))
    found = set()
    for match in _PATH.finditer(bare):
        path = match[1]
        found |= {path[: match_.start()] for match_ in re.finditer("/", path) if match_.start()}
        if match[2]:
            found.add(path)
    for words in re.findall(r"\b(?:mkdir(?:\s+-\w+)*|cd|--output-filename[= ]|--logdir[= ])\s*(/[\w./@+-]+)", bare):
        found.add(words.rstrip("/"))
    return frozenset(found)


def _command(source: Source, node: yaml.ScalarNode, folders: frozenset[str], asked: Asked) -> list[Said]:
    said = []
    begin = node.start_mark.index
    for match in _COPY.finditer(source.text, begin, node.end_mark.index):
        if re.search(r"\b(?:docker|podman|kubectl|gsutil|s3|aws)\s+$", source.text[begin : match.start()]):
            continue
        copied = _copied_folders(match["words"], folders)
        if not copied:
            continue
        number = source.text.count("\n", 0, match.start()) + 1
        why = f"{', '.join(copied)} {'is a folder' if len(copied) == 1 else 'are folders'}: cp leaves it out, and fails"
        if asked.fix:
            source.insert(match.start() + len("cp"), " -r")
        what = "cp -r in place of cp" if asked.fix else "cp without -r; --fix adds it"
        kind = Kind.REPAIRED if asked.fix else Kind.DEFECT
        said.append(Said(kind=kind, file=source.file, line=number, what=what, why=why))
    return said


def _copied_folders(words: str, folders: frozenset[str]) -> list[str]:
    """The folders among what ``cp words`` copies; none if it copies folders."""
    try:
        split = shlex.split(words)
    except ValueError:  # an open quote: the command ends elsewhere
        split = words.replace('"', " ").replace("'", " ").split()
    plain = [word for word in split if not word.startswith("-")]
    if any(_RECURSIVE.fullmatch(word) for word in split) or len(plain) < 2:
        return []
    *sources, into = plain
    base = into.rstrip("/.") if into.endswith(("/", "/.")) else into
    inside = into.endswith(("/", "/.")) or base in folders

    def is_folder(path: str) -> bool:
        if "*" in path or "{{" in path:
            return False
        clean, name = path.rstrip("/"), path.rstrip("/").rpartition("/")[2]
        return path.endswith("/") or clean in folders or (inside and f"{base}/{name}" in folders)

    return [path for path in sources if is_folder(path)]


def _needs(source: Source) -> list[Said]:
    """What a scenario needs that no file of it says."""
    said = []
    for pattern, what, why in (
        (_APP_CONF, "uses app_conf", "deploy it with --app_conf NAME, of its configurations"),
        (_SWEEP, "begins a sweep of Weights & Biases", "it needs the internet, and an account there"),
    ):
        for number, text in enumerate(source.text.splitlines(), start=1):
            if not text.lstrip().startswith("#") and pattern.search(text):
                said.append(Said(kind=Kind.NOTE, file=source.file, line=number, what=what, why=why))
                break
    return said


def _said(source: Source, kind: Kind, node: yaml.Node, what: str, why: str) -> Said:
    return Said(kind=kind, file=source.file, line=line(node), what=what, why=why)
