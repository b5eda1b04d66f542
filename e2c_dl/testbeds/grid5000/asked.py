"""What a scenario reserves on Grid'5000: groups of nodes, for how long, and the words in which OAR is asked for them.

::

    {cluster='paradoxe'}/nodes=2+{cluster='paradoxe'}/nodes=2,walltime=00:30:00        one request per site
      a service                   another one

As E2Clab 3.7 and EnOSlib 10.9 put it together; which site a cluster is at, their API knows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from e2c_dl.formatting import count
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.documents.field import Field
from e2c_dl.scenario.environment import G5K, RESERVATION, named, texts
from e2c_dl.scenario.load import LAYERS_SERVICES
from e2c_dl.scenario.walltime import seconds

WALLTIME, JOB_NAME, QUEUE = "01:00:00", "E2Clab", "default"
"""What E2Clab asks for where a scenario does not say."""
PARIS = "Europe/Paris"  # all sites of Grid'5000 go by it
_MANAGERS = ("monitoring", "provenance")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Nodes that are asked for together: any of a cluster, or these servers."""

    cluster: str
    nodes: int
    servers: tuple[str, ...] = ()

    @property
    def criterion(self) -> str:
        """In OAR's words."""
        if not self.servers:
            return f"{{cluster='{self.cluster}'}}/nodes={self.nodes}"
        return f"{{network_address in ({', '.join(map(repr, self.servers))})}}/nodes={self.nodes}"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All that a scenario reserves."""

    groups: tuple[Group, ...]
    job_name: str
    walltime: str  # hh:mm:ss
    queue: str
    types: tuple[str, ...]
    project: str | None
    reservation: str | None  # when it shall begin; None: as soon as there are nodes
    env_name: str | None

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.cluster for group in self.groups))

    @property
    def nodes(self) -> int:
        return sum(group.nodes for group in self.groups)

    @property
    def walltime_s(self) -> int:
        return seconds(self.walltime)

    def begins_in_s(self, now_s: float) -> float:
        """From ``now_s``, Unix time, until its reservation begins: below 0 if that is past, 0 if it names no time."""
        return 0.0 if self.reservation is None else begins(self.reservation).timestamp() - now_s

    def cost(self) -> str:
        """For people: 6 nodes x 0.5 h = 3 node-hours, at most."""
        hours = self.walltime_s / 3600
        return f"{count(self.nodes, 'node')} x {hours:g} h = {self.nodes * hours:g} node-hours at most"

    def requests(self, sites: Mapping[str, str]) -> dict[str, str]:
        """Site -> what OAR is asked there. ``sites``: cluster -> site; "" stands for the site of clusters not in it."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(sites.get(group.cluster, ""), []).append(group)
        return {site: self._request(groups) for site, groups in found.items()}

    def described(self, sites: Mapping[str, str]) -> tuple[str, ...]:
        """Lines for people: what it costs, then the request of each site."""
        said = [
            f"job {self.job_name}",
            f"queue {self.queue}",
            *(f"type {kind}" for kind in self.types),
            *([f"project {self.project}"] if self.project else []),
            *([f"from {self.reservation} on, time of Paris"] if self.reservation else []),
            *([f"environment {self.env_name}"] if self.env_name else []),
        ]
        requests = (f"at {site or 'a site that is not known'}: {what}" for site, what in self.requests(sites).items())
        return (f"{self.cost()} ({', '.join(said)})", *requests)

    def _request(self, groups: Sequence[Group]) -> str:
        # stable: EnOSlib too puts servers first, as nodes that are named must not go to others
        ordered = sorted(groups, key=lambda group: not group.servers)
        return "+".join(group.criterion for group in ordered) + f",walltime={self.walltime}"


def begins(reservation: str) -> datetime:
    """When a reservation begins."""
    return datetime.strptime(reservation, RESERVATION).replace(tzinfo=ZoneInfo(PARIS))


def read_asked(scenario: Path) -> Asked:
    """What the scenario in that folder, which is valid, reserves.

    Raises: ScenarioError: its file went away, or it is for other testbeds of E2Clab's.
    """
    document = read(scenario / LAYERS_SERVICES)
    top = Field(document=document, value=document.value)
    environment = top.required("environment")
    if environment.get(G5K) is None:
        raise environment.error(
            f"there is no {G5K}: to reserve nodes by", "add 'g5k: {cluster: paradoxe}' in its place"
        )

    def said(key: str) -> str | None:
        found = named(environment, key)
        return None if found is None else found.text()

    types, cluster = named(environment, "job_type"), said("cluster")
    return Asked(
        groups=tuple(_groups(top, cluster)),
        job_name=said("job_name") or JOB_NAME,
        walltime=said("walltime") or WALLTIME,
        queue=said("queue") or QUEUE,
        types=() if types is None else texts(types),
        project=said("project"),
        reservation=said("reservation"),
        env_name=said("env_name"),
    )


def _groups(top: Field, cluster: str | None) -> Iterable[Group]:
    for key in _MANAGERS:  # E2Clab puts each on a node of its own
        manager = top.get(key)
        if manager is not None and (provider := manager.get("provider")) is not None and provider.value == G5K:
            yield from _of_one(manager, None, 1)
    for layer in top.required("layers").items():
        services = layer.required("services").items()
        copies = [service for service in services for _ in range(_number(service, "repeat", 0))]
        for service in (*services, *copies):
            yield from _of_one(service, cluster, _number(service, "quantity", 1))


def _of_one(entry: Field, cluster: str | None, nodes: int) -> Iterable[Group]:
    own, servers = entry.get("cluster"), entry.get("servers")
    if own is None and servers is not None:
        by_cluster: dict[str, list[str]] = {}
        for server in texts(servers)[: None if entry.get("services") is None else nodes]:
            by_cluster.setdefault(server.partition("-")[0], []).append(server)
        yield from (Group(cluster=name, nodes=len(some), servers=tuple(some)) for name, some in by_cluster.items())
    else:
        yield Group(cluster=own.text() if own is not None else cluster or "", nodes=nodes)


def _number(service: Field, key: str, default: int) -> int:
    found = service.get(key)
    return default if found is None else found.integer(0, 1 << 20)
