"""Services that have another name today, wherever a scenario names them: its own were left to E2Clab's ``Default``.

::

    - name: Server                             - name: FLServer
    hosts: cloud.server.*             ->       hosts: cloud.flserver.*
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from e2c_dl.errors import InputError
from e2c_dl.migration.model import Kind, Said
from e2c_dl.migration.text import Source, entries, line

_WHY = "as --service says"
_BETWEEN = ",:"  # patterns, of which one selects several


def rename_services(source: Source, services: Mapping[str, str]) -> list[Said]:
    """What is told. Edits ``source``, layers_services.yaml. Raises: InputError, if there is no such service."""
    top = entries(source.mapping(source.root, "the file"))
    said, found = [], set()
    for layer in source.items(top["layers"][1], "layers") if services and "layers" in top else []:
        inner = entries(source.mapping(layer, "a layer"))
        for service in source.items(inner["services"][1], "services") if "services" in inner else []:
            keys = entries(source.mapping(service, "a service"))
            name = str(keys["name"][1].value) if "name" in keys else ""
            if name in services:
                found.add(name)
                node = keys["name"][1]
                source.replace(node, services[name])
                what = f"service {name} became {services[name]}"
                said.append(Said(kind=Kind.CHANGED, file=source.file, line=line(node), what=what, why=_WHY))
    for name in sorted(services.keys() - found):
        raise InputError(f"--service {name}=...: {source.file} has no service of this name; write one that it has")
    return said


def rename_in_pattern(source: Source, node: yaml.Node, name: str, services: Mapping[str, str]) -> list[Said]:
    """The same, of one pattern of hosts, in lower case, as E2Clab knows services. Raises: ScenarioError."""
    new = renamed(node.value, services).lower()
    if "{{" in node.value or new == node.value:
        return []
    text = source.text[node.start_mark.index : node.end_mark.index]
    source.replace(node, renamed(text, services).lower())
    why = "services are known by their names in lower case" if new == node.value.lower() else _WHY
    what = f"{name}: {node.value} became {new}"
    return [Said(kind=Kind.CHANGED, file=source.file, line=line(node), what=what, why=why)]


def renamed(patterns: str, services: Mapping[str, str]) -> str:
    """``patterns`` (``cloud.server.*, edge.*``), the second part of each being a service, with the names of today."""
    today = {old.lower(): new for old, new in services.items()}

    def one(pattern: str) -> str:
        layer, dot, rest = pattern.partition(".")
        service, more, last = rest.partition(".")
        bare = service.rstrip("\"' ")
        return f"{layer}{dot}{today.get(bare.lower(), bare)}{service[len(bare) :]}{more}{last}"

    return "".join(each if each in _BETWEEN else one(each) for each in re.split(f"([{_BETWEEN}])", patterns))
