"""``layers_services.yaml``: monitoring, which needs a provider today, and a cluster for the host of its server.

::

    monitoring: {type: tig}   ->   monitoring: {type: tig, provider: g5k, cluster: taurus}
"""

from __future__ import annotations

import yaml

from e2c_dl.migration.model import Kind, Said
from e2c_dl.migration.text import Pair, Source, entries, line
from e2c_dl.scenario.environment import G5K, OTHER_ENVIRONMENTS

_NO_SERVER = "dstat"


def migrate_monitoring(source: Source, top: dict[str, Pair]) -> list[Said]:
    """What is told. Edits ``source``, of whose file ``top`` are the keys. Raises: ScenarioError."""
    if "monitoring" not in top or "environment" not in top:
        return []
    key, value = top["monitoring"]
    mapping = source.mapping(value, "monitoring")
    keys = entries(mapping)
    kind = keys["type"][1].value if "type" in keys else _NO_SERVER
    environment = entries(source.mapping(top["environment"][1], "environment"))
    if kind == _NO_SERVER or "provider" in keys or any(name in environment for name in OTHER_ENVIRONMENTS):
        return []
    added = {"provider": G5K}
    cluster = _cluster(source, environment)
    if cluster and not keys.keys() & {"cluster", "servers"}:
        added["cluster"] = cluster
    lines = [f"{name}: {text}" for name, text in added.items()]
    if mapping.flow_style:
        source.insert(keys["type"][1].end_mark.index, "".join(f", {each}" for each in lines))
    else:
        at = source.lines_of(*keys["type"])[1]
        column = keys["type"][0].start_mark.column
        ahead = "" if source.text[at - 1] == "\n" else "\n"
        source.insert(at, ahead + "".join(f"{' ' * column}{each}\n" for each in lines))
    why = "monitoring names where its server is; it was put where the hosts are"
    return [Said(kind=Kind.GUESSED, file=source.file, line=line(key), what=f"{', '.join(lines)} added", why=why)]


def _cluster(source: Source, environment: dict[str, Pair]) -> str | None:
    """Of the hosts, if it is said once for all of them."""
    for keys in (environment, entries(source.mapping(environment[G5K][1], G5K)) if G5K in environment else {}):
        if "cluster" in keys and isinstance(keys["cluster"][1], yaml.ScalarNode):
            return str(keys["cluster"][1].value)
    return None
