"""The cables between hosts, as lines for `ip -batch`: two bridges in the core, one pair of veth devices per cable.

::

      machine's network        core                                     host i
      e2c-RUN 198.18.S.1 ===== up0 -[ bridge mgmt ]- m<i> ============== eth0 198.18.S.<10+i>
                                    [ bridge data ]- d<i> ============== eth1 198.19.0.<10+i>    only if asked for

Each pair is made inside the core with its far end in the right place at once: no device of a run is ever in the
machine's own network, but for the one that carries the run's id.
"""

from __future__ import annotations

from collections.abc import Sequence

from e2c_dl.testbeds.this_machine.addresses import DATA_DEVICE, MANAGEMENT_DEVICE, gateway, uplink


def in_core(run_id: str, machine_pid: int, host_pids: Sequence[int], with_data: bool) -> list[str]:
    """What to do inside the core. ``machine_pid`` is of any process in the machine's own network."""
    lines = [*_bridge("mgmt"), *_cable("up0", "mgmt", uplink(run_id), machine_pid)]
    for i, pid in enumerate(host_pids):
        lines += _cable(f"m{i}", "mgmt", MANAGEMENT_DEVICE, pid)
    if with_data:
        lines += _bridge("data")
        for i, pid in enumerate(host_pids):
            lines += _cable(f"d{i}", "data", DATA_DEVICE, pid)
    return lines


def in_machine(run_id: str, slot: int) -> list[str]:
    """What to do in the machine's own network, afterwards."""
    device = uplink(run_id)
    return [f"addr add {gateway(slot)} dev {device}", f"link set {device} up"]


def _bridge(name: str) -> list[str]:
    return [f"link add {name} type bridge", f"link set {name} up"]


def _cable(near: str, bridge: str, far: str, far_pid: int) -> list[str]:
    return [f"link add {near} type veth peer name {far} netns {far_pid}", f"link set {near} master {bridge} up"]
