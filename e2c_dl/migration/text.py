"""A YAML file as text with nodes that know where they stand, changed in place: what is not changed stays as it is.

Comments, order, quotes and indentation outlive a migration because nothing is written anew but what must be::

    source = Source.of("network.yaml", text)
    entry = source.root["networks"]           nodes of PyYAML, with marks
    source.replace(key, "delay")              edits are collected, and carried out together
    source.changed()                          the new text
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from e2c_dl.errors import ScenarioError

Pair = tuple[yaml.ScalarNode, yaml.Node]


@dataclass
class Source:
    """One file. Edits must not overlap."""

    file: str
    text: str
    root: yaml.Node
    edits: list[tuple[int, int, str]] = field(default_factory=list)

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
        if "\t" in text.expandtabs() or any(token in text for token in ("\r\n", "\r")):
            raise ScenarioError(file, "", "has line ends of another system", "convert it first, such as by dos2unix")
        return cls(file, text, root)

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

    def replace(self, node: yaml.Node, new: str) -> None:
        """Put ``new`` where the scalar or flow collection ``node`` stands."""
        self.edits.append((node.start_mark.index, node.end_mark.index, new))

    def insert(self, index: int, new: str) -> None:
        """Put ``new`` before the character ``index``."""
        self.edits.append((index, index, new))

    def cut(self, begin: int, end: int) -> str:
        """Take the characters from ``begin`` to ``end`` out; what they were."""
        self.edits.append((begin, end, ""))
        return self.text[begin:end]

    def lines_of(self, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
        """(begin, end) of the whole lines on which a block mapping's entry stands, with its comments right above it."""
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
        for begin, end, new in sorted(self.edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
            if end > done:
                raise ScenarioError(self.file, "", "is written in a way that cannot be edited", "migrate it by hand")
            text, done = text[:begin] + new + text[end:], begin
        Source.of(self.file, text)
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
