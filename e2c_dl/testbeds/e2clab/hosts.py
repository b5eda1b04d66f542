"""Hosts that are already there, handed to E2Clab through EnOSlib's Static provider.

One :class:`~e2c_dl.testbeds.base.Access` per host becomes one EnOSlib Host with the roles that E2Clab expects (layer,
service name, service id). What workers need to know of their host travels in ``extra["e2cdl"]`` and is published by the
Trainer service as ``_self``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import enoslib as en
from enoslib.objects import IPAddress, NetDevice

from e2c_dl.testbeds.base import Access, Told
from e2c_dl.topology import Topology

EXTRA = "e2cdl"
DATA_NETWORK = "e2cdl_data"
_RETRIES, _INTERVAL_S = 20, 1  # EnOSlib's own default is ten minutes for a host that never answers


def roles_and_networks(
    topology: Topology,
    accesses: Sequence[Access],
    told: Mapping[str, Told],
    variables: Mapping[str, Mapping[str, Any]],
) -> Any:
    """(Roles, Networks) of ``accesses``, once all of them answer over SSH.

    ``told[host]`` is what that host's worker is told beside its addresses, ``variables[host]`` are Ansible's own.

    Raises: enoslib.errors.EnosSSHNotReady if a host does not answer within 20 tries.
    """
    by_name = {access.name: access for access in accesses}
    members = [
        {"name": host.name, "address": by_name[host.name].data_address, "layer": host.layer} for host in topology.ranks
    ]
    machines = [
        _machine(
            by_name[host.name],
            # E2Clab finds a service's hosts by its id without the machine: 1_1 of 1_1_2
            [host.service, host.service_id.rpartition("_")[0], host.layer],
            told[host.name],
            variables.get(host.name, {}),
            members,
        )
        for host in topology.hosts
    ]
    networks = [{"roles": [DATA_NETWORK], "cidr": "198.19.0.0/16", "gateway": "198.19.0.1", "dns": "198.19.0.1"}]
    conf = en.StaticConf.from_dictionary({"resources": {"machines": machines, "networks": networks}})
    roles, nets = en.Static(conf).init()
    (network,) = nets[DATA_NETWORK]
    for hosts in roles.values():
        for host in hosts:
            access = by_name[host.alias]
            # What sync_info would find out, slowly. With its network, else E2Clab's validation pings nobody, for ever.
            address = IPAddress(f"{access.data_address}/16", network)
            host.net_devices = {NetDevice(access.data_device, {address})}
    en.wait_for(roles, retries=_RETRIES, interval=_INTERVAL_S)
    return roles, nets


def _machine(
    access: Access, roles: list[str], told: Told, variables: Mapping[str, Any], members: list[dict[str, str]]
) -> dict[str, Any]:
    """``members``: all hosts that train, in rank order, which a service sees only its own part of."""
    return {
        "roles": roles,
        "address": access.address,
        "alias": access.name,
        "user": access.user,
        "keyfile": access.keyfile,
        "port": access.port,
        "extra": {
            "ansible_python_interpreter": access.ansible_python or access.python,  # discovery picks a shim, and fails
            **variables,
            EXTRA: {
                "host": access.name,
                "address": access.own_address or access.address,
                "data_address": access.data_address,
                "data_device": access.data_device,
                "python": access.python,
                "run_dir": access.run_dir,
                "members": members,
                **told.published(),
            },
        },
    }
