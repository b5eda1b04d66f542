"""A YAML file as text with nodes that know where they stand, changed in place: what is not changed stays as it is.

Comments, order, quotes and indentation outlive a migration because nothing is written anew but what must be::

    source = Source.of("network.yaml", text)
    entry = source.root["networks"]           nodes of PyYAML, with marks
    source.replace(key, "delay")              edits are collected, and carried out together
    source.changed()                          the new text
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from e2c_dl.errors import ScenarioError

Pair = tuple[yaml.ScalarNode, yaml.Node]

_ODD_LINE_ENDS = re.compile("[\u0085\u2028\u2029]")


@dataclass
class Source:
    """One file. Edits must not overlap."""

    file: str
    text: str
    root: yaml.Node
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    shared: Mapping[int, yaml.Node] = field(default_factory=dict)  # by id: what an alias has stand in a second place

    @classmethod
    def of(cls, file: str, text: str) -> Source:
        """The file called ``file`` that holds ``text``. Raises: ScenarioError, if it is none that can be edited."""
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = " ".join(str(getattr(error, "problem", None) or error).split())
            line = None if mark is None else mark.line + 1
            raise ScenarioError(file, "", f"YAML syntax error: {what}", "correct it first", line=line) from error
        except RecursionError as error:
            raise ScenarioError(file, "", "is nested too deeply", "flatten it first") from error
        if root is None:
            raise ScenarioError(file, "", "the file is empty", "write it first")
        if "\r" in text:
            raise ScenarioError(file, "", "has line ends of another system", "convert it first, such as by dos2unix")
        if found := _ODD_LINE_ENDS.search(text):
            where = text.count("\n", 0, found.start()) + 1
            what = f"has U+{ord(found[0]):04X}, which ends a line to YAML and to no editor"
            raise ScenarioError(file, "", what, "take it out first", line=where)
        return cls(file, text, root, shared=_shared(root))

    def wrong(self, node: yaml.Node, what: str, remedy: str) -> ScenarioError:
        """An error about what stands at ``node``, to be raised."""
        return ScenarioError(self.file, "", what, remedy, line=line(node))

    def mapping(self, node: yaml.Node, what: str) -> yaml.MappingNode:
        """``node`` if it is a mapping without keys that come from elsewhere. Raises: ScenarioError."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, f"{what} is no mapping", "write 'key: value' lines")
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise self.wrong(key, f"{what} takes keys from elsewhere", "write them out first")
        return node

    def items(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """The entries of the list ``node``. Raises: ScenarioError."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(node, f"{what} is no list", "write '- ' lines")
        return list(node.value)

    def own(self, node: yaml.Node) -> yaml.Node:
        """``node``, which stands where its marks say, as does all in it. Raises: ScenarioError, if by an alias."""
        if any(id(each) in self.shared for each in _below(node)):
            raise self.wrong(node, "an alias stands for this elsewhere, too", "write it out there first")
        return node

    def replace(self, node: yaml.Node, new: str) -> None:
        """Put ``new`` where the scalar or flow collection ``node`` stands. Raises: ScenarioError."""
        self.own(node)
        self.edits.append((node.start_mark.index, node.end_mark.index, new))

    def insert(self, index: int, new: str) -> None:
        """Put ``new`` before the character ``index``."""
        self.edits.append((index, index, new))

    def cut(self, begin: int, end: int) -> str:
        """Take the characters from ``begin`` to ``end`` out; what they were."""
        self.edits.append((begin, end, ""))
        return self.text[begin:end]

    def lines_of(self, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
        """(begin, end) of the whole lines on which a block mapping's entry stands, with its comments right above it.

        Raises: ScenarioError, if the value stands elsewhere, or in lines of its own.
        """
        self.own(value)
        if "?" in self.text[self.start(line(key) - 1) : key.start_mark.index]:
            raise self.wrong(key, "a key stands behind a question mark", "write 'key: value' lines first")
        begin = self.start(line(key) - 1)
        while begin and (above := self.text[self.text.rfind("\n", 0, begin - 1) + 1 : begin]).lstrip().startswith("#"):
            if len(above) - len(above.lstrip()) != key.start_mark.column:
                break
            begin -= len(above)
        return begin, self.start(last_line(value) + 1)

    def start(self, number: int) -> int:
        """Where line ``number``, from 0, begins; the end of the text if there is none."""
        index = 0
        for _ in range(number):
            index = self.text.find("\n", index) + 1
            if not index:
                return len(self.text)
        return index

    def changed(self) -> str:
        """The text with all edits carried out. Raises: ScenarioError if that is not YAML any more."""
        text, done = self.text, len(self.text) + 1
        cannot = ScenarioError(self.file, "", "is written in a way that cannot be edited", "migrate it by hand")
        for begin, end, new in sorted(self.edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
            if end > done:
                raise cannot
            for node in self.shared.values():
                if begin <= node.end_mark.index and node.start_mark.index <= end:
                    self.own(node)
            text, done = text[:begin] + new + text[end:], begin
        try:
            Source.of(self.file, text)
        except ScenarioError as error:  # what it was can be read: this is of the edits
            raise cannot from error
        return text


def line(node: yaml.Node) -> int:
    """The line on which ``node`` begins, from 1."""
    return int(node.start_mark.line) + 1


def last_line(node: yaml.Node) -> int:
    """The last line, from 0, on which something of ``node`` stands; comments behind it are not of it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        return max(last_line(inner) for inner in _inner(node))
    end = node.end_mark
    return int(end.line) - (1 if end.column == 0 and end.index > node.start_mark.index else 0)


def entries(mapping: yaml.MappingNode) -> dict[str, Pair]:
    """key -> (its node, the value's)."""
    return {key.value: (key, value) for key, value in mapping.value}


def _inner(node: yaml.CollectionNode) -> Iterator[yaml.Node]:
    for each in node.value:
        if isinstance(each, tuple):
            yield from each
        else:
            yield each


def _below(node: yaml.Node) -> Iterator[yaml.Node]:
    """``node`` and all in it, each as often as it stands there; what an alias shares is not gone into twice."""
    waiting, seen = [node], set()
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, yaml.CollectionNode) and id(each) not in seen:
            seen.add(id(each))
            waiting += _inner(each)


def _shared(root: yaml.Node) -> dict[int, yaml.Node]:
    """Nodes that stand in several places, by aliases."""
    once: set[int] = set()
    several = {}
    for each in _below(root):
        if id(each) in once:
            several[id(each)] = each
        once.add(id(each))
    return several
