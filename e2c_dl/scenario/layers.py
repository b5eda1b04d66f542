"""``layers_services.yaml`` to hosts, numbered as E2Clab numbers them.

::

    layers:                          service_id  role                host    rank
    - name: edge
      services:
      - {name: Trainer, quantity: 2} 1_1_1       edge.trainer.1.1    edge-1  0
                                     1_1_2       edge.trainer.1.2    edge-2  1
      - {name: Default}              1_2_1       edge.default.2.1    edge-3  None
    - name: fog
      services:
      - {name: Trainer, repeat: 1}   2_1_1       fog.trainer.1.1     fog-1   2
                (its copy, appended) 2_2_1       fog.trainer.2.1     fog-2   3

A service's ``repeat`` appends that many copies *more* at the end of its layer. Hosts of services that train
(:mod:`e2c_dl.scenario.services`) are numbered by rank as their service_id goes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from e2c_dl.scenario.documents.document import Document
from e2c_dl.scenario.documents.field import Field, Findings, described, instead
from e2c_dl.scenario.environment import G5K, MANAGERS, check_environment, check_manager, check_service, named, texts
from e2c_dl.scenario.services import TRAINER, TRAINING, check_keys, check_trains
from e2c_dl.topology import Host

MAX_HOSTS = 250

_SERVICE_KEYS = ("name", "quantity", "roles", "repeat", "env", "environment", "cluster", "servers", "archi")
# Host names are this with "-1" ... "-250" behind: at most the 63 characters of a host name's label.
_LAYER_NAME = re.compile(r"[a-z]([a-z0-9-]{0,57}[a-z0-9])?")

_SERVER = re.compile(r"[a-z][a-z0-9]*-[0-9]+\.[a-z]+\.grid5000\.fr")


@dataclass(frozen=True, kw_only=True)
class Service:
    """One entry of a layer's ``services:``. ``field`` is the entry, for what others read in it."""

    field: Field
    name: str
    hosts: int  # machines per copy
    copies: int  # repeat + 1


@dataclass(frozen=True, kw_only=True)
class Layers:
    """All hosts, those that train first and in rank order, and the entry that each Trainer comes from."""

    hosts: tuple[Host, ...]
    trainers: tuple[Field, ...]  # by rank; empty where a program of the user's trains


def read_layers(document: Document, services: frozenset[str], found: Findings) -> Layers | None:
    """The hosts of ``layers_services.yaml``, or None after noting in ``found`` why there are none.

    ``services`` are the names of E2Clab services that exist.
    """
    top = Field(document=document, value=document.value)
    fields = top.keys(found, known=("environment", "layers", *MANAGERS), required=("environment", "layers"))
    environment = Findings()  # apart: clusters are asked for only where it is sound
    if "environment" in fields:
        check_environment(fields["environment"], environment)
    found.take(environment)
    for name in MANAGERS:
        if name in fields:
            check_manager(name, fields[name], found)
    if "layers" not in fields:
        return None
    layers = _layers(fields["layers"], services, found)
    if layers is None:
        return None
    if "environment" in fields and not environment.errors:
        for service in (service for _, services in layers for service in services):
            if "environment" in service.field.fields():
                found.attempt(check_service, service.field.required("environment"), fields["environment"])
        found.attempt(_check_cluster, layers, fields["environment"])
    return found.attempt(_numbered, fields["layers"], layers)


def _layers(field: Field, services: frozenset[str], found: Findings) -> list[tuple[str, list[Service]]] | None:
    """(name, services) of each layer; None after noting errors."""
    own = Findings()
    seen: set[int] = set()
    layers: list[tuple[str, list[Service]]] = []
    for entry in own.attempt(field.items) or []:
        inner = entry.keys(own, known=("name", "services"), required=("name", "services"))
        if {"name", "services"} <= inner.keys():
            name = own.attempt(_layer_name, inner["name"], [layer for layer, _ in layers])
            items = own.attempt(inner["services"].items) or []
            read = [own.attempt(_service, item, services, seen, own) for item in items]
            layers.append((name or "", [service for service in read if service is not None]))
    found.take(own)
    return None if own.errors else layers


def _layer_name(field: Field, taken: list[str]) -> str:
    name = field.text()
    if not _LAYER_NAME.fullmatch(name):
        lower = name.lower()
        remedy = f"write {lower}" if _LAYER_NAME.fullmatch(lower) else "write a lower-case word, such as edge"
        raise field.error(f"{described(name)} cannot begin a host name, and capitals never match a pattern", remedy)
    if name in taken:
        raise field.error(f"layer {described(name)} is there already", "put its services in the first one")
    return name


