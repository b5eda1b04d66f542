"""Nodes of Grid'5000 by E2Clab's own provider, with what it lacks: waits that end, and no node lost without a word.

::

    E2Clab's G5k.init ── EnOSlib's launch:  reserve ── wait ── map nodes to services ── root, or deploy ── facts
                                            recorded   every   as many as asked         three tries, all
                                            before     state                            nodes or an error

What is changed is one class derived from EnOSlib's provider, and one function of its module while nodes are deployed.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from e2c_dl.errors import E2cDlError, TestbedError
from e2c_dl.scenario.environment import RESERVATION
from e2c_dl.testbeds.e2clab import training_address, upstream
from e2c_dl.testbeds.e2clab.experiment import ansible_in, causes
from e2c_dl.testbeds.e2clab.telling import one_line
from e2c_dl.testbeds.e2clab.trainer import in_order
from e2c_dl.testbeds.grid5000 import api
from e2c_dl.testbeds.grid5000.account import Account
from e2c_dl.testbeds.grid5000.asked import begins
from e2c_dl.testbeds.grid5000.node import Node
from e2c_dl.topology import Topology

UTILS, PROVIDER = "enoslib.infra.enos_g5k.g5k_api_utils", "enoslib.infra.enos_g5k.provider"
CLIENT, RETRIES = "_api_client", "deploy_with_retries"
"""Names of EnOSlib's that are replaced: the client that it makes once, how nodes that fail are deployed again."""

TRIES = 3
UNANSWERED = 3  # looks at jobs in a row, after which the API is held for gone
_FIRST_S, _GROWTH, _LONGEST_S = 1.0, 1.5, 30.0  # OAR starts within seconds where nodes are free, or after hours
_DEPLOYED = ("terminated", "error")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is reserved beside that which the scenario says to E2Clab."""

    scenario: Path
    job_name: str
    project: str | None
    wait_s: float  # how long the jobs may wait for their nodes
    tell: Callable[[str], None]
    reserved: Callable[[Sequence[tuple[str, int]]], None]  # (site, id) of each job, as soon as they are known


def reserve(wish: Wish, account: Account, topology: Topology, directory: Path) -> dict[str, Node]:
    """Host -> its node, once all of them are reserved, root's, and answer.

    EnOSlib and Ansible work in ``directory``. Services get their nodes in the order of the nodes' numbers, whatever
    order OAR has them in, so that ranks are stable. Raises: TestbedError, InputError: whatever was reserved until then
    is for the caller to release.
    """
    ansible = ansible_in(directory)
    patched = upstream.patched(
        directory=directory, provider=None, service_dirs=(), hosts=len(topology.hosts), environ=ansible
    )
    with patched, causes(_ours), _client(account), _deployed_by(wish.tell):
        return _nodes(topology, _initialized(wish))


def _ours(cause: BaseException) -> E2cDlError:
    if type(cause).__module__.startswith(("grid5000", "requests", "urllib3")):
        return api.refused(cause, "reserving")
    return TestbedError(f"reserving on Grid'5000 failed: {one_line(cause)}")


def _initialized(wish: Wish) -> Any:
    """E2Clab's roles, by its own provider over ours of EnOSlib."""
    import yaml

    config = importlib.import_module("e2clab.config")
    plugin = importlib.import_module(f"e2clab.providers.plugins.{upstream.SUBSTITUTED}")
    said = yaml.safe_load((wish.scenario / "layers_services.yaml").read_text(encoding="utf-8"))
    provider = plugin.G5k(config.InfrastructureConfig(said))
    provider.config.job_name = wish.job_name
    of_e2clab = provider._provider_g5k
    provider._provider_g5k = lambda number: _make_provider(of_e2clab(number).provider_conf, wish)
    roles, _ = provider.init()
    return roles


def _make_provider(conf: Any, wish: Wish) -> Any:
    """EnOSlib's provider of that configuration, with waits that end."""
    en = importlib.import_module("enoslib")
    conf.project = wish.project

    class Guarded(en.G5k):  # type: ignore[misc, name-defined]
        """EnOSlib calls these by name, in this order."""

        def reserve(self, need_redeployment: bool = False) -> None:
            if conf.reservation and len(conf.sites) > 1:  # of one site, OAR reads it, as the time of Paris
                conf.reservation = begins(conf.reservation).astimezone().strftime(RESERVATION)
            super().reserve(need_redeployment)
            with api.telling("asking for jobs"):
                jobs = [(job.site, int(job.uid)) for job in self.driver.jobs]
            wish.reserved(jobs)

        def wait(self) -> None:
            await_running(self.driver.jobs, wish)
            _check_number(self.provider_conf.machines, self.driver.jobs)

        def _verify_environment_consistency(self) -> bool:
            return False  # the job is new, its name no other run's: nothing is deployed on its nodes

        def deploy(self) -> None:
            super().deploy()
            if self.undeployed:
                names = ", ".join(sorted(host.fqdn for host in self.undeployed))
                raise TestbedError(
                    f"{names}: could not be deployed with {self.provider_conf.env_name} in {TRIES} tries; name other "
                    "nodes with servers:, or see www.grid5000.fr/status"
                )

    return Guarded(conf)


