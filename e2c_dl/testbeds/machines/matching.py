"""Who is who: which machine of the inventory is which host of the scenario.

::

    1. the machine whose name is the host's
    2. of the others, in the order of the file: the first whose layer is the host's
    3. then the first that says neither name nor layer

Hosts are served in the scenario's order: first all by name, then all by layer, then the rest. Machines may be
left over.
"""

from __future__ import annotations

from collections.abc import Callable

from e2c_dl.testbeds.machines.inventory import Inventory, Machine
from e2c_dl.topology import Host, Topology


def matched(topology: Topology, inventory: Inventory) -> dict[str, Machine]:
    """host -> its machine, in the scenario's order; hosts for which there is none are left out."""
    free = list(inventory.machines)
    found: dict[str, Machine] = {}
    rules: tuple[Callable[[Host, Machine], bool], ...] = (
        lambda host, machine: machine.name == host.name,
        lambda host, machine: machine.layer == host.layer,
        lambda host, machine: machine.name is None and machine.layer is None,
    )
    for fits in rules:
        for host in topology.hosts:
            machine = next((each for each in free if fits(host, each)), None)
            if host.name not in found and machine is not None:
                found[host.name] = machine
                free.remove(machine)
    return {name: found[name] for name in topology.names if name in found}


def problems(topology: Topology, inventory: Inventory) -> tuple[str, ...]:
    """One line per host without a machine."""
    have = matched(topology, inventory)
    return tuple(
        f"{inventory.path.name}: no machine is left for host {host.name}; "
        f"add one with 'name: {host.name}', with 'layer: {host.layer}', or with neither"
        for host in topology.hosts
        if host.name not in have
    )
