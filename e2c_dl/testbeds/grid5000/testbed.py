"""``--on g5k``: what can be said before anything is reserved, and the claim of a run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping

from e2c_dl.errors import E2cDlError, InputError
from e2c_dl.formatting import count
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Foreseen, Probe, Testbed
from e2c_dl.testbeds.grid5000 import energy
from e2c_dl.testbeds.grid5000.account import load
from e2c_dl.testbeds.grid5000.api import Api, gpus_of
from e2c_dl.testbeds.grid5000.asked import Asked, read_asked
from e2c_dl.testbeds.grid5000.run import Grid5000Run
from e2c_dl.testbeds.machines.testbed import deploying, quota_missed

DEFAULT_WAIT = "00:50:00"
"""How long jobs may wait for their nodes, unless --wait says otherwise."""
DEPLOY = "deploy"  # type of jobs whose nodes are installed anew


class Grid5000Testbed(Testbed):
    """Nodes that a scenario reserves. Nothing is known of them before."""

    name = "g5k"

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Grid5000Testbed:
        """The testbed of ``options["wait"]``. Raises: InputError: that is no time."""
        said = options.get("wait", DEFAULT_WAIT)
        if not (found := re.fullmatch(r"([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])", said)):
            raise InputError(f"--wait {said}: no time; write hours, minutes and seconds, such as {DEFAULT_WAIT}")
        hours, minutes, seconds = map(int, found.groups())
        return cls(3600.0 * hours + 60 * minutes + seconds)

    def probes(self) -> tuple[Probe, ...]:
        return tuple(_probes())

    def blocking(self, probes: tuple[Probe, ...]) -> tuple[str, ...]:
        return tuple(probe.name for probe in probes if not probe.ok)

    def preflight(self, scenario: Scenario) -> tuple[str, ...]:
        """Raises: TestbedError: Grid'5000 cannot be asked."""
        asked = read_asked(scenario.path)
        try:
            api = Api(load(deploys=asked.env_name is not None))
            return tuple(_impossible(api, asked, api.sites(asked.clusters)))
        except InputError as error:
            return (str(error),)

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        return quota_missed(scenario)

    def plan(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        hosts = tuple(f"{host.name:<12} {host.role}" for host in scenario.topology.hosts)
        return {"reserved on Grid'5000": foreseen(scenario).lines, "hosts": hosts}

    def claim(self, scenario: Scenario) -> Grid5000Run:
        account = load(deploys=read_asked(scenario.path).env_name is not None)
        run = registry.begin(registry.new_run_id(), scenario=scenario.name, testbed=self.name)
        return Grid5000Run(scenario, run, account, self._wait_s)


def foreseen(scenario: Scenario) -> Foreseen:
    """What running ``scenario`` would reserve, what is known of those nodes, and what could not be looked up."""
    asked = read_asked(scenario.path)
    try:
        api = Api(load())
        sites = api.sites(asked.clusters)
    except E2cDlError as error:
        where = "at which sites its clusters are, how many nodes they have, GPUs and wattmetres"
        lines = (*asked.described({}), f"not looked up: {where}: {error}")
        return Foreseen(lines=lines, problems=tuple(_refused(asked)))
    lines = asked.described(sites)
    try:
        lines += tuple(_known(api, cluster, sites[cluster]) for cluster in asked.clusters if cluster in sites)
        return Foreseen(lines=lines, problems=tuple(_impossible(api, asked, sites)))
    except E2cDlError as error:
        return Foreseen(lines=(*lines, f"not looked up: what these clusters have: {error}"))


def _known(api: Api, cluster: str, site: str) -> str:
    """Raises: E2cDlError."""
    nodes = api.nodes(site, cluster)
    gpus = max((gpus_of(node) for node in nodes), default=0)
    power = "power is measured" if energy.METRIC in api.metrics(site, cluster) else "power is not measured"
    cards = f"{count(gpus, 'GPU')} each" if gpus else "no GPUs"
    return f"{cluster}: {len(nodes)} nodes at {site}, {cards}, {power}"


def _impossible(api: Api, asked: Asked, sites: Mapping[str, str]) -> Iterator[str]:
    """What of ``asked`` Grid'5000 will not give, in sentences with what to do. Raises: E2cDlError."""
    yield from _refused(asked)
    for cluster in asked.clusters:
        if cluster not in sites:
            yield f"no site of Grid'5000 has a cluster {cluster}; correct cluster: or servers:"
            continue
        there = {str(node["uid"]) for node in api.nodes(sites[cluster], cluster)}
        groups = [group for group in asked.groups if group.cluster == cluster]
        if (wanted := sum(group.nodes for group in groups)) > len(there):
            said = f"{wanted} nodes of {cluster} are asked for, which has {len(there)}"
            yield f"{said}; ask for fewer, or another cluster"
        unknown = [server for group in groups for server in group.servers if server.partition(".")[0] not in there]
        if unknown:
            yield f"{', '.join(unknown)}: {cluster} has no such node; correct servers:"


def _refused(asked: Asked) -> Iterator[str]:
    """What EnOSlib or OAR will not ask for, whatever there is."""
    if DEPLOY in asked.types and asked.env_name is None:
        yield f"job_type: [{DEPLOY}] needs what to install; add env_name, such as debian12-min, or write job_type: []"
    if asked.begins_in_s(time.time()) < 0:
        yield f"reservation: {asked.reservation} is past (time of Paris); write a time to come, or leave it out"


def _probes() -> Iterator[Probe]:
    yield from deploying()
    try:
        account = load()
    except InputError as error:
        yield Probe(name="account", ok=False, detail="not usable", remedy=str(error))
        return
    way = "from inside" if account.inside else f"through {account.jump}"
    yield Probe(name="account", ok=True, detail=f"{account.user}, {way}, key {account.key}")
    try:
        sites = Api(account).items("/sites", "listing sites")
    except E2cDlError as error:
        yield Probe(name="API", ok=False, detail="not usable", remedy=str(error))
    else:
        yield Probe(name="API", ok=True, detail=f"{len(sites)} sites")