def await_running(jobs: Sequence[Any], wish: Wish) -> None:
    """Returns when all ``jobs`` run. Raises: TestbedError: one is over, or did not begin in time."""
    begun_s, told, unanswered = time.monotonic(), "", 0
    for pause_s in _pauses():
        try:
            with api.telling("asking for the jobs"):
                for job in jobs:
                    job.refresh()
            unanswered = 0
        except TestbedError:
            unanswered += 1  # who has waited in the queue for hours does not lose his place for an answer
            if unanswered == UNANSWERED:
                raise
        states = [f"job {job.uid} of {job.site} is {job.state}{_scheduled(job)}" for job in jobs]
        for job, said in zip(jobs, states, strict=True):
            if job.state.lower() not in api.BEGINNING | {api.RUNNING}:
                raise TestbedError(
                    f"{said}: it ended before it began; `oarstat -fj {job.uid}` on the front end of {job.site} says why"
                )
        if all(job.state.lower() == api.RUNNING for job in jobs):
            return
        if (sentence := "; ".join(states)) != told:
            wish.tell(told := sentence)
        if time.monotonic() - begun_s + pause_s > wish.wait_s:
            raise TestbedError(
                f"{told} after {wish.wait_s:g} s; give it longer with --wait, ask for fewer nodes, or another cluster"
            )
        time.sleep(pause_s)


def _pauses() -> Iterator[float]:
    """Seconds between looks, ever longer; without end."""
    pause_s = _FIRST_S
    while True:
        yield pause_s
        pause_s = min(pause_s * _GROWTH, _LONGEST_S)


def _scheduled(job: Any) -> str:
    at = getattr(job, "scheduled_at", None)
    if job.state.lower() not in api.BEGINNING or not isinstance(at, (int, float)):
        return ""
    return f", expected to begin {datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def _check_number(machines: Sequence[Any], jobs: Sequence[Any]) -> None:
    """Raises: TestbedError: EnOSlib goes on with fewer nodes than it asked for."""
    asked = sum(machine.get_demands()[0] for machine in machines)
    given = [node for job in jobs for node in job.assigned_nodes]
    if len(given) < asked:
        raise TestbedError(
            f"Grid'5000 gave {len(given)} of {asked} nodes ({', '.join(sorted(given)) or 'none'}); run again, or name "
            "the nodes with servers:"
        )


def deployed(hosts: Sequence[Any], options: Mapping[str, Any], client: Any, tell: Callable[[str], None]) -> list[Any]:
    """Those of ``hosts`` that were not deployed after all tries; nodes that were are left alone by the next one."""
    left = list(hosts)
    for number in range(1, TRIES + 1):
        running = []
        for (site, vlan), some in _by_network(left).items():
            asked = {**options, "nodes": [host.fqdn for host in some], **({} if vlan is None else {"vlan": vlan})}
            running.append(client.sites[site].deployments.create(asked))
        done: set[str] = set()
        for deployment in running:
            _await_deployed(deployment)
            result = getattr(deployment, "result", None) or {}
            done |= {name for name, its in result.items() if its["state"] == "OK"}
        left = [host for host in left if host.fqdn not in done]
        if not left:
            return []
        tell(f"deployment {number} of {TRIES} failed on {', '.join(sorted(host.fqdn for host in left))}")
    return left


def _by_network(hosts: Sequence[Any]) -> dict[tuple[str, str | None], list[Any]]:
    found: dict[tuple[str, str | None], list[Any]] = {}
    default = importlib.import_module(PROVIDER).PROD_VLAN_ID
    for host in hosts:
        vlan = host.primary_network.vlan_id
        found.setdefault((host._where[0], None if vlan == default else vlan), []).append(host)
    return found


def _await_deployed(deployment: Any) -> None:
    for pause_s in _pauses():  # no limit but the step's: kadeploy has its own
        if deployment.status in _DEPLOYED:
            return
        time.sleep(pause_s)
        deployment.refresh()


@contextmanager
def _client(account: Account) -> Iterator[None]:
    """While in it, EnOSlib's one client is the account's; else it makes one of its own, without any time-out."""
    utils = importlib.import_module(UTILS)
    before = getattr(utils, CLIENT)
    setattr(utils, CLIENT, api.limited(utils.Client(**account.settings)))
    utils.get_all_clusters_sites.cache_clear()  # of another account's API
    try:
        yield
    finally:
        setattr(utils, CLIENT, before)


@contextmanager
def _deployed_by(tell: Callable[[str], None]) -> Iterator[None]:
    """While in it, EnOSlib deploys by ``deployed``: its own way forgets the nodes that an earlier try succeeded on."""
    provider, utils = importlib.import_module(PROVIDER), importlib.import_module(UTILS)
    before = getattr(provider, RETRIES)

    def deploy(hosts: Sequence[Any], force_deploy: bool, options: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        left = deployed(hosts, options, utils.get_api_client(), tell)
        return [host for host in hosts if host not in left], left

    setattr(provider, RETRIES, deploy)
    try:
        yield
    finally:
        setattr(provider, RETRIES, before)


def _nodes(topology: Topology, roles: Any) -> dict[str, Node]:
    """Raises: TestbedError: a service has fewer nodes than hosts, or a node has no device on its network."""
    found: dict[str, Node] = {}
    for host in topology.hosts:
        service, _, number = host.service_id.rpartition("_")
        there = in_order(set(roles[service]))
        if len(there) < int(number):
            raise TestbedError(f"host {host.name}: Grid'5000 gave {len(there)} nodes for its service, not {number}")
        found[host.name] = _node(host.name, there[int(number) - 1])
    return found


def _node(name: str, host: Any) -> Node:
    try:
        trains = training_address.of_host(host)
    except TestbedError as error:
        raise TestbedError(f"host {name}: {error}") from error
    return Node(address=str(host.address), device=trains.device, data_address=trains.address)
