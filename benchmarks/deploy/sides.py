"""One deployment and its release, timed stage by stage: ours, as ``e2c-dl deploy`` does it, or EnOSlib's alone.

::

                 hosts           reach                  services               emulate            release
    e2c_dl       NamespaceHosts    Static, wait_for       E2Clab, Trainer        the relay, or tc   all of it
    enoslib      the same        the same, written out  run_command: version   NetemHTB           NetemHTB, hosts

Run as ``python -m benchmarks.deploy.sides SIDE HOSTS``: prints a JSON object stage -> seconds. A process of its own for
each: Ansible and E2Clab keep things for as long as one lives. What they take to be imported is not counted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.deploy import scenario as scenarios
from e2c_dl import resources
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import catalogue, registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.testbeds.e2clab.experiment import Session
from e2c_dl.testbeds.namespaces import cleanup
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.this_machine import addresses, rootless
from e2c_dl.testbeds.this_machine.hosts import HostSpec

SIDES = ("e2c_dl", "enoslib")
STAGES = ("hosts", "reach", "services", "emulate", "release")
VERSION = "import importlib.metadata as m; print(m.version('e2c_dl'))"


class Stages:
    """Seconds of each stage, as they are gone through."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - begun

    def without(self, name: str, *inner: str) -> None:
        """``name`` was timed around ``inner``: leave those out."""
        self.seconds[name] -= sum(self.seconds[each] for each in inner)


def ours(scenario: Scenario, folder: Path) -> dict[str, float]:
    """Raises: E2cDlError."""
    stages = Stages()
    run = catalogue.testbed("local", {}).claim(scenario)
    os.environ.update(run.environ)
    try:
        run.adopt(scenario, archive=folder, strict=False)
        with stages.timed("hosts"):
            run.provision()
        provider = run.provider()
        init = provider.init

        def timed_init(self: object) -> object:
            with stages.timed("reach"):
                return init(self)

        provider.init = timed_init  # type: ignore[method-assign]
        session = Session(
            scenario_dir=scenario.path,
            artifacts_dir=folder,
            fetch_dir=folder / "fetched",
            state_dir=run.state_dir,
            hosts=len(scenario.topology.hosts),
            provider=provider,
            service_dirs=[resources.layers_services_dir()],
        )
        with session:
            with stages.timed("services"):
                session.infrastructure()
            with stages.timed("emulate"):
                run.emulate()
            with stages.timed("release"):
                run.end_emulation()
                run.release()
    finally:
        cleanup.destroy(run.run_id)
    stages.without("services", "reach")
    return stages.seconds


def theirs(scenario: Scenario, folder: Path) -> dict[str, float]:
    """Raises: what EnOSlib raises."""
    import enoslib as en

    stages = Stages()
    run = registry.begin(registry.new_run_id(), scenario=scenario.name, choose_slot=addresses.free_slot)
    os.environ.update(run.environ)
    os.environ["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(run.directory / "ssh")
    os.environ["ANSIBLE_LOCAL_TEMP"] = str(run.directory / "ansible")
    specs = [HostSpec(name=name) for name in scenario.topology.names]
    testbed = NamespaceHosts(run, specs, backend=Backend.TC, tcp=scenario.tcp)
    os.chdir(folder)
    en.set_config(ansible_forks=max(len(specs), 5), ansible_stdout="noop")
    try:
        with stages.timed("hosts"):
            accesses = testbed.up()
        with stages.timed("reach"):
            roles, networks = en.Static(en.StaticConf.from_dictionary(_static(scenario, accesses))).init()
            _tell_devices(roles, networks, accesses)
            en.wait_for(roles)
        with stages.timed("services"):
            said = en.run_command(f'{sys.executable} -c "{VERSION}"', roles=roles)
            if not all(result.ok() for result in said):
                raise RuntimeError(f"hosts without e2c_dl: {said}")
        with stages.timed("emulate"):
            netem = en.NetemHTB.from_dict(_constraints(), roles, networks)
            netem.deploy()
        with stages.timed("release"):
            netem.destroy()
            with stages.timed("release of hosts alone"):
                testbed.down()
    finally:
        testbed.down()
    return stages.seconds


def _static(scenario: Scenario, accesses: tuple[Access, ...]) -> dict[str, Any]:
    layers = {host.name: host.layer for host in scenario.topology.hosts}
    machines = [
        {
            "roles": [layers[access.name]],
            "address": access.address,
            "alias": access.name,
            "user": access.user,
            "keyfile": access.keyfile,
            "port": access.port,
            "extra": {"ansible_python_interpreter": access.python},
        }
        for access in accesses
    ]
    network = {"roles": ["data"], "cidr": str(addresses.DATA_NETWORK), "gateway": "198.19.0.1", "dns": "198.19.0.1"}
    return {"resources": {"machines": machines, "networks": [network]}}


def _tell_devices(roles: Any, networks: Any, accesses: tuple[Access, ...]) -> None:
    """What sync_info would find out, at a cost that is no part of the comparison (5.8 s for 4 hosts)."""
    from enoslib.objects import IPAddress, NetDevice

    (network,) = networks["data"]
    of = {access.name: access for access in accesses}
    for hosts in roles.values():
        for host in hosts:
            access = of[host.alias]
            host.net_devices = {NetDevice(access.data_device, {IPAddress(f"{access.data_address}/16", network)})}


def _constraints() -> dict[str, Any]:
    return {
        "default_delay": scenarios.DELAY,
        "default_rate": scenarios.RATE,
        "default_network": "data",
    }


def main() -> int:
    """The process. Returns its exit status."""
    rootless.enter()
    side, hosts = sys.argv[1], int(sys.argv[2])
    logging.disable(logging.WARNING)
    upstream.check()
    os.environ.update(upstream.ANSIBLE_SETTINGS)
    import enoslib as en

    en.set_config(ansible_stdout="noop")
    with tempfile.TemporaryDirectory(prefix="e2cdl-deploy-") as name:
        folder = Path(name)
        scenario = load(scenarios.write(folder / "scenario", hosts))
        seconds = {"e2c_dl": ours, "enoslib": theirs}[side](scenario, folder)
    print(json.dumps(seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
