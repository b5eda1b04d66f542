"""The virtual machines of a run, before there are any: what EnOSlib's provider is given.

::

    network   e2cdl-RUN        198.18.SLOT.0/24, of this run alone: training talks there; shaped
    machine   e2cdl-RUN-edge-1 .10 + i in it; SSH comes in by the network that vagrant-libvirt has for all machines
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl import units
from e2c_dl.formatting import count
from e2c_dl.testbeds.this_machine import addresses

BOX = "generic/debian12"
"""As EnOSlib's own default, generic/debian11, but with a Python that this program runs on."""

MEMORY_BYTES = 2 * 2**30
CORES = 1
_PREFIX = "e2cdl-"
_MIB = 2**20


def prefix(run_id: str) -> str:
    """What begins the names of all that libvirt has of a run."""
    return f"{_PREFIX}{run_id}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One machine per host."""

    run_id: str
    slot: int  # of the run's network: no two runs have the same
    names: Sequence[str]
    box: str = BOX
    memory_bytes: int = MEMORY_BYTES

    @property
    def addresses(self) -> dict[str, str]:
        """Host -> where training reaches it."""
        return {name: str(addresses.management_address(self.slot, i).ip) for i, name in enumerate(self.names)}

    def cost(self) -> str:
        """For people: 6 virtual machines x (1 core, 2 GiB) = 6 cores, 12 GiB."""
        total, each = units.format_size(len(self.names) * self.memory_bytes), units.format_size(self.memory_bytes)
        return (
            f"{count(len(self.names), 'virtual machine')} x ({CORES} core, {each}) = "
            f"{count(CORES * len(self.names), 'core')}, {total} of memory, box {self.box}"
        )

    def configuration(self) -> dict[str, Any]:
        """Of EnOSlib's Vagrant provider.

        The network stands with each machine, where it has a name and addresses of ours: EnOSlib's own knows neither.
        """
        return {
            "backend": "libvirt",
            "box": self.box,
            "user": "root",
            "config_extra": "\n  ".join(self._settings()),
            "resources": {"machines": [self._machine(name) for name in self.names], "networks": []},
        }

    def _settings(self) -> tuple[str, ...]:
        return (
            'config.vm.synced_folder ".", "/vagrant", disabled: true',  # it would need rsync or NFS, for nothing
            f'config.vm.provider(:libvirt) {{ |lv| lv.default_prefix = "{prefix(self.run_id)}-" }}',
        )

    def _machine(self, name: str) -> dict[str, Any]:
        network = (
            f'my.vm.network :private_network, ip: "{self.addresses[name]}", netmask: "255.255.255.0", '
            f'libvirt__network_name: "{prefix(self.run_id)}", libvirt__forward_mode: "none", '
            "libvirt__dhcp_enabled: false"
        )
        return {
            "roles": [name],
            "name_prefix": name,
            "number": 1,
            "flavour_desc": {"core": CORES, "mem": self.memory_bytes // _MIB},
            "config_extra_vm": network,
        }
