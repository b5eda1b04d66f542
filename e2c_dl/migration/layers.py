"""``layers_services.yaml``: environments that were flat, jobs that deploy an image, images in users' folders.

::

    environment:                          environment:
      name: g5k                             job_name: mine
      cluster: taurus             ->        g5k:
      env_name: debian11                      cluster: taurus
      job_name: mine                          env_name: debian11
                                              job_type: [deploy]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import yaml

from e2c_dl.migration.model import Asked, Kind, Said
from e2c_dl.migration.monitoring import migrate_monitoring
from e2c_dl.migration.text import Pair, Source, entries, last_line, line
from e2c_dl.scenario.environment import G5K, OTHER_ENVIRONMENTS

COMMON = frozenset(("job_name", "walltime"))
"""Keys that stand beside an environment today; the others stand in it."""

FLAT = (
    "name",
    "cluster",
    "env_name",
    "job_type",
    "queue",
    "reservation",
    "key_name",
    "firewall_rules",
    "ipv6",
    "monitor",
)
Tell = Callable[[Kind, yaml.Node, str, str], None]
"""Notes what is told: kind, where, what, why."""

_USERS_IMAGE = re.compile(r"https?://[^\s\"']*/(?:sid/)?sites/(?P<site>[\w-]+)/public/(?P<user>[\w.-]+)/[^\s\"']+|"
                          r"(?:/|file://)home/(?P<home>[\w.-]+)/[^\s\"']+")  # fmt: skip
_DEPLOY = "an image is deployed by jobs of that type alone"


def migrate_layers(source: Source, asked: Asked) -> tuple[list[Said], int]:
    """(what is told, how many hosts it asks for). Edits ``source``. Raises: ScenarioError."""
    top = entries(source.mapping(source.root, "the file"))
    said: list[Said] = []
    if "environment" in top:
        said += _environment(source, source.mapping(top["environment"][1], "environment"), asked)
    said += migrate_monitoring(source, top)
    hosts = 0
    for layer in source.items(top["layers"][1], "layers") if "layers" in top else []:
        inner = entries(source.mapping(layer, "a layer"))
        for service in source.items(inner["services"][1], "services") if "services" in inner else []:
            keys = entries(source.mapping(service, "a service"))
            hosts += _hosts(source, keys)
    return said, hosts


def _hosts(source: Source, service: dict[str, Pair]) -> int:
    def number(key: str, default: int) -> int:
        if key not in service:
            return default
        node = service[key][1]
        if not (isinstance(node, yaml.ScalarNode) and node.value.isdecimal()):
            what = repr(node.value[:40]) if isinstance(node, yaml.ScalarNode) else "what stands there"
            raise source.wrong(node, f"{key}: {what} is no whole number", "write one")
        return int(node.value)

    servers = service.get("servers")
    several = len(servers[1].value) if servers is not None and isinstance(servers[1], yaml.SequenceNode) else 1
    return number("quantity", several) * (1 + number("repeat", 0))


def _environment(source: Source, mapping: yaml.MappingNode, asked: Asked) -> list[Said]:
    keys = entries(mapping)
    names = [name for name in (G5K, *OTHER_ENVIRONMENTS) if name in keys]
    nested = names[0] if names else None
    said: list[Said] = []

    def tell(kind: Kind, node: yaml.Node, what: str, why: str) -> None:
        said.append(Said(kind=kind, file=source.file, line=line(node), what=what, why=why))

    if nested is None:
        nested = _named(source, mapping, keys, asked, tell)
        moved = {key: pair for key, pair in keys.items() if key not in COMMON and key != "name"}
        inside: dict[str, Pair] = {}
    else:
        inside = entries(source.mapping(keys[nested][1], nested))
        moved = {key: pair for key, pair in keys.items() if key in FLAT and key not in inside and key != "cluster"}
        moved.pop("name", None)
    for key, (node, _) in moved.items():
        tell(Kind.CHANGED, node, f"{key} stands under {nested}: now", f"E2Clab keeps what is of {nested} in it")
    added = _deploys(source, {**inside, **moved}, nested, tell)
    _image(source, {**inside, **moved}, asked, tell)
    _moved(source, mapping, keys, nested, moved, added)
    return said


def _named(source: Source, mapping: yaml.MappingNode, keys: dict[str, Pair], asked: Asked, tell: Tell) -> str:
    """The environment that a flat one is of; told as a guess, if nothing says so."""
    if "name" in keys:
        node = keys["name"][1]
        name = str(node.value).lower()
        if name not in (G5K, *OTHER_ENVIRONMENTS):
            remedy = f"write one of {', '.join((G5K, *OTHER_ENVIRONMENTS))}"
            raise source.wrong(node, f"environment.name: {node.value!r} is not known", remedy)
        tell(Kind.CHANGED, keys["name"][0], f"name: {node.value} became {name}:", "an environment is named by its key")
        return name
    if not keys.keys() & set(FLAT):
        raise source.wrong(mapping, "environment: names no testbed, and nothing that one has", f"add {G5K}:")
    name = asked.environment or G5K
    kind = Kind.CHANGED if asked.environment else Kind.GUESSED
    tell(kind, mapping, f"{name}: added", "no environment was named; --environment NAME says another")
    return name


def _deploys(source: Source, keys: dict[str, Pair], nested: str, tell: Tell) -> str:
    """The line to add so that an image is deployed, empty if none is; one that is there is made to say so."""
    if nested != G5K:
        return ""
    deployed = ["deploy"] if "env_name" in keys else []
    if "job_type" not in keys:
        if deployed:
            tell(Kind.CHANGED, keys["env_name"][0], "job_type: [deploy] added", _DEPLOY)
        return "job_type: [deploy]" if deployed else ""
    node = keys["job_type"][1]
    if isinstance(node, yaml.ScalarNode):
        types = ", ".join(dict.fromkeys([*([node.value] if node.value else []), *deployed]))
        source.replace(node, f"[{types}]")
        why = f"it is a list{', and ' + _DEPLOY if deployed else ''}"
        tell(Kind.CHANGED, node, f"job_type: {node.value} became [{types}]", why)
    elif isinstance(node, yaml.SequenceNode) and deployed and "deploy" not in [each.value for each in node.value]:
        if not node.value:
            source.replace(node, "[deploy]")
        else:
            last = node.value[-1]
            if node.flow_style:
                source.insert(last.end_mark.index, ", deploy")
            else:  # before a comment of its own, "- deploy" would take that over
                end = source.start(last_line(last) + 1)
                indent = " " * node.start_mark.column
                _put(source, end, f"{indent}- deploy\n")
        tell(Kind.CHANGED, node, "deploy added to job_type", _DEPLOY)
    return ""


def _image(source: Source, keys: dict[str, Pair], asked: Asked, tell: Tell) -> None:
    if "env_name" not in keys:
        return
    node = keys["env_name"][1]
    match = _USERS_IMAGE.fullmatch(str(node.value))
    if match is None:
        return
    user = match["user"] or match["home"]
    if asked.env_name is not None:
        source.replace(node, asked.env_name)
        tell(Kind.CHANGED, node, f"env_name: {asked.env_name} in place of an image in the folder of {user}", "as asked")
    else:
        why = "only they can keep it there; name another with --env-name, such as debian11-big"
        tell(Kind.NOTE, node, f"env_name is an image in the folder of the user {user}", why)


def _moved(
    source: Source, mapping: yaml.MappingNode, keys: dict[str, Pair], nested: str, moved: dict[str, Pair], added: str
) -> None:
    """Edit: ``moved`` and ``added`` stand under ``nested``, and ``name`` is gone."""
    if mapping.flow_style:
        _moved_in_flow(source, mapping, keys, nested, moved, added)
        return
    if nested in keys:
        inner = source.mapping(keys[nested][1], nested)
        if inner.flow_style and (moved or added):
            taken = [_flow(source, pair) for pair in moved.values()] + ([added] if added else [])
            source.insert(inner.end_mark.index - 1, (", " if inner.value else "") + ", ".join(taken))
            for key, value in moved.values():
                source.cut(*source.lines_of(key, value))
            return
        column = inner.value[0][0].start_mark.column if inner.value else mapping.value[0][0].start_mark.column + 2
        at = source.lines_of(*inner.value[-1])[1] if inner.value else source.lines_of(*keys[nested])[1]
        _put(source, at, _lines(source, moved, added, column))
        return
    column = mapping.value[0][0].start_mark.column
    first = next(iter(moved.values()), keys.get("name", mapping.value[0]))
    at = source.lines_of(*first)[0]
    head = f"{' ' * column}{nested}:\n"
    body = _lines(source, moved, added, column + 2)
    if "name" in keys:
        begin, end = source.lines_of(*keys["name"])
        kept = _comments(source.text[begin:end], column)
        source.edits.append((begin, end, kept))
    _put(source, at, head + body)


def _lines(source: Source, moved: dict[str, Pair], added: str, column: int) -> str:
    """The lines of ``moved``, taken out, and ``added``, indented by ``column``."""
    taken = []
    for key, value in moved.values():
        begin, end = source.lines_of(key, value)
        text = _with_edits(source, begin, end)
        if not text.endswith("\n"):
            text += "\n"
        shift = column - key.start_mark.column
        taken.append("".join(_shifted(each, shift) for each in text.splitlines(keepends=True)))
    return "".join(taken) + (f"{' ' * column}{added}\n" if added else "")


def _with_edits(source: Source, begin: int, end: int) -> str:
    """The text from ``begin`` to ``end`` with the edits inside carried out; all of it is taken out."""
    inside = [edit for edit in source.edits if begin <= edit[0] and edit[1] <= end]
    part = replace(source, text=source.text, edits=inside)
    text = part.text
    for first, last, new in sorted(inside, reverse=True):
        text = text[:first] + new + text[last:]
    source.edits = [edit for edit in source.edits if edit not in inside]
    source.cut(begin, end)
    return text[begin : end + len(text) - len(part.text)]


def _put(source: Source, at: int, text: str) -> None:
    """Insert ``text`` at the beginning of a line, or behind a last one that has no end; before what is cut there."""
    ahead = "\n" if at and source.text[at - 1] != "\n" else ""
    for i, (begin, end, new) in enumerate(source.edits):
        if begin == at and end > at:
            source.edits[i] = (begin, end, ahead + text + new)
            return
    source.insert(at, ahead + text)


def _shifted(text: str, columns: int) -> str:
    if columns < 0:
        return text[min(-columns, len(text) - len(text.lstrip(" "))) :]
    return " " * columns + text if text.strip() else text


def _comments(text: str, column: int) -> str:
    """What of the lines of an entry that goes are comments."""
    found = [match[0] for match in re.finditer(r"(?:^|(?<=\s))#.*", text, re.MULTILINE)]
    return "".join(f"{' ' * column}{comment}\n" for comment in found)


def _moved_in_flow(
    source: Source, mapping: yaml.MappingNode, keys: dict[str, Pair], nested: str, moved: dict[str, Pair], added: str
) -> None:
    begin, end = mapping.start_mark.index, mapping.end_mark.index
    if "#" in source.text[begin:end]:
        raise source.wrong(mapping, "comments stand in braces", "write the environment as 'key: value' lines first")
    stay = [_flow(source, pair) for key, pair in keys.items() if key not in moved and key not in ("name", nested)]
    inner = [_flow(source, pair) for pair in moved.values()] + ([added] if added else [])
    if nested in keys:
        was = source.mapping(keys[nested][1], nested)
        inner = [_flow(source, pair) for pair in entries(was).values()] + inner
    source.edits = [edit for edit in source.edits if not (begin <= edit[0] and edit[1] <= end)]
    source.edits.append((begin, end, "{" + ", ".join([*stay, f"{nested}: {{{', '.join(inner)}}}"]) + "}"))


def _flow(source: Source, pair: Pair) -> str:
    """An entry as it stands, with the edits of its value."""
    key, value = pair
    source.own(value)
    text = source.text[value.start_mark.index : value.end_mark.index]
    for begin, end, new in source.edits:
        if value.start_mark.index <= begin and end <= value.end_mark.index:
            text = text[: begin - value.start_mark.index] + new + text[end - value.start_mark.index :]
    return f"{source.text[key.start_mark.index : key.end_mark.index]}: {text.rstrip()}"
