"""``network.yaml``: defaults for all links, which earlier versions knew, become a rule from all hosts to all.

::

    networks:                         networks:
    - default_loss: 0.1               - src: "*.*"
      default_delay: "2ms"       ->     dst: "*.*"
      default_rate: "10gbit"            loss: "0.1%"
                                        delay: "2ms"
                                        rate: "10gbit"

Of a single host there is no link: the rule vanishes. Rules of today's kind stay behind it, so that they hold; a number
without a unit, which E2Clab refuses in them, is read as in the defaults.
"""

from __future__ import annotations

import re

import yaml

from e2c_dl.migration.model import Asked, Kind, Loss, Said
from e2c_dl.migration.services import rename_in_pattern
from e2c_dl.migration.text import Pair, Source, entries, line

EVERY = '"*.*"'
_DEFAULTS = {"default_loss": "loss", "default_delay": "delay", "default_rate": "rate"}
_LAYER = re.compile(r"[\w-]+")
_ALL = "all"  # hosts, whatever their layer
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_MISSING = {"default_delay": ("delay", '"0ms"'), "default_rate": ("rate", '"100gbit"')}
"""What E2Clab asks for in a rule -> a value that shapes nothing."""


def migrate_network(source: Source, hosts: int, asked: Asked) -> list[Said]:
    """What is told. Edits ``source``. Raises: ScenarioError."""
    rules = _rules(source)
    if rules is None:
        return []
    said: list[Said] = []
    old: list[yaml.Node] = []
    for i, entry in enumerate(source.items(rules, "networks")):
        mapping = source.mapping(entry, "a rule")
        keys = entries(mapping)
        if keys.keys() & set(_DEFAULTS):
            if i and not old:
                raise source.wrong(entry, "defaults stand behind rules, which they would overrule", "put them first")
            old.append(entry)
            said += _rule(source, mapping, keys, asked) if hosts > 1 else [_vanishes(source, entry)]
        else:
            said += _bare_numbers(source, keys, asked)
        for end in ("src", "dst"):
            if end in keys:
                said += _end(source, keys[end][1], end, asked)
    if len(old) > 1:
        raise source.wrong(old[1], "defaults stand in two rules", "keep one of them")
    if hosts <= 1:
        _remove(source, rules, old)
    return said


def _rules(source: Source) -> yaml.SequenceNode | None:
    if isinstance(source.root, yaml.ScalarNode) and not source.root.value:
        return None
    top = entries(source.mapping(source.root, "the file"))
    found = top["networks"][1] if "networks" in top else None
    return found if isinstance(found, yaml.SequenceNode) else None


def _end(source: Source, node: yaml.Node, name: str, asked: Asked) -> list[Said]:
    """A layer's name alone, which selects one of its hosts today, is all of it."""
    if not isinstance(node, yaml.ScalarNode):
        return []
    if not _LAYER.fullmatch(node.value) or node.value.lower() == _ALL:
        return rename_in_pattern(source, node, name, asked.services)
    mark = node.style or ""
    source.replace(node, f"{mark}{node.value}.*{mark}")
    what = f"{name}: {node.value} became {node.value}.*"
    why = "all of the layer; E2Clab takes a layer's name alone for one of its hosts"
    return [Said(kind=Kind.GUESSED, file=source.file, line=line(node), what=what, why=why)]


def _vanishes(source: Source, entry: yaml.Node) -> Said:
    why = "there is one host, which has no link to itself"
    what = "the rule of defaults is gone"
    return Said(kind=Kind.CHANGED, file=source.file, line=line(entry), what=what, why=why)


def _remove(source: Source, rules: yaml.SequenceNode, old: list[yaml.Node]) -> None:
    """Edit: the entries ``old`` of ``rules`` are gone; comments above them stay."""
    for entry in old:
        if rules.flow_style:
            if len(rules.value) > 1:
                raise source.wrong(entry, "rules stand in brackets", "write them as '- ' lines first")
            source.replace(rules, "")
            return
        begin, end = source.start(line(entry) - 1), source.lines_of(entry, entry)[1]
        source.cut(begin, end)