def _service(entry: Field, services: frozenset[str], seen: set[int], found: Findings) -> Service:
    """One checked entry; notes further errors in ``found`` and remembers the entry in ``seen``."""
    fields = entry.fields()
    if id(entry.value) in seen:
        problem = "an alias of a whole service, to which E2Clab gives one and the same number"
        raise entry.error(problem, "write '<<: *alias' in a mapping of its own, or use quantity or repeat")
    seen.add(id(entry.value))  # PyYAML makes one object of an anchor and its aliases
    name = _service_name(entry.required("name"), services)
    check_keys(name, entry, _SERVICE_KEYS, found)
    for key, check in (("roles", texts), ("env", Field.fields), ("cluster", Field.text), ("archi", Field.text)):
        if key in fields:
            found.attempt(check, fields[key])
    repeat = fields["repeat"].integer(0, MAX_HOSTS - 1) if "repeat" in fields else 0
    return Service(field=entry, name=name, hosts=_machines(fields), copies=repeat + 1)


def _service_name(field: Field, services: frozenset[str]) -> str:
    name = field.text()
    if name not in services:
        problem = f"no service is called {described(name)} (E2Clab would deploy Default in its place)"
        raise field.error(problem, instead(name, sorted(services)))
    return name


def _machines(fields: dict[str, Field]) -> int:
    """How many machines a service asks for, per copy. Raises: ScenarioError."""
    quantity = fields["quantity"].integer(1, MAX_HOSTS) if "quantity" in fields else None
    if "servers" not in fields:
        return quantity or 1
    servers = texts(fields["servers"])
    if "cluster" in fields:
        raise fields["servers"].error("E2Clab ignores servers beside cluster", "remove one of them")
    if not servers or len(set(servers)) != len(servers):
        raise fields["servers"].error("names no server, or one twice", "name each machine once")
    if quantity not in (None, len(servers)):
        raise fields["quantity"].error(f"{quantity} machines of {len(servers)} servers", "remove quantity")
    return len(servers)


def _check_cluster(layers: list[tuple[str, list[Service]]], environment: Field) -> None:
    if environment.get(G5K) is None:  # for the others E2Clab has defaults
        return
    entries = [service.field for _, services in layers for service in services]
    entries = [entry for entry in entries if (where := entry.get("environment")) is None or where.value == G5K]
    for servers in (field for entry in entries if (field := entry.get("servers")) is not None):
        for server in servers.items():
            if not _SERVER.fullmatch(server.text()):
                problem = f"{described(server.value)} is no node's whole name, by which OAR and E2Clab find it"
                raise server.error(problem, "write it as paradoxe-3.rennes.grid5000.fr")
    if named(environment, "cluster") is None and not all(e.get("cluster") or e.get("servers") for e in entries):
        raise environment.error("no cluster, and a service names none either", "add 'cluster:' under g5k")


def _numbered(field: Field, layers: list[tuple[str, list[Service]]]) -> Layers:
    count = sum(service.hosts * service.copies for _, services in layers for service in services)
    if count > MAX_HOSTS:  # before any is made: repeat and quantity multiply
        raise field.error(f"{count} hosts are asked for", f"ask for at most {MAX_HOSTS}")
    asked = Counter[str]()
    for service in (service for _, services in layers for service in services):
        asked[service.name] += service.hosts * service.copies
    check_trains(field, asked)
    hosts: list[Host] = []
    trainers: list[Field] = []
    ranks = 0
    for layer_id, (layer, services) in enumerate(layers, 1):
        # E2Clab appends a service's copies behind all that its layer holds so far.
        entries = services + [service for service in services for _ in range(service.copies - 1)]
        places = ((i, service, m) for i, service in enumerate(entries, 1) for m in range(1, service.hosts + 1))
        for number, (service_id, service, machine_id) in enumerate(places, 1):
            trains = service.name in TRAINING
            hosts.append(Host(
                name=f"{layer}-{number}", layer=layer, service=service.name, rank=ranks if trains else None,
                service_id=f"{layer_id}_{service_id}_{machine_id}",
                role=f"{layer}.{service.name.lower()}.{service_id}.{machine_id}",  # lower, as E2Clab has it
            ))  # fmt: skip
            ranks += trains
            trainers += [service.field] * (service.name == TRAINER)
    return Layers(hosts=tuple(sorted(hosts, key=lambda host: host.rank is None)), trainers=tuple(trainers))
