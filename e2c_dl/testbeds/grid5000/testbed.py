"""``--on g5k``: what can be said before anything is reserved, and the claim of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from e2c_dl.errors import E2cDlError, InputError
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Probe, Testbed
from e2c_dl.testbeds.grid5000 import energy
from e2c_dl.testbeds.grid5000.account import load
from e2c_dl.testbeds.grid5000.api import Api, gpus_of
from e2c_dl.testbeds.grid5000.asked import Asked, read_asked
from e2c_dl.testbeds.grid5000.run import Grid5000Run
from e2c_dl.testbeds.machines.testbed import deploying, quota_missed

DEFAULT_WAIT = "00:50:00"
"""How long jobs may wait for their nodes, unless --wait says otherwise."""


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
            sites = api.sites(asked.clusters)
        except InputError as error:
            return (str(error),)
        missing = [cluster for cluster in asked.clusters if cluster not in sites]
        if missing:
            return tuple(
                f"no site of Grid'5000 has a cluster {cluster}; correct cluster: or servers:" for cluster in missing
            )
        return tuple(_too_many(api, asked, sites))

    def limitations(self, scenario: Scenario) -> tuple[str, ...]:
        return quota_missed(scenario)

    def plan(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        hosts = tuple(f"{host.name:<12} {host.role}" for host in scenario.topology.hosts)
        return {"reserved on Grid'5000": foreseen(scenario), "hosts": hosts}

    def claim(self, scenario: Scenario) -> Grid5000Run:
        account = load(deploys=read_asked(scenario.path).env_name is not None)
        run = registry.begin(registry.new_run_id(), scenario=scenario.name, testbed=self.name)
        return Grid5000Run(scenario, run, account, self._wait_s)


def foreseen(scenario: Scenario) -> tuple[str, ...]:
    """What running ``scenario`` would reserve, what is known of those nodes, and what could not be looked up."""
    asked = read_asked(scenario.path)
    try:
        api = Api(load())
        sites = api.sites(asked.clusters)
    except E2cDlError as error:
        where = "at which sites its clusters are, how many nodes they have, GPUs and wattmetres"
        return (*asked.described({}), f"not looked up: {where}: {error}")
    lines = list(asked.described(sites))
    for cluster in asked.clusters:
        try:
            lines.append(_known(api, cluster, sites))
        except E2cDlError as error:
            lines.append(f"not looked up: {cluster}: {error}")
    return tuple(lines)


def _known(api: Api, cluster: str, sites: Mapping[str, str]) -> str:
    """Raises: E2cDlError."""
    if cluster not in sites:
        return f"{cluster}: no site of Grid'5000 has such a cluster"
    nodes = api.nodes(sites[cluster], cluster)
    gpus = max((gpus_of(node) for node in nodes), default=0)
    power = "power is measured" if energy.METRIC in api.metrics(sites[cluster], cluster) else "power is not measured"
    return f"{cluster}: {len(nodes)} nodes at {sites[cluster]}, {gpus or 'no'} GPUs each, {power}"


def _too_many(api: Api, asked: Asked, sites: Mapping[str, str]) -> Iterator[str]:
    for cluster in asked.clusters:
        wanted = sum(group.nodes for group in asked.groups if group.cluster == cluster)
        there = len(api.nodes(sites[cluster], cluster))
        if wanted > there:
            yield f"{wanted} nodes of {cluster} are asked for, which has {there}; ask for fewer, or another cluster"


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