def _rule(source: Source, entry: yaml.MappingNode, keys: dict[str, Pair], asked: Asked) -> list[Said]:
    unknown = keys.keys() - {*_DEFAULTS, "src", "dst", "symmetric"}
    if unknown:
        key = keys[min(unknown)][0]
        raise source.wrong(key, f"{key.value} beside defaults is not understood", f"write {', '.join(_DEFAULTS)}")
    said: list[Said] = []
    for old, new in _DEFAULTS.items():
        if old in keys:
            said.append(_value(source, *keys[old], new, asked))
    first = keys[next(iter(keys))][0]
    between = ", " if entry.flow_style else "\n" + " " * first.start_mark.column
    ends = [f"{end}: {EVERY}" for end in ("src", "dst") if end not in keys]
    if ends:
        source.insert(first.start_mark.index, between.join(ends) + between)
        why = "defaults of all links are a rule from all hosts to all"
        said.append(
            Said(kind=Kind.CHANGED, file=source.file, line=line(entry), what=f"{', '.join(ends)} added", why=why)
        )
    for old, (new, value) in _MISSING.items():
        if old not in keys:
            last = keys[list(keys)[-1]][1]
            source.insert(last.end_mark.index, f"{between}{new}: {value}")
            why = f"E2Clab asks for one, and there was no {old}"
            said.append(
                Said(kind=Kind.GUESSED, file=source.file, line=line(entry), what=f"{new}: {value} added", why=why)
            )
    return said


def _bare_numbers(source: Source, keys: dict[str, Pair], asked: Asked) -> list[Said]:
    """In a rule of today's kind: a rate has no unit that could be guessed, and is left to `check`."""
    said = []
    for name in ("loss", "delay"):
        if name in keys:
            key, value = keys[name]
            if isinstance(value, yaml.ScalarNode) and _number(value.value) is not None:
                said.append(_value(source, key, value, name, asked))
    return said


def _value(source: Source, key: yaml.ScalarNode, value: yaml.Node, new: str, asked: Asked) -> Said:
    if not isinstance(value, yaml.ScalarNode):
        raise source.wrong(value, f"{key.value} is no text or number", "write one")
    text, kind, why = str(value.value).strip(), Kind.CHANGED, "a rule names it so"
    if key.value != new:
        source.replace(key, new)
    if new == "loss" and not text.endswith("%"):
        text, kind, why = _loss(source, key.value, value, text, asked)
        source.replace(value, f'"{text}"')
    elif new == "delay" and _number(text) is not None:
        text, kind, why = f"{text}ms", Kind.GUESSED, "a delay has a unit; milliseconds, as a bare number has none"
        source.replace(value, f'"{text}"')
    elif value.style is None and value.tag != "tag:yaml.org,2002:str":
        source.replace(value, f'"{text}"')  # E2Clab wants text
    return Said(
        kind=kind, file=source.file, line=line(key), what=f"{key.value}: {value.value} became {new}: {text}", why=why
    )


def _loss(source: Source, name: str, node: yaml.Node, text: str, asked: Asked) -> tuple[str, Kind, str]:
    number = _number(text)
    if number is None or not 0 <= number <= 100:
        raise source.wrong(node, f"{name}: {text[:40]!r} is no loss", "write a number from 0 to 100")
    meant = asked.loss
    if meant is Loss.FRACTION:
        if number > 1:
            raise source.wrong(node, f"{name}: {text} is no fraction", "ask for --loss percent")
        return f"{number * 100:.10g}%", Kind.CHANGED, "a fraction, as --loss says"
    if meant is Loss.NONE:
        return "0%", Kind.CHANGED, "no loss, as --loss says"
    if meant is Loss.PERCENT or number == 0:
        return f"{text}%", Kind.CHANGED, "a percentage, as --loss says" if meant else "a loss is a percentage"
    other = f", {number * 100:.10g}% if it was a fraction" if number <= 1 else ""
    why = f"taken for a percentage{other}: earlier versions did not say; --loss percent, fraction or none decides"
    return f"{text}%", Kind.GUESSED, why


def _number(text: str) -> float | None:
    """The number that ``text`` is, as a rule may name it: with neither sign nor exponent."""
    return float(text) if _DECIMAL.fullmatch(text) else None
