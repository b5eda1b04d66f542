"""The part of the Grid'5000 API that EnOSlib calls, as a server on loopback; what it does next is for tests to say.

::

    with serving(Platform(addresses=(...,))) as api:      one address per node: chifflot-1, -2 ... of lille, in order
        api.write_account(home)                           ~/.python-grid5000.yaml that leads there
        api.states = ["waiting", "terminated"]            what a job is at its first, second ... look; then as the last
        api.broken["GET /sites/lille/jobs/"] = 500        an answer: a status, HANG ...; by how requests begin
        api.refused = [{"chifflot-2"}, set()]             nodes that fail the first deployment, the second ...
        ... an unpatched client ...
        api.on["POST /sites/lille/jobs"] = function       called, once, when such a request was answered
        api.requests                                      what it asked: method, path, body
        api.up()                                          jobs that were not ended by anybody

Basic authentication is checked with every call. Time plays no part: jobs and deployments go on as they are looked at.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from grid5000_server import HANG, LOST, NONSENSE, OTHER, TRUNCATED, Handler

__all__ = ["HANG", "LOST", "NONSENSE", "OTHER", "TRUNCATED", "Platform", "serving"]
DEFAULT_CLUSTERS = {"chifflot": "lille", "paradoxe": "rennes"}
ALIVE = ("waiting", "launching", "running")
WATTS = 120.0


@dataclass(kw_only=True)
class Job:
    """One reservation, as OAR has it."""

    uid: int
    site: str
    asked: Mapping[str, Any]
    nodes: Sequence[str]
    looks: int = 0
    state: str = "waiting"
    deleted: bool = False


@dataclass(kw_only=True)
class Platform:
    """Sites, clusters and nodes, and what they will do."""

    addresses: Sequence[str] = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
    clusters: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_CLUSTERS))
    user: str = "root"
    password: str = "not-a-secret-of-anybody"
    states: Sequence[str] = ("waiting", "launching", "running")
    started_at: float | None = None  # of jobs that run: Unix time; they have half an hour from then on
    missing: int = 0  # nodes fewer than asked for
    first: Mapping[str, int] = field(default_factory=dict)  # cluster -> number of the first node that is given; else 1
    refused: Sequence[set[str]] = ()
    broken: dict[str, int | str] = field(default_factory=dict)
    after: int | None = None  # how many of such answers there are, before all is well again
    on: dict[str, Callable[[], object]] = field(default_factory=dict)
    device: str = "eth0"
    network: str = "198.18.0.0/16"
    gpus: int = 0
    metrics: Sequence[str] = ("wattmetre_power_watt",)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    jobs: dict[int, Job] = field(default_factory=dict)
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self) -> None:
        self.lock, self.over = threading.RLock(), threading.Event()

    def node(self, cluster: str, number: int) -> str:
        """chifflot-1.lille.grid5000.fr"""
        return f"{cluster}-{number}.{self.clusters[cluster]}.grid5000.fr"

    def hosts(self, clusters: Sequence[str] = ()) -> str:
        """Lines for /etc/hosts: every node's name, whichever cluster it is asked from."""
        named = clusters or tuple(self.clusters)
        return "".join(
            f"{address} {' '.join(self.node(cluster, number) for cluster in named)}\n"
            for number, address in enumerate(self.addresses, 1)
        )

    def write_account(self, home: Path, **more: Any) -> None:
        """A user's configuration of python-grid5000 in ``home``."""
        said = {"uri": self.url, "username": self.user, "password": self.password, **more}
        home.mkdir(parents=True, exist_ok=True)
        (home / ".python-grid5000.yaml").write_text(json.dumps(said))  # JSON is YAML

    def up(self) -> list[int]:
        """Jobs that nobody ended."""
        with self.lock:
            return [job.uid for job in self.jobs.values() if job.state in ALIVE and not job.deleted]

    def end_jobs(self, state: str = "terminated") -> None:
        """As OAR does at the walltime."""
        with self.lock:
            for job in self.jobs.values():
                job.state, self.states = state, [state]

    def asked(self, method: str, part: str = "") -> list[Any]:
        """Bodies of the requests of ``method`` with ``part`` in their paths."""
        with self.lock:
            return [body for verb, path, body in self.requests if verb == method and part in path]

    def get(self, path: list[str], query: Mapping[str, str]) -> tuple[int, Any]:  # noqa: C901 - a table
        """Status and answer."""
        found: Any = None
        match path:
            case ["sites"]:
                found = _items([self._site(uid) for uid in dict.fromkeys(self.clusters.values())])
            case ["sites", site] if site in self.clusters.values():
                found = self._site(site)
            case ["sites", site, "clusters"]:
                found = _items([self._cluster(uid) for uid, at in self.clusters.items() if at == site])
            case ["sites", site, "clusters", uid] if self.clusters.get(uid) == site:
                found = self._cluster(uid)
            case ["sites", _, "clusters", uid, "status"]:  # asked where sites must begin together
                free = {"hard": "alive", "soft": "free", "reservations": []}
                found = {"nodes": {self.node(uid, n): free for n in range(1, len(self.addresses) + 1)}}
            case ["sites", _, "clusters", uid, "nodes"]:
                found = _items([self._node(f"{uid}-{n}") for n in range(1, len(self.addresses) + 1)])
            case ["sites", _, "clusters", _, "nodes", name]:
                found = self._node(name)
            case ["sites", _, "servers", "dns"]:
                found = {"uid": "dns", "network_adapters": {"default": {"ip": "192.0.2.53"}}}
            case ["sites", _, "metrics"]:
                found = self._metrics(query)
            case ["sites", site, "jobs"]:
                found = _items([self._job(job) for job in self.jobs.values() if self._wanted(job, site, query)])
            case ["sites", _, "jobs", uid] if int(uid) in self.jobs:
                found = self._looked_at(self.jobs[int(uid)])
            case ["sites", _, "deployments", uid] if uid in self.deployments:
                found = self._deployed(uid)
        return (404, {"message": f"no such thing: {'/'.join(path)}"}) if found is None else (200, found)

    def post(self, path: list[str], body: Any) -> tuple[int, Any]:
        """Status and answer."""
        match path:
            case ["sites", site, "jobs"]:
                uid = 1000 + len(self.jobs)
                count = sum(int(part.partition("nodes=")[2].split(",")[0]) for part in body["resources"].split("+"))
                cluster = next(name for name, at in self.clusters.items() if at == site and name in body["resources"])
                first = self.first.get(cluster, 1)
                nodes = [self.node(cluster, number) for number in range(first, first + count - self.missing)]
                nodes.reverse()  # OAR promises no order
                self.jobs[uid] = Job(uid=uid, site=site, asked=body, nodes=nodes)
                return 201, self._job(self.jobs[uid])
            case ["sites", site, "deployments"]:
                uid = f"D-{len(self.deployments)}"
                fails = set(self.refused[len(self.deployments)]) if len(self.deployments) < len(self.refused) else set()
                self.deployments[uid] = {"uid": uid, "site_uid": site, "status": "processing", "fails": fails, **body}
                return 201, self._shown(uid)
        return 404, {"message": "no such thing"}

    def delete(self, path: list[str]) -> tuple[int, Any]:
        """Status and answer."""
        match path:
            case ["sites", _, "jobs", uid] if int(uid) in self.jobs:
                job = self.jobs[int(uid)]
                job.deleted, job.state = True, "error"  # as OAR has jobs that were deleted
                return 202, None
        return 404, {"message": "no such job"}

    def _site(self, uid: str) -> dict[str, Any]:
        vlan = {"network": self.network, "gateway": "192.0.2.254"}
        return {"uid": uid, "type": "site", "kavlans": {"default": vlan}, "ipv6": {"site_index": 1}}

    def _cluster(self, uid: str) -> dict[str, Any]:
        described = [{"name": name, "period": 1000} for name in self.metrics]
        return {"uid": uid, "type": "cluster", "exotic": False, "metrics": described, "queues": ["default"]}

    def _node(self, name: str) -> dict[str, Any]:
        adapter = {"mountable": True, "mounted": True, "management": False, "interface": "Ethernet"}
        device = {"device": self.device, "name": self.device, **adapter}
        cards = {f"nvidia{i}": {"model": "A100", "memory": 40 << 30} for i in range(self.gpus)}
        return {
            "uid": name, "type": "node", "network_adapters": [device], "gpu_devices": cards,
            "architecture": {"nb_cores": 32, "nb_threads": 64},
        }  # fmt: skip

    def _metrics(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        wanted = [name for name in query.get("metrics", "").split(",") if name in self.metrics]
        return [
            {"timestamp": at, "device_id": node, "metric_id": name, "value": WATTS, "labels": {}}
            for name in wanted
            for node in query.get("nodes", "").split(",")
            for at in (query["start_time"], query["end_time"])
        ]

    def _wanted(self, job: Job, site: str, query: Mapping[str, str]) -> bool:
        states = query.get("state", ",".join(ALIVE)).split(",")
        named = query.get("name") in (None, job.asked["name"])
        return job.site == site and named and job.state in states and query.get("user") in (None, self.user)

    def _job(self, job: Job) -> dict[str, Any]:
        return {
            "uid": job.uid, "user": self.user, "state": job.state, "site_uid": job.site, "name": job.asked["name"],
            "types": job.asked["types"], "queue": job.asked["queue"], "walltime": 1800, "scheduled_at": 1800000000,
            "started_at": self.started_at if job.state == "running" else None,
        }  # fmt: skip

    def _looked_at(self, job: Job) -> dict[str, Any]:
        if not job.deleted:
            job.state = self.states[min(job.looks, len(self.states) - 1)]
            job.looks += 1
        nodes = list(job.nodes) if job.state == "running" else []
        return self._job(job) | {"assigned_nodes": nodes, "resources_by_type": {"cores": nodes} if nodes else {}}

    def _deployed(self, uid: str) -> dict[str, Any]:
        its = self.deployments[uid]
        its["status"] = "terminated"
        its["result"] = {
            node: {"state": "KO" if node.partition(".")[0] in its["fails"] else "OK"} for node in its["nodes"]
        }
        return self._shown(uid)

    def _shown(self, uid: str) -> dict[str, Any]:
        return {key: value for key, value in self.deployments[uid].items() if key != "fails"}


def _items(found: Sequence[Any]) -> dict[str, Any]:
    return {"items": list(found), "total": len(found), "offset": 0}


@contextmanager
def serving(platform: Platform) -> Iterator[Platform]:
    """``platform`` while in it, with its ``url``."""
    handler = type("Serving", (Handler,), {"platform": platform})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    platform.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield platform
    finally:
        platform.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
